"""Reductions, softmax and normalizations: what folds or normalizes along an axis.

Short axes stay in one tile, long ones are shared by several.
"""
