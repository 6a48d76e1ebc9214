"""Code that families of kernels share: access to elements, bits and vectors, folds, planes of a tensor.

These functions are compiled into the kernels that use them.
"""

from __future__ import annotations

from collections.abc import Callable

Kernel = Callable[[int, int], int]
"""(address of the operands, address of the tile's words) -> 0; see ``emulator.kernels``."""
