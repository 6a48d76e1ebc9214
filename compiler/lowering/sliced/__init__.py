"""Sequences of any operators of which each tile computes slices of its own, in one phase.

How the values are divided follows from the records of the operators. What a tile computes of a value stays
in its scratchpad for the next operator.
"""
