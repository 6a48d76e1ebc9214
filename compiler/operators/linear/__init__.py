"""Operators made of matrix products: products, attention, rotary embedding, Einsum.

One record each, as everywhere in ``operators``.
"""
