"""The inner loops of the matrix engine as primitives: products, taps, a transposition.

A product of a few rows and columns keeps its sums in registers and adds one outer product for each step.

Plain meaning here, machine version (vector registers) in ``machine/products.py``. All numbers are binary32,
in the names with i32 32-bit integers; all strides are counted in them, all addresses in bytes. The INT8
products are in ``int8.py``.
"""

from __future__ import annotations

from collections.abc import Callable

from tx8isa.numbers.primitives import fma32, s32

from .memory import view_f32, view_i64, view_u32

Product = Callable[[int, int, int, int, int, int, int, int, int, int, int, int], int]

LANES = 16
"""Columns of a product that are read together."""


def _product(rows: int, columns: int) -> Product:
    def product(
        index: int,
        lda: int,
        a: int,
        ka: int,
        b: int,
        ldb: int,
        across: int,
        c: int,
        ldc: int,
        k: int,
        jump: int,
        turns: int,
    ) -> int:
        """``C[i, j] = fma(A[index[i], t, p], B[t * k + p, j], C[i, j])``, t = 0 .. turns-1, p = 0 .. k-1.

        t rises slowest; both counts are at least 1. Row ``r`` of A starts ``r * lda`` elements after ``a``;
        its elements are ``ka`` apart, and those of a turn begin ``jump`` after those of the turn before.
        ``index`` is the address of one int64 per row of the product. Rows of B are ``ldb`` apart, and its
        columns from 16 n on begin ``n * across`` after the first ones. Rows of C are ``ldc`` apart.
        """
        positions = view_i64(index, rows)
        for i in range(rows):
            row = view_f32(a + 4 * positions[i] * lda, (turns - 1) * jump + (k - 1) * ka + 1)
            result = view_f32(c + 4 * i * ldc, columns)
            for j in range(columns):
                total = result[j]
                column = b + 4 * (j // LANES * across + j % LANES)
                for step in range(turns * k):
                    factor = view_f32(column + 4 * step * ldb, 1)[0]
                    total = fma32(row[step // k * jump + step % k * ka], factor, total)
                result[j] = total
        return 0

    return product


SHAPES = ((1, 64), (4, 64), (4, 48), (4, 32), (2, 16), (4, 16), (6, 16))
PRODUCTS: dict[tuple[int, int], Product] = {shape: _product(*shape) for shape in SHAPES}
"""Products, keyed by (rows, columns): what fits the registers of AVX-512 (4 rows) and of AVX2 (6 x 16), and
the rows that are left; single rows."""


def product_name(rows: int, columns: int) -> str:
    return f"product_{rows}x{columns}"


TAP_ROWS = 4
TAP_LANES = 16


def taps_f32(index: int, x: int, offsets: int, w: int, ldw: int, c: int, ldc: int, taps: int) -> int:
    """``C[i, j] = fma(X[index[i] + offsets[t] + j], W[t, j], C[i, j])`` for t = 0 .. taps-1, taps >= 1.

    4 rows of 16 lanes. ``index`` and ``offsets`` are addresses of int64; rows of W are ``ldw`` apart.
    """
    rows, moves = view_i64(index, TAP_ROWS), view_i64(offsets, taps)
    for i in range(TAP_ROWS):
        result = view_f32(c + 4 * i * ldc, TAP_LANES)
        for t in range(taps):
            values = view_f32(x + 4 * (rows[i] + moves[t]), TAP_LANES)
            weights = view_f32(w + 4 * t * ldw, TAP_LANES)
            for j in range(TAP_LANES):
                result[j] = fma32(values[j], weights[j], result[j])
    return 0


def taps_i32(index: int, x: int, offsets: int, w: int, ldw: int, c: int, ldc: int, taps: int) -> int:
    """``taps_f32`` with 32-bit integers: products and sums modulo 2**32."""
    rows, moves = view_i64(index, TAP_ROWS), view_i64(offsets, taps)
    for i in range(TAP_ROWS):
        result = view_u32(c + 4 * i * ldc, TAP_LANES)
        for t in range(taps):
            values = view_u32(x + 4 * (rows[i] + moves[t]), TAP_LANES)
            weights = view_u32(w + 4 * t * ldw, TAP_LANES)
            for j in range(TAP_LANES):
                result[j] = s32(result[j] + values[j] * weights[j])
    return 0


def transpose_16x16(source: int, lds: int, target: int, ldt: int) -> int:
    """``T[j, i] = S[i, j]`` for 16 rows and 16 columns; rows are ``lds`` and ``ldt`` elements apart."""
    for i in range(16):
        row = view_f32(source + 4 * i * lds, 16)
        for j in range(16):
            view_f32(target + 4 * (j * ldt + i), 1)[0] = row[j]
    return 0
