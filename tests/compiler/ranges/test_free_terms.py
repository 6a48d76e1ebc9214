"""Matrix products with a dynamic number of terms, against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, ValueInfoProto

import tx8
from control_models import declared, node
from control_models import made as model_of

TERMS = (1, 70, 200)
NUMBERS = (70, 1, 199, 64, 65, 200, 3)


def product(left: Sequence[Any], right: Sequence[Any], op: str = "MatMul", **given: Any) -> ModelProto:
    inputs = [declared("a", left), declared("b", right)]
    return model_of([node(op, ["a", "b"], ["y"], **given)], inputs, [ValueInfoProto(name="y")], [])


def compare(
    made: ModelProto, terms: tuple[int, int, int] = TERMS, numbers: Sequence[int] = NUMBERS, **options: Any
) -> None:
    """Run every number of terms, each after a run with the most terms, all not-a-number."""
    program = tx8.compile(made, dims={"k": terms}, **{"dtype": "fp16", **options})
    oracle, rng = onnxruntime.InferenceSession(made.SerializeToString()), np.random.default_rng(4)
    shapes = {each.name: each.shape for each in oracle.get_inputs()}

    def at(number: int) -> dict[str, list[int]]:
        return {name: [number if n == "k" else n for n in shape] for name, shape in shapes.items()}

    with tx8.Session(program) as session:
        for number in numbers:
            session.run({name: np.full(shape, np.nan, np.float32) for name, shape in at(terms[2]).items()})
            given = {
                name: (rng.standard_normal(shape) - 1).astype(np.float32)
                for name, shape in at(number).items()
            }
            (wanted,) = oracle.run(None, given)
            error = np.abs(session.run(given)["y"] - wanted).max()
            assert error <= (1e-5 if options.get("dtype") == "fp32" else 3e-3) * max(
                np.abs(wanted).max(), 1
            ), number


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([7, "k"], ["k", 9]),
        ([2, 3, 8, "k"], [3, "k", 70]),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in [
                ([100, "k"], ["k", 100]),
                ([3, 8, "k"], ["k", 16]),
                ([1, "k"], ["k", 33]),
                (["k"], ["k", 33]),
                ([2, 33, "k"], ["k"]),
                (["k"], ["k"]),
            ]
        ),
    ],
)
def test_products(left: list[Any], right: list[Any]) -> None:
    compare(product(left, right))


@pytest.mark.parametrize(
    ("trans_a", "trans_b"),
    [(0, 1), *(pytest.param(*each, marks=pytest.mark.long) for each in ((1, 0), (1, 1)))],
)
def test_products_of_transposed_matrices(trans_a: int, trans_b: int) -> None:
    left, right = [12, "k"], ["k", 40]
    made = product(
        left[:: 1 - 2 * trans_a], right[:: 1 - 2 * trans_b], "Gemm", transA=trans_a, transB=trans_b
    )
    compare(made)


@pytest.mark.long
@pytest.mark.parametrize(
    "options", [{"dtype": "fp32"}, {"dtype": "fp32", "tiles": 1}, {"dtype": "bf16", "tiles": 2}]
)
def test_products_in_other_formats(options: dict[str, Any]) -> None:
    made = product([2, 20, "k"], [2, "k", 24])
    if options["dtype"] != "bf16":
        compare(made, **options)
        return
    program, rng = tx8.compile(made, dims={"k": TERMS}, **options), np.random.default_rng(4)
    for number in NUMBERS:
        a, b = (rng.integers(-4, 4, shape).astype(np.float32) for shape in ((2, 20, number), (2, number, 24)))
        (exact,) = program.run(a, b)
        assert np.abs(exact - a @ b).max() <= 2**-8 * np.abs(a @ b).max(), number


def test_many_terms() -> None:
    """More than fit next to each other, in blocks whose last one is shorter."""
    compare(product([64, "k"], ["k", 128]), (1, 3000, 5000), (5000, 3000, 2999, 3001, 1))
