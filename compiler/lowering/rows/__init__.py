"""Reductions, softmax and normalizations along an axis.

Short axes stay in one tile, long ones are shared by several.
"""
