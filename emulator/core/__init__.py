"""The kernel core: program text, the compiled loop over predecoded words, and its translation.

The loop stops for everything that only Python can do (``memory.stop``).
"""
