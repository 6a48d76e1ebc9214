"""Number formats, their arithmetic, and the layouts of tensors in memory.

The lowest layer, below instructions. Every rounding and every byte position is defined here.
"""
