"""The records of the vector engine CT, a file for each family of instructions.

Instructions for NHWC tensors are in ``tensor``.
"""
