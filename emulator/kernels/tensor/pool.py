"""Kernels of pooling over windows of an aligned NHWC tensor (docs/isa.md, Pooling)."""

from __future__ import annotations

from collections.abc import Callable

from emulator.kernels.shared import Kernel
from emulator.kernels.shared.access import VIEWS
from emulator.kernels.shared.fold import make_fold
from emulator.kernels.shared.planes import (
    LANE,
    C,
    H,
    N,
    W,
    batch_size,
    clear_gap,
    clear_padding,
    end_inside,
    first_inside,
    planes,
    stored_lanes,
)
from emulator.memory.rows import SECOND, apart, clear, copy_rows
from emulator.memory.state import SCRATCH, SIZE, SPM
from emulator.native.primitives.memory import view_i64, view_u32
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import block_channels
from tx8isa.numbers.primitives import s64, u64
from tx8isa.records.meaning import Pool
from tx8isa.records.record import Instruction

_LANES = 2048
"""Accumulators at a time, so that they stay in the first-level cache."""
_INDICES, _GATHERED, _ZEROS = 4 * _LANES, 8 * _LANES, 12 * _LANES
"""Bytes from the accumulators to their indices, to gathered elements, and to zeros."""
_NARROW = 32
"""With fewer lanes at a position, positions that are not neighbours are gathered first."""


def make_pool(instruction: Instruction, fmt: Format) -> Kernel:
    """Make the kernel of one pooling: a row of accumulators per row of the result."""
    fold_plane, block, size = _plane(instruction.meaning, fmt), block_channels(fmt.bits), fmt.bits // 8
    names = ("dst", "src0", "shape", "dst_shape", "pad", "window")
    target_at, source_at, shape_at, result_at, pad_at, window_at = map(instruction.index, names)
    index_at = instruction.index("dst1") if instruction.meaning.indexed else target_at
    operands = len(instruction.operands)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        shape, result = words[shape_at], words[result_at]
        n, c = shape >> N & LANE, shape >> C & LANE
        inputs, results = (
            (shape >> H & LANE) * (shape >> W & LANE),
            (result >> H & LANE) * (result >> W & LANE),
        )
        read, written = batch_size(inputs, c, block, size), batch_size(results, c, block, size)
        target, source = memory[SPM] + words[target_at], memory[SPM] + words[source_at]
        indices, spare = memory[SPM] + words[index_at] - target, memory[SCRATCH] + SECOND
        source = apart(source, n * read, target, n * written, memory[SCRATCH])
        source = apart(source, n * read, target + indices, n * written, memory[SCRATCH])
        clear(spare + _ZEROS, s64(4 * _LANES))
        window = (shape, result, words[pad_at], words[window_at])
        for i in range(n):
            for b in range(planes(c, block)):
                of = source + i * read + b * inputs * block * size
                to = target + i * written + b * results * block * size
                fold_plane(to, indices, of, b, window, spare)
            clear_gap(target + i * written, results, c, block, size)
            clear_gap(target + indices + i * written, results, c, block, size)
        return 0

    return kernel


Window = tuple[int, int, int, int]
"""The packed operands shape, dst_shape, pad and window."""


def _plane(meaning: Pool, fmt: Format) -> Callable[[int, int, int, int, Window, int], None]:
    """Compute plane ``b`` of one batch; ``indices`` is the distance of the second result from the first."""
    fold_row, block, size = _row(meaning, fmt), block_channels(fmt.bits), fmt.bits // 8

    def fold_plane(target: int, indices: int, source: int, b: int, window: Window, spare: int) -> None:
        shape, result, _, _ = window
        c, rows, columns = shape >> C & LANE, result >> H & LANE, result >> W & LANE
        stored = stored_lanes(c, block, b)
        for row in range(rows):
            fold_row(target + row * columns * stored * size, indices, source, row, stored, window, spare)
        clear_padding(target, rows * columns, stored, c - b * block, size)
        clear_padding(target + indices, rows * columns, stored, c - b * block, size)

    return fold_plane


def _row(meaning: Pool, fmt: Format) -> Callable[[int, int, int, int, int, Window, int], None]:
    """Compute one row of the result, a piece of it at a time."""
    fold_piece, size, indexed = _piece(meaning, fmt), fmt.bits // 8, meaning.indexed
    fold, view = make_fold(meaning.fold, fmt), VIEWS[size]
    begin, finish = fold.begin, fold.finish

    def fold_row(
        target: int, indices: int, plane: int, row: int, stored: int, window: Window, spare: int
    ) -> None:
        _, result, _, places = window
        columns, number, wide = (
            result >> W & LANE,
            (places >> N & LANE) * (places >> H & LANE),
            _LANES // stored,
        )
        for at in range(0, columns, wide):
            m, to = min(wide, columns - at), target + at * stored * size
            begin(spare, m * stored)
            if indexed:
                clear(spare + _INDICES, 4 * m * stored)
            fold_piece(plane, row, at, m, stored, window, spare)
            finish(spare, to, s64(1), m * stored, number)
            if indexed:
                found, where = view(to + indices, m * stored), view_u32(spare + _INDICES, m * stored)
                for i in range(u64(m * stored)):
                    found[i] = where[i]

    return fold_row


def _piece(meaning: Pool, fmt: Format) -> Callable[[int, int, int, int, int, Window, int], None]:
    """Compute ``m`` neighbouring results from column ``at``, over the lanes of their windows, kx inner.

    Two or three places of a window's row are added in one pass for the results that have all of them.
    """
    fold_place, fold_places, size = _place(meaning, fmt), _places(meaning, fmt), fmt.bits // 8
    outside, alone = meaning.outside, meaning.indexed

    def fold_piece(plane: int, row: int, at: int, m: int, stored: int, window: Window, spare: int) -> None:
        shape, _, pad, places = window
        h, w, kx, step = shape >> H & LANE, shape >> W & LANE, places >> N & LANE, places >> W & LANE
        top = row * (places >> C & LANE) - (pad >> N & LANE)
        together = not alone and (kx == 2 or kx == 3) and (step == 1 or stored >= _NARROW)
        begin = stop = m
        for place in range(kx * (places >> H & LANE)):
            y, left = top + place // kx, at * step + place % kx - (pad >> W & LANE)
            first, end = first_inside(left, step, m), end_inside(left, step, w, m)
            if y < 0 or y >= h:
                first = end = m
            of = plane + (y * w + left) * stored * size
            if together and place % kx == 0:
                begin, stop = first, max(first, min(end, end_inside(left + kx - 1, step, w, m)))
                fold_places(spare, of, begin, stop - begin, step, stored, kx)
            fold_place(spare, place, of, first, min(end, begin) - first, step, stored)
            fold_place(spare, place, of, max(first, stop), end - max(first, stop), step, stored)
            if outside:
                fold_place(spare, place, spare + _ZEROS, s64(0), first, s64(0), stored)
                fold_place(spare, place, spare + _ZEROS, end, m - end, s64(0), stored)

    return fold_piece


def _places(meaning: Pool, fmt: Format) -> Callable[[int, int, int, int, int, int, int], None]:
    """Add two or three neighbouring places of a row of the windows; otherwise as ``_place``."""
    fold, size = make_fold(meaning.fold, fmt), fmt.bits // 8
    add_two, add_three = fold.add_two, fold.add_three

    def fold_places(spare: int, of: int, first: int, m: int, step: int, stored: int, kx: int) -> None:
        run, rows = (stored, m) if step > 1 else (m * stored, min(m, 1))
        for row in range(first, first + rows):
            to, elements = spare + 4 * row * stored, of + row * step * stored * size
            if kx == 3:
                add_three(to, elements, stored, run)
            else:
                add_two(to, elements, stored, run)

    return fold_places


def _place(meaning: Pool, fmt: Format) -> Callable[[int, int, int, int, int, int, int], None]:
    """Add one place of the windows of neighbouring results, whose source positions are ``step`` apart."""
    fold, size, indexed = make_fold(meaning.fold, fmt), fmt.bits // 8, meaning.indexed
    add, add_indexed = fold.add, fold.add_indexed

    def fold_place(spare: int, place: int, of: int, first: int, m: int, step: int, stored: int) -> None:
        """Fold a place into ``m`` results, starting at number ``first``; ``of`` is its address for result
        0."""
        if m <= 0:
            return
        run, rows, of = m * stored, 1, of + first * step * stored * size
        if step > 1 and stored < _NARROW:
            copy_rows(spare + _GATHERED, stored * size, of, step * stored * size, stored * size, m)
            of = spare + _GATHERED
        elif step > 1:
            run, rows = stored, m
        for row in range(rows):
            to, elements = spare + 4 * (first + row) * stored, of + row * step * stored * size
            if indexed:
                add_indexed(to, to + _INDICES, place, elements, run)
            else:
                add(to, elements, run)

    return fold_place
