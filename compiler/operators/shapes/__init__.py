"""Operators that move, select, repeat or rearrange elements.

One record each, as everywhere in ``operators``.
"""
