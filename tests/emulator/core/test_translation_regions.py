"""The parts of a program that are translated together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asm
from chip_bench import EBREAK, ONE, words_image
from emulator.chip.system import System
from emulator.core.translate.region import LARGEST_REGION, LONGEST_BLOCK, block_at, nearest, region_at
from machine_code import needs_jit

pytestmark = needs_jit


# -- regions ---------------------------------------------------------------------------------------------


def layout_of(text: str) -> Any:
    return System(asm.assemble(text), ONE).code.translation.layout


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
    """Callers are found through the return address; what follows the loops is left out."""
    blocks = region_at(layout_of(NEST), index, link)
    covered = {n for found in blocks.values() for n in found}
    assert covered >= {1, 2, 3, 4} and 8 not in covered and 0 not in covered
    assert {5, 9, 10} <= covered


@pytest.mark.parametrize("index", [0, 63, 64, 70, 130, 201])
def test_a_region_holds_the_place_it_was_made_for(index: int) -> None:
    """Also where the block is longer than one may be."""
    layout = layout_of("_start:" + " addi a0, a0, 1\n" * 200 + " bnez a0, _start\n li a1, 1\n ebreak")
    blocks = nearest(region_at(layout, index, -1), 1)
    assert len(blocks) == 1 and any(index in block for block in blocks.values())


def test_a_region_without_a_way_back_is_small() -> None:
    blocks = region_at(layout_of("_start:" + " addi a0, a0, 1\n" * 500 + " ebreak"), 3, -1)
    assert sum(map(len, blocks.values())) == LONGEST_BLOCK


def test_a_region_has_a_largest_size() -> None:
    text = "_start:" + "1: addi a0, a0, 1\n bnez a0, 1f\n nop\n" * 300 + "1: j _start"
    blocks = region_at(layout_of(text), 300, -1)
    assert LARGEST_REGION - LONGEST_BLOCK < sum(map(len, blocks.values())) <= LARGEST_REGION


def test_nothing_is_translated_where_python_executes() -> None:
    layout = layout_of("_start: ebreak\n csrr a0, mhartid\n .word 0\n j _start")
    assert [block_at(layout, n) for n in range(5)] == [[], [], [], [3], []]
    assert region_at(layout, 1, -1) == {} and list(region_at(layout, 3, -1)) == [3]


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, (1 << 32) - 1), min_size=1, max_size=30), st.integers(0, 29), st.integers(-9, 99)
)
def test_regions_of_any_words(words: list[int], index: int, link: int) -> None:
    """Blocks lie inside the program, hold neighbours, and each place begins one block at most."""
    system = System(words_image([*words, *[EBREAK] * 30]), ONE)
    layout = system.code.translation.layout
    for first, found in region_at(layout, index, link).items():
        assert found == list(range(first, first + len(found))) and len(found) <= LONGEST_BLOCK
        assert first >= 0 and found[-1] < len(layout.words) - 1
