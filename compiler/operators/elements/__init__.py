"""Operators that compute each element on its own: arithmetic, comparisons, casts.

One record each, as everywhere in ``operators``.
"""
