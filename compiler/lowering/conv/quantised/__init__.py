"""Convolutions and sums of bytes: how their sums become bytes, on which engine.

``int8`` says what is done with the sums of a product.
"""
