"""Lowerings of operators that compute each element on its own, alone, in chains, or behind an anchor.

One record for each function (``pointwise.py``).
"""
