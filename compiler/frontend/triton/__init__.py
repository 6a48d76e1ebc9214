"""Reads kernels of Triton: the text of TTIR, as Triton prints it, becomes operations of regions and blocks.

This needs no part of Triton, and does not know the meaning of an operation.
"""
