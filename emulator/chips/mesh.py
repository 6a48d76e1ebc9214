"""A loaded program on several chips, all or some of them in this process.

Each chip advances as far as it can know the messages of the others. None arrives before the sender's promise
plus the latency of the links between them. The chip with the earliest promise can always advance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import TypeVar, Unpack

import numpy as np
from msgspec import UNSET

from asm.image import Image, image_of_chip
from emulator.chip.memories import Memories
from emulator.chip.options import DEFAULTS, RunOptions
from emulator.chip.pause import UNLIMITED
from emulator.memory.pages import SharedSegments
from emulator.timing.layout import HUGE
from emulator.timing.slices import Sink
from emulator.watch.strict.hazards import Hazard
from tx8isa.cost.instructions import ticks
from tx8isa.machine.chips import Chips
from tx8isa.machine.description import Machine, MachineError

from .linked_chip import LinkedChip, Outgoing
from .linked_time import LinkedSimulator
from .links import Hop, Passage
from .messages import Receipt
from .printed import PrintedText, PrintedTexts
from .standstill import Hindrance, StandingChips, Stillness, deadlock

Fact = TypeVar("Fact")


class ChipMesh:
    """All chips of a machine. ``watch`` gives the sinks of a chip, ``passed`` receives passages over links.

    ``numbers`` are the chips emulated here, in ascending order, by default all. A subclass decides who
    emulates the others. ``pages`` as for ``Memories``: pages that chips share. ``memories``: memories of all
    chips after loading, for repeated runs; without them new ones are made.
    """

    def __init__(
        self,
        image: Image,
        machine: Machine,
        *,
        watch: Callable[[int], Sequence[Sink]] | None = None,
        passed: Callable[[Passage], None] | None = None,
        numbers: Iterable[int] | None = None,
        pages: SharedSegments | None = None,
        memories: Sequence[Memories] = (),
        **options: Unpack[RunOptions],
    ) -> None:
        if machine.chips is UNSET:
            raise MachineError(f"machine {machine.name} has no table [chips]")
        self.image, self.machine, self._passed = image, machine, passed
        self._printed = PrintedTexts(options.get("show", DEFAULTS["show"]))
        self.chips: list[LinkedChip] = []
        for number in range(machine.chips.count) if numbers is None else numbers:
            own: RunOptions = {**options, "sinks": watch(number) if watch else ()}
            loaded = image_of_chip(image, number)
            first = self.chips[0].memories if self.chips else None
            kept = memories[number] if memories else Memories(loaded, machine, first, pages)
            chip = LinkedChip(loaded, machine, machine.chips, number, kept, **own)
            chip.show = partial(_keep, self._printed, chip.time, number, count())
            self.chips.append(chip)
        self._here = {chip.number: chip for chip in self.chips}
        self._ways = _ways(machine.chips)
        self._promises = np.zeros(machine.chips.count, dtype=np.int64)
        for chip in self.chips:
            self._promises[chip.number] = chip.promise
        self._in_vain: dict[int, int] = {}
        """By chip: the time up to which it advanced without effect, if nothing has reached it since then."""
        self._stood = StandingChips()
        self._moved = True

    @property
    def cycles(self) -> int:
        """Simulated cycles until the last tile of the chips here was done, so far."""
        return max(chip.time.cycles for chip in self.chips)

    def hazards(self) -> tuple[Hazard, ...]:
        """Return the findings of a strict run so far, by chip."""
        return tuple(h for chip in self.chips if chip.sanitizer for h in chip.sanitizer.hazards())

    def run(self, max_instructions: int | None = None) -> None:
        """Run until every tile of every chip has exited; Fault as ``System.run``.

        After a fault of a chip the others advance to its time, so that the first fault is found.
        """
        limit = UNLIMITED if max_instructions is None else max_instructions
        try:
            while True:
                if self._go_on(limit):
                    self._moved = True
                elif self._all_stand_still() and self._stand_still(limit):
                    break
        finally:
            for chip in self.chips:
                chip.ended()
            self._show(HUGE)

    def _go_on(self, limit: int) -> bool:
        """Let every chip make a step; return True if any had an effect."""
        worked = False
        for chip in self.chips:
            bound = self._bound(chip)
            if self._in_vain.get(chip.number) == bound:
                continue
            outgoing = chip.step(bound, limit)
            if outgoing.worked:
                self._in_vain.pop(chip.number, None)
            else:
                self._in_vain[chip.number] = bound
            self._promises[chip.number] = chip.promise
            self._dispatch(outgoing)
            worked |= outgoing.worked
        self._show(int(self._promises.min()))
        return worked

    def _bound(self, chip: LinkedChip) -> int:
        """Return the time before which only messages already on their way reach a chip."""
        others = int((self._promises + self._ways[:, chip.number]).min())
        return min(others, chip.next_leaving + 2 * chip.links.rates.latency)

    def _dispatch(self, outgoing: Outgoing) -> None:
        """Deliver the messages that leave a chip."""
        for hop, passage in outgoing.hops:
            self._forward(hop)
            if self._passed:
                self._passed(passage)
        for receipt, time in outgoing.receipts:
            self._return(receipt, time)

    def _forward(self, hop: Hop) -> None:
        """Deliver a message to the next chip of its way."""
        self._in_vain.pop(hop.chip, None)
        self._here[hop.chip].receive(hop)
        self._promises[hop.chip] = self._here[hop.chip].promise

    def _return(self, receipt: Receipt, time: int) -> None:
        """Deliver a receipt to the sender of a copy."""
        chip = self._here[receipt.origin.chip]
        self._in_vain.pop(chip.number, None)
        chip.confirm(receipt, time)
        self._promises[chip.number] = chip.promise

    def _show(self, before: int) -> None:
        """Show the text printed before a time."""
        self._printed.show(before)

    # -- standing still ----------------------------------------------------------------------------------

    def _all_stand_still(self) -> bool:
        """Return True if nothing is in transit on the chips of other ranks either."""
        return True

    def _of_all(self, fact: Fact) -> list[Fact]:
        """Gather a fact about the chips here with the facts of other ranks."""
        return [fact]

    def _stand_still(self, limit: int) -> bool:
        """Nothing is in transit: return True if the run is over; otherwise let polling tiles poll again.

        Fault if a chip has one, or if polling again changes nothing.
        """
        still = self._of_all(Stillness.of(self.chips, self._moved))
        failures = [failure for one in still for failure in one.failures]
        if failures:
            raise min(failures).fault
        if all(one.over for one in still):
            return True
        if any(one.moved for one in still):
            self._stood = StandingChips()
        self._moved = False
        if not any(one.polls for one in still) or all(self._of_all(self._stood.again(self.chips))):
            found = self._of_all([Hindrance.of(chip) for chip in self.chips])
            raise deadlock(one for some in found for one in some)
        now = max(one.now for one in still)
        self._in_vain.clear()
        for chip in self.chips:
            chip.time.now = now
            if chip.polls:
                chip.run_round(limit)
            self._promises[chip.number] = chip.promise
        return False


def _keep(
    printed: PrintedTexts, time: LinkedSimulator, chip: int, numbers: Iterator[int], file: int, data: bytes
) -> None:
    """Keep the text that a chip prints at its time."""
    printed.add(PrintedText(time.now, chip, next(numbers), file, data))


def _ways(chips: Chips) -> np.ndarray:
    """Return the least ticks from a message of one chip to its effect on another; none to itself."""
    latency, numbers = ticks(chips.latency.value), range(chips.count)
    ways = np.array([[chips.distance(a, b) * latency for b in numbers] for a in numbers], dtype=np.int64)
    np.fill_diagonal(ways, HUGE // 2)
    return ways
