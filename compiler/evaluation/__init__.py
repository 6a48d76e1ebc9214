"""The meaning of a graph: types and shapes, values in binary64, and tolerances of results.

Everything follows from the operators' records.
"""
