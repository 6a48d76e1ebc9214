"""Finds the distribution of values and the ranges for bytes, from samples of the inputs.

``samples`` reads them, ``observation`` runs the network over them, ``calibration`` chooses.
"""
