"""The description of a chip: its sizes, addresses, rates and coefficients of time, read from TOML.

It knows formats and layouts, and no instruction.
"""
