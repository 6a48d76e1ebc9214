"""The inner loops of the matrix engine as primitives: an outer-product tile and a 16 x 16 transpose.

Plain meaning here, machine version (vector registers) in ``machine/tile.py``. All numbers are binary32,
all strides are counted in elements, all addresses in bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from tx8isa.primitives import fma32

from .memory import view_f32, view_i64

Tile = Callable[[int, int, int, int, int, int, int, int, int], int]


def _tile(rows: int, columns: int) -> Tile:
    def tile(index: int, lda: int, a: int, ka: int, b: int, ldb: int, c: int, ldc: int, k: int) -> int:
        """``C[i, j] = fma(A[index[i], p], B[p, j], C[i, j])`` for p = 0 .. k-1 in ascending order, k >= 1.

        Row ``r`` of A starts ``r * lda`` elements behind ``a`` and its elements are ``ka`` apart; ``index``
        is the address of one int64 per row of the tile. Rows of B are ``ldb`` apart, those of C ``ldc``.
        """
        positions = view_i64(index, rows)
        for i in range(rows):
            row = view_f32(a + 4 * positions[i] * lda, (k - 1) * ka + 1)
            result = view_f32(c + 4 * i * ldc, columns)
            for j in range(columns):
                total = result[j]
                for p in range(k):
                    total = fma32(row[p * ka], view_f32(b + 4 * (p * ldb + j), 1)[0], total)
                result[j] = total
        return 0

    return tile


TILES: dict[tuple[int, int], Tile] = {
    shape: _tile(*shape) for shape in ((1, 64), (4, 64), (4, 48), (4, 32), (4, 16), (6, 16))
}
"""By (rows, columns): what fits the registers of AVX-512 (4 rows) and of AVX2 (6 x 16); single rows."""


def tile_name(rows: int, columns: int) -> str:
    return f"tile_{rows}x{columns}"


def transpose_16x16(source: int, lds: int, target: int, ldt: int) -> int:
    """``T[j, i] = S[i, j]`` for 16 rows and 16 columns; rows are ``lds`` and ``ldt`` elements apart."""
    for i in range(16):
        row = view_f32(source + 4 * i * lds, 16)
        for j in range(16):
            view_f32(target + 4 * (j * ldt + i), 1)[0] = row[j]
    return 0
