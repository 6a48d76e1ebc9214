"""Operators of the domain com.microsoft, written by onnxruntime's quantiser and optimiser of transformers.

Each is a rewrite into ONNX's own operators, done before all other rewrites: those see what is written here.
"""
