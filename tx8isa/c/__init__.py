"""Generates the C header of the packets (``tx8isa/include``) from the records.

docs/c.md describes the use of the header.
"""
