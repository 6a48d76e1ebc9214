"""Operators on quantized integers.

One record each, as everywhere in ``operators``.
"""
