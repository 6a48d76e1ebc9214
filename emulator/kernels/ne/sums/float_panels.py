"""The right-hand operand in scratch: a panel of at most 64 columns, rows in the order of the sums."""

from __future__ import annotations

from collections.abc import Callable

from emulator.kernels.ne import problem as word
from emulator.kernels.ne.arithmetic import Panel, Part
from emulator.kernels.ne.elements import BLOCK, lanes, make_widen, panel_width, planes, stored_lanes
from emulator.kernels.ne.groups import PLANE
from emulator.native.primitives.memory import get
from emulator.native.primitives.products import (
    transpose_16x16,
    transpose_16x16_bf16,
    transpose_16x16_fp16,
    transpose_16x16_halves,
)
from emulator.native.target import has_feature
from tx8isa.numbers.formats import Format

HARDWARE_FP16 = has_feature("f16c")
"""True if the processor has an instruction that widens FP16."""

Turn = Callable[[int, int, int, int, int, int, int], None]
"""(source, stored lanes, target, panel width, rows, lanes, spare): transpose rows of stored numbers."""

_TRANSPOSITIONS = {
    Format.BF16: transpose_16x16_bf16,
    **({Format.FP16: transpose_16x16_fp16} if HARDWARE_FP16 else {}),
}
"""The primitives that transpose a block of stored numbers and widen it to binary32, by format."""


def make_direct_panel(fmt: Format) -> Panel:
    """Make panel ``p`` of an aligned [K, N] matrix, which has the right order; narrow rows are padded."""
    part = make_part(fmt)

    def panel(source: int, target: int, p: int, problem: int) -> None:
        part(source, target, p, 0, get(problem, word.K), problem)

    return panel


def make_part(fmt: Format) -> Part:
    """Make some rows of panel ``p`` of an aligned [K, N] matrix."""
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
    """Make panel ``p`` of aligned weights [TAPS * N, K], or a matrix [N, K]: rows tap, then k; columns n."""
    plane_of = _make_plane(fmt)

    def panel(source: int, target: int, p: int, problem: int) -> None:
        k, width = get(problem, word.K), panel_width(get(problem, word.N), p)
        for tap in range(get(problem, word.TAPS)):
            for q in range(planes(k)):
                plane_of(source, target + 4 * (tap * k + q * BLOCK) * width, p, q, tap, problem)

    return panel


def make_transposed_part(fmt: Format) -> Part:
    """Make the rows of one plane of k of panel ``p`` of an aligned matrix [N, K]."""
    plane_of = _make_plane(fmt)

    def part(source: int, target: int, p: int, first: int, rows: int, problem: int) -> None:
        plane_of(source, target, p, first // BLOCK, 0, problem)

    return part


def half_part(source: int, target: int, p: int, first: int, rows: int, problem: int) -> None:
    """Transpose a whole plane of k of a whole panel ``p`` of an aligned matrix [N, K] of 16-bit numbers."""
    of = source + 2 * BLOCK * (first // BLOCK * get(problem, word.N) + p * BLOCK)
    for i in range(0, BLOCK, 16):
        for j in range(0, BLOCK, 16):
            transpose_16x16_halves(of + 2 * (j * BLOCK + i), BLOCK, target + 2 * (i * BLOCK + j), BLOCK)


def _make_plane(fmt: Format) -> Callable[[int, int, int, int, int, int], None]:
    """(source, target, p, q, tap, problem): transpose plane ``q`` of a tap's weights [N, K].

    A transposition may write up to 15 rows too many, into rows that are written later or the slack at the
    end.
    """
    turn, size = _make_turn(fmt), fmt.bits // 8

    def plane_of(source: int, target: int, p: int, q: int, tap: int, problem: int) -> None:
        k, n, taps = get(problem, word.K), get(problem, word.N), get(problem, word.TAPS)
        stored = stored_lanes(k, q)
        of = source + size * (q * BLOCK * taps * n + (tap * n + p * BLOCK) * stored)
        spare = get(problem, word.WORK) + PLANE
        turn(of, stored, target, panel_width(n, p), lanes(n, p), lanes(k, q), spare)

    return plane_of


def _make_turn(fmt: Format) -> Turn:
    """Transpose whole blocks of 16-bit numbers and widen them to binary32."""
    slowly, transpose = _make_turn_of_wide(fmt), _TRANSPOSITIONS.get(fmt)
    if transpose is None:
        return slowly
    at_once = transpose

    def turn(source: int, stored: int, target: int, width: int, rows: int, valid: int, spare: int) -> None:
        if stored < 16 or rows & 15 != 0:
            slowly(source, stored, target, width, rows, valid, spare)
        else:
            for i in range(0, valid, 16):
                for j in range(0, rows, 16):
                    at_once(source + 2 * (j * stored + i), stored, target + 4 * (i * width + j), width)

    return turn


def _make_turn_of_wide(fmt: Format) -> Turn:
    """Widen numbers first, into memory with slack for the reads of a transposition, then transpose."""
    widen = make_widen(fmt)

    def turn(source: int, stored: int, target: int, width: int, rows: int, valid: int, spare: int) -> None:
        widen(source, spare, rows * stored)
        for i in range(0, valid, 16):
            for j in range(0, rows, 16):
                transpose_16x16(spare + 4 * (j * stored + i), stored, target + 4 * (i * width + j), width)

    return turn
