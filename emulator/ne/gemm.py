"""GEMM on aligned matrices (docs/isa.md, GEMM).

Each result is ``fma(a[m, k-1], b[k-1, n], ... fma(a[m, 0], b[0, n], start))`` in binary32, start = psum or
+0, rounded once to the output format; NaN is canonical. Blocks and vectors change the order in which results
are made, never the order of the sums in one.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.memory import view_i64
from tx8isa.aligned import matrices
from tx8isa.formats import Format
from tx8isa.layouts import batch_bytes

from .elements import BLOCK, clobbers, copy, lanes, make_widen, overlap, panel_width, planes, stored_lanes
from .panels import TRANSPOSE_BYTES, make_direct_panels, make_transposed_panels, panel_bytes
from .product import (
    GROUP,
    GROUP_BYTES,
    INDEX_BYTES,
    clear_gap,
    element_bytes,
    make_finish,
    make_start,
    multiply,
    repeat_last,
)

Gemm = Callable[..., int]

_FIXED = INDEX_BYTES + GROUP_BYTES + TRANSPOSE_BYTES


def gemm_scratch_bytes(m: int, k: int, n: int, lb: int, rb: int, out_format: int) -> int:
    """Bytes of scratch a GEMM needs: panels of B, a group of A, results that overlap an input."""
    group = 4 * GROUP * (k + BLOCK)
    return _FIXED + panel_bytes(k, n) + group + matrices(8 * element_bytes(out_format), max(lb, rb), m, n)


def make_gemm(fmt: Format) -> Gemm:
    """GEMM of one input format, on addresses and integers.

    ``gemm(a, b, out, psum, scratch, m, k, n, lt, rt, lb, rb, out_format, psum_format)``: A is [m, k], with lt
    [k, m]; B is [n, k], with rt [k, n]; lb and rb matrices of them, equal or one of them 1. ``out_format`` is
    ``fmt`` or FP32, ``psum_format`` a float format or -1. All results are written, zeros in the padding lanes
    and up to the next 256-byte line. Returns 0.
    """
    batch, bits = _make_batch(fmt), fmt.bits
    direct, transposed = make_direct_panels(fmt), make_transposed_panels(fmt)

    def gemm(
        a: int, b: int, out: int, psum: int, scratch: int, m: int, k: int, n: int,
        lt: int, rt: int, lb: int, rb: int, out_format: int, psum_format: int,
    ) -> int:  # fmt: skip
        plane, panels = scratch + INDEX_BYTES + GROUP_BYTES, scratch + _FIXED
        a_bytes = batch_bytes(k, m, bits) if lt else batch_bytes(m, k, bits)
        b_bytes = batch_bytes(k, n, bits) if rt else batch_bytes(n, k, bits)
        out_bytes = batch_bytes(m, n, 8 * element_bytes(out_format))
        psum_bytes = batch_bytes(m, n, 8 * element_bytes(psum_format)) if psum_format >= 0 else 0
        batches, target = max(lb, rb), out
        size = batches * out_bytes
        clash = overlap(out, size, a, lb * a_bytes) or overlap(out, size, b, rb * b_bytes)
        clash = clash or clobbers(out, size, psum, batches * psum_bytes)
        rows = panels + panel_bytes(k, n)
        if clash:
            target = rows + 4 * GROUP * (k + BLOCK)
        for i in range(batches):
            if i < rb:
                if rt:
                    direct(b + i * b_bytes, panels, k, n)
                else:
                    transposed(b + i * b_bytes, panels, plane, 1, n, k)
            left = a + (i if lb > 1 else 0) * a_bytes
            batch(
                left, panels, rows, target + i * out_bytes, psum + i * psum_bytes, scratch,
                m, k, n, lt, out_format, psum_format,
            )  # fmt: skip
        if clash:
            copy(out, target, size)
        return 0

    return gemm


def _make_batch(fmt: Format) -> Callable[..., None]:
    """One matrix product, group after group of result rows."""
    start, finish = make_start(), make_finish(fmt)
    upright, transposed = _make_rows(fmt), _make_columns(fmt)

    def batch(
        a: int, panels: int, rows: int, out: int, psum: int, scratch: int,
        m: int, k: int, n: int, lt: int, out_format: int, psum_format: int,
    ) -> None:  # fmt: skip
        c, out_size, psum_size = scratch + INDEX_BYTES, element_bytes(out_format), element_bytes(psum_format)
        clear_gap(out, m, n, out_size)
        first = 0
        while first < m:
            count = min(m - first, BLOCK if lt else GROUP)
            if lt:
                transposed(a, rows, scratch, m, k, first, count)
            else:
                upright(a, rows, scratch, m, k, first, count)
            for p in range(planes(n)):
                width, stored, valid = panel_width(n, p), stored_lanes(n, p), lanes(n, p)
                at = p * BLOCK * m + first * stored
                start(c, count, width, psum + at * psum_size, psum_format, stored, valid)
                panel = panels + 4 * p * BLOCK * k
                if lt:
                    multiply(scratch, count, 1, rows, stored_lanes(m, first // BLOCK), panel, width, c, k)
                else:
                    for q in range(planes(k)):
                        of, steps = rows + 4 * q * BLOCK * count, lanes(k, q)
                        panel_q = panel + 4 * q * BLOCK * width
                        multiply(scratch, count, stored_lanes(k, q), of, 1, panel_q, width, c, steps)
                finish(c, count, width, out + at * out_size, out_format, stored, valid)
            first += count

    return batch


def _make_rows(fmt: Format) -> Callable[..., None]:
    """A group of rows of A [m, k]: planes of 64 steps, the rows of a plane one after another."""
    widen, size = make_widen(fmt), fmt.bits // 8

    def group(a: int, target: int, index: int, m: int, k: int, first: int, count: int) -> None:
        positions = view_i64(index, count)
        for r in range(count):
            positions[r] = r
        repeat_last(index, count)
        for q in range(planes(k)):
            stored = stored_lanes(k, q)
            of = a + size * (q * BLOCK * m + first * stored)
            widen(of, target + 4 * q * BLOCK * count, count * stored)

    return group


def _make_columns(fmt: Format) -> Callable[..., None]:
    """A group of columns of A [k, m]: all of one plane, which is 64 columns or the tail."""
    widen, size = make_widen(fmt), fmt.bits // 8

    def group(a: int, target: int, index: int, m: int, k: int, first: int, count: int) -> None:
        positions = view_i64(index, count)
        for r in range(count):
            positions[r] = r
        repeat_last(index, count)
        stored = stored_lanes(m, first // BLOCK)
        widen(a + size * first * k, target, k * stored)

    return group
