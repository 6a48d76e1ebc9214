"""Building blocks of lowerings: tensors divided into slices, which are loaded, computed on and stored.

These modules know engine instructions and no operator of a graph.
"""
