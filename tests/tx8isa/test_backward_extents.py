"""The shape of the gradient that a backward convolution reads, compared with windows counted one by one."""

from __future__ import annotations

import random

import pytest

from tx8isa.insns.ne.bwconv import forward_columns, forward_rows
from tx8isa.numbers.limits import LANE_BITS


def packed(*lanes: int) -> int:
    """A packed operand, the highest lane first as in the text of the instruction."""
    return sum(value << LANE_BITS * (3 - at) for at, value in enumerate(lanes))


def windows(size: int, pads: tuple[int, int], kernel: int, step: int, stride: int) -> int:
    """Places of a window, whose elements are ``step`` apart, in a padded line."""
    last = pads[0] + size + pads[1] - 1
    return sum(at + (kernel - 1) * step <= last for at in range(0, last + 1, stride))


@pytest.mark.parametrize("seed", range(50))
def test_the_forward_result_has_a_place_for_each_window(seed: int) -> None:
    rng = random.Random(seed)
    h, w = rng.randint(1, 20), rng.randint(1, 20)
    top, bottom, left, right = pads = [rng.randint(0, 5) for _ in range(4)]
    unpads = [rng.randint(0, 3) for _ in range(4)]
    kx, ky, sx, sy = window = [rng.randint(1, 4) for _ in range(4)]
    dx, dy = rng.randint(1, 3), rng.randint(1, 3)
    given = packed(1, h, w, 8), packed(*pads), packed(*window), packed(0, 0, dx, dy), packed(*unpads)
    rows, columns = windows(h, (top, bottom), ky, dy, sy), windows(w, (left, right), kx, dx, sx)
    assert forward_rows(*given) == (rows - unpads[0] - unpads[1] if rows else 0)
    assert forward_columns(*given) == (columns - unpads[2] - unpads[3] if columns else 0)
