"""Kernels of instructions that work on vectors: arithmetic, relations, converts, tables, random numbers.

One function for each shape of meaning (``tx8isa.records.meaning``).
"""
