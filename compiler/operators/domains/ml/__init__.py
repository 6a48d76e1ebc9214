"""Operators of the domain ai.onnx.ml that are a few arithmetic ones: preprocessing and linear models.

Trees, text and dictionaries are not supported.
"""
