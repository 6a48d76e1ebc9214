"""Gathers, scatters and selections: addresses depend on data, and the kernel core computes them.

Operators whose addresses are known when compiling are in ``movement``.
"""
