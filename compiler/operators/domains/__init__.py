"""Operators of other domains, expanded into ONNX's own: a folder for each domain.

The name of a record is the domain and the operator's name, with a dot.
"""
