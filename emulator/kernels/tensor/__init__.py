"""Kernels of instructions that work on tensors or move them: pools, reductions, moves, loop nests.

One function for each kind of meaning (``tx8isa.records.meaning``).
"""
