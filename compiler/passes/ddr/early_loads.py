"""Loads of a phase's constants while the phase before is executed: their number of bytes.

DDR is idle where a phase computes for longer than it loads. A stack that is divided by channels can begin
with the weights of several stages instead of one. The head of the phase (``codegen/schedule``) then loads
them in that time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from compiler.codegen.kernel import Kernel
from compiler.codegen.schedule.phases import ScheduledPhase
from compiler.search.cost.estimate import estimate
from tx8isa.cost.rates import ddr_rate
from tx8isa.machine.description import Machine

_USED = 0.75
"""The part of a phase's estimated time that is used, because a late load delays the whole next phase."""


def early_bytes(kernels: Sequence[Kernel], machine: Machine) -> dict[int, int]:
    """For each phase that can begin with more weights, by its number: the bytes of weights that a tile loads.

    They are the bytes that DDR could move during the phase before, in addition to those of that phase.
    """
    found: dict[int, int] = {}
    for number, (host, kernel) in enumerate(pairwise(kernels), 1):
        if kernel.early:
            found[number] = max(kernel.early, _idle_bytes(host, machine))
    return found


def _idle_bytes(kernel: Kernel, machine: Machine) -> int:
    """Bytes for each tile that DDR could move in addition while a phase is executed.

    Loads before the phase begins shorten it at most by their time on the DDR; the remaining time is kept.
    """
    expected = estimate(kernel, machine)
    possible = _USED * expected.cycles * ddr_rate(machine)
    return max(int(possible - expected.ddr_bytes), 0) // kernel.target.tiles


def came_early(phases: Sequence[ScheduledPhase], early: Mapping[int, int]) -> dict[int, int]:
    """``early``, reduced for phases whose heads do not load everything that the phase begins with."""
    found = dict(early)
    for number in early:
        brought = sum(buffer.size for buffer in phases[number].head.buffers)
        if brought < phases[number].kernel.early:
            found[number] = brought
    return found
