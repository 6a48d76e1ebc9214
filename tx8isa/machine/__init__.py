"""The description of a chip: its sizes, addresses, rates and coefficients of time, read from TOML.

This package uses formats and layouts, but no instructions.
"""
