"""Kernels of instructions that work on vectors: arithmetic, relations, converts, tables, random numbers.

One function for each kind of meaning (``tx8isa.records.meaning``).
"""
