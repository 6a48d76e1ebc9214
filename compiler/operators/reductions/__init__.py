"""Operators along axes: reductions, running sums, the largest elements.

One record each, as everywhere in ``operators``.
"""
