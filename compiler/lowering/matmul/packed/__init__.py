"""Products with weights of few bits: packed in DDR, unpacked in the scratchpad (docs/few_bits.md).

The search decides between them and weights that became floats when compiling.
"""
