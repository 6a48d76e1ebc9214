"""Blocks in the scratchpad and the code of the engines that computes and moves them.

Everything here is for the vector engine, the matrix engine and the DMA; the core only computes places.
"""
