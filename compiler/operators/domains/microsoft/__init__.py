"""Operators of the domain com.microsoft, written by onnxruntime's quantiser and optimiser of transformers.

Each is rewritten into ONNX's own operators before all other rewrites, which see the result.
"""
