"""GEMM on aligned matrices (docs/isa.md, GEMM).

Each result is ``fma(a[m, k-1], b[k-1, n], ... fma(a[m, 0], b[0, n], start))`` in binary32, start = psum or
+0, rounded once to the output format; NaN is canonical. Blocks and vectors change the order in which results
are made, never the order of the sums in one. INT8 sums are exact modulo 2**32.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.native.primitives.memory import copy_bytes, get, put, view_u64
from emulator.native.primitives.products import bring_near
from tx8isa.families.aligned import matrices
from tx8isa.numbers.layouts import batch_bytes
from tx8isa.numbers.primitives import u64

from . import problem as word
from .arithmetic import MatrixArithmetic, steps
from .elements import BLOCK, element_bytes, lanes, panel_width, planes, stored, stored_lanes
from .groups import AT, FIXED, GROUP, count_up, panel_bytes
from .problem import choose_result, clear_gap, deliver, result_at, result_bytes

Each = Callable[[int, int, int, int, int, int], None]
"""(a, b, panels, rows, i, problem): matrix ``i`` of the result; the last two addresses are working memory."""
Parts = Callable[[int, int, int, int, int, int, int], None]
"""(a, b, panels, rows, i, count, problem): ``Each`` with the first ``count`` rows of A: all rows, or one."""
Rows = Callable[[int, int, int, int, int], None]
"""(a, target, first, count, problem): the numbers of a group of rows of the result."""
Plane = Callable[[int, int, int, int, int, int], None]
"""(a, target, q, first, count, problem): ``Rows`` for a single plane."""


def gemm_scratch_bytes(
    arithmetic: MatrixArithmetic, m: int, k: int, n: int, lb: int, rb: int, out_format: int
) -> int:
    """Return a GEMM's bytes of working memory: panels of B, a group of A, results that overlap an input."""
    words = arithmetic.steps(k)
    group = 4 * GROUP * (words + arithmetic.block)
    result = matrices(8 * element_bytes(out_format), max(lb, rb), m, n)
    return FIXED + panel_bytes(words + arithmetic.extra, n) + group + result


def make_gemm(arithmetic: MatrixArithmetic) -> Callable[[int], int]:
    """Make the GEMM of one input format: ``gemm(problem) -> 0``.

    All results are written, zeros in the padding lanes and up to the next 256-byte line.
    """
    by_panels, by_parts, bits = _make_by_panels(arithmetic), _make_by_parts(arithmetic), arithmetic.bits
    grain, block, extra = arithmetic.grain, arithmetic.block, arithmetic.extra
    each = by_panels if by_parts is None else _make_either(arithmetic, by_panels, by_parts)

    def gemm(problem: int) -> int:
        put(problem, word.TAPS, 1)
        put(problem, word.IN_PLACE, 1)
        m, k, n = get(problem, word.M), get(problem, word.K), get(problem, word.N)
        lb, rb = get(problem, word.LB), get(problem, word.RB)
        a_bytes = batch_bytes(k, m, bits) if get(problem, word.LT) else batch_bytes(m, k, bits)
        b_bytes = batch_bytes(k, n, bits) if get(problem, word.RT) else batch_bytes(n, k, bits)
        panels, words = get(problem, word.WORK) + FIXED, steps(k, grain)
        rows = panels + panel_bytes(words + extra, n)
        size = max(lb, rb) * result_bytes(problem, word.OUT_FORMAT)
        choose_result(problem, size, lb * a_bytes, rb * b_bytes, rows + 4 * GROUP * (words + block))
        for i in range(max(lb, rb)):
            a = get(problem, word.A) + (i if lb > 1 else 0) * a_bytes
            each(a, get(problem, word.B) + i * b_bytes, panels, rows, i, problem)
        deliver(problem, size)
        return 0

    return gemm


def _make_either(arithmetic: MatrixArithmetic, by_panels: Each, by_parts: Parts) -> Each:
    """Multiply by parts if each panel is read only once, by a single group of rows; else by panels.

    If all rows of A are equal, for example ones by which a program broadcasts a bias, one row of results is
    computed.
    """
    size = arithmetic.bits // 8

    def each(a: int, b: int, panels: int, rows: int, i: int, problem: int) -> None:
        count = get(problem, word.M)
        if get(problem, word.LT) or get(problem, word.RB) < get(problem, word.LB):
            count = GROUP + 1
        elif get(problem, word.PSUM_FORMAT) == word.NO_PSUM and _equal_rows(a, size, problem):
            count = 1
        if count <= GROUP:
            by_parts(a, b, panels, rows, i, count, problem)
        else:
            by_panels(a, b, panels, rows, i, problem)

    return each


def _equal_rows(a: int, size: int, problem: int) -> bool:
    """Return True if each row of A [m, k] has the bytes of the next one, padding lanes included."""
    m, k = get(problem, word.M), get(problem, word.K)
    for q in range(planes(k)):
        pitch = size * stored_lanes(k, q)
        words = (m - 1) * pitch // 8
        row, following = view_u64(a, words), view_u64(a + pitch, words)
        for at in range(u64(words)):
            if row[at] != following[at]:
                return False
        a += m * pitch
    return True


def _repeat_row(out: int, p: int, problem: int) -> None:
    """Copy the first row of plane ``p`` of a result into its other rows."""
    m, n, size = get(problem, word.M), get(problem, word.N), element_bytes(get(problem, word.OUT_FORMAT))
    at, pitch, done = out + p * BLOCK * m * size, stored_lanes(n, p) * size, 1
    while done < m:
        more = min(done, m - done)
        copy_bytes(at + done * pitch, at, more * pitch)
        done += more


def _make_by_parts(arithmetic: MatrixArithmetic) -> Parts | None:
    """Compute matrix ``i`` of the result; a block of B is widened just before use, and stays in the cache.

    A plane of A for a single panel is also widened then, because all of A may exceed the second-level cache.
    """
    part, transposed_part, block = arithmetic.part, arithmetic.transposed_part, arithmetic.block
    start, finish, multiply = arithmetic.start, arithmetic.finish, arithmetic.multiply
    upright, by_row, plane = _make_rows(arithmetic), _make_by_row(arithmetic), _make_plane_of_rows(arithmetic)
    following = _make_following(arithmetic)
    if part is None or transposed_part is None:
        return None

    def by_parts(a: int, b: int, panels: int, rows: int, i: int, count: int, problem: int) -> None:
        k, n = get(problem, word.K), get(problem, word.N)
        group, once = get(problem, word.WORK), planes(n) == 1 and count > 1
        clear_gap(problem, i)
        if once:
            count_up(group, count)
        else:
            upright(a, rows, 0, count, problem)
        for p in range(planes(n)):
            width = panel_width(n, p)
            start(group, count, i, 0, p, 0, problem)
            done = by_row(b, panels, rows, p, problem) if count == 1 else 0
            for q in range(done, (k + block - 1) // block):
                words = min(block, k - q * block)
                if get(problem, word.RT):
                    part(b, panels, p, q * block, words, problem)
                else:
                    transposed_part(b, panels, p, q * block, words, problem)
                of = rows if once else rows + 4 * q * block * count
                if once:
                    plane(a, of, q, 0, count, problem)
                following(a if once else 0, b, p, q + 1, problem)
                multiply(group, count, stored(k, q, block), of, 1, panels, width, words)
            finish(group, count, i, 0, p, problem)
            if count == 1:
                _repeat_row(result_at(problem, i), p, problem)

    return by_parts


def _make_following(arithmetic: MatrixArithmetic) -> Callable[[int, int, int, int, int], None]:
    """(a, b, p, q, problem): prefetch the bytes that are widened next, while products are computed.

    These are block ``q`` of panel ``p`` of B, and plane ``q`` of A if ``a`` is not 0. After the last block of
    a panel, the first block of the next panel follows.
    """
    size = arithmetic.bits // 8

    def following(a: int, b: int, p: int, q: int, problem: int) -> None:
        m, k, n = get(problem, word.M), get(problem, word.K), get(problem, word.N)
        if q >= planes(k):
            a, p, q = 0, p + 1, 0
        if p < planes(n):
            inner, width = stored_lanes(k, q), stored_lanes(n, p)
            if get(problem, word.RT):
                bring_near(b + size * BLOCK * (p * k + q * width), size * lanes(k, q) * width)
            else:
                bring_near(b + size * BLOCK * (q * n + p * inner), size * lanes(n, p) * inner)
            if a != 0:
                bring_near(a + size * BLOCK * q * m, size * inner * m)

    return following


def _make_by_row(arithmetic: MatrixArithmetic) -> Callable[[int, int, int, int, int], int]:
    """(b, panels, rows, p, problem): multiply a single row by panel ``p`` of B in its stored form.

    Returns the number of planes of K that are done: all, or none for a panel of fewer columns.
    """
    row, row_part, size = arithmetic.row, arithmetic.row_part, arithmetic.bits // 8
    if row is None or row_part is None:
        return _no_planes

    def by_row(b: int, panels: int, rows: int, p: int, problem: int) -> int:
        k, n, sums = get(problem, word.K), get(problem, word.N), get(get(problem, word.WORK), AT)
        if lanes(n, p) != BLOCK:
            return 0
        if get(problem, word.RT):
            row(rows, b + size * p * BLOCK * k, sums, k)
            return planes(k)
        if k % BLOCK != 0:
            return 0
        for q in range(k // BLOCK):
            row_part(b, panels, p, q * BLOCK, BLOCK, problem)
            row(rows + 4 * q * BLOCK, panels, sums, BLOCK)
        return planes(k)

    return by_row


def _no_planes(b: int, panels: int, rows: int, p: int, problem: int) -> int:
    return 0


def _make_by_panels(arithmetic: MatrixArithmetic) -> Each:
    """Compute matrix ``i`` of the result; panels of B are made first, unless the matrix before had the same
    B."""
    panels_of, matrix = _make_panels(arithmetic), _make_matrix(arithmetic)

    def by_panels(a: int, b: int, panels: int, rows: int, i: int, problem: int) -> None:
        if i < get(problem, word.RB):
            panels_of(b, panels, problem)
        matrix(a, panels, rows, i, problem)

    return by_panels


def _make_panels(arithmetic: MatrixArithmetic) -> Callable[[int, int, int], None]:
    """Make all panels of one B; panel ``p`` starts ``p * 64 * its rows`` words after the first."""
    direct, transposed = arithmetic.direct_panel, arithmetic.panel
    grain, extra = arithmetic.grain, arithmetic.extra

    def panels(source: int, target: int, problem: int) -> None:
        rows = steps(get(problem, word.K), grain) + extra
        for p in range(planes(get(problem, word.N))):
            to = target + 4 * p * BLOCK * rows
            if get(problem, word.RT):
                direct(source, to, p, problem)
            else:
                transposed(source, to, p, problem)

    return panels


def _make_matrix(arithmetic: MatrixArithmetic) -> Callable[[int, int, int, int, int], None]:
    """Compute matrix ``i`` of the result, group after group of its rows; the numbers of A go to ``rows``."""
    start, finish, product = arithmetic.start, arithmetic.finish, _make_product(arithmetic)
    upright, transposed = _make_rows(arithmetic), _make_columns(arithmetic)
    grain, extra = arithmetic.grain, arithmetic.extra

    def matrix(a: int, panels: int, rows: int, i: int, problem: int) -> None:
        m, n, lt = get(problem, word.M), get(problem, word.N), get(problem, word.LT)
        group, words = get(problem, word.WORK), steps(get(problem, word.K), grain)
        clear_gap(problem, i)
        first = 0
        while first < m:
            count = min(m - first, BLOCK if lt else GROUP)
            if lt:
                transposed(a, rows, first, count, problem)
            else:
                upright(a, rows, first, count, problem)
            for p in range(planes(n)):
                width, panel = panel_width(n, p), panels + 4 * p * BLOCK * (words + extra)
                start(group, count, i, first, p, panel + 4 * words * width, problem)
                product(group, count, rows, panel, width, first, problem)
                finish(group, count, i, first, p, problem)
            first += count

    return matrix


def _make_product(arithmetic: MatrixArithmetic) -> Callable[[int, int, int, int, int, int, int], None]:
    """Add all products of a group and a panel."""
    multiply, pitch = arithmetic.multiply, arithmetic.column_pitch
    grain, block = arithmetic.grain, arithmetic.block

    def product(group: int, count: int, rows: int, panel: int, width: int, first: int, problem: int) -> None:
        k = get(problem, word.K)
        words = steps(k, grain)
        if get(problem, word.LT):
            ka = pitch(get(problem, word.M), first // BLOCK)
            multiply(group, count, 1, rows, ka, panel, width, words)
        else:
            for q in range((words + block - 1) // block):
                a, of_panel = rows + 4 * q * block * count, panel + 4 * q * block * width
                lda = stored(k, q, block * grain) // grain
                multiply(group, count, lda, a, 1, of_panel, width, min(block, words - q * block))

    return product


def _make_rows(arithmetic: MatrixArithmetic) -> Rows:
    """Make a group of rows of A [m, k]: plane after plane, the rows of a plane one after another."""
    plane, grain, block = _make_plane_of_rows(arithmetic), arithmetic.grain, arithmetic.block

    def rows(a: int, target: int, first: int, count: int, problem: int) -> None:
        count_up(get(problem, word.WORK), count)
        for q in range((steps(get(problem, word.K), grain) + block - 1) // block):
            plane(a, target + 4 * q * block * count, q, first, count, problem)

    return rows


def _make_plane_of_rows(arithmetic: MatrixArithmetic) -> Plane:
    """Make plane ``q`` of a group of rows of A [m, k], whose index is already filled."""
    widen, edge, size = arithmetic.rows, arithmetic.edge, arithmetic.bits // 8
    grain, block = arithmetic.grain, arithmetic.block

    def plane(a: int, to: int, q: int, first: int, count: int, problem: int) -> None:
        m, k = get(problem, word.M), get(problem, word.K)
        pitch, kept = stored(k, q, block * grain), min(block, steps(k, grain) - q * block)
        of = a + size * (q * block * grain * m + first * pitch)
        widen(of, pitch, to, pitch // grain, count, problem)
        edge(get(problem, word.WORK), count, pitch // grain, to, 1, kept, q * block, problem)

    return plane


def _make_columns(arithmetic: MatrixArithmetic) -> Rows:
    """Make a group of at most 64 columns of A [k, m]."""
    columns, edge, grain = arithmetic.columns, arithmetic.edge, arithmetic.grain
    pitch = arithmetic.column_pitch

    def rows(a: int, target: int, first: int, count: int, problem: int) -> None:
        group, p = get(problem, word.WORK), first // BLOCK
        count_up(group, count)
        columns(a, target, p, problem)
        ka, words = pitch(get(problem, word.M), p), steps(get(problem, word.K), grain)
        edge(group, count, 1, target, ka, words, 0, problem)

    return rows
