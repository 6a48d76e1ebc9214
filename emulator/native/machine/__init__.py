"""Machine versions of the primitives, by name, as LLVM code.

The same functions in plain Python are in ``native/primitives``; ``by_numba`` declares these to Numba.
"""

from __future__ import annotations

from . import blocks, flags, float32, int8, memory, products, scalar, threads
from .primitive import Elements, Primitive

MACHINE: dict[str, Primitive | Elements] = {
    **scalar.TABLE,
    **float32.TABLE,
    **memory.TABLE,
    **products.TABLE,
    **int8.TABLE,
    **blocks.TABLE,
    **flags.TABLE,
    **threads.TABLE,
}
