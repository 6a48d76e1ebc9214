"""Stacks that are tried of very many: which ones, and that these are enough where blocks are equal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.driver import compile_graph
from compiler.graph import Graph
from compiler.passes.groups.boundaries import StackSpan, near, some
from compiler.passes.groups.group_stack import _Candidates
from compiler.search.effort import EFFORTS
from stack_nets import Net

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
