"""Numeric exceptions of reductions and pools: a walk over the elements of every result, before the fold.

The fold works on whole rows, padding lanes included, and does not record rounding errors. The walk takes the
steps of the same ``Reduction`` one by one, without padding lanes, and stores nothing. A reduction over W, H
or both is a pool whose windows are rows, columns or planes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from numpy import float64

from emulator.kernels.shared import Kernel
from emulator.kernels.shared.access import ACCESS, nearest_store
from emulator.kernels.shared.checked import INEXACT, INFINITE, NAN_INPUT, OVERFLOW, rounding_events
from emulator.kernels.shared.planes import LANE, C, H, N, W, batch_size, stored_lanes
from emulator.memory.state import NUMERIC, SIZE, SPM
from emulator.native.primitives.memory import view_i64
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import block_channels
from tx8isa.numbers.primitives import f32, s64, u64
from tx8isa.records.meaning import Pool, Reduction
from tx8isa.records.record import Instruction


def watched_fold(
    make: Callable[[Instruction, Format], Kernel],
) -> Callable[[Instruction, Format, bool], Kernel]:
    """Extend a family of reductions or pools by the variant ``checked``, which finds exceptions first."""

    def make_watched(instruction: Instruction, fmt: Format, checked: bool) -> Kernel:
        fold = make(instruction, fmt)
        return _walked_fold(instruction, fmt, fold) if checked else fold

    return make_watched


def _walked_fold(instruction: Instruction, fmt: Format, fold: Kernel) -> Kernel:
    walk = _pool_walk(instruction, fmt) if isinstance(instruction.meaning, Pool) else _walk(instruction, fmt)

    def kernel(fields: int, state: int) -> int:
        memory = view_i64(state, SIZE)
        seen = walk(fields, memory[SPM])
        memory[NUMERIC] = memory[NUMERIC] | seen
        return fold(fields, state)

    return kernel


def _walk(instruction: Instruction, fmt: Format) -> Kernel:
    source_at, shape_at, dims_at = map(instruction.index, ("src0", "shape", "dims"))
    operands, size = len(instruction.operands), fmt.bits // 8
    windows, element = _windows(instruction.meaning.fold, fmt, False), _place(fmt)
    add, end = _step(instruction.meaning.fold, fmt), _end(instruction.meaning.fold, fmt)
    start, block = instruction.meaning.fold.start, block_channels(fmt.bits)

    def walk(fields: int, spm: int) -> int:
        words = view_i64(fields, operands)
        source, shape, dims = spm + words[source_at], words[shape_at], words[dims_at]
        h, w, c = shape >> H & LANE, shape >> W & LANE, shape >> C & LANE
        if dims != 0:
            kx, ky = 1 if dims == 2 else w, 1 if dims == 1 else h
            return windows(source, shape, (h // ky, w // kx), (kx, ky, s64(1), s64(1)), (s64(0), s64(0)))
        seen = 0
        for batch in range(shape >> N & LANE):
            of = source + batch * batch_size(h * w, c, block, size)
            for position in range(h * w):
                total = start
                for channel in range(c):
                    total, bits = add(total, element(of, position, channel, h * w, c))
                    seen |= bits
                seen |= end(total, c)
        return seen

    return walk


def _pool_walk(instruction: Instruction, fmt: Format) -> Kernel:
    names = ("src0", "shape", "dst_shape", "pad", "window")
    source_at, shape_at, result_at, pad_at, window_at = map(instruction.index, names)
    operands = len(instruction.operands)
    windows = _windows(instruction.meaning.fold, fmt, instruction.meaning.outside)

    def walk(fields: int, spm: int) -> int:
        words = view_i64(fields, operands)
        result, pad, window = words[result_at], words[pad_at], words[window_at]
        extents = (result >> H & LANE, result >> W & LANE)
        places = (window >> N & LANE, window >> H & LANE, window >> W & LANE, window >> C & LANE)
        corner = (pad >> W & LANE, pad >> N & LANE)
        return windows(spm + words[source_at], words[shape_at], extents, places, corner)

    return walk


def _windows(fold: Reduction, fmt: Format, outside: bool) -> Callable[..., int]:
    """Walk all windows of a tensor, ky outer, kx inner; ``outside`` of it elements are zeros, or skipped.

    ``(source, packed shape, (rows, columns) of the result, (kx, ky, sx, sy), pads (left, top)) -> bits``.
    """
    add, end, element = _step(fold, fmt), _end(fold, fmt), _place(fmt)
    start, block, size = fold.start, block_channels(fmt.bits), fmt.bits // 8

    def windows(
        source: int,
        shape: int,
        extents: tuple[int, int],
        places: tuple[int, int, int, int],
        corner: tuple[int, int],
    ) -> int:
        (rows, columns), (kx, ky, sx, sy), (left, top) = extents, places, corner
        h, w, c = shape >> H & LANE, shape >> W & LANE, shape >> C & LANE
        seen = 0
        for result in range((shape >> N & LANE) * rows * columns * c):
            channel, column = result % c, result // c % columns
            batch, row = result // c // columns // rows, result // c // columns % rows
            of, total = source + batch * batch_size(h * w, c, block, size), start
            for place in range(ky * kx):
                y, x = row * sy - top + place // kx, column * sx - left + place % kx
                inside = y >= 0 and y < h and x >= 0 and x < w
                if inside or outside:
                    stored = element(of, y * w + x, channel, h * w, c) if inside else 0
                    total, bits = add(total, stored)
                    seen |= bits
            seen |= end(total, kx * ky)
        return seen

    return windows


def _place(fmt: Format) -> Callable[..., int]:
    """Make the read of a batch's stored element at a position and channel."""
    view, block, size = ACCESS[fmt].view, block_channels(fmt.bits), fmt.bits // 8

    def element(batch: int, position: int, channel: int, positions: int, c: int) -> int:
        b = channel // block
        at = b * positions * block + position * stored_lanes(c, block, b) + channel - b * block
        return s64(view(batch + at * size, 1)[u64(0)])

    return element


def _step(fold: Reduction, fmt: Format) -> Callable[[float, int], tuple[float, int]]:
    """(accumulator, stored element) -> (accumulator, bits)."""
    step, error, load = fold.step, fold.error or _no_error, ACCESS[fmt].load

    def add(total: float, stored: int) -> tuple[float, int]:
        x = float64(load(stored))
        wide = step(total, x)
        new = f32(wide)
        if x != x:
            return new, NAN_INPUT
        if not (abs(total) < inf and abs(x) < inf) or (new == wide and error(total, x, wide) == 0.0):
            return new, 0
        return new, INEXACT | OVERFLOW if abs(new) == inf else INEXACT

    return add


def _no_error(total: float, x: float, result: float) -> float:
    return 0.0


def _end(fold: Reduction, fmt: Format) -> Callable[[float, int], int]:
    """(accumulator, number of elements) -> bits of the last rounding."""
    finish, exact = fold.finish or _as_it_is, fold.exact or _always
    load, store, rounding = ACCESS[fmt].load, nearest_store(fmt), rounding_events(fmt)

    def end(total: float, elements: int) -> int:
        x = finish(total, float64(elements))
        stored = store(x)
        seen = INFINITE if abs(float64(load(stored))) == inf else 0
        return seen | rounding(x, exact(total, float64(elements)), stored) if abs(total) < inf else seen

    return end


def _as_it_is(total: float, elements: float) -> float:
    return total


def _always(total: float, elements: float) -> bool:
    return True
