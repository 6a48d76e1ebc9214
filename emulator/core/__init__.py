"""The kernel core: program text, the compiled loop over predecoded words, and its translation.

It stops for whatever only Python can do (``memory.stop``).
"""
