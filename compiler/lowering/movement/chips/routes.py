"""The messages of an exchange between chips, and the time that the links take for them.

An exchange is a series of rounds; the messages of a round are in transit at the same time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from msgspec import UNSET

from compiler.graph import GraphError
from compiler.operators.domains.chips.collectives import ALL_REDUCE, DIRECT, DOUBLING, DUAL, RING, TREE, WAYS
from tx8isa.cost.rates import chip_link_rate
from tx8isa.machine.chips import Chips
from tx8isa.machine.description import Machine

from .trees import Groups, is_composite, tree_of

_INSTRUCTIONS = 45
"""Instructions of the kernel core that send a message and that wait for one."""

_STEPS = {RING: (1,), DUAL: (1, -1)}
"""Distances of a member's partners after it on a ring."""


class RoundOfMessages(NamedTuple):
    """Messages in transit at once, as shares of the tensor of a group."""

    busiest: float
    """The share on the busiest link."""
    share: float
    """The share of one message."""
    distance: int
    """Links on the longest way."""
    mean_distance: float
    sends: int
    """Messages of each member in a round, one after another."""


@lru_cache(maxsize=256)
def rounds_of(chips: Chips, groups: Groups, op: str, way: str) -> tuple[RoundOfMessages, ...]:
    """The rounds of an exchange, one after another; every member sends a part of the tensor in each of them.

    All groups exchange at the same time, and share the links.
    """
    members = len(groups[0])
    if way in (TREE, DOUBLING):
        share, rounds = 1.0, []
        for number, level in enumerate(tree_of(chips, groups).levels):
            share /= level.fan if way == TREE else 1
            rounds.append(_round(chips, groups, way, share, number))
    else:
        share = 1 / members / (2 if way == DUAL else 1)
        rounds = [_round(chips, groups, way, share)] * (1 if way == DIRECT else members - 1)
    return tuple(rounds) * (2 if op == ALL_REDUCE and way != DOUBLING else 1)


def _round(chips: Chips, groups: Groups, way: str, share: float, level: int = 0) -> RoundOfMessages:
    loads, longest, sends = Counter[tuple[int, int]](), 0, 0
    partners = partners_of(chips, groups, way)
    for source, others in partners.items():
        targets = [other.target for other in others if other.level == level]
        longest = max(longest, *(_pass(chips, source, target, loads) for target in targets))
        sends = len(targets)
    mean = sum(loads.values()) / (sends * len(partners))
    busiest = max(loads.values()) * share
    return RoundOfMessages(busiest, share, longest, mean, 1 if way == DUAL else sends)


class Partner(NamedTuple):
    """A chip to which a member sends, and the chip from which it receives at the same time."""

    target: int
    source: int
    level: int = 0
    """The level of the tree on which these chips exchange; 0 where there is no tree."""


def partners_of(chips: Chips, groups: Groups, way: str) -> dict[int, list[Partner]]:
    """The partners of each chip, in the order in which the chip sends to them.

    In a dual ring the first partner is that of the first direction, the second that of the other direction.
    """
    if way in (TREE, DOUBLING):
        return _siblings(chips, groups)
    found = {}
    for group in groups:
        size, steps = len(group), _STEPS.get(way, tuple(-number for number in range(1, len(group))))
        for place, chip in enumerate(group):
            found[chip] = [Partner(group[(place + by) % size], group[(place - by) % size]) for by in steps]
    return found


def _siblings(chips: Chips, groups: Groups) -> dict[int, list[Partner]]:
    levels = tree_of(chips, groups).levels
    return {
        chip: [
            Partner(members[level.turned(place, by)], members[level.turned(place, -by)], number)
            for number, level in enumerate(levels)
            for by in range(1, level.fan)
        ]
        for members in map(sorted, groups)
        for place, chip in enumerate(members)
    }


def copies_at_once(way: str) -> int:
    """Copies to other chips that a tile has in transit at a time, each with a block of the DTE."""
    return 3 if way == DIRECT else 2


class WayOfPairs(NamedTuple):
    """The load of links when the first chip of every pair sends a tensor to the second."""

    busiest: int
    """Number of messages on the busiest link."""
    distance: int
    """Links on the longest way."""


@lru_cache(maxsize=256)
def way_of_pairs(chips: Chips, pairs: Groups) -> WayOfPairs:
    """The route of a tensor from the first chip of every pair to the second; all pairs send at once."""
    loads = Counter[tuple[int, int]]()
    longest = max(_pass(chips, source, target, loads) for source, target in pairs)
    return WayOfPairs(max(loads.values()), longest)


def _pass(chips: Chips, source: int, target: int, loads: Counter[tuple[int, int]]) -> int:
    """Count a message on each link of its route; return the number of links."""
    links = 0
    while source != target:
        following = chips.next_hop(source, target)
        loads[source, following] += 1
        source, links = following, links + 1
    return links


@dataclass(frozen=True)
class LinkPrice:
    """Cycles of an exchange of ``size`` bytes, the tensor of a whole group, by ``tiles`` tiles of a chip."""

    machine: Machine
    op: str
    groups: Groups
    size: int
    tiles: int

    @property
    def chips(self) -> Chips:
        return _chips_of(self.machine)

    def bound(self, way: str) -> float:
        """Latencies and bytes of the rounds one after another, without other costs: the alpha-beta bound."""
        latency = self.chips.latency.value
        return sum(turn.distance * latency + self._on_links(turn) for turn in self._rounds(way))

    def cycles(self, way: str) -> float:
        """Cycles of the rounds with a tile's own messages; other tiles send meanwhile.

        The first execution of the exchange's code costs more, which is not included.

        A round takes as long as the busiest link carries messages. If longer, it takes as long as a tile
        needs to send its own messages, receive those of others and add them. Then come the first load and the
        last store, with the latencies of the permission to write and of the completion.
        """
        timing, latency, turns = self.machine.timing, self.chips.latency.value, self._rounds(way)
        core = timing.core
        command = timing.issue.of("wdma").value + core.join.value + core.join_worker.value
        around = 2 * (latency + command) + timing.rdma.fixed.value + timing.wdma.fixed.value
        around += min(self._of_a_tile(turns[-1], way), self._on_links(turns[-1]))
        return sum(max(self._of_a_tile(turn, way), self._on_links(turn)) for turn in turns) + around

    def _rounds(self, way: str) -> tuple[RoundOfMessages, ...]:
        return rounds_of(self.chips, self.groups, self.op, way)

    def _on_links(self, turn: RoundOfMessages) -> float:
        return turn.busiest * self.size / self._rate

    def _of_a_tile(self, turn: RoundOfMessages, way: str) -> float:
        """Cycles until a tile has sent its messages, and has received and added the messages of others."""
        timing, tiles = self.machine.timing, self.tiles // (2 if way == DUAL else 1)
        core = timing.core
        command = timing.issue.of("ct").value + core.join.value + core.join_worker.value
        return (
            self._sending(turn, way)
            + turn.distance * self.chips.latency.value
            + command
            + 2 * core.register_read.value
            + turn.share * self.size / tiles / self._rate
        )

    def _sending(self, turn: RoundOfMessages, way: str) -> float:
        """Cycles until the last message of a tile leaves: the number of copies in transit is limited."""
        dte = self.machine.timing.dte
        send = dte.issue.value + _INSTRUCTIONS * self.machine.timing.core.instruction.value
        there_and_back = dte.fixed.value + 2 * turn.mean_distance * self.chips.latency.value
        now, done = 0.0, [0.0] * copies_at_once(way)
        for number in range(turn.sends):
            place = number % len(done)
            now = max(now, done[place]) + send
            done[place] = now + there_and_back
        return now + dte.fixed.value

    def best(self) -> str:
        """The method that takes the fewest cycles; of equal ones the first."""
        return min(filter(self._has, WAYS), key=self.cycles)

    def _has(self, way: str) -> bool:
        """True if the method is possible. Two rings share an even number of tiles."""
        members = len(self.groups[0])
        if way == DOUBLING:
            return self.op == ALL_REDUCE and members & (members - 1) == 0
        return (way != DUAL or self.tiles % 2 == 0) and (way != TREE or is_composite(members))

    @property
    def _rate(self) -> float:
        return chip_link_rate(self.machine)


@dataclass(frozen=True)
class SendPrice:
    """Cycles in which the first chip of every pair sends ``size`` bytes to the second; all pairs send at
    once.

    ``GraphError`` on a machine without links.
    """

    machine: Machine
    pairs: Groups
    size: int

    @property
    def latency(self) -> float:
        """Latency of the longest route."""
        return self._way.distance * _chips_of(self.machine).latency.value

    @property
    def links(self) -> float:
        """Cycles until the busiest link has carried everything."""
        return self._way.busiest * self.size / chip_link_rate(self.machine)

    @property
    def cycles(self) -> float:
        """Cycles until the sender knows that everything has arrived."""
        dte = self.machine.timing.dte
        return dte.issue.value + dte.fixed.value + self.links + 2 * self.latency

    @property
    def _way(self) -> WayOfPairs:
        return way_of_pairs(_chips_of(self.machine), self.pairs)


def _chips_of(machine: Machine) -> Chips:
    if machine.chips is UNSET:
        raise GraphError([f"machine {machine.name} has no links between chips"])
    return machine.chips
