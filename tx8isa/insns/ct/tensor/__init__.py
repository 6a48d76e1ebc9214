"""The records of the vector engine CT that work on aligned NHWC tensors: pools, reductions, resize.

A file for each family, as in ``ct``.
"""
