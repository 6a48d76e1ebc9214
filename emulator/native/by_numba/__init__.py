"""Compiles plain functions with Numba, as ``TX8_JIT=numba`` asks, and whatever ``direct`` does not know.

Numba writes the LLVM code of the functions; ``emulator.native.llvm_module`` optimises it like that of
``direct``.
"""
