"""Operators of the domain ai.onnx.ml that are made of arithmetic: preprocessing, linear models, trees.

Text and dictionaries are not supported.
"""
