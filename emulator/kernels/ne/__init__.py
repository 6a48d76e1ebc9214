"""The matrix engine: GEMM and convolution, the same bits on every machine.

The shapes of problems are here; ``sums`` widens operands and adds products.
"""

from __future__ import annotations

from .kernels import make_kernel

__all__ = ["make_kernel"]
