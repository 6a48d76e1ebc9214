"""Plain functions written as LLVM text, without Numba.

Numba takes seconds to find the types of large functions, LLVM a fraction of that to compile them: here the
types follow from the rules of ``emulator.native`` while the text is written. Where those rules are broken the
text is not written, and Numba says what is wrong.
"""
