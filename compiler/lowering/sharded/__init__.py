"""Sequences of matrix products, normalizations and attention in one phase, divided over a mesh of tiles.

Rows are divided along one axis of the mesh, columns along the other. Intermediate values stay in the
scratchpads, and tiles exchange the parts that the next operator needs.
"""
