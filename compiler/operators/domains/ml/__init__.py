"""Operators of the domain ai.onnx.ml that consist of arithmetic: preprocessing, linear models, trees.

Text and dictionaries are not supported.
"""
