"""Formulas of integers and boxes of comparisons against counting through all positions."""

from __future__ import annotations

import itertools
import operator
import random

import numpy as np
import pytest

from compiler.codegen.expr import Variable
from compiler.frontend.triton.kernels.integers import add, compare, multiply, remainder, uniform
from compiler.frontend.triton.kernels.values import STILL, Indices, Region, Steps, UnsupportedOperation

ORDERS = {"slt": operator.lt, "sle": operator.le, "sgt": operator.gt, "sge": operator.ge, "eq": operator.eq}


def counted(value: Indices) -> np.ndarray:
    """All elements of a formula whose parts are known."""
    total = np.full(value.shape, value.offset)
    for axis, steps in enumerate(value.axes):
        index = np.arange(value.shape[axis])
        if steps.modulus:
            index = (steps.start + index) % steps.modulus
        shape = [-1 if at == axis else 1 for at in range(len(value.shape))]
        total = total + (index * steps.step).reshape(shape)
    return total


def holds(region: Region) -> np.ndarray:
    """All truth values of a region whose parts are known."""
    found = np.full(region.shape, all(smaller < larger for smaller, larger in region.conditions))
    for axis, span in enumerate(region.spans):
        index = np.arange(region.shape[axis])
        inside = (index >= span.low) & (index < span.high)
        found = found & inside.reshape([-1 if at == axis else 1 for at in range(len(region.shape))])
    return found


@pytest.mark.parametrize("seed", range(200))
def test_a_comparison_is_the_box_where_it_holds(seed: int) -> None:
    draw = random.Random(seed)
    shape = tuple(draw.choice((1, 4, 8)) for _ in range(draw.randint(1, 3)))
    axis = draw.randrange(len(shape))

    def drawn() -> Indices:
        steps = [STILL] * len(shape)
        steps[axis] = Steps(draw.choice((-3, -1, 0, 1, 2, 5)))
        return Indices(draw.randint(-12, 12), tuple(steps), shape)

    left, right = drawn(), drawn()
    for predicate, order in ORDERS.items():
        region = compare(predicate, left, right)
        assert region is not None
        assert np.array_equal(holds(region), order(counted(left), counted(right))), predicate


def test_comparisons_along_two_axes_are_no_box() -> None:
    row, column = Indices(0, (Steps(1), STILL), (4, 4)), Indices(0, (STILL, Steps(1)), (4, 4))
    assert compare("sge", row, column) is None
    assert compare("ne", row, uniform(2, (4, 4))) is None


@pytest.mark.parametrize(("start", "modulus"), [*itertools.product((0, 3, 7, 40), (1, 5, 8, 13))])
def test_positions_wrap_around(start: int, modulus: int) -> None:
    positions = Indices(start, (Steps(1),), (8,))
    wrapped = remainder(positions, uniform(modulus, (8,)))
    assert np.array_equal(counted(wrapped), (start + np.arange(8)) % modulus)
    scaled = add(multiply(wrapped, uniform(6, (8,))), uniform(2, (8,)))
    assert np.array_equal(counted(scaled), (start + np.arange(8)) % modulus * 6 + 2)


def test_what_is_no_formula_is_refused() -> None:
    positions, number = Indices(0, (Steps(1),), (8,)), uniform(3, (8,))
    with pytest.raises(UnsupportedOperation, match="both depend on the position"):
        multiply(positions, positions)
    with pytest.raises(UnsupportedOperation, match="modulo takes consecutive positions"):
        remainder(multiply(positions, number), uniform(5, (8,)))
    with pytest.raises(UnsupportedOperation, match="modulo takes consecutive positions"):
        remainder(add(positions, uniform(-1, (8,))), uniform(5, (8,)))
    with pytest.raises(
        UnsupportedOperation, match=r"division takes 0 and above by 1 and above: dividend \(-1"
    ):
        remainder(uniform(-1), uniform(5))
    with pytest.raises(UnsupportedOperation, match="numbers that may be negative"):
        compare("ult", positions, uniform(-4, (8,)))
    wrapped = remainder(add(positions, number), uniform(5, (8,)))
    with pytest.raises(UnsupportedOperation, match="can only be added to what does not depend on its axis"):
        add(wrapped, positions)


def test_ranges_are_those_of_the_elements() -> None:
    value = Indices(Variable("t0", 2, 5), (Steps(-3), Steps(7, 2, 4)), (4, 8))
    assert value.range == (2 - 9, 5 + 21)
