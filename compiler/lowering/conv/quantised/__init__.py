"""Convolutions and sums of bytes: how their sums become bytes, on which engine.

``int8`` decides how the sums of a product become its result.
"""
