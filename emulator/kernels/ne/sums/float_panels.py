"""The right-hand operand in scratch: a panel of at most 64 columns, rows in the order of the sums."""

from __future__ import annotations

from collections.abc import Callable

from emulator.kernels.ne import problem as word
from emulator.kernels.ne.arithmetic import Panel, Part
from emulator.kernels.ne.elements import BLOCK, Run, lanes, make_widen, panel_width, planes, stored_lanes
from emulator.kernels.ne.groups import PLANE
from emulator.native.primitives.blocks import WideBlock, transpose_bf16, transpose_fp16
from emulator.native.primitives.memory import get
from emulator.native.primitives.products import transpose_16x16
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


_TRANSPOSED: dict[Format, WideBlock] = {Format.FP16: transpose_fp16, Format.BF16: transpose_bf16}
"""What transposes a block of stored elements and widens them at once."""


def make_transposed_panel(fmt: Format) -> Panel:
    """Panel ``p`` of aligned weights [TAPS * N, K]: rows tap, then k; columns n. One tap is a matrix [N, K].

    A transposition may write up to 15 rows too many: they belong to what is written after it, or to the
    slack at the end.
    """
    size, plane_of = fmt.bits // 8, _make_plane(fmt)

    def panel(source: int, target: int, p: int, problem: int) -> None:
        k, n, taps = get(problem, word.K), get(problem, word.N), get(problem, word.TAPS)
        plane, width, rows = get(problem, word.WORK) + PLANE, panel_width(n, p), lanes(n, p)
        for tap in range(taps):
            for q in range(planes(k)):
                stored = stored_lanes(k, q)
                of = source + size * (q * BLOCK * taps * n + (tap * n + p * BLOCK) * stored)
                to = target + 4 * (tap * k + q * BLOCK) * width
                plane_of(of, stored, to, width, rows, lanes(k, q), plane)

    return panel


def _make_plane(fmt: Format) -> Callable[[int, int, int, int, int, int, int], None]:
    """(source, stored lanes, target, panel width, rows, lanes, spare): one plane of one tap.

    Whole blocks of elements of 16 bits are transposed where they lie; other planes are widened into ``spare``
    first, where all that a transposition reads is there.
    """
    slowly, transpose = _make_widened_plane(make_widen(fmt)), _TRANSPOSED.get(fmt)
    if transpose is None:
        return slowly
    at_once = transpose

    def plane(source: int, stored: int, target: int, width: int, rows: int, valid: int, spare: int) -> None:
        if stored < 16 or rows & 15 != 0:
            slowly(source, stored, target, width, rows, valid, spare)
        else:
            for i in range(0, valid, 16):
                for j in range(0, rows, 16):
                    at_once(source + 2 * (j * stored + i), stored, target + 4 * (i * width + j), width)

    return plane


def _make_widened_plane(widen: Run) -> Callable[[int, int, int, int, int, int, int], None]:
    def plane(source: int, stored: int, target: int, width: int, rows: int, valid: int, spare: int) -> None:
        widen(source, spare, rows * stored)
        for i in range(0, valid, 16):
            for j in range(0, rows, 16):
                transpose_16x16(spare + 4 * (j * stored + i), stored, target + 4 * (i * width + j), width)

    return plane
