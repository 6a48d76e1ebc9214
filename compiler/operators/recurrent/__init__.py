"""Recurrent layers.

One record each, as everywhere in ``operators``.
"""
