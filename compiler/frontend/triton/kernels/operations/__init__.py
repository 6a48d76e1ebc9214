"""The operations of TTIR that are compiled, each with the function that writes it.

They decide which values are formulas, which are computed by engines and which by the core.
"""
