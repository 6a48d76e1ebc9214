"""Operators that fold axes: sums, means, maxima and their like.

One record each, as everywhere in ``operators``.
"""
