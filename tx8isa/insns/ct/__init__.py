"""The records of the vector engine CT, a file for each family of instructions.

Those for NHWC tensors are in ``tensor``.
"""
