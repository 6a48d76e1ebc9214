"""The operations of TTIR that are compiled, each with the function that writes it.

They decide between values as formulas, values that engines compute and values that the core computes.
"""
