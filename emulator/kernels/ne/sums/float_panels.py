"""The right-hand operand in scratch: a panel of at most 64 columns, rows in the order of the sums."""

from __future__ import annotations

from collections.abc import Callable

from emulator.kernels.ne import problem as word
from emulator.kernels.ne.arithmetic import Panel, Part
from emulator.kernels.ne.elements import BLOCK, lanes, make_widen, panel_width, planes, stored_lanes
from emulator.kernels.ne.groups import PLANE
from emulator.native.primitives.memory import get
from emulator.native.primitives.products import transpose_16x16, transpose_16x16_halves
from tx8isa.numbers.formats import Format


def make_direct_panel(fmt: Format) -> Panel:
    """Panel ``p`` of an aligned [K, N] matrix: the order is right already, narrow rows are padded."""
    part = make_part(fmt)

    def panel(source: int, target: int, p: int, problem: int) -> None:
        part(source, target, p, 0, get(problem, word.K), problem)

    return panel


def make_part(fmt: Format) -> Part:
    """Some rows of panel ``p`` of an aligned [K, N] matrix."""
    widen, size = make_widen(fmt), fmt.bits // 8

    def part(source: int, target: int, p: int, first: int, rows: int, problem: int) -> None:
        k, n = get(problem, word.K), get(problem, word.N)
        width, stored, valid = panel_width(n, p), stored_lanes(n, p), lanes(n, p)
        of = source + size * (p * BLOCK * k + first * stored)
        if stored == width:
            widen(of, target, rows * width)
        else:
            for row in range(rows):
                widen(of + size * row * stored, target + 4 * row * width, valid)

    return part


def make_transposed_panel(fmt: Format) -> Panel:
    """Panel ``p`` of aligned weights [TAPS * N, K]: rows tap, then k; columns n. One tap: a matrix [N, K]."""
    plane_of = _make_plane(fmt)

    def panel(source: int, target: int, p: int, problem: int) -> None:
        k, width = get(problem, word.K), panel_width(get(problem, word.N), p)
        for tap in range(get(problem, word.TAPS)):
            for q in range(planes(k)):
                plane_of(source, target + 4 * (tap * k + q * BLOCK) * width, p, q, tap, problem)

    return panel


def make_transposed_part(fmt: Format) -> Part:
    """The rows of one plane of k of panel ``p`` of an aligned matrix [N, K]."""
    plane_of = _make_plane(fmt)

    def part(source: int, target: int, p: int, first: int, rows: int, problem: int) -> None:
        plane_of(source, target, p, first // BLOCK, 0, problem)

    return part


def half_part(source: int, target: int, p: int, first: int, rows: int, problem: int) -> None:
    """A whole plane of k of a whole panel ``p`` of an aligned matrix [N, K] of 16-bit numbers, transposed."""
    of = source + 2 * BLOCK * (first // BLOCK * get(problem, word.N) + p * BLOCK)
    for i in range(0, BLOCK, 16):
        for j in range(0, BLOCK, 16):
            transpose_16x16_halves(of + 2 * (j * BLOCK + i), BLOCK, target + 2 * (i * BLOCK + j), BLOCK)


def _make_plane(fmt: Format) -> Callable[[int, int, int, int, int, int], None]:
    """(source, target, p, q, tap, problem): plane ``q`` of a tap's weights [N, K], transposed.

    A transposition may write up to 15 rows too many: they belong to what is written after it, or to the
    slack at the end.
    """
    widen, size = make_widen(fmt), fmt.bits // 8

    def plane_of(source: int, target: int, p: int, q: int, tap: int, problem: int) -> None:
        k, n, taps = get(problem, word.K), get(problem, word.N), get(problem, word.TAPS)
        plane = get(problem, word.WORK) + PLANE
        width, rows = panel_width(n, p), lanes(n, p)
        stored, valid = stored_lanes(k, q), lanes(k, q)
        of = q * BLOCK * taps * n + (tap * n + p * BLOCK) * stored
        widen(source + size * of, plane, rows * stored)
        for i in range(0, valid, 16):
            for j in range(0, rows, 16):
                transpose_16x16(plane + 4 * (j * stored + i), stored, target + 4 * (i * width + j), width)

    return plane_of
