"""Kernels of unpool (docs/isa.md, Unpool), which copy values of windows back to their positions."""

from __future__ import annotations

from collections.abc import Callable

from emulator.kernels.shared import Kernel
from emulator.kernels.shared.access import VIEWS
from emulator.kernels.shared.fold import Fold, make_fold
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
from emulator.native.primitives.memory import view_i64, view_u16
from tx8isa.families.windows import places
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import block_channels
from tx8isa.numbers.primitives import s64, u64
from tx8isa.records.meaning import Reduction
from tx8isa.records.record import Instruction

Extents = tuple[int, int, int, int]
"""Rows and columns of the windows, rows and columns of the result."""
Plane = Callable[[int, int, int, Extents, int, int, int], None]
"""One plane of one batch: (result, values, indices, extents, stored lanes, window, spare)."""

_INDEX_BYTES = 2
_LANES = 4096
"""Elements of a row at a time, so that their sums and results stay in the first-level cache."""
_ROOM = 8 * _LANES
"""Bytes of scratch for binary32 accumulators and as many results."""


def make_unpool(instruction: Instruction, fmt: Format) -> Kernel:
    """Make the kernel of one unpool."""
    spread, indexed = instruction.meaning.spread, instruction.meaning.spread is None
    write_plane = _by_index(fmt) if spread is None else _by_sums(spread, fmt)
    block, size = block_channels(fmt.bits), fmt.bits // 8
    names = [o.name for o in instruction.operands]
    target_at, source_at, result_at, window_at = map(names.index, ("dst", "src0", "dst_shape", "window"))
    index_at, operands = names.index("src1") if indexed else source_at, len(names)

    def kernel(fields: int, state: int) -> int:
        words, memory = view_i64(fields, operands), view_i64(state, SIZE)
        result, window = words[result_at], words[window_at]
        n, h, w, c = result >> N & LANE, result >> H & LANE, result >> W & LANE, result >> C & LANE
        rows = places(h, 0, 0, window >> H & LANE, window >> C & LANE)
        columns = places(w, 0, 0, window >> N & LANE, window >> W & LANE)
        written, read = batch_size(h * w, c, block, size), batch_size(rows * columns, c, block, size)
        marked = batch_size(rows * columns, c, block, _INDEX_BYTES)
        target, source = memory[SPM] + words[target_at], memory[SPM] + words[source_at]
        source = apart(source, n * read, target, n * written, memory[SCRATCH])
        indices, spare = memory[SPM] + words[index_at], memory[SCRATCH] + SECOND
        if indexed:
            indices = apart(indices, n * marked, target, n * written, spare + _ROOM)
        for i in range(n):
            for b in range(planes(c, block)):
                stored, to = stored_lanes(c, block, b), target + i * written + b * h * w * block * size
                of, first = source + i * read, b * rows * columns * block
                marks = indices + i * marked + first * _INDEX_BYTES
                write_plane(to, of + first * size, marks, (rows, columns, h, w), stored, window, spare)
                clear_padding(to, h * w, stored, c - b * block, size)
            clear_gap(target + i * written, h * w, c, block, size)
        return 0

    return kernel


def _by_sums(reduction: Reduction, fmt: Format) -> Plane:
    """Spread values: finish each value once if windows do not overlap; otherwise add up windows."""
    if (reduction.finish or _as_it_is)(reduction.start, 1.0) != 0.0:
        raise ValueError("positions under no window are cleared, because a sum of nothing must be zero")
    fold, size = make_fold(reduction, fmt), fmt.bits // 8
    begin, add, finish, overlapping = fold.begin, fold.add, fold.finish, _overlapping(fold, size)

    def write_plane(
        target: int, source: int, indices: int, extents: Extents, stored: int, window: int, spare: int
    ) -> None:
        rows, columns, h, w = extents
        kx, ky = window >> N & LANE, window >> H & LANE
        step_x, step_y = window >> W & LANE, window >> C & LANE
        if step_x < kx or step_y < ky:
            overlapping(target, source, indices, extents, stored, window, spare)
            return
        if rows * ky < h or columns * kx < w:
            clear(target, h * w * stored * size)
        wide, result = _LANES // stored, spare + 4 * _LANES
        for row in range(rows):
            for at in range(0, columns, wide):
                m = min(wide, columns - at)
                begin(spare, m * stored)
                add(spare, source + (row * columns + at) * stored * size, m * stored)
                finish(spare, result, s64(1), m * stored, kx * ky)
                for place in range(kx * ky):
                    y, x = row * step_y + place // kx, at * step_x + place % kx
                    to = target + (y * w + x) * stored * size
                    copy_rows(to, step_x * stored * size, result, stored * size, stored * size, m)

    return write_plane


def _as_it_is(total: float, elements: float) -> float:
    return total


def _overlapping(fold: Fold, size: int) -> Plane:
    """Add overlapping windows, with a row of accumulators per piece of a row of the result."""
    begin, add, finish = fold.begin, fold.add, fold.finish

    def write_plane(
        target: int, source: int, indices: int, extents: Extents, stored: int, window: int, spare: int
    ) -> None:
        rows, columns, h, w = extents
        kx, ky = window >> N & LANE, window >> H & LANE
        step_x, step_y, wide = window >> W & LANE, window >> C & LANE, _LANES // stored
        for piece in range(h * ((w + wide - 1) // wide)):
            y, at = piece % h, piece // h * wide
            m = min(wide, w - at)
            begin(spare, m * stored)
            for row in range(max(y - ky + step_y, 0) // step_y, min(y // step_y + 1, rows)):
                # A position adds its windows from left to right, so its places in them descend.
                for x in range(kx - 1, -1, -1):
                    first = first_inside(x - at, step_x, columns)
                    count = end_inside(x - at, step_x, m, columns) - first
                    run, pieces = (count * stored, 1) if step_x == 1 else (stored, count)
                    for k in range(pieces):
                        of = source + (row * columns + first + k) * stored * size
                        add(spare + 4 * ((first + k) * step_x + x - at) * stored, of, run)
            finish(spare, target + (y * w + at) * stored * size, s64(1), m * stored, kx * ky)

    return write_plane


def _by_index(fmt: Format) -> Plane:
    """Store values place by place of the windows, a row at a time; later values replace earlier ones."""
    size, chosen, put_row = fmt.bits // 8, _chosen(fmt), _put_row(fmt)

    def write_plane(
        target: int, source: int, indices: int, extents: Extents, stored: int, window: int, spare: int
    ) -> None:
        rows, columns, h, w = extents
        kx, ky = window >> N & LANE, window >> H & LANE
        step_x, step_y, wide = window >> W & LANE, window >> C & LANE, _LANES // stored
        separate = step_x >= kx and step_y >= ky
        if not separate or rows * ky < h or columns * kx < w:
            clear(target, h * w * stored * size)
        for row in range(rows):
            for place in range(kx * ky - 1, -1, -1):
                y, x, first = row * step_y + place // kx, place % kx, row * columns
                for at in range(0, columns, wide):
                    m, lane = min(wide, columns - at), (first + at) * stored
                    to = target + (y * w + at * step_x + x) * stored * size
                    of, named = source + lane * size, indices + lane * _INDEX_BYTES
                    if separate:
                        chosen(spare, of, named, place, m * stored)
                        copy_rows(to, step_x * stored * size, spare, stored * size, stored * size, m)
                    else:
                        put_row(to, of, named, place, m, step_x, stored)

    return write_plane


def _chosen(fmt: Format) -> Callable[[int, int, int, int, int], None]:
    view = VIEWS[fmt.bits // 8]

    def chosen(target: int, source: int, indices: int, place: int, n: int) -> None:
        """Write the values whose index is ``place``, zeros for the others."""
        to, of, named = view(target, n), view(source, n), view_u16(indices, n)
        for i in range(u64(n)):
            to[i] = s64(of[i]) & (-1 if s64(named[i]) == place else 0)

    return chosen


def _put_row(fmt: Format) -> Callable[[int, int, int, int, int, int, int], None]:
    size, view = fmt.bits // 8, VIEWS[fmt.bits // 8]

    def put(target: int, source: int, indices: int, place: int, n: int) -> None:
        """Write the values whose index is ``place``; other elements do not change."""
        to, of, named = view(target, n), view(source, n), view_u16(indices, n)
        for i in range(u64(n)):
            taken = -1 if s64(named[i]) == place else 0
            to[i] = (s64(of[i]) & taken) | (s64(to[i]) & ~taken)  # no branch: this becomes vector code

    def put_row(target: int, source: int, indices: int, place: int, m: int, step: int, stored: int) -> None:
        """Write as ``put`` at ``m`` positions that are ``step`` apart."""
        run, pieces = (m * stored, 1) if step == 1 else (stored, m)
        for k in range(pieces):
            lane = k * stored
            put(target + step * lane * size, source + lane * size, indices + lane * _INDEX_BYTES, place, run)

    return put_row
