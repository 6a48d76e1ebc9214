"""The right-hand operand in scratch: panels of at most 64 columns, rows in the order of the sums.

A panel is stored strip after strip (``groups.STRIP``), each with all of its rows.
"""

from __future__ import annotations

from collections.abc import Callable

from emulator.kernels.ne import problem as word
from emulator.kernels.ne.arithmetic import Panel, Part
from emulator.kernels.ne.elements import BLOCK, lanes, make_widen, panel_width, planes, stored_lanes
from emulator.kernels.ne.groups import PLANE, STRIP
from emulator.kernels.shared.access import ACCESS, VIEWS
from emulator.native.primitives.blocks import BLOCKS, ROW_BYTES
from emulator.native.primitives.memory import get, view_f32
from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import u64

Fill = Callable[[int, int, int, int, int, int, int], None]
"""(source, stored lanes of a row, target, height of the panel, rows, width of the panel, lanes)."""


def make_direct_panel(fmt: Format) -> Panel:
    """Panel ``p`` of an aligned [K, N] matrix: the order is right already."""
    part = make_part(fmt)

    def panel(source: int, target: int, p: int, problem: int) -> None:
        part(source, target, p, 0, get(problem, word.K), problem)

    return panel


def make_part(fmt: Format) -> Part:
    """Some rows of panel ``p`` of an aligned [K, N] matrix, as a panel of their own."""
    fill, size = _make_fill(fmt), fmt.bits // 8

    def part(source: int, target: int, p: int, first: int, rows: int, problem: int) -> None:
        k, n = get(problem, word.K), get(problem, word.N)
        pitch = stored_lanes(n, p)
        of = source + size * (p * BLOCK * k + first * pitch)
        fill(of, pitch, target, rows, rows, panel_width(n, p), lanes(n, p))

    return part


def make_transposed_panel(fmt: Format) -> Panel:
    """Panel ``p`` of aligned weights [TAPS * N, K]: rows tap, then k; columns n. One tap is a matrix [N, K].

    Elements are transposed as they are stored, which takes half as many moves as their binary32 numbers.
    """
    fill, transpose, size = _make_fill(fmt), _make_transpose(fmt.bits // 8), fmt.bits // 8

    def panel(source: int, target: int, p: int, problem: int) -> None:
        k, n, taps = get(problem, word.K), get(problem, word.N), get(problem, word.TAPS)
        plane, width, columns = get(problem, word.WORK) + PLANE, panel_width(n, p), lanes(n, p)
        for tap in range(taps):
            for q in range(planes(k)):
                pitch, rows = stored_lanes(k, q), lanes(k, q)
                of = source + size * (q * BLOCK * taps * n + (tap * n + p * BLOCK) * pitch)
                transpose(of, pitch, plane, rows, columns)
                to = target + 4 * (tap * k + q * BLOCK) * min(width, STRIP)
                fill(plane, BLOCK, to, taps * k, rows, width, columns)

    return panel


def _make_transpose(size: int) -> Callable[[int, int, int, int, int], None]:
    """``(source, pitch, target, rows, columns)``: elements [columns, rows] to [rows, 64].

    Square blocks as far as there are whole ones, the rest one by one: nothing outside of the source is read.
    """
    block, view, side = BLOCKS[size], VIEWS[size], ROW_BYTES // size

    def one_by_one(
        source: int, pitch: int, target: int, first: int, rows: int, start: int, columns: int
    ) -> None:
        for j in range(start, columns):
            row, column = view(source + size * j * pitch, rows), view(target + size * j, rows * BLOCK)
            for i in range(u64(first), u64(rows)):
                column[i * u64(BLOCK)] = row[i]

    def transpose(source: int, pitch: int, target: int, rows: int, columns: int) -> None:
        whole, across = rows // side * side, columns // side * side
        for j in range(0, across, side):
            for i in range(0, whole, side):
                to, of = target + size * (i * BLOCK + j), source + size * (j * pitch + i)
                block(to, size * BLOCK, of, size * pitch)
        if whole < rows:
            one_by_one(source, pitch, target, whole, rows, 0, across)
        if across < columns:
            one_by_one(source, pitch, target, 0, rows, across, columns)

    return transpose


def _make_fill(fmt: Format) -> Fill:
    """Widen rows into strips; what is after the last lane of a narrow strip stays as it is.

    Whole rows are read from end to end: the source is rarely in a cache near the processor.
    """
    widen, size = make_widen(fmt), fmt.bits // 8
    view, convert = ACCESS[fmt].view, ACCESS[fmt].load

    def whole_rows(source: int, pitch: int, target: int, height: int, rows: int, strips: int) -> None:
        stored, wide = view(source, rows * pitch), view_f32(target, strips * height * STRIP)
        for r in range(u64(rows)):
            for j in range(u64(strips)):
                of, to = r * u64(pitch) + j * u64(STRIP), (j * u64(height) + r) * u64(STRIP)
                for i in range(u64(STRIP)):
                    wide[to + i] = convert(stored[of + i])

    def fill(source: int, pitch: int, target: int, height: int, rows: int, width: int, valid: int) -> None:
        row, whole = min(width, STRIP), valid // STRIP
        if pitch == row and width == row:
            widen(source, target, rows * row)
            return
        if whole != 0:
            whole_rows(source, pitch, target, height, rows, whole)
        if whole * STRIP < valid:
            of, to = source + size * whole * STRIP, target + 4 * whole * STRIP * height
            for r in range(rows):
                widen(of + size * r * pitch, to + 4 * r * row, valid - whole * STRIP)

    return fill
