"""The traffic of links in exchanges between chips, and the algorithm of an exchange with the lowest price."""

from __future__ import annotations

import pytest
from msgspec import UNSET, structs

from chip_nets import exchange
from compiler.graph import GraphError
from compiler.lowering.movement.chips.routes import (
    Groups,
    LinkPrice,
    SendPrice,
    partners_of,
    rounds_of,
    way_of_pairs,
)
from compiler.operators.domains.chips.collectives import (
    ALL_GATHER,
    ALL_REDUCE,
    DIRECT,
    DOUBLING,
    DUAL,
    REDUCE_SCATTER,
    RING,
    SEND,
    TREE,
    WAYS,
)
from compiler.passes.compilation import context_of, run_passes
from compiler.search.chips.degrees import ring_order
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
    found = rounds_of(chips, groups, ALL_GATHER, way)[0]
    assert found.busiest == pytest.approx(busiest)
    assert found.distance == distance


def test_the_bound_is_that_of_the_textbook() -> None:
    machine = load_machine(None).of_chips(2, 2)
    size, rate, latency = 1 << 20, 25, 1000
    assert price(machine, size).bound(RING) == pytest.approx(6 * (latency + size / 4 / rate))
    assert price(machine, size).bound(DUAL) == pytest.approx(6 * (latency + size / 8 / rate))
    assert price(machine, size).bound(DIRECT) == pytest.approx(2 * (2 * latency + size / 2 / rate))


def test_rounds() -> None:
    chips, ring = chips_of(4, 2), ((0, 2, 4, 6, 7, 5, 3, 1),)
    assert [len(rounds_of(chips, ring, ALL_REDUCE, way)) for way in WAYS] == [14, 14, 2, 6, 3]
    assert [len(rounds_of(chips, ring, ALL_GATHER, way)) for way in WAYS[:-1]] == [7, 7, 1, 3]


def test_a_tree_sends_most_to_the_nearest() -> None:
    """A column of four: neighbours in a column and in a row come before chips that are two links away."""
    levels = rounds_of(chips_of(4, 4), (tuple(range(16)),), REDUCE_SCATTER, TREE)
    assert [(level.share, level.distance, level.sends) for level in levels] == [
        (1 / 2, 1, 1),
        (1 / 4, 1, 1),
        (1 / 8, 2, 1),
        (1 / 16, 2, 1),
    ]
    assert [level.busiest for level in levels] == [1 / 2, 1 / 4, 2 / 8, 2 / 16]


def test_groups_of_other_shapes_have_one_tree() -> None:
    """Groups of a row of six and two rows of three: all have the same code, and the same levels."""
    row, block = (0, 4, 8, 12, 16, 20), (1, 2, 5, 6, 9, 10)
    chips = chips_of(6, 4)
    levels = rounds_of(chips, (row, block), REDUCE_SCATTER, TREE)
    partners = partners_of(chips, (row, block), TREE)
    assert [level.sends for level in levels] == [1, 2]
    assert all([other.level for other in partners[chip]] == [0, 1, 1] for chip in row + block)


@pytest.mark.parametrize(
    ("mesh", "size", "way"),
    [
        ((2, 2), 1 << 12, DOUBLING),
        ((4, 2), 1 << 18, TREE),
        ((4, 2), 1 << 24, DUAL),
        ((5, 1), 1 << 12, DIRECT),
    ],
)
def test_the_way_of_the_lowest_price(mesh: tuple[int, int], size: int, way: str) -> None:
    machine = load_machine(None).of_chips(*mesh)
    assert price(machine, size, (ring_order(machine.chips, tuple(range(mesh[0] * mesh[1]))),)).best() == way


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
