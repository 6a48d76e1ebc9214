"""Operators that sample images: Resize, GridSample and their like.

One record each, as everywhere in ``operators``.
"""
