"""Writes plain functions as LLVM text, without Numba.

Numba takes seconds to infer the types of large functions; LLVM compiles them in a fraction of that. Here the
types follow from the rules of ``emulator.native`` while the text is written. If a function breaks these
rules, no text is written, and Numba reports the mistake.
"""
