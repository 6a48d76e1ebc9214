"""What samples of the inputs say: how often values occur, and the ranges that bytes shall stand for.

``samples`` reads them, ``observation`` runs the network over them, ``calibration`` chooses.
"""
