"""Kernels of Triton as programs of the chip: pointers become copies, blocks live in the scratchpad.

A kernel is compiled for one launch: its grid, its integers and the sizes of its arrays are known.
"""
