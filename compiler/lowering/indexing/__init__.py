"""Lowerings of gathers, scatters and selections: addresses depend on data.

The kernel core computes them.
"""
