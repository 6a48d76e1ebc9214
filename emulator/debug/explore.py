"""``--explore N``: runs the program in N other orders that the queues permit, and compares the results.

In every order each decision is random: which entry is executed next among those of all workers that may
begin, and if one is executed right after an instruction was issued although nothing waits for it. One of the
orders is serial mode. If the memories differ at the end, bisection finds the first decision that makes them
differ. The order makes the decisions up to some number; all later decisions are the usual ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from emulator.chip.system import System
from emulator.debug.snapshot.memory import save_ddr, save_spm
from emulator.engines import queues, tables
from emulator.memory import state
from emulator.tile.fault import Fault
from emulator.watch.strict.hazards import Hazard, Site, make_site
from tx8isa.tools.command_line import note, print_out

Start = Callable[[bool, bool], System]
"""(serial mode, strict) -> the system with the program and its inputs in place, not yet run."""
_WORDS = 8


@dataclass(frozen=True)
class Outcome:
    """The result of a run: its fault, if it had one, and the memories."""

    fault: str
    memories: tuple[object, ...]
    """DDR, then the SPM of each tile, as ``snapshot.memory`` saves them."""
    decisions: tuple[int, ...]
    """Numbers of decisions, by tile."""
    last: tuple[tuple[int, int, int], ...]
    """For each tile: counter, record and worker of the instruction that the last decision executed."""

    def same(self, other: Outcome) -> bool:
        return self.fault == other.fault and self.memories == other.memories

    def difference(self, other: Outcome) -> str:
        """Return the difference of two outcomes as text."""
        if self.fault != other.fault:
            return (
                f"the usual order ends with {self.fault or 'no fault'}, this one with {other.fault or 'none'}"
            )
        pairs = enumerate(zip(self.memories, other.memories, strict=True))
        different = [number for number, (one, two) in pairs if one != two]
        return "different: " + ", ".join("DDR" if n == 0 else f"the SPM of tile {n - 1}" for n in different)


@dataclass(frozen=True)
class Difference:
    """An order with another result, because ``at`` was executed earlier or later than usual.

    ``hazard`` is the hazard that the sanitizer finds for this instruction, if any.
    """

    order: str
    where: str
    at: Site | None
    hazard: Hazard | None

    @property
    def text(self) -> str:
        """The difference as one line."""
        pair = ""
        if self.hazard is not None:
            pair = f"; the first pair whose order mattered: {self.hazard.text}"
        elif self.at is not None:
            pair = f"; the first instruction whose order mattered: {self.at.text}"
        return f"{self.order}: {self.where}{pair}"


def explore(start: Start, orders: int, seed: int, limit: int | None = None) -> Iterator[Difference]:
    """Run ``orders`` other orders; yield those whose result differs from the usual order's.

    The first one has the reason too, if it can be found, which takes some twenty more runs. ``limit`` is that
    of ``System.run``. Faults are part of a result, so none is raised.
    """
    explorer, explained = _Explorer(start, limit), False
    for number in range(orders):
        if number == 0:
            outcome = explorer.run(start(True, False), None, ())
            if not outcome.same(explorer.usual):
                yield Difference(
                    "serial mode", explorer.usual.difference(outcome), None, explorer.any_hazard()
                )
        else:
            chosen = seed * 1_000_003 + number
            outcome = explorer.random_run(chosen, explorer.everything)
            if not outcome.same(explorer.usual):
                name = f"order {number} of seed {seed}"
                if explained:
                    yield Difference(name, explorer.usual.difference(outcome), None, None)
                else:
                    explained = True
                    yield explorer.explain(chosen, name, outcome)


def show_orders(
    start: Start, orders: int, seed: int, limit: int | None, program: str, quiet: bool = False
) -> list[Difference]:
    """Explore, print the orders that differ, and the count unless ``quiet``; return the differences."""
    found = []
    for difference in explore(start, orders, seed, limit):
        found.append(difference)
        note(f"{program}: {difference.text}")
    text = f"{orders} orders" if orders != 1 else "1 order"
    if not quiet:
        print_out(f"{text}, {f'{len(found)} different' if found else 'all the same'}")
    return found


class _Explorer:
    """Runs orders and compares them with the usual one."""

    def __init__(self, start: Start, limit: int | None) -> None:
        self.start, self.limit = start, limit
        system = start(False, False)
        self.tiles = len(system.tiles)
        self.slots = system.engines.slots
        self.usual = self.run(system, None, ())
        self.everything = (1 << 62,) * self.tiles
        self._hazards: tuple[Hazard, ...] | None = None

    def run(self, system: System, seed: int | None, limits: tuple[int, ...]) -> Outcome:
        """Return the outcome of a run whose first ``limits`` decisions of each tile are random."""
        words = np.zeros((self.tiles, _WORDS), np.int64)
        if seed is not None:
            for tile, row, limit in zip(system.tiles, words, limits, strict=True):
                row[queues.X_SEED], row[queues.X_LIMIT] = seed + (tile.number << 32), limit
                tile.words[state.ORDER] = row.ctypes.data
        try:
            system.run(self.limit)
            fault = ""
        except Fault as error:
            fault = str(error)
        reset = system.machine.spm.reset_byte
        memories = (save_ddr(system), *(save_spm(tile.spm, reset) for tile in system.tiles))
        decisions = tuple(words[:, queues.X_COUNT].tolist())
        last = [queues.X_PC, queues.X_RECORD, queues.X_WORKER]
        return Outcome(fault, memories, decisions, tuple(map(tuple, words[:, last].tolist())))

    def random_run(self, seed: int, limits: tuple[int, ...]) -> Outcome:
        """Run in a random order, with kernels that are compiled already, so that no decision depends on
        them."""
        system = self.start(False, False)
        system.engines.slots = system.slots = self.slots
        for tile in system.tiles:
            tile.words[state.KERNELS] = self.slots.address
        return self.run(system, seed, limits)

    def explain(self, seed: int, order: str, outcome: Outcome) -> Difference:
        """Find the first decision that made an outcome differ."""
        where, counts = self.usual.difference(outcome), outcome.decisions
        for tile in range(self.tiles):
            limits = (*counts[: tile + 1], *[0] * (self.tiles - tile - 1))
            if not self.random_run(seed, limits).same(self.usual):
                break
        same, different = 0, counts[tile]
        last = None
        while different - same > 1 or last is None:
            middle = (same + different) // 2 if different - same > 1 else different
            found = self.random_run(seed, (*counts[:tile], middle, *[0] * (self.tiles - tile - 1)))
            if found.same(self.usual):
                same = middle
            else:
                different, last = middle, found.last[tile]
        pc, record, worker = last
        system = self.start(False, False)
        site = make_site(system.image, tile, pc, tables.records()[record].mnemonic, worker)
        return Difference(order, where, site, self._hazard(site))

    def _hazard(self, site: Site) -> Hazard | None:
        """Return the hazard that an instruction is part of."""
        return next((h for h in self._found() if site in (h.at, h.other)), None)

    def any_hazard(self) -> Hazard | None:
        """Return the first hazard of the program."""
        return next(iter(self._found()), None)

    def _found(self) -> tuple[Hazard, ...]:
        if self._hazards is None:
            system = self.start(False, True)
            with suppress(Fault):  # the usual order may fault too; hazards found before that count
                system.run(self.limit)
            if system.sanitizer is None:
                raise AssertionError("a strict system has a sanitizer")
            self._hazards = system.sanitizer.hazards()
        return self._hazards
