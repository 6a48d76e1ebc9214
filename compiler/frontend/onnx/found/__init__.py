"""Results whose sizes data decides: NonZero, Unique, Compress, NonMaxSuppression, TopK with a computed k.

A value has room for the most that there can be, and the graph computes how much of each axis is valid
(``PartialGraph.bounded``). What is behind that is padding: operators compute it too, and no result that is
valid depends on it.
"""
