"""Convolutions and pools on channel-blocked tensors, with their epilogues.

``conv_cuts`` lists the ways to divide the work, ``slice`` computes one slice.
"""
