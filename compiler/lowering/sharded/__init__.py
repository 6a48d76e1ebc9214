"""Sequences of matrix products, normalizations and attention in one phase, divided over a mesh of tiles.

Rows are dealt along one axis of the mesh, columns along the other; what is between two operators stays in the
scratchpads, and tiles exchange what the next operator needs of others.
"""
