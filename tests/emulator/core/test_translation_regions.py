"""The parts of a program that are translated together."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asm
from chip_bench import EBREAK, ONE, words_image
from emulator.chip.system import System
from emulator.core.predecode import FULL
from emulator.core.translate.region import (
    LARGEST_REGION,
    LONGEST_BLOCK,
    block_at,
    following,
    nearest,
    region_at,
)
from machine_code import needs_jit

pytestmark = needs_jit


# -- regions ---------------------------------------------------------------------------------------------


def layout_of(text: str) -> Any:
    return System(asm.assemble(text), ONE).code.translation.layout


def full(*places: int) -> set[int]:
    """Indices of instructions of four bytes, by their number in the program."""
    return {FULL * place for place in places}


NEST = """
    _start: li a0, 9
    1:  li a1, 9
    2:  addi a1, a1, -1
        bnez a1, 2b
        jal function
        addi a0, a0, -1
        bnez a0, 1b
        addi a5, a5, 1
        ebreak
    function: addi a3, a3, 1
        ret
"""


@pytest.mark.parametrize(("index", "link"), [(2, -1), (5, -1), (9, 5), (10, 5)])
def test_a_region_is_the_loops_around_a_place(index: int, link: int) -> None:
    """Callers are found through the return address; code after the loops is omitted."""
    blocks = region_at(layout_of(NEST), FULL * index, FULL * link)
    covered = {n for found in blocks.values() for n in found}
    assert covered >= full(1, 2, 3, 4) and not covered & full(0, 8)
    assert full(5, 9, 10) <= covered


@pytest.mark.parametrize("index", [0, 63, 64, 70, 130, 201])
def test_a_region_holds_the_place_it_was_made_for(index: int) -> None:
    """So is a block that is longer than the limit."""
    layout = layout_of("_start:" + " addi a0, a0, 1\n" * 200 + " bnez a0, _start\n li a1, 1\n ebreak")
    blocks = nearest(region_at(layout, FULL * index, -1), 1)
    assert len(blocks) == 1 and any(FULL * index in block for block in blocks.values())


def test_a_region_without_a_way_back_is_small() -> None:
    blocks = region_at(layout_of("_start:" + " addi a0, a0, 1\n" * 500 + " ebreak"), FULL * 3, -1)
    assert sum(map(len, blocks.values())) == LONGEST_BLOCK


def test_a_region_has_a_largest_size() -> None:
    text = "_start:" + "1: addi a0, a0, 1\n bnez a0, 1f\n nop\n" * 300 + "1: j _start"
    blocks = region_at(layout_of(text), FULL * 300, -1)
    assert LARGEST_REGION - LONGEST_BLOCK < sum(map(len, blocks.values())) <= LARGEST_REGION


def test_nothing_is_translated_where_python_executes() -> None:
    layout = layout_of("_start: ebreak\n csrr a0, mhartid\n .word 0\n j _start")
    assert [block_at(layout, FULL * n) for n in range(5)] == [[], [], [], [FULL * 3], []]
    assert region_at(layout, FULL, -1) == {} and list(region_at(layout, FULL * 3, -1)) == [FULL * 3]


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, (1 << 32) - 1), min_size=1, max_size=30), st.integers(0, 29), st.integers(-9, 99)
)
def test_regions_of_any_words(words: list[int], index: int, link: int) -> None:
    """Blocks are inside the program and have neighbours; each place begins at most one block."""
    system = System(words_image([*words, *[EBREAK] * 30]), ONE)
    layout = system.code.translation.layout
    for first, found in region_at(layout, index, link).items():
        assert found[0] == first and len(found) <= LONGEST_BLOCK
        assert all(b == following(layout, a) for a, b in pairwise(found))
        assert first >= 0 and found[-1] < len(layout.words) - 1
