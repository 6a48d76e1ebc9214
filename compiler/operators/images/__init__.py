"""Operators that sample images: Resize, GridSample, RoiAlign.

One record each, as everywhere in ``operators``.
"""
