"""Runs of DDR that the tiles of a team bring together: each loads a part and sends it to all.

The order is: make the gathers (their parts may be on their way to the scratchpad while other tiles finish
what came before), :func:`enter`, send, whatever else can be loaded before or after that, :func:`meet_all`.
Copies are not ordered with anything, so the bytes that are sent to belong to them from ``enter`` on, and
parts stay where they are until all have met.
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
    """A tile's part of what a team brings to ``target``: it waits at ``staged`` until it is sent."""

    target: Value
    staged: Value

    def send(self) -> None:
        """Start the copies; the part must have arrived in the scratchpad."""


class Gather:
    """One run (tensor, first element, number of elements), to be at ``target`` in every tile of a team.

    When it is made, this tile's part starts on its way to the scratchpad.
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
    """Wait until all tiles have come here with nothing left to do; ``targets`` are then sent to."""
    if kernel.synchronized:
        kernel.await_earlier_phases()
    else:
        kernel.synchronize()
    for target in targets:
        kernel.keep_alive(target)


def meet_all(kernel: Kernel, gathers: Sequence[TeamPart]) -> None:
    """Wait until the copies of all tiles have arrived; until then parts are being read."""
    kernel.emit("dte.wait")
    for gather in gathers:
        kernel.keep_alive(gather.staged)
    kernel.synchronize()
