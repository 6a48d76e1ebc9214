"""The records of the vector engine CT, a file for each family of instructions.

Those that work on NHWC tensors are in ``tensor``.
"""
