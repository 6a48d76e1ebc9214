"""Machine versions of the primitives, by name, as LLVM code.

Importing this imports Numba; the same functions in plain Python are in ``native/primitives``.
"""

from __future__ import annotations

from typing import Any

from . import blocks, flags, float32, int8, memory, products, scalar, threads

MACHINE: dict[str, Any] = {
    **scalar.TABLE,
    **float32.TABLE,
    **memory.TABLE,
    **products.TABLE,
    **int8.TABLE,
    **blocks.TABLE,
    **flags.TABLE,
    **threads.TABLE,
}
