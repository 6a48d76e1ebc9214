"""Operators that normalize along axes.

One record each, as everywhere in ``operators``.
"""
