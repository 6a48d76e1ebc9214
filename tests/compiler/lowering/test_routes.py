"""What links carry in exchanges between chips, and which way of an exchange has the lowest price."""

from __future__ import annotations

import pytest
from msgspec import UNSET, structs

from chip_nets import exchange
from compiler.graph import GraphError
from compiler.lowering.movement.chips.routes import (
    Groups,
    LinkPrice,
    SendPrice,
    round_of,
    rounds_of,
    way_of_pairs,
)
from compiler.operators.domains.chips.collectives import ALL_GATHER, ALL_REDUCE, DIRECT, DUAL, RING, SEND
from compiler.passes.compilation import context_of, run_passes
from tx8isa.machine.chips import Chips
from tx8isa.machine.description import Machine, load_machine

SQUARE: Groups = ((0, 2, 3, 1),)


def chips_of(x: int, y: int, shape: str = "mesh") -> Chips:
    chips = load_machine(None).of_chips(x, y).chips
    assert chips is not UNSET
    return structs.replace(chips, shape=shape)


def price(machine: Machine, size: int, groups: Groups = SQUARE, tiles: int = 16) -> LinkPrice:
    return LinkPrice(machine, ALL_REDUCE, groups, size, tiles)


@pytest.mark.parametrize(
    ("chips", "groups", "way", "busiest", "distance"),
    [
        (chips_of(2, 2), SQUARE, RING, 1 / 4, 1),
        (chips_of(2, 2), SQUARE, DUAL, 1 / 8, 1),
        (chips_of(2, 2), SQUARE, DIRECT, 2 / 4, 2),  # its neighbour's, and what that one sends on
        (chips_of(4, 1), ((0, 1, 2, 3),), RING, 1 / 4, 3),  # the way back uses the other directions
        (chips_of(4, 1), ((0, 1, 2, 3),), DUAL, 2 / 8, 3),
        (chips_of(4, 1, "torus"), ((0, 1, 2, 3),), DUAL, 1 / 8, 1),
        (chips_of(2, 2), ((0, 2), (1, 3)), RING, 1 / 2, 1),
        (chips_of(4, 1), ((0, 2), (1, 3)), RING, 2 / 2, 2),  # both groups use the link in the middle
    ],
)
def test_links_of_a_round(chips: Chips, groups: Groups, way: str, busiest: float, distance: int) -> None:
    found = round_of(chips, groups, way)
    assert found.busiest == pytest.approx(busiest)
    assert found.distance == distance


def test_the_bound_is_that_of_the_textbook() -> None:
    machine = load_machine(None).of_chips(2, 2)
    size, rate, latency = 1 << 20, 25, 1000
    assert price(machine, size).bound(RING) == pytest.approx(6 * (latency + size / 4 / rate))
    assert price(machine, size).bound(DUAL) == pytest.approx(6 * (latency + size / 8 / rate))
    assert price(machine, size).bound(DIRECT) == pytest.approx(2 * (2 * latency + size / 2 / rate))


def test_rounds() -> None:
    assert [rounds_of(ALL_REDUCE, 8, way) for way in (RING, DUAL, DIRECT)] == [14, 14, 2]
    assert [rounds_of(ALL_GATHER, 8, way) for way in (RING, DUAL, DIRECT)] == [7, 7, 1]


def test_small_tensors_go_directly_and_large_ones_in_two_rings() -> None:
    machine = load_machine(None).of_chips(2, 2)
    assert [price(machine, size).best() for size in (1 << 12, 1 << 24)] == [DIRECT, DUAL]


def test_tiles_that_cannot_be_halved_form_no_two_rings() -> None:
    machine = load_machine(None).of_chips(2, 2)
    assert price(machine, 1 << 24, tiles=1).best() != DUAL


def test_two_rings_gain_nothing_on_a_line() -> None:
    machine = load_machine(None).of_chips(4, 1)
    assert price(machine, 1 << 24, ((0, 1, 2, 3),)).best() == RING


def test_the_estimate_of_an_exchange_is_at_least_its_price() -> None:
    machine = load_machine(None).of_chips(2, 2)
    graph = exchange(ALL_REDUCE, (1 << 18,), chips=SQUARE[0], members=4, way=DUAL)
    context = context_of(graph, "fp32", None, machine, spread=True)
    run_passes(context, {}, None)
    assert context.results[0].best.cycles == round(price(machine, 1 << 20).cycles(DUAL))


@pytest.mark.parametrize(
    ("chips", "pairs", "busiest", "distance"),
    [
        (chips_of(2, 1), ((0, 1),), 1, 1),
        (chips_of(2, 2), ((0, 2), (1, 3)), 1, 1),
        (chips_of(2, 2), ((0, 3),), 1, 2),
        (chips_of(4, 1), ((0, 2), (1, 3)), 2, 2),  # the link in the middle carries both
        (chips_of(4, 1), ((0, 3),), 1, 3),
        (chips_of(4, 1, "torus"), ((0, 3),), 1, 1),
    ],
)
def test_links_of_pairs(chips: Chips, pairs: Groups, busiest: int, distance: int) -> None:
    assert way_of_pairs(chips, pairs) == (busiest, distance)


def test_the_price_of_what_a_stage_sends() -> None:
    machine = load_machine(None).of_chips(4, 1)
    near, far = (SendPrice(machine, pairs, 1 << 20) for pairs in (((0, 1),), ((0, 2), (1, 3))))
    assert (near.links, near.latency) == (pytest.approx((1 << 20) / 25), 1000)
    assert (far.links, far.latency) == (pytest.approx(2 * (1 << 20) / 25), 2000)
    dte = machine.timing.dte
    start = dte.issue.value + dte.fixed.value
    assert near.cycles == pytest.approx(start + (1 << 20) / 25 + 2 * 1000)


def test_a_machine_without_links_has_no_price_of_messages() -> None:
    machine = structs.replace(load_machine(None), chips=UNSET)
    with pytest.raises(GraphError, match="machine tx81 has no links between chips"):
        _ = SendPrice(machine, ((0, 1),), 64).cycles


@pytest.mark.parametrize("background", [0, 1])
def test_a_stage_that_waits_until_all_is_sent_takes_the_price_of_it(background: int) -> None:
    machine = load_machine(None).of_chips(2, 1)
    attrs = {"chips": (0, 1), "members": 2, "inbox": 0, "channel": 0, "full": 0}
    graph = exchange(SEND, (1 << 18,), background=background, **attrs)
    context = context_of(graph, "fp32", None, machine, spread=True)
    run_passes(context, {}, None)
    price = round(SendPrice(machine, ((0, 1),), 1 << 20).cycles)
    cycles = context.results[0].best.cycles
    assert cycles is not None
    assert cycles < 1000 if background else cycles == price
