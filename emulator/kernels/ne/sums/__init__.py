"""The sums of the matrix engine: operands in scratch, and products in FP32 or exact integers.

The shapes of products and convolutions are in ``kernels/ne``.
"""
