"""Arrival times of messages between chips, by hand: rates and latencies of links, and queues."""

from __future__ import annotations

import random
from fractions import Fraction

import msgspec
import pytest

from chip_programs import Case, chips_of, machine
from chip_senders import PAIR, copy, parts, ran, ready, register, wait
from emulator.chip.stream import Update
from emulator.chips.links import OWN, ChipLinks, Hop, rates
from emulator.chips.mesh import ChipMesh
from emulator.chips.messages import MessageOrigin, RemoteUpdate
from emulator.tile.events import Packet
from time_bench import warm
from tx8isa.machine.chips import Chips
from tx8isa.machine.description import Machine, load_machine
from tx8isa.machine.ends import End, at_end

TICKS = 1000
TIMING, LATENCY = load_machine().timing, 1000
WARM = warm(PAIR)
"""Programs of different lengths take no different time for code that is new."""
RATE = 25
"""Bytes a cycle: 25 GB/s at 1 GHz."""


def of_chip(mesh: ChipMesh, hart: int) -> Fraction:
    """Return the end of a hart in cycles, without the fixed time of a program."""
    chip, tile = divmod(hart, mesh.machine.tiles)
    return Fraction(mesh.chips[chip].time.ends[tile], TICKS) - Fraction(str(TIMING.core.program.value))


def test_a_packet_of_each_size_arrives_when_link_and_latency_say() -> None:
    """Two sizes differ by their bytes at the rate of the link, at the receiver and at the sender."""
    ends = []
    for size in (64, 1064):
        mesh = ran(parts(h0=copy(length=size), h3=ready(size) + wait()), WARM)
        ends.append((of_chip(mesh, 0), of_chip(mesh, 3)))
    (sender, receiver), (later_sender, later_receiver) = ends
    assert later_sender - sender == later_receiver - receiver == Fraction(1000, RATE)
    assert 900 < sender - receiver < 1100  # the receipt needs the latency


@pytest.mark.parametrize(("shape", "links"), [("mesh", [1, 2, 3, 4]), ("torus", [1, 2, 2, 1])])
def test_each_link_of_the_way_takes_its_latency_twice(shape: str, links: list[int]) -> None:
    """There and back, for the sender."""
    found = machine(5, 1, tiles=1, shape=shape)
    ends = [of_chip(ran(parts(h0=copy(found, hart, user=0)), found), 0) for hart in range(1, 5)]
    assert [(end - ends[0]) / (2 * LATENCY) for end in ends] == [count - 1 for count in links]


@pytest.mark.parametrize("end", [End.LEAST, End.MOST])
def test_the_latency_has_a_range(end: End) -> None:
    latency = chips_of(PAIR).latency
    extreme = {End.LEAST: latency.least, End.MOST: latency.most}[end]
    plain, other = (ran(parts(h0=copy(user=0)), found) for found in (PAIR, with_latency(extreme)))
    assert of_chip(other, 0) - of_chip(plain, 0) == 2 * (Fraction(str(extreme)) - LATENCY)
    assert chips_of(at_end(PAIR, end)).latency.value == extreme


def with_latency(value: object) -> Machine:
    """The pair with links of another latency."""
    chips = chips_of(PAIR)
    latency = msgspec.structs.replace(chips.latency, value=value)
    return msgspec.structs.replace(PAIR, chips=msgspec.structs.replace(chips, latency=latency))


def test_a_receiver_has_waited_since_it_came_to_its_wait() -> None:
    """Polls take no time, however often the emulator lets a tile poll."""
    early = ran(parts(h0=copy(), h3=ready() + wait()), WARM)
    delay = " li t4, 20000\n7: addi t4, t4, -1\n bnez t4, 7b\n"
    late = ran(parts(h0=copy(), h3=ready() + delay + wait()), WARM)
    assert of_chip(early, 0) == of_chip(late, 0)
    assert of_chip(late, 3) > of_chip(early, 3) + 20000


def test_two_tiles_share_a_link() -> None:
    """Both need it at once, so the second one waits while the bytes of the first one pass."""
    size = 5000
    sender = copy(length=size, user=0)
    alone = ran(parts(h0=sender), WARM)
    both = ran(parts(h0=sender, h1=sender), WARM)
    ends = sorted(of_chip(both, hart) for hart in (0, 1))
    assert ends[0] - of_chip(alone, 0) < 20  # the other instructions before
    assert 0 <= Fraction(size, RATE) - (ends[1] - ends[0]) < 20
    link = both.chips[0].links.links[1]
    assert (link.messages, link.bytes, link.busy) == (2, 2 * size, 2 * size * TICKS // RATE)
    assert 0 < link.waited <= size * TICKS // RATE


# -- links by themselves -----------------------------------------------------------------------------------


def message(ticket: int, size: int, target: int) -> RemoteUpdate:
    """Something of a size for a chip."""

    class Sized(RemoteUpdate):
        __slots__ = ()

        @property
        def size(self) -> int:
            return size

    return Sized(MessageOrigin(0, 0, ticket), target, Update(0, Packet(32, 0), "", target), None)


@pytest.mark.parametrize("seed", range(5))
def test_a_link_is_a_queue(seed: int) -> None:
    """Compared with the recurrence begin = max(arrival, end of the one before), in the order of arrival."""
    rng, chips = random.Random(seed), chips_of(machine(2, 1))
    links = ChipLinks(0, chips, rates(PAIR, chips))
    given = [(rng.randrange(50_000), rng.randrange(5000)) for _ in range(40)]
    for ticket, (time, size) in enumerate(given):
        links.leave(message(ticket, size, 1), time)
    found = [hop for before in (20_000, 35_000, 10**9) for hop, _ in links.forward(before)]
    free, expected = 0, []
    for time, ticket, size in sorted((time, ticket, size) for ticket, (time, size) in enumerate(given)):
        begin = max(time, free)
        free = begin + size * TICKS // RATE
        expected.append((begin + LATENCY * TICKS, ticket))
    assert [(hop.time, hop.message.origin.ticket) for hop in found] == expected


def test_what_passes_through_waits_in_line() -> None:
    """A message from a neighbour and one of the chip itself need the same link; the chip's own message goes
    first."""
    chips = chips_of(machine(3, 1))
    links = ChipLinks(1, chips, rates(PAIR, chips))
    links.pass_on(Hop(500, 0, 0, 1, message(0, 100, 2)))
    links.leave(message(1, 200, 2), 500)
    links.leave(message(2, 200, 0), 500)
    found = [
        (hop.message.origin.ticket, hop.chip, hop.time - LATENCY * TICKS) for hop, _ in links.forward(501)
    ]
    assert found == [(1, 2, 500), (2, 0, 500), (0, 2, 500 + 8000)]
    assert OWN < 0


@pytest.mark.parametrize("shape", ["mesh", "torus"])
@pytest.mark.parametrize(("x", "y"), [(4, 8), (5, 3), (1, 7), (2, 2)])
def test_ways_are_as_short_as_can_be(x: int, y: int, shape: str) -> None:
    """Next hops lead to the target along x, then y, in as many links as a search over neighbours needs."""
    chips = Chips(x, y, shape, load_machine("tx81-2x1").chips.latency)  # type: ignore[arg-type, union-attr]
    for source in range(chips.count):
        distances, edge = {source: 0}, [source]
        for chip in edge:
            for other in chips.neighbours(chip):
                if other not in distances:
                    distances[other] = distances[chip] + 1
                    edge.append(other)
        for target in range(chips.count):
            assert chips.distance(source, target) == distances[target]
            at, way = source, [source]
            while at != target:
                at = chips.next_hop(at, target)
                assert at in chips.neighbours(way[-1])
                way.append(at)
            assert len(way) == 1 + distances[target]
            columns = [chips.xy(chip)[0] for chip in way]
            turned = columns.index(chips.xy(target)[0])
            assert len(set(columns[turned:])) == 1


def test_the_time_of_a_machine_with_fewer_chips_is_that_of_one_chip() -> None:
    """A program that sends nothing takes as long on each of several chips as on one."""
    case = Case.random(5, machine(1, 1, tiles=2), 0)
    assert {end for chip in case.run().chips for end in chip.time.ends} == set(case.run().chips[0].time.ends)
    assert register(case.run(), 0, 8) == 0


def test_a_program_measures_what_a_copy_takes() -> None:
    """The counter of cycles advances while the tile waits for the receipt; other tiles poll meanwhile."""
    measured = " csrr s4, cycle\n" + copy() + " csrr s5, cycle\n"
    mesh = ran(parts(h0=measured, h1=ready() + wait(), h3=ready() + wait() + reply()))
    taken = register(mesh, 0, 21) - register(mesh, 0, 20)
    dte = TIMING.dte
    least = dte.issue.value + dte.fixed.value + dte.first.value + 64 / RATE + 2 * LATENCY
    assert least < taken < least + 500


def reply() -> str:
    """A copy from hart 3 to hart 1, so that it can end."""
    return copy(hart=1).replace("5:", "4:").replace("5b", "4b")
