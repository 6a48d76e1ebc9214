"""Tensors cut into slices that the scratchpad holds, and code that loads, computes and stores them.

Lowerings are written in these words.
"""
