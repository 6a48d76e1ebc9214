"""The primitives of compiled code in plain Python, which defines them and executes them without the JIT.

Each module has a counterpart in ``native/machine`` that emits LLVM code with the same meaning.
"""
