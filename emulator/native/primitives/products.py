"""The inner loops of the matrix engine as primitives: products, taps, a transposition.

A product of a few rows and columns keeps its sums in registers and adds one outer product for each step.

This is the definition; the machine version (vector registers) is in ``machine/products.py``. All numbers are
binary32, in functions named i32 32-bit integers. Strides are in numbers, addresses in bytes. The INT8
products are in ``int8.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tx8isa.numbers.primitives import fma32, s32

from .float32 import bf16_to_f32, bits_f32, f32_to_fp32, fp16_to_f32
from .memory import view_f32, view_i64, view_u16, view_u32

Product = Callable[[int, int, int, int, int, int, int, int, int], int]


def _product(rows: int, columns: int) -> Product:
    def product(index: int, lda: int, a: int, ka: int, b: int, ldb: int, c: int, ldc: int, k: int) -> int:
        """``C[i, j] = fma(A[index[i], p], B[p, j], C[i, j])`` for p = 0 .. k-1 in ascending order, k >= 1;
        a NaN becomes the canonical one.

        Row ``r`` of A starts ``r * lda`` elements after ``a`` and its elements are ``ka`` apart; ``index``
        is the address of one int64 per row of the product. Rows of B are ``ldb`` apart, those of C ``ldc``.
        """
        positions = view_i64(index, rows)
        for i in range(rows):
            row = view_f32(a + 4 * positions[i] * lda, (k - 1) * ka + 1)
            result = view_f32(c + 4 * i * ldc, columns)
            for j in range(columns):
                total = result[j]
                for p in range(k):
                    total = fma32(row[p * ka], view_f32(b + 4 * (p * ldb + j), 1)[0], total)
                result[j] = bits_f32(f32_to_fp32(total))
        return 0

    return product


SHAPES = ((1, 64), (4, 64), (4, 48), (4, 32), (4, 16), (6, 16))
PRODUCTS: dict[tuple[int, int], Product] = {shape: _product(*shape) for shape in SHAPES}
"""Products, keyed by (rows, columns): sizes for the registers of AVX-512 and AVX2 (6 x 16); single rows."""


def product_name(rows: int, columns: int) -> str:
    return f"product_{rows}x{columns}"


ROW_COLUMNS = 64


def product_row_fp16(a: int, b: int, c: int, k: int) -> int:
    """``C[j] = fma(A[p], B[p, j], C[j])`` for p = 0 .. k-1, k >= 1: one row, and 64 columns of FP16.

    A NaN becomes the canonical one.
    The numbers of A and C are next to each other, the rows of B too.
    """
    row, result = view_f32(a, k), view_f32(c, ROW_COLUMNS)
    for j in range(ROW_COLUMNS):
        total = result[j]
        for p in range(k):
            wide: Any = fp16_to_f32(view_u16(b + 2 * (p * ROW_COLUMNS + j), 1)[0])
            total = fma32(row[p], wide, total)
        result[j] = bits_f32(f32_to_fp32(total))
    return 0


TAP_ROWS = 4
TAP_LANES = 16


def taps_f32(index: int, x: int, offsets: int, w: int, ldw: int, c: int, ldc: int, taps: int) -> int:
    """``C[i, j] = fma(X[index[i] + offsets[t] + j], W[t, j], C[i, j])`` for t = 0 .. taps-1, taps >= 1.

    A NaN becomes the canonical one. 4 rows of 16 lanes. ``index`` and ``offsets`` are addresses of int64;
    rows of W are ``ldw`` apart.
    """
    rows, moves = view_i64(index, TAP_ROWS), view_i64(offsets, taps)
    for i in range(TAP_ROWS):
        result = view_f32(c + 4 * i * ldc, TAP_LANES)
        for t in range(taps):
            values = view_f32(x + 4 * (rows[i] + moves[t]), TAP_LANES)
            weights = view_f32(w + 4 * t * ldw, TAP_LANES)
            for j in range(TAP_LANES):
                result[j] = fma32(values[j], weights[j], result[j])
        for j in range(TAP_LANES):
            result[j] = bits_f32(f32_to_fp32(result[j]))
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


def transpose_16x16_halves(source: int, lds: int, target: int, ldt: int) -> int:
    """``transpose_16x16`` of 16-bit elements."""
    for i in range(16):
        row = view_u16(source + 2 * i * lds, 16)
        for j in range(16):
            view_u16(target + 2 * (j * ldt + i), 1)[0] = row[j]
    return 0


def _wide_transpose(convert: Callable[[int], Any]) -> Callable[[int, int, int, int], int]:
    def transpose(source: int, lds: int, target: int, ldt: int) -> int:
        """``transpose_16x16`` from 16-bit elements to binary32; source and target are apart."""
        for i in range(16):
            row = view_u16(source + 2 * i * lds, 16)
            for j in range(16):
                view_f32(target + 4 * (j * ldt + i), 1)[0] = convert(row[j])
        return 0

    return transpose


transpose_16x16_fp16 = _wide_transpose(fp16_to_f32)
transpose_16x16_bf16 = _wide_transpose(bf16_to_f32)


def transpose_16x16(source: int, lds: int, target: int, ldt: int) -> int:
    """``T[j, i] = S[i, j]`` for 16 rows and 16 columns; rows are ``lds`` and ``ldt`` elements apart."""
    for i in range(16):
        row = view_f32(source + 4 * i * lds, 16)
        for j in range(16):
            view_f32(target + 4 * (j * ldt + i), 1)[0] = row[j]
    return 0


def bring_near(address: int, size: int) -> int:
    """Prefetch bytes that are read soon, so that they arrive while something else is computed.

    No byte changes, and any address is allowed.
    """
    return 0
