"""What records say that a part of a result needs of the operands: enough of them, and not too much."""

from __future__ import annotations

import numpy as np
import pytest

from box_cases import PartCase, changed_part
from box_draws import OTHERS
from compiler.operators import OPERATORS
from operator_cases import DRAWS
from operator_draws import Random

BESIDE_ZEROS = ("Resize", "LRN")
"""Computed with matrices that are mostly zeros: NaN times zero is NaN, a number times zero is zero."""


def drawn(op: str, rng: Random) -> PartCase:
    if op in OTHERS:
        return OTHERS[op](rng)
    operands, attrs = DRAWS[op](rng)
    return PartCase(op, operands, attrs)


@pytest.mark.parametrize("op", sorted({*DRAWS, *OTHERS}))
def test_a_part_needs_no_more_than_the_record_says(op: str) -> None:
    for seed in range(12):
        rng = np.random.default_rng([seed, *op.encode()])
        case = drawn(op, rng)
        compute = case.by_reference()
        for number in range(case.outputs):
            with_nan = op not in BESIDE_ZEROS and seed % 3 > 0
            problem = changed_part(case, compute, rng, with_nan=with_nan, number=number)
            assert problem is None, f"{op}, seed {seed}, result {number}: {problem}"


def test_every_operator_of_onnx_and_every_internal_one_is_drawn() -> None:
    own = {name for name in OPERATORS if "." not in name}
    assert own - {*DRAWS, *OTHERS} == set()
