"""The tx8be dialect: the intermediate form of a graph, in xDSL.

Operations and types are here; the passes (``compiler/passes``) work on them.
"""
