"""Runs of DDR that the tiles of a team load together: each loads a part and sends it to all.

The order is: create the gathers (their parts can be loaded while other tiles finish earlier work),
:func:`enter`, send, :func:`meet_all`; other loads are possible everywhere in between. The hardware orders
copies with nothing else, so the targets of copies are not used otherwise from ``enter`` on, and parts stay in
their buffers until all tiles have met.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import DdrTensor
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.layouts import LINE_BYTES

from .team import Team, own_parts, send


class TeamPart(Protocol):
    """This tile's part of what a team loads to ``target``; it is at ``staged`` until it is sent."""

    target: Value
    staged: Value

    def send(self) -> None:
        """Start the copies; the part must have arrived in the scratchpad."""


class Gather:
    """A run (tensor, first element, number of elements) that a team loads to ``target`` in all its tiles.

    The constructor writes the code that loads this tile's part.
    """

    def __init__(self, kernel: Kernel, team: Team, run: tuple[DdrTensor, Value, int], target: Value) -> None:
        self.kernel, self.team, self.target = kernel, team, target
        tensor, first, self.elements = run
        self.each = tensor.bytes_each
        self.part = round_up(ceil_div(self.elements * self.each, team.size), LINE_BYTES) // self.each
        self.staged = kernel.buffer("part", self.part * self.each)
        with own_parts(kernel, team, self._count) as number:
            begin = number * self.part
            source = tensor.at(first + begin)
            kernel.emit(f"rdma.{tensor.fmt.token}", dst=self.staged, src=source, n=self._length(begin))

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
