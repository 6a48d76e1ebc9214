"""Number formats, their arithmetic, and the layouts of tensors in memory.

The lowest layer: it knows nothing of instructions. Every rounding and every byte position is defined here.
"""
