"""Global pools of few channels and many positions: tiles share the positions of a plane."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.lanes import Folds
from compiler.codegen.slices.tensors import BLOCK
from compiler.codegen.teams.collective import WAYS
from compiler.evaluation.sizes import always, here
from compiler.lowering.record import Cut, Work
from compiler.lowering.rows.long_reductions import Reduction, is_long, reduce_long_runs, reduction_plans
from tx8isa.numbers.layouts import full_blocks, tail_width

_LONG = 1 << 16
"""Least elements of a plane that tiles share without a search."""


def long_pool_cuts(target: Target, work: Work) -> Iterator[Cut]:
    """Sharing positions, with each way of exchange, and tiles that have planes of their own."""
    if _is_few(target, work):
        for way in WAYS:
            yield Cut(choices=(("way", "long"), ("exchange", way)))
        yield Cut(choices=(("way", "planes"),))


def is_shared(target: Target, work: Work) -> bool:
    """True if the cut or the rule says that tiles share positions."""
    if work.cut is not None:
        return work.cut.choice("way", "planes") == "long"
    return _is_few(target, work) and all(here(folds.axis) * folds.inner >= _LONG for folds, _ in _runs(work))


def pool_shared(kernel: Kernel, work: Work, name: str, averages: bool) -> None:
    """The ``sum`` or ``max`` of all positions of each channel, or their mean.

    ValueError for a cut that is not of such a pool.
    """
    if not _is_few(kernel.target, work):
        raise ValueError(f"{work.name} has no planes that tiles share")
    way = WAYS[1] if work.cut is None else work.cut.choice("exchange", "")
    for folds, first in _runs(work):
        starts = first * folds.axis, first
        divisor = folds.axis if averages else 1
        reduction = Reduction(work.input(0), work.output, folds, name, divisor, starts)
        plan = reduction_plans(folds, work.input(0), kernel.target)[0]
        reduce_long_runs(kernel, reduction, replace(plan, exchange=way))


def _is_few(target: Target, work: Work) -> bool:
    """True for one image of few long planes (fewer than half the tiles) without steps after the mean."""
    source = work.input(0)
    runs = _runs(work)
    return (
        always(source.shape[0] == 1)
        and not work.steps
        and source.blocked == work.output.blocked
        and 2 * sum(folds.outer for folds, _ in runs) <= target.tiles
        and all(is_long(folds, target) and reduction_plans(folds, source, target) for folds, _ in runs)
    )


def _runs(work: Work) -> list[tuple[Folds, int]]:
    """Runs of contiguous planes with their first channels: planes of full width, then a narrower one."""
    source = work.input(0)
    positions, channels = math.prod(source.shape[1:-1]), source.shape[-1]
    if not source.blocked:
        return [(Folds(1, positions, channels), 0)]
    planes, tail = full_blocks(channels, BLOCK), tail_width(channels, BLOCK)
    found = [(Folds(planes, positions, BLOCK), 0)] if planes else []
    return [*found, (Folds(1, positions, tail), planes * BLOCK)] if tail else found
