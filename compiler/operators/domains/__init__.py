"""Operators of other domains than ONNX's own, each in terms of ONNX's: a folder for each domain.

The name of a record is that of the domain and the operator's, with a dot.
"""
