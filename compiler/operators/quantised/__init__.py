"""Operators on quantised integers.

One record each, as everywhere in ``operators``.
"""
