"""The stacks that are tried of very many; they suffice if blocks are equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import Mock

import pytest
from xdsl.ir import SSAValue

from compiler.driver import compile_graph
from compiler.graph import Graph
from compiler.passes.base import Context, RangedContext, operations
from compiler.passes.groups.borders import RangeCycles
from compiler.passes.groups.boundaries import Promise, StackSpan, near, some
from compiler.passes.groups.group_stack import _Candidates
from compiler.search.effort import EFFORTS
from ir_text import constant, parsed
from stack_nets import Net
from tx8isa.machine.description import load_machine

ROW = {StackSpan(first, last, last - first + 1) for last in range(1, 30) for first in range(last)}
"""The stacks of thirty groups in a row."""


def test_few_of_a_long_row_are_tried_at_first() -> None:
    first = some(ROW)
    assert {span for span in ROW if span.length <= 3} <= first
    assert StackSpan(0, 29, 30) in first
    assert StackSpan(8, 19, 12) in first  # ends before group 20
    assert StackSpan(8, 20, 13) not in first
    assert StackSpan(9, 19, 11) not in first
    assert len(first) < len(ROW) / 3


def test_the_ends_of_a_row_need_not_be_a_boundary_of_others() -> None:
    assert some({StackSpan(2, 6, 5), StackSpan(2, 8, 7), StackSpan(3, 7, 5), StackSpan(4, 7, 4)}) == {
        StackSpan(2, 8, 7),
        StackSpan(4, 7, 4),
    }


def test_what_is_near_the_best_has_both_boundaries_near_theirs() -> None:
    found = near(ROW, [StackSpan(8, 19, 12)])
    assert {span.first for span in found} == {*range(5, 12), *range(17, 24)} - {22, 23}
    assert StackSpan(11, 16, 6) in found and StackSpan(5, 22, 18) in found and StackSpan(5, 9, 5) in found
    assert (
        StackSpan(4, 19, 16) not in found
        and StackSpan(8, 23, 16) not in found
        and StackSpan(8, 14, 7) not in found
    )
    assert near(ROW, []) == set()


@dataclass(frozen=True, eq=False)
class PricedGroup:
    """A group with these cycles when alone, which loads the constants of ``operands``."""

    cycles: int
    operands: tuple[SSAValue, ...] = ()


class PricedBorders:
    """Groups one after another, with a barrier of 100 cycles between two."""

    barrier = RangeCycles(100, 100, 100)

    def __init__(self, kind: type[Context]) -> None:
        self.context = Mock(spec=kind, machine=load_machine(None), tiles=16)

    def alone(self, group: PricedGroup) -> RangeCycles:
        return RangeCycles(*[group.cycles] * 3)

    def apart(self, groups: Sequence[PricedGroup]) -> RangeCycles:
        total = sum(each.cycles for each in groups) + 100 * (len(groups) - 1)
        return RangeCycles(total, total, total)


def promises(groups: Sequence[PricedGroup], stack: int | None = None, kind: type[Context] = Context) -> bool:
    """Return True if groups are tried as a sliced sequence; ``stack``: their cycles as one stack."""
    borders: Any = PricedBorders(kind)
    given: Any = groups
    return Promise(borders, [] if stack is None else [(given, stack)]).may_be_less(given)


def test_sliced_sequences_are_tried_where_they_may_take_less_than_the_stacks() -> None:
    pair = [PricedGroup(4000), PricedGroup(4000)]
    assert promises(pair)
    assert promises(pair, stack=7000)
    assert not promises(pair, stack=4000), "a sliced sequence takes half of 8,100 cycles at least"


def test_sliced_sequences_are_not_tried_where_weights_take_longer() -> None:
    """A quarter of the tiles load 147 KB each, which takes DDR nearly 4,000 cycles."""
    weights = next(iter(operations(parsed(constant("w", "w", "128x64x3x3"))))).results[0]
    assert promises([PricedGroup(1000), PricedGroup(4000, (weights,))])
    assert not promises([PricedGroup(1000), PricedGroup(500, (weights,))])


def test_stacks_of_a_range_of_sizes_stay() -> None:
    pair = [PricedGroup(4000), PricedGroup(4000)]
    assert promises(pair, kind=RangedContext)
    assert not promises(pair, stack=7000, kind=RangedContext)


def blocks(count: int) -> Graph:
    net = Net(1, 64, 8, 8)
    for number in range(count):
        before = f"r{number - 1}" if number else "x"
        after = f"r{number}" if number + 1 < count else "y"
        net.node("Relu", [net.conv(before, f"p{number}", (64, 64, 3, 3), pads=(1, 1, 1, 1))], f"q{number}")
        net.node("Relu", [net.conv(f"q{number}", f"s{number}", (64, 64, 1, 1))], after)
    return net.graph()


@pytest.mark.long
def test_equal_blocks_become_the_same_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, stack = list[int](), _Candidates._stack

    def counted(candidates: _Candidates, span: StackSpan) -> object:
        tried.append(span.length)
        return stack(candidates, span)

    monkeypatch.setattr(_Candidates, "_stack", counted)
    texts, numbers = set[str](), list[int]()
    for stacked in (10**9, 0):
        monkeypatch.setitem(EFFORTS, "fast", replace(EFFORTS["fast"], stacked=stacked))
        texts.add(compile_graph(blocks(8), "fp16", tiles=4).text)
        numbers.append(len(tried))
        tried.clear()
    assert len(texts) == 1
    assert numbers[1] < numbers[0]
