"""The primitives of compiled code in plain Python: their definition, and what runs without the JIT.

Each module has a twin in ``native/machine`` that writes the same as LLVM code.
"""
