"""ReduceSum, ReduceMean and ReduceMax: long runs each by one or several tiles, others in lanes."""

from __future__ import annotations

import math
from collections.abc import Iterable

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.lanes import Folds, Lanes
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.slices.vector import WORD
from compiler.evaluation.sizes import always
from compiler.graph import Shape
from compiler.lowering.movement.movement import convert_tensor
from compiler.lowering.record import Cut, Engine, Work, lowering
from compiler.operators.reductions.axes import reduced_axes
from tx8isa.numbers.formats import Format

from . import long_reductions
from .long_reductions import Reduction


def _reduction_cuts(target: Target, work: Work) -> Iterable[Cut]:
    """Cuts for long runs, by one or several tiles each, and for many folds in lanes; none for short runs."""
    axes, source = reduced_axes(work.spec), work.input(0)
    folds = _folds_of(source.shape, axes) if axes else []
    if len(folds) != 1 or not long_reductions.has_long_runs(folds[0]):
        return ()
    return long_reductions.long_reduction_cuts(folds[0], source, target)


def _reduction(kernel: Kernel, work: Work, name: str, mean: bool = False) -> None:
    """A fold for each run of adjacent reduced axes; between two folds values are FP32 in DDR."""
    axes, source = reduced_axes(work.spec), work.input(0)
    if not axes:
        convert_tensor(kernel, source, work.output)
        return
    *before, last = _folds_of(source.shape, axes)
    divisor = math.prod(folds.axis for folds in (*before, last)) if mean else 1
    for folds in before:
        size = folds.outer * folds.inner
        partial = DdrTensor(kernel.scratch("partial", WORD * size).symbol, Format.FP32, (size,))
        _reduce(kernel, Reduction(source, partial, folds, name), None)
        kernel.synchronize()
        source = partial
    _reduce(kernel, Reduction(source, work.output, last, name, divisor), work.cut)


@lowering("ReduceSum", cuts=_reduction_cuts, engines=(Engine.VECTOR,))
def sums(kernel: Kernel, work: Work) -> None:
    """The sums of elements along axes."""
    _reduction(kernel, work, "sum")


@lowering("ReduceMean", cuts=_reduction_cuts, engines=(Engine.VECTOR,))
def means(kernel: Kernel, work: Work) -> None:
    """The sums, divided by how many elements they have."""
    _reduction(kernel, work, "sum", mean=True)


@lowering("ReduceMax", cuts=_reduction_cuts, engines=(Engine.VECTOR,))
def maxima(kernel: Kernel, work: Work) -> None:
    """The largest elements along axes."""
    _reduction(kernel, work, "max")


def _folds_of(shape: Shape, axes: tuple[int, ...]) -> list[Folds]:
    """A fold for each run of adjacent reduced axes, the last run first; each leaves axes of one element."""
    sizes, found = list(shape), []
    while open_axes := [axis for axis in axes if not always(sizes[axis] == 1)]:
        first, end = open_axes[-1], open_axes[-1] + 1
        while first > 0 and (first - 1 in axes or always(sizes[first - 1] == 1)):
            first -= 1
        found.append(Folds(math.prod(sizes[:first]), math.prod(sizes[first:end]), math.prod(sizes[end:])))
        sizes[first:end] = [1] * (end - first)
    return found or [Folds(1, 1, math.prod(shape))]


def _reduce(kernel: Kernel, problem: Reduction, cut: Cut | None) -> None:
    """Write one fold as the cut or the default says: one or several tiles for each long run, or lanes."""
    plan = None
    if cut is None:
        plan = long_reductions.default_plan(problem.folds, problem.source, kernel.target)
    elif cut.choice("way", "lanes") == "long":
        plan = long_reductions.plan_of_cut(problem.folds, problem.source, cut, kernel.target)
    if plan is None:
        _reduce_in_lanes(kernel, problem)
    else:
        long_reductions.reduce_long_runs(kernel, problem, plan)


def _reduce_in_lanes(kernel: Kernel, problem: Reduction) -> None:
    lanes = Lanes(kernel, problem.source, problem.folds, 2 * problem.source.bytes_each + 2 * WORD)
    with lanes.items() as item:
        total = lanes.accumulator("total")
        lanes.clear(problem.name, total)
        with item.sweep() as segment:
            lanes.combine(problem.name, segment, segment.data, total)
        if not always(problem.divisor == 1):
            lanes.lane_vector().vs("div", total, total, problem.divisor)
        item.store_folded(problem.target, total)
