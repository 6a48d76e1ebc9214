"""The INT8 products of the matrix engine as primitives.

This is the definition; the machine version is in ``machine/int8.py``. Operands are 32-bit words of
neighbouring steps of a sum: four bytes, A's unsigned and B's signed (``BYTES``, which AVX-512 VNNI multiplies
in one instruction), or two signed 16-bit halves (``HALVES``, for every processor). Sums are 32-bit integers
modulo 2**32.
"""

from __future__ import annotations

from collections.abc import Callable

from tx8isa.numbers.primitives import s32

from .memory import view_i64, view_u8, view_u16, view_u32
from .products import SHAPES, Product

Dot = Callable[[int, int], int]


def _dot_bytes(a: int, b: int) -> int:
    """Unsigned bytes of ``a`` times signed bytes of ``b``."""
    total = 0
    for shift in (0, 8, 16, 24):
        left, right = a >> shift & 255, b >> shift & 255
        total += left * (right - 256 if right > 127 else right)
    return total


def _dot_halves(a: int, b: int) -> int:
    """Signed 16-bit halves times signed 16-bit halves."""
    return (s32(a) >> 16) * (s32(b) >> 16) + (s32(a << 16) >> 16) * (s32(b << 16) >> 16)


def _product(rows: int, columns: int, dot: Dot) -> Product:
    def product(index: int, lda: int, a: int, ka: int, b: int, ldb: int, c: int, ldc: int, k: int) -> int:
        """``C[i, j] += dot(A[index[i], p], B[p, j])`` for p = 0 .. k-1; strides as in ``products.py``."""
        positions = view_i64(index, rows)
        for i in range(rows):
            row = view_u32(a + 4 * positions[i] * lda, (k - 1) * ka + 1)
            result = view_u32(c + 4 * i * ldc, columns)
            for j in range(columns):
                total = result[j]
                for p in range(k):
                    total += dot(row[p * ka], view_u32(b + 4 * (p * ldb + j), 1)[0])
                result[j] = total
        return 0

    return product


BYTES: dict[tuple[int, int], Product] = {shape: _product(*shape, _dot_bytes) for shape in SHAPES}
HALVES: dict[tuple[int, int], Product] = {shape: _product(*shape, _dot_halves) for shape in SHAPES}


def bytes_name(rows: int, columns: int) -> str:
    return f"bytes_{rows}x{columns}"


def halves_name(rows: int, columns: int) -> str:
    return f"halves_{rows}x{columns}"


def interleave_bytes(source: int, pitch: int, target: int, flip: int) -> int:
    """Word i is byte i of four rows, ``pitch`` bytes apart, the first row lowest; 16 words, xor ``flip``."""
    words = view_u32(target, 16)
    rows = [view_u8(source + r * pitch, 16) for r in range(4)]
    for i in range(16):
        words[i] = (rows[0][i] | rows[1][i] << 8 | rows[2][i] << 16 | rows[3][i] << 24) ^ flip
    return 0


def interleave_halves(source: int, pitch: int, target: int, zero: int) -> int:
    """Word i is byte i of two rows less ``zero`` as two 16-bit halves, the first row lowest; 16 words."""
    halves = view_u16(target, 32)
    for r in range(2):
        row = view_u8(source + r * pitch, 16)
        for i in range(16):
            halves[2 * i + r] = (row[i] ^ 128) - 128 - zero
    return 0


def requantise(o32: int, q1: int, s16: int, q0: int, relu: int, zero: int) -> int:
    """The INT8 chain after a sum (docs/isa.md, INT8): O32 to O8.

    The low 32 bits of ``o32`` and the low 16 of ``s16`` are signed; q1 and q0 are 0..31.
    """
    o16 = min(max(s32(o32) >> q1, -32768), 32767)
    scale = s32(s16 << 16) >> 16
    o9 = min(max(o16 * scale >> q0, -256), 255)
    if relu != 0:
        o9 = max(o9, 0)
    return min(max(o9 + zero, -128), 127)


CHAIN_LANES = 16
"""Sums that ``requantise_row`` takes at a time."""


def requantise_row(
    sums: int, above: int, below: int, target: int, q1: int, q0: int, relu: int, zero: int
) -> int:
    """``requantise`` of 16 sums from address ``sums``; bytes to ``target``.

    The factors are those at ``above`` or, for negative sums, at ``below``.
    """
    of, to = view_u32(sums, CHAIN_LANES), view_u8(target, CHAIN_LANES)
    positive, negative = view_u16(above, CHAIN_LANES), view_u16(below, CHAIN_LANES)
    for i in range(CHAIN_LANES):
        o32 = s32(of[i])
        scale = positive[i] if o32 >= 0 else negative[i]
        to[i] = requantise(o32, q1, scale, q0, relu, zero)
    return 0
