"""Initial sums of a stack's stages: a bias for every position, by a product whose sums are exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.driver import compile_graph
from compiler.graph import Graph
from compiler.lowering.stack.constants import BIAS_PARTS, tf32_parts
from compiler.tools.run import execute, random_inputs
from planned_cuts import without_sliced
from stack_nets import PADDED, Net
from tx8isa.numbers.formats import Format
from tx8isa.numbers.rounding import rounded

LEAST = 2.0**-90


@given(st.floats(width=32, allow_nan=False, allow_infinity=False, max_value=2.0**127, min_value=-(2.0**127)))
def test_parts_have_exactly_the_sum(number: float) -> None:
    parts = tf32_parts(np.array([number], np.float32))
    if (number == 0 and np.signbit(number)) or 0 < abs(number) < LEAST:
        assert parts is None
        return
    assert parts is not None and len(parts) == BIAS_PARTS
    for part in parts:
        np.testing.assert_array_equal(rounded(part, Format.TF32), part)
    total = Fraction(0)
    for part in parts:
        total += Fraction(float(part[0]))
        assert Fraction(float(np.float32(float(total)))) == total, "a sum on the way is rounded"
    assert total == Fraction(number)


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, -0.0, 1e-40, 1e-30])
def test_numbers_without_such_parts(number: float) -> None:
    assert tf32_parts(np.array([1.0, number], np.float32)) is None


def net(bias: float | None = None) -> Graph:
    """Two convolutions of 72 and 40 channels; ``bias`` is one bias of the first one."""
    made = Net(1, 24, 26, 25)
    made.node("Relu", [made.conv("x", "a", (72, 24, 3, 3), **PADDED)], "b")
    made.conv("b", "y", (40, 72, 3, 3), **PADDED)
    if bias is not None:
        made.constants["b0"][5] = bias
    return made.graph()


@pytest.mark.parametrize(("bias", "products"), [(None, 2), (np.inf, 1), (-0.0, 1), (1e-40, 1)])
def test_a_stack_begins_with_the_same_bits(bias: float | None, products: int) -> None:
    made = net(bias)
    program = compile_graph(made, "fp16", 4, patterns=without_sliced())
    assert program.text.count(f"k={BIAS_PARTS}, n=") == products
    apart = compile_graph(made, "fp16", 4, residency="off")
    inputs = random_inputs(made, {}, 3)
    found, expected = execute(program, inputs)[0], execute(apart, inputs)[0]
    np.testing.assert_array_equal(found["y"].view(np.uint32), expected["y"].view(np.uint32))


def test_few_positions_are_filled_by_the_tdma_engine() -> None:
    """A product would need three times the constants for them."""
    made = Net(1, 24, 26, 5)
    made.node("Relu", [made.conv("x", "a", (72, 24, 3, 3), **PADDED)], "b")
    made.conv("b", "y", (40, 72, 3, 3), **PADDED)
    assert (
        f"k={BIAS_PARTS}, n=" not in compile_graph(made.graph(), "fp16", 16, patterns=without_sliced()).text
    )
