"""Ticks of one engine instruction, computed from the costs of its record on one machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from tx8isa.cost.instructions import cost, ddr_prices, evaluator
from tx8isa.machine.description import Machine
from tx8isa.records.record import Engine

from .demand import Demand, form_of

_MOST = 1 << 16
"""Most prices in the cache."""


class Price(NamedTuple):
    """The price of one instruction: ticks of its engine, DDR traffic, and bytes that leave by the mesh.

    ``ddr_ticks`` are those of the card's DDR for its bytes and runs. ``target_bytes``: the part of
    ``link_bytes`` that goes to each tile.
    """

    ticks: int
    ddr_bytes: int
    ddr_ticks: int
    link_bytes: int
    target_bytes: int = 0


class Pricing:
    """Prices on one machine. A price is computed once and then looked up."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self._ddr = machine, ddr_prices(machine)
        self._ticks: dict[str, tuple[int, Callable[[Sequence[int]], int]]] = {}
        """For each mnemonic: the ticks of any command, and the function that gives the ticks of its data."""
        self._known: dict[Demand, Price] = {}

    def price(self, demand: Demand) -> Price:
        """The price of an instruction."""
        known = self._known.get(demand)
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[demand] = self._priced(demand)
        return known

    def _priced(self, demand: Demand) -> Price:
        if demand.mnemonic not in self._ticks:
            record = form_of(demand.mnemonic).record
            of_record = cost(record, self.machine)
            self._ticks[demand.mnemonic] = of_record.fixed, evaluator(of_record.data, record)
        ticks, data = self._ticks[demand.mnemonic]
        if form_of(demand.mnemonic).record.engine is not Engine.DTE:
            ticks += data(demand.values)
        moved = demand.ddr_bytes
        ddr = self._ddr.ticks(moved, demand.ddr_runs) if moved or demand.ddr_runs else 0
        return Price(ticks, moved, ddr, demand.link_bytes, demand.target_bytes)


@lru_cache(maxsize=16)
def pricing_of(machine: Machine) -> Pricing:
    """The prices on a machine, which all compilations of a process share."""
    return Pricing(machine)
