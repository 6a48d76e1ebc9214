"""Whether two footprints share bytes, against the sets of their bytes."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from emulator import native
from emulator.native import compile_once
from emulator.watch.order.nests import NEST, NOWHERE, footprints_meet
from tx8isa.table import footprint


def shared(first: int, loops: footprint.Loops, other_first: int, other_loops: footprint.Loops) -> int:
    """The compiled answer."""
    kernel = compile_once(footprints_meet, "footprints that meet", 5)
    scratch, one, other = np.zeros(2 * NEST, np.int64), np.array(loops), np.array(other_loops)
    places = scratch.ctypes.data, first, one.ctypes.data, other_first, other.ctypes.data
    return native.call(kernel, *places)


def bytes_of(first: int, loops: footprint.Loops) -> set[int]:
    """All bytes of a footprint, one by one."""
    return {first + at + k for at, size in footprint.runs(loops) for k in range(size)}


def drawn(rng: Random) -> tuple[int, footprint.Loops]:
    """Loops as instructions have them: dense, with gaps, in any order of strides, single and empty ones."""

    def loop() -> tuple[int, int]:
        return rng.choice((0, 1, 3, 4, 8, 16, 24, 40, 100)), rng.choice((1, 1, 2, 3, 5))

    second = rng.random() < 0.4
    tail = (rng.randrange(200), rng.choice((2, 8)), *loop(), *loop()) if second else (0, 0, 0, 1, 0, 1)
    return rng.randrange(600), (rng.choice((0, 1, 4, 8, 24)), *loop(), *loop(), *loop(), *tail)


@pytest.mark.parametrize("seed", range(8))
def test_footprints_share_the_byte_that_is_found_and_none_if_none_is(seed: int) -> None:
    rng, answers = Random(seed), set[bool]()
    for _ in range(400):
        one, other = drawn(rng), drawn(rng)
        both, found = bytes_of(*one) & bytes_of(*other), shared(*one, *other)
        assert found in both if both else found == NOWHERE, (one, other)
        answers.add(bool(both))
    assert answers == {True, False}


def test_columns_side_by_side_do_not_meet() -> None:
    """Two tiles store columns of the same rows: what they span overlaps, their bytes do not."""
    rows = (32, 128, 1000, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1)
    assert shared(0, rows, 32, rows) == NOWHERE
    assert shared(0, rows, 31, rows) == 31
    assert shared(0, rows, 127, rows) == 128


def test_strides_may_be_negative() -> None:
    down, one = (4, -16, 4, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1), (1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1)
    assert [shared(48, down, at, one) != NOWHERE for at in (-1, 0, 3, 4, 16, 51, 52)] == [
        *(False, True, True, False),
        *(True, True, False),
    ]
