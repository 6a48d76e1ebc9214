"""The cycles predicted of sequences, and the sequences that are searched therefore."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import Mock

import pytest
from xdsl.ir import SSAValue

from compiler.driver import Program, compile_graph
from compiler.graph import Graph
from compiler.passes.base import Context, operations
from compiler.passes.groups.borders import RangeCycles
from compiler.passes.groups.foresight import Foresight, Numbers, least_cycles
from compiler.search.effort import EFFORTS
from ir_text import constant, parsed
from stack_nets import Net
from tx8isa.machine.description import load_machine


@dataclass(frozen=True, eq=False)
class PricedGroup:
    """A group with these cycles when alone, which loads the constants of ``operands``."""

    cycles: int
    operands: tuple[SSAValue, ...] = ()


class PricedBorders:
    """Groups one after another, with a barrier of 100 cycles between two."""

    def __init__(self, groups: Sequence[PricedGroup]) -> None:
        self.context, self.groups = Mock(spec=Context, machine=load_machine(None), tiles=16), groups

    def alone(self, group: PricedGroup) -> RangeCycles:
        return RangeCycles(*[group.cycles] * 3)

    def apart(self, groups: Sequence[PricedGroup]) -> RangeCycles:
        total = sum(each.cycles for each in groups) + 100 * (len(groups) - 1)
        return RangeCycles(total, total, total)


def foresight(cycles: Sequence[int], possible: set[Numbers], known: dict[Numbers, float]) -> Foresight:
    """Return the foresight for groups in a row."""
    borders: Any = PricedBorders([PricedGroup(each) for each in cycles])
    found = Foresight(borders, possible)
    for groups, searched in known.items():
        found.learn(groups, searched)
    return found


ROW = {tuple(range(first, last + 1)) for last in range(1, 6) for first in range(last)}
"""The sequences of six groups in a row."""


def test_times_of_parts_add_up() -> None:
    """The stages take 100, 200 ... cycles, and loading and storing 50."""

    def true(groups: Numbers) -> float:
        return 50 + sum(100 * (each + 1) for each in groups)

    found = foresight([1000] * 6, ROW, {each: true(each) for each in ROW if len(each) <= 3})
    assert all(found.cycles(each) == true(each) for each in ROW)


def test_what_was_searched_is_known() -> None:
    found = foresight([1000] * 6, ROW, {})
    before = found.cycles((0, 1, 2, 3))
    found.learn((1, 2), 900)
    found.learn((0, 1, 2), 1234)
    assert found.cycles((0, 1, 2)) == 1234
    assert found.cycles((0, 1, 2, 3)) != before


def test_groups_of_which_nothing_is_known_take_a_share_of_their_time() -> None:
    """Two groups without a searched sequence take 0.4 of 1,000 cycles each."""
    assert foresight([1000] * 6, ROW, {}).cycles((2, 3)) == pytest.approx(800)


def test_a_shared_group_takes_what_it_takes_in_a_pair() -> None:
    """Two pairs take 0.9 of their time: three groups take about two pairs less one group."""
    found = foresight([1000] * 6, ROW, {(0, 1): 1800, (1, 2): 1800})
    assert found.cycles((0, 1, 2)) == pytest.approx(1800 + 1800 - 900)


def test_a_sequence_takes_half_of_its_longest_part_at_least() -> None:
    found = foresight([1000] * 6, ROW, {(0, 1): 100, (1, 2): 2000, (0, 1, 2): 100, (1, 2, 3): 90})
    assert found.cycles((0, 1, 2, 3)) == 50


def test_parts_are_possible_sequences() -> None:
    """No sequence ends with group 2, as others need its result."""
    possible = {(0, 1), (2, 3), (1, 2, 3), (0, 1, 2, 3)}
    found = foresight([1000] * 4, possible, {(0, 1): 1000, (1, 2, 3): 1700})
    shared = 1700 / 3000
    assert found.cycles((0, 1, 2, 3)) == pytest.approx(1000 + 1700 - min(1000 / 2000, shared) * 1000)


def test_sliced_sequences_take_half_of_the_time_or_as_long_as_their_weights() -> None:
    """A quarter of the tiles load 147 KB each, which takes DDR nearly 4,000 cycles."""
    weights = next(iter(operations(parsed(constant("w", "w", "128x64x3x3"))))).results[0]
    pair: Any = [PricedGroup(1000), PricedGroup(4000, (weights, weights))]
    borders: Any = PricedBorders(pair)
    assert 3500 < least_cycles(borders, pair) < 4000
    assert least_cycles(borders, [pair[0]] * 2) == 1050


def blocks(count: int) -> Graph:
    net = Net(1, 64, 8, 8)
    for number in range(count):
        before = f"r{number - 1}" if number else "x"
        after = f"r{number}" if number + 1 < count else "y"
        net.node("Relu", [net.conv(before, f"p{number}", (64, 64, 3, 3), pads=(1, 1, 1, 1))], f"q{number}")
        net.node("Relu", [net.conv(f"q{number}", f"s{number}", (64, 64, 1, 1))], after)
    return net.graph()


@pytest.mark.long
def test_few_are_searched_and_the_best_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[Program]()
    for predicted in (0.0, EFFORTS["fast"].predicted):
        monkeypatch.setitem(EFFORTS, "fast", replace(EFFORTS["fast"], predicted=predicted))
        found.append(compile_graph(blocks(8), "fp16", tiles=4))
    assert found[0].text == found[1].text
    every, few = (each.report and len(each.report.templates) for each in found)
    assert every and few and few < every
