"""The loops that reductions and pools share: elements added in order to binary32 accumulators in scratch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy import float64

from emulator.native.primitives.float32 import single
from emulator.native.primitives.memory import view_f32, view_u32
from tx8isa.numbers.formats import Format
from tx8isa.numbers.primitives import u64
from tx8isa.records.meaning import Reduction

from .access import ACCESS, nearest_store, single_body


@dataclass(frozen=True, slots=True)
class Fold:
    """One reduction on one format. Accumulators are a row of binary32; arguments are addresses and counts."""

    begin: Callable[[int, int], None]
    """(accumulators, their number)."""
    add: Callable[[int, int, int], None]
    """(accumulators, elements, their number)."""
    add_two: Callable[[int, int, int, int], None]
    """Two rows of elements in turn, as ``add_four``."""
    add_three: Callable[[int, int, int, int], None]
    """Three rows of elements in turn, as ``add_four``."""
    add_four: Callable[[int, int, int, int], None]
    """Four rows of elements in turn: (accumulators, first row, elements to the next row, their number)."""
    add_indexed: Callable[[int, int, int, int, int], None]
    """(accumulators, uint32 indices, index of these elements, elements, their number)."""
    finish: Callable[[int, int, int, int, int], None]
    """(accumulators, first result, elements from result to result, number of results, folded elements)."""


def make_fold(fold: Reduction, fmt: Format) -> Fold:
    """Make the loops of one reduction on one format."""
    start, step, view, load = fold.start, _single_step(fold), ACCESS[fmt].view, ACCESS[fmt].load

    def begin(accumulators: int, n: int) -> None:
        total = view_f32(accumulators, n)
        for i in range(u64(n)):
            total[i] = single(start)

    def add(accumulators: int, first: int, n: int) -> None:
        total, of = view_f32(accumulators, n), view(first, n)
        for i in range(u64(n)):
            total[i] = step(total[i], load(of[i]))

    def add_two(accumulators: int, first: int, apart: int, n: int) -> None:
        total, of, far = view_f32(accumulators, n), view(first, apart + n), u64(apart)
        for i in range(u64(n)):
            total[i] = step(step(total[i], load(of[i])), load(of[far + i]))

    def add_three(accumulators: int, first: int, apart: int, n: int) -> None:
        total, of, far = view_f32(accumulators, n), view(first, 2 * apart + n), u64(apart)
        for i in range(u64(n)):
            two = step(step(total[i], load(of[i])), load(of[far + i]))
            total[i] = step(two, load(of[u64(2) * far + i]))

    def add_four(accumulators: int, first: int, apart: int, n: int) -> None:
        total, of, far = view_f32(accumulators, n), view(first, 3 * apart + n), u64(apart)
        for i in range(u64(n)):
            two = step(step(total[i], load(of[i])), load(of[far + i]))
            total[i] = step(step(two, load(of[u64(2) * far + i])), load(of[u64(3) * far + i]))

    return Fold(begin, add, add_two, add_three, add_four, _indexed(fold, fmt), _finish(fold, fmt))


def _single_step(fold: Reduction) -> Callable[[np.float32, np.float32], np.float32]:
    step = single_body(fold.step)
    if step is None:
        raise ValueError("the step of a reduction must not call functions: it is done in binary32")
    return step


def _finish(fold: Reduction, fmt: Format) -> Callable[[int, int, int, int, int], None]:
    view, end, store, exact_store = ACCESS[fmt].view, fold.finish, nearest_store(fmt), ACCESS[fmt].store
    if end is None:

        def finish_as_is(accumulators: int, first: int, stride: int, n: int, elements: int) -> None:
            total, to = view_f32(accumulators, n), view(first, n * stride)
            for i in range(u64(n)):
                to[i * u64(stride)] = exact_store(total[i])

        return finish_as_is
    quotient: Callable[[float, float], float] = end

    def finish(accumulators: int, first: int, stride: int, n: int, elements: int) -> None:
        total, to = view_f32(accumulators, n), view(first, n * stride)
        for i in range(u64(n)):
            to[i * u64(stride)] = store(quotient(float64(total[i]), float64(elements)))

    return finish


def _indexed(fold: Reduction, fmt: Format) -> Callable[[int, int, int, int, int], None]:
    """Make the fold with indices; an element counts if it changes the number, so NaN and equal ones do not
    count."""
    view, load, step = ACCESS[fmt].view, ACCESS[fmt].load, _single_step(fold)

    def add_indexed(accumulators: int, indices: int, index: int, first: int, n: int) -> None:
        total, where, of = view_f32(accumulators, n), view_u32(indices, n), view(first, n)
        for i in range(u64(n)):
            before = total[i]
            after = step(before, load(of[i]))
            found = (after == after) & (after != before)
            where[i] = u64(index) if found else u64(where[i])
            total[i] = after

    return add_indexed
