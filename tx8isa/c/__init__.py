"""The C header of the packets (``tx8isa/include``), written from the records.

docs/c.md describes what it gives to C programs.
"""
