"""Operators that slide a window over images: convolutions and pools.

One record each, as everywhere in ``operators``.
"""
