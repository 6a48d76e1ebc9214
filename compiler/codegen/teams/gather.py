"""Loads runs of DDR as a team of tiles: each tile loads a part and sends it to all.

The order is: create the gathers (their parts can be loaded while other tiles finish earlier work),
:func:`enter`, send, :func:`meet_all`. Other loads are possible anywhere in between. The hardware orders
copies with nothing else. So after ``enter`` nothing else uses the targets of copies, and parts stay in
their buffers until all tiles have met.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import numpy as np

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.phase import Constant
from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Array
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.layouts import LINE_BYTES

from .team import Team, own_parts, send


class TeamPart(Protocol):
    """This tile's part of the data that a team loads to ``target``; it is at ``staged`` until it is sent."""

    target: Value
    staged: Value

    def send(self) -> None:
        """Start the copies; the part must have arrived in the scratchpad."""


class Gather:
    """A run of ``elements`` of ``each`` bytes that a team gets at ``target`` in all its tiles.

    This tile's part, ``part`` elements or fewer, is at ``staged``.
    """

    def __init__(
        self, kernel: Kernel, team: Team, elements: int, each: int, places: tuple[Value, Value]
    ) -> None:
        self.kernel, self.team, self.elements, self.each = kernel, team, elements, each
        self.target, self.staged = places
        self.part = _part(team, elements, each)

    @classmethod
    def loaded(cls, kernel: Kernel, team: Team, run: tuple[DdrTensor, Value, int], target: Value) -> Gather:
        """Write the code that loads this tile's part; ``run``: tensor, first element, number of elements."""
        tensor, first, elements = run
        each = tensor.bytes_each
        staged = kernel.buffer("part", _part(team, elements, each) * each)
        made = cls(kernel, team, elements, each, (target, staged))
        with own_parts(kernel, team, made._count) as number:
            begin = number * made.part
            source = tensor.at(first + begin)
            kernel.emit(f"rdma.{tensor.fmt.token}", dst=staged, src=source, n=made._length(begin))
        return made

    @property
    def _count(self) -> int:
        return ceil_div(self.elements, self.part)

    def _length(self, begin: Value) -> Value:
        return minimum(self.part, self.elements - begin)

    def send(self) -> None:
        """Start the copies; the part must have arrived in the scratchpad."""
        with own_parts(self.kernel, self.team, self._count) as number:
            begin = number * self.part
            target = self.target + begin * self.each
            send(self.kernel, self.team, self.staged, target, self._length(begin) * self.each)


def _part(team: Team, elements: int, each: int) -> int:
    """Elements that one tile of a team loads, whole lines."""
    return round_up(ceil_div(elements * each, team.size), LINE_BYTES) // each


@dataclass(frozen=True)
class ConstantRun:
    """``elements`` elements of a constant, from element ``first``, which tiles need at ``target``."""

    constant: Constant
    first: int
    elements: int
    target: Value

    def parts(self, count: int, size: int) -> Array:
        """The elements as ``count`` rows of ``size``, followed by zeros."""
        data = self.constant.compute()[self.first : self.first + self.elements]
        return np.pad(data, (0, count * size - data.size)).reshape(count, size)


def loaded_together(kernel: Kernel, team: Team, runs: Sequence[ConstantRun]) -> list[Gather]:
    """Gathers of runs of constants in one format; one command loads this tile's parts of all of them.

    ``team``: all tiles of the chip. The parts of a tile are adjacent in DDR.
    """
    fmt = runs[0].constant.fmt
    each = fmt.bits // 8
    sizes = [_part(team, run.elements, each) for run in runs]
    total = sum(sizes)

    def joined() -> Array:
        return np.hstack([run.parts(team.size, size) for run, size in zip(runs, sizes, strict=True)])

    stored = DdrTensor(
        kernel.lazy_constant("weights", fmt, team.size * total, joined).symbol, fmt, (team.size * total,)
    )
    staged = kernel.buffer("part", total * each)
    kernel.emit(f"rdma.{fmt.token}", dst=staged, src=stored.at(team.member * total), n=total)
    begins = accumulate(sizes, initial=0)
    return [
        Gather(kernel, team, run.elements, each, (run.target, staged + begin * each))
        for run, begin in zip(runs, begins, strict=False)
    ]


def enter(kernel: Kernel, *targets: Value) -> None:
    """Wait until all tiles have finished earlier work, and may send to ``targets``."""
    if kernel.synchronized:
        kernel.await_earlier_phases()
    else:
        kernel.synchronize()
    for target in targets:
        kernel.receive(target)


def meet_all(kernel: Kernel, gathers: Sequence[TeamPart], engines: bool = True) -> None:
    """Wait until the copies of all tiles have arrived; until then the parts are alive.

    Without ``engines``, engines of a tile may still be at work. Other tiles must not write their data before
    the tile waits for them.
    """
    kernel.emit("dte.wait")
    for gather in gathers:
        kernel.keep_alive(gather.staged)
    if engines:
        kernel.synchronize()
    else:
        kernel.meet()
