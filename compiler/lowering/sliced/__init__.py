"""Sliced sequences: any operators in one phase, where each tile computes slices of every value.

The records of the operators decide how values are divided. A tile's slice of a value stays in its scratchpad
for the next operator.
"""
