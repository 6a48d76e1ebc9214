"""The links that leave a chip: each carries one message at a time, in the order in which they reach it.

A message reaches the next chip after the latency, and its bytes follow at the rate of the link. Every chip
on the way forwards it as soon as its first byte is there. Times are ticks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from emulator.timing.layout import HUGE
from tx8isa.cost.instructions import TICKS, ticks
from tx8isa.cost.rates import chip_link_rate
from tx8isa.machine.chips import Chips
from tx8isa.machine.description import Machine

from .messages import Sent

OWN = -1
"""The entrance of messages from the chip itself."""
_KILO = 1000


class Hop(NamedTuple):
    """A message that has passed a link."""

    time: int
    """Time at which its first byte reaches the chip."""
    source: int
    """The neighbour that it comes from."""
    number: int
    """Number of messages that passed that link before it."""
    chip: int
    """The chip that receives it."""
    message: Sent


class Passage(NamedTuple):
    """A message on a link: when its first byte left, when its last byte left, and how long it waited."""

    source: int
    chip: int
    begin: int
    end: int
    waited: int
    message: Sent


@dataclass
class ChipLink:
    """One direction between two chips, and its traffic so far."""

    free: int = 0
    """Time at which it can take the next message."""
    messages: int = 0
    bytes: int = 0
    busy: int = 0
    """Ticks during which it carried messages."""
    waited: int = 0
    """Ticks that messages have waited for it."""


class Rates(NamedTuple):
    """Latency and rate of a link."""

    latency: int
    kilocycle: int
    """Bytes in 1000 cycles."""

    def ticks(self, size: int) -> int:
        """Return the ticks that ``size`` bytes take."""
        return size * _KILO * TICKS // self.kilocycle


def rates(machine: Machine, chips: Chips) -> Rates:
    """Return latency and rate of the links of a machine."""
    return Rates(ticks(chips.latency.value), max(round(chip_link_rate(machine) * _KILO), 1))


class ChipLinks:
    """The links of one chip, and the messages that wait for them."""

    def __init__(self, number: int, chips: Chips, link_rates: Rates) -> None:
        self.number, self.chips, self.rates = number, chips, link_rates
        self.links = {neighbour: ChipLink() for neighbour in chips.neighbours(number)}
        """The links of this chip, keyed by the chip that they lead to."""
        self._waiting: list[tuple[int, int, int, int, Sent]] = []
        """Time and entrance of each message, and its order among messages that share both."""

    @property
    def next_time(self) -> int:
        """Return the time at which the next message reaches a link; ``HUGE`` when none waits."""
        return self._waiting[0][0] if self._waiting else HUGE

    def leave(self, message: Sent, time: int) -> None:
        """Put a message of the chip itself on its link."""
        _, tile, ticket = message.origin
        heappush(self._waiting, (time, OWN, tile, ticket, message))

    def pass_on(self, hop: Hop) -> None:
        """Forward a message for another chip that came from a neighbour."""
        heappush(self._waiting, (hop.time, hop.source, hop.number, 0, hop.message))

    def forward(self, before: int) -> Iterator[tuple[Hop, Passage]]:
        """Send all messages that reach a link before a time; no other can come before it."""
        while self.next_time < before:
            time, _, _, _, message = heappop(self._waiting)
            neighbour = self.chips.next_hop(self.number, message.chip)
            link, length = self.links[neighbour], self.rates.ticks(message.size)
            begin = max(time, link.free)
            hop = Hop(begin + self.rates.latency, self.number, link.messages, neighbour, message)
            link.free = begin + length
            link.messages += 1
            link.bytes += message.size
            link.busy += length
            link.waited += begin - time
            yield hop, Passage(self.number, neighbour, begin, link.free, begin - time, message)
