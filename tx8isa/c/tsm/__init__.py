"""The tables of functions through which C code of the vendor's compiler flow makes packets.

docs/crt.md describes them; ``tables.py`` lists them, and ``pages.py`` writes their headers and their library.
"""
