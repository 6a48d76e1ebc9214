"""The weights of the steps of a stack in bands: each tile loads parts and sends these to all tiles."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.codegen.kernel import Kernel
from compiler.codegen.teams.gather import ConstantRun, Gather, loaded_together
from compiler.codegen.teams.team import Team

from .bands import HaloStep, WeightSend
from .constants import StackWeights, weights_run
from .rows import RowPhase


class StepWeights:
    """The loads and sends of a phase's weights by ``team``, which has all tiles.

    ``sends``: what tiles send before the first step, and when each step begins (``weight_sends``). One
    command loads the parts of ``together`` of them.
    """

    def __init__(
        self,
        kernel: Kernel,
        phase: RowPhase,
        team: Team,
        steps: Sequence[HaloStep],
        sends: Sequence[Sequence[WeightSend]],
        together: int,
    ) -> None:
        self.kernel, self.phase, self.team = kernel, phase, team
        self._steps, self._sends, self._together = steps, sends, together
        self._made: dict[int, StackWeights | None] = {}
        self.parts: dict[int, list[Gather]] = {}
        """This tile's sends, by the step at whose begin they start; -1 is before the first."""

    def load(self, number: int) -> None:
        """Load this tile's parts of what is sent when a step begins, unless they were loaded with others."""
        first = number + 1
        if first % self._together:
            return
        runs: list[tuple[int, ConstantRun]] = []
        for at, sends in enumerate(self._sends[first : first + self._together], number):
            for send in sends:
                weights = self._weights_of(send.step)
                if weights is not None:
                    begin, size = send.elements(weights.run)
                    target = weights.base + begin * weights.run.bytes_each
                    runs.append((at, ConstantRun(weights.constant, begin, size, target)))
        if runs:
            gathers = loaded_together(self.kernel, self.team, [run for _, run in runs])
            for (at, _), gather in zip(runs, gathers, strict=True):
                self.parts.setdefault(at, []).append(gather)

    def awaits(self, number: int) -> bool:
        """True if the loads of what is sent when a step begins have not been awaited before."""
        return number in self.parts and (number + 1) % self._together == 0

    def send(self, number: int) -> list[Gather]:
        """Send the parts of weights that are sent when a step begins to all tiles."""
        gathers = self.parts.get(number, [])
        for gather in gathers:
            gather.send()
        return gathers

    def _weights_of(self, number: int) -> StackWeights | None:
        """The weights of a step; tiles load parts of them."""
        if number not in self._made:
            stages = [stage for stage in self._steps[number].stages if stage.layer.kind.weighted]
            found = self._made[number] = weights_run(self.kernel, stages)
            if found is not None:
                self.kernel.constants.remove(found.constant)
                self.phase.weights |= found.addresses
        return self._made[number]
