"""Finds, from samples of the inputs, how often values occur, and the ranges that bytes stand for.

``samples`` reads them, ``observation`` runs the network over them, ``calibration`` chooses.
"""
