"""Plain functions of integers written as LLVM text, without Numba.

Numba takes seconds to find the types of large integer functions, LLVM a tenth of that to compile them: here
the types follow from the rules of ``emulator.native`` while the text is written.
"""
