"""GEMM on aligned matrices (docs/isa.md, GEMM).

Each result is ``fma(a[m, k-1], b[k-1, n], ... fma(a[m, 0], b[0, n], start))`` in binary32, start = psum or
+0, rounded once to the output format; NaN is canonical. Blocks and vectors change the order in which results
are made, never the order of the sums in one. INT8 sums are exact modulo 2**32.
"""

from __future__ import annotations

from tx8isa.families.aligned import matrices
from tx8isa.numbers.layouts import batch_bytes

from .arithmetic import Arithmetic, Function
from .elements import (
    BLOCK,
    clear_gap,
    copy,
    element_bytes,
    overlap,
    panel_columns,
    panel_width,
    planes,
    stored,
)
from .groups import EDGE, FIXED, GROUP, PLANE, SLACK, SUMS, count_up

Group = Function


def gemm_scratch_bytes(
    arithmetic: Arithmetic, m: int, k: int, n: int, lb: int, rb: int, out_format: int
) -> int:
    """Bytes of scratch a GEMM needs: panels of B, a group of A, results that overlap an input."""
    steps = arithmetic.steps(k)
    group, result = (
        4 * GROUP * (steps + arithmetic.block),
        matrices(8 * element_bytes(out_format), max(lb, rb), m, n),
    )
    return FIXED + _panel_bytes(steps + arithmetic.extra, n) + group + result


def _panel_bytes(rows: int, columns: int) -> int:
    """Scratch that the panels of a [rows, columns] matrix take."""
    return 4 * rows * panel_columns(columns) + SLACK


def make_gemm(arithmetic: Arithmetic) -> Function:
    """GEMM of one input format, on addresses and integers.

    ``gemm(a, b, out, psum, scratch, m, k, n, lt, rt, lb, rb, out_format, psum_format, options)``: A is
    [m, k], with lt [k, m]; B is [n, k], with rt [k, n]; lb and rb matrices of them, equal or one of them 1.
    ``psum_format`` is -1 without partial sums, which are where the results go or apart from them. All results
    are written, zeros in the padding lanes and up to the next 256-byte line. Returns 0.
    """
    batch, bits = _make_batch(arithmetic), arithmetic.bits
    panels_of = _make_panels(arithmetic)
    grain, block, extra = arithmetic.grain, arithmetic.block, arithmetic.extra

    def gemm(
        a: int,
        b: int,
        out: int,
        psum: int,
        scratch: int,
        m: int,
        k: int,
        n: int,
        lt: int,
        rt: int,
        lb: int,
        rb: int,
        out_format: int,
        psum_format: int,
        options: int,
    ) -> int:
        panels, steps = scratch + FIXED, (k + grain - 1) // grain
        a_bytes = batch_bytes(k, m, bits) if lt else batch_bytes(m, k, bits)
        b_bytes = batch_bytes(k, n, bits) if rt else batch_bytes(n, k, bits)
        out_bytes = batch_bytes(m, n, 8 * element_bytes(out_format))
        psum_bytes = batch_bytes(m, n, 8 * element_bytes(psum_format))
        batches, target = max(lb, rb), out
        size = batches * out_bytes
        clash = overlap(out, size, a, lb * a_bytes) or overlap(out, size, b, rb * b_bytes)
        rows = panels + _panel_bytes(steps + extra, n)
        if clash:
            target = rows + 4 * GROUP * (steps + block)
        for i in range(batches):
            if i < rb:
                panels_of(b + i * b_bytes, panels, scratch + PLANE, k, n, rt, options)
            left = a + (i if lb > 1 else 0) * a_bytes
            batch(
                left,
                panels,
                rows,
                target + i * out_bytes,
                psum + i * psum_bytes,
                scratch,
                m,
                k,
                n,
                lt,
                out_format,
                psum_format,
                options,
            )
        if clash:
            copy(out, target, size)
        return 0

    return gemm


def _make_panels(arithmetic: Arithmetic) -> Function:
    """All panels of one B; panel ``p`` starts ``p * 64 * its rows`` words behind the first."""
    direct, transposed = arithmetic.direct_panel, arithmetic.panel
    grain, extra = arithmetic.grain, arithmetic.extra

    def panels(source: int, target: int, plane: int, k: int, n: int, rt: int, options: int) -> None:
        rows = (k + grain - 1) // grain + extra
        for p in range(planes(n)):
            to = target + 4 * p * BLOCK * rows
            if rt:
                direct(source, to, plane, k, n, p, options)
            else:
                transposed(source, to, plane, 1, n, k, p, options)

    return panels


def _make_batch(arithmetic: Arithmetic) -> Function:
    """One matrix product, group after group of result rows."""
    start, finish, product = arithmetic.start, arithmetic.finish, _make_product(arithmetic)
    upright, transposed = _make_rows(arithmetic), _make_columns(arithmetic)
    grain, extra = arithmetic.grain, arithmetic.extra

    def batch(
        a: int,
        panels: int,
        rows: int,
        out: int,
        psum: int,
        scratch: int,
        m: int,
        k: int,
        n: int,
        lt: int,
        out_format: int,
        psum_format: int,
        options: int,
    ) -> None:
        c, steps = scratch + SUMS, (k + grain - 1) // grain
        clear_gap(out, m, n, element_bytes(out_format))
        first = 0
        while first < m:
            count = min(m - first, BLOCK if lt else GROUP)
            if lt:
                transposed(a, rows, scratch, m, k, first, count, options)
            else:
                upright(a, rows, scratch, m, k, first, count, options)
            for p in range(planes(n)):
                width, panel = panel_width(n, p), panels + 4 * p * BLOCK * (steps + extra)
                start(
                    c,
                    count,
                    width,
                    psum,
                    psum_format,
                    m,
                    first,
                    n,
                    p,
                    panel + 4 * steps * width,
                    scratch + EDGE,
                    options,
                )
                product(scratch, count, rows, panel, width, m, k, lt, first)
                finish(c, count, width, out, out_format, m, first, n, p, options)
            first += count

    return batch


def _make_product(arithmetic: Arithmetic) -> Function:
    """All products of a group and a panel."""
    multiply, pitch = arithmetic.multiply, arithmetic.column_pitch
    grain, block = arithmetic.grain, arithmetic.block

    def product(
        scratch: int, count: int, rows: int, panel: int, width: int, m: int, k: int, lt: int, first: int
    ) -> None:
        c, steps = scratch + SUMS, (k + grain - 1) // grain
        if lt:
            multiply(scratch, count, 1, rows, pitch(m, first // BLOCK), panel, width, c, steps)
        else:
            for q in range((steps + block - 1) // block):
                of, of_panel = rows + 4 * q * block * count, panel + 4 * q * block * width
                lda = stored(k, q, block * grain) // grain
                multiply(scratch, count, lda, of, 1, of_panel, width, c, min(block, steps - q * block))

    return product


def _make_rows(arithmetic: Arithmetic) -> Group:
    """A group of rows of A [m, k]: plane after plane, the rows of a plane one after another."""
    widen, edge, size = arithmetic.rows, arithmetic.edge, arithmetic.bits // 8
    grain, block = arithmetic.grain, arithmetic.block

    def group(
        a: int, target: int, scratch: int, m: int, k: int, first: int, count: int, options: int
    ) -> None:
        count_up(scratch, count)
        steps = (k + grain - 1) // grain
        for q in range((steps + block - 1) // block):
            pitch, to = stored(k, q, block * grain), target + 4 * q * block * count
            of = a + size * (q * block * grain * m + first * pitch)
            widen(of, pitch, to, pitch // grain, count, options)
            words = min(block, steps - q * block)
            edge(scratch + EDGE, scratch, count, pitch // grain, to, 1, words, k, q * block, options)

    return group


def _make_columns(arithmetic: Arithmetic) -> Group:
    """A group of columns of A [k, m]: at most 64."""
    columns, edge, pitch, grain = (
        arithmetic.columns,
        arithmetic.edge,
        arithmetic.column_pitch,
        arithmetic.grain,
    )

    def group(
        a: int, target: int, scratch: int, m: int, k: int, first: int, count: int, options: int
    ) -> None:
        count_up(scratch, count)
        chunk, steps = first // BLOCK, (k + grain - 1) // grain
        columns(a, target, scratch + PLANE, k, m, chunk, options)
        edge(scratch + EDGE, scratch, count, 1, target, pitch(m, chunk), steps, k, 0, options)

    return group
