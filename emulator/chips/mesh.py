"""A loaded program on several chips, all in this process.

Each chip goes on as far as it can know what the others send: nothing of theirs arrives before their promise
and the latency of the links between. The chip with the earliest promise can always go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Unpack

import numpy as np
from msgspec import UNSET

from asm.image import Image
from emulator.chip.memories import Memories
from emulator.chip.options import RunOptions
from emulator.chip.pause import UNLIMITED
from emulator.tile.fault import Fault
from emulator.timing.layout import HUGE
from emulator.timing.slices import Sink
from emulator.watch.strict.hazards import Hazard
from tx8isa.cost.instructions import ticks
from tx8isa.machine.chips import Chips
from tx8isa.machine.description import Machine, MachineError

from .linked_chip import LinkedChip, Outgoing
from .links import Passage

_MOST_SHOWN = 8
"""Tiles and links that the message about a deadlock names."""


class ChipMesh:
    """All chips of a machine. ``watch`` gives the sinks of a chip, ``passed`` receives what passes links."""

    def __init__(
        self,
        image: Image,
        machine: Machine,
        *,
        watch: Callable[[int], Sequence[Sink]] | None = None,
        passed: Callable[[Passage], None] | None = None,
        **options: Unpack[RunOptions],
    ) -> None:
        if machine.chips is UNSET:
            raise MachineError(f"machine {machine.name} has no table [chips]")
        chips = machine.chips
        self.image, self.machine, self._passed = image, machine, passed
        self.chips: list[LinkedChip] = []
        for number in range(chips.count):
            own: RunOptions = {**options, "sinks": watch(number) if watch else ()}
            memories = Memories(image, machine, self.chips[0].memories if number else None)
            self.chips.append(LinkedChip(image, machine, chips, number, memories, **own))
        self._ways = _ways(chips)
        self._promises = np.array([chip.promise for chip in self.chips], dtype=np.int64)
        self._stood = _Standing()

    @property
    def cycles(self) -> int:
        """Simulated cycles until the last tile of all chips was done, so far."""
        return max(chip.time.cycles for chip in self.chips)

    def hazards(self) -> tuple[Hazard, ...]:
        """What a strict run has found so far, by chip."""
        return tuple(h for chip in self.chips if chip.sanitizer for h in chip.sanitizer.hazards())

    def run(self, max_instructions: int | None = None) -> None:
        """Run until every tile of every chip has exited; Fault as ``System.run``."""
        limit = UNLIMITED if max_instructions is None else max_instructions
        try:
            while not all(chip.over for chip in self.chips):
                if self._go_on(limit):
                    self._stood = _Standing()
                else:
                    self._stand_still(limit)
        finally:
            for chip in self.chips:
                chip.ended()

    def _go_on(self, limit: int) -> bool:
        """Let every chip do a step; whether one has done anything."""
        worked = False
        for chip in self.chips:
            bound = self._bound(chip)
            with _naming(chip):
                outgoing = chip.step(bound, limit)
            self._promises[chip.number] = chip.promise
            self._dispatch(chip, outgoing)
            worked |= outgoing.worked
        return worked

    def _bound(self, chip: LinkedChip) -> int:
        """The time before which nothing comes to a chip that is not on its way there."""
        others = int((self._promises + self._ways[:, chip.number]).min())
        return min(others, chip.next_leaving + 2 * chip.links.rates.latency)

    def _dispatch(self, chip: LinkedChip, outgoing: Outgoing) -> None:
        """Bring what leaves a chip to where it goes."""
        for hop, passage in outgoing.hops:
            self.chips[hop.chip].receive(hop)
            self._promises[hop.chip] = self.chips[hop.chip].promise
            if self._passed:
                self._passed(passage)
        for receipt, time in outgoing.receipts:
            self.chips[receipt.origin.chip].confirm(receipt, time)
            self._promises[receipt.origin.chip] = self.chips[receipt.origin.chip].promise

    def _stand_still(self, limit: int) -> None:
        """Nothing is under way: let tiles that poll look again; Fault when that changes nothing."""
        if not any(chip.polls for chip in self.chips) or self._stood.again(self.chips):
            raise self._deadlock()
        now = max(chip.time.now for chip in self.chips)
        for chip in self.chips:
            chip.time.now = now
            if chip.polls:
                with _naming(chip):
                    chip.run_round(limit)
            self._promises[chip.number] = chip.promise

    def _deadlock(self) -> Fault:
        waits = [f"chip {chip.number}: {text}" for chip in self.chips for text in chip.traffic.standstill()]
        links = [
            f"{chip.number} -> {to} has carried {link.messages}"
            for chip in self.chips
            for to, link in chip.links.links.items()
            if link.messages
        ]
        carried = _some(links) if links else "none has carried anything"
        return Fault(
            f"the program can never go on: {_some(waits)}; no link has anything to carry ({carried})"
        )


class _Standing:
    """The state in which all chips have stopped, to see whether any can go on."""

    def __init__(self) -> None:
        self._registers: list[bytes] = []
        self._memory: list[bytes] = []

    def again(self, chips: Sequence[LinkedChip]) -> bool:
        """Whether the chips were in their present state before; memory is compared if registers agree."""
        registers = [chip.registers() for chip in chips]
        agrees, self._registers = registers == self._registers, registers
        memory = [chip.memory() for chip in chips] if agrees else []
        agrees, self._memory = agrees and memory == self._memory, memory
        return agrees


def _ways(chips: Chips) -> np.ndarray:
    """Least ticks from what one chip sends to what another one sees of it; none to itself."""
    latency, numbers = ticks(chips.latency.value), range(chips.count)
    ways = np.array([[chips.distance(a, b) * latency for b in numbers] for a in numbers], dtype=np.int64)
    np.fill_diagonal(ways, HUGE // 2)
    return ways


@contextmanager
def _naming(chip: LinkedChip) -> Iterator[None]:
    """Faults inside the block name the chip."""
    try:
        yield
    except Fault as fault:
        raise Fault(f"chip {chip.number}: {fault}") from None


def _some(texts: Sequence[str]) -> str:
    """The first of many texts."""
    more = len(texts) - _MOST_SHOWN
    return "; ".join(texts[:_MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")
