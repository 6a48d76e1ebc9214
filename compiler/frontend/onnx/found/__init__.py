"""Results of data-dependent sizes: NonZero, Unique, Compress, NonMaxSuppression, TopK with a computed k.

A value has room for the largest possible result, and the graph computes the valid extent of each axis
(``PartialGraph.bounded``). The rest is padding: operators compute it too, and no valid result depends on it.
"""
