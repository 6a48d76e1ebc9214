"""The primitives of compiled code in plain Python: their definition, and their execution without the JIT.

Each module has a counterpart in ``native/machine`` that emits the same as LLVM code.
"""
