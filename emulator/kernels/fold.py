"""The loops that reductions and pools share: binary32 accumulators in scratch, one element added to each."""

from __future__ import annotations

from collections.abc import Callable

from numpy import float64

from emulator.native.float32 import single
from emulator.native.memory import view_f32
from tx8isa.formats import Format
from tx8isa.meaning import Reduction
from tx8isa.primitives import u64

from .access import ACCESS, nearest_store

Begin = Callable[[int, int], None]
"""(accumulators, how many)."""
Accumulate = Callable[[int, int, int, int], None]
"""(accumulators, first element, elements from one to the next, how many)."""
Finish = Callable[[int, int, int, int, int], None]
"""(accumulators, first result, elements from one to the next, how many, folded elements)."""


def make_fold(fold: Reduction, fmt: Format) -> tuple[Begin, Accumulate, Finish]:
    """The three loops of one reduction on one format."""
    start, step, end, view, load = fold.start, fold.step, fold.finish, ACCESS[fmt].view, ACCESS[fmt].load
    store = nearest_store(fmt)

    def begin(accumulators: int, n: int) -> None:
        total = view_f32(accumulators, n)
        for i in range(u64(n)):
            total[i] = single(start)

    def accumulate(accumulators: int, first: int, stride: int, n: int) -> None:
        total, of = view_f32(accumulators, n), view(first, n * stride)
        for i in range(u64(n)):
            total[i] = single(step(float64(total[i]), float64(load(of[i * u64(stride)]))))

    def finish(accumulators: int, first: int, stride: int, n: int, elements: int) -> None:
        total, to = view_f32(accumulators, n), view(first, n * stride)
        for i in range(u64(n)):
            to[i * u64(stride)] = store(end(float64(total[i]), float64(elements)))

    return begin, accumulate, finish
