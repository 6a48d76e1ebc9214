"""The meaning of a graph: types and shapes, values in binary64, and the error that a result may have.

Everything follows from the operators' records.
"""
