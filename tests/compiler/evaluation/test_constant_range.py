"""Constants that a format does not reach: finite ones become its largest, infinite ones stay."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.evaluation.storage import STORAGE, within_range
from compiler.graph import Array
from compiler_harness import NodeSpec, assert_right, draw, graph
from tx8isa.numbers.formats import Format
from tx8isa.numbers.rounding import rounded

LOWEST = np.array(np.finfo(np.float32).min)
NUMBERS = np.array([0, 1, 2, LOWEST, -LOWEST, -np.inf, 70000, -65505], np.float32)


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [("fp16", 65504.0), ("bf16", 2.0**127 * 255 / 128), ("tf32", 2.0**127 * 2047 / 1024)],
)
def test_range(dtype: str, largest: float) -> None:
    wide = NUMBERS.astype(np.float64)
    wanted = np.where(np.isinf(wide), wide, np.clip(wide, -largest, largest))
    assert np.array_equal(within_range(NUMBERS, STORAGE[dtype]), wanted)
    assert np.array_equal(rounded(np.array([largest]), STORAGE[dtype]), [largest]), (
        "the format has this number"
    )


def test_what_is_within_range_is_not_copied() -> None:
    data = draw(5)
    assert within_range(data, Format.FP16) is data


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "tf32", "fp32"])
@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        (
            [("Greater", ["x", "zero"], ["c"], {}), ("Where", ["c", "x", "low"], ["y"], {})],
            {"zero": np.array(0, np.float32), "low": LOWEST},
        ),
        ([("Max", ["x", "low"], ["y"], {})], {"low": LOWEST}),
        ([("Add", ["x", "low"], ["y"], {})], {"low": LOWEST}),
        ([("Sub", ["low", "x"], ["y"], {})], {"low": LOWEST}),
        ([("Add", ["x", "numbers"], ["y"], {})], {"numbers": NUMBERS}),
        ([("Clip", ["x", "low", "high"], ["y"], {})], {"low": LOWEST, "high": np.array(-LOWEST)}),
    ],
    ids=["where", "max", "add", "sub", "vector", "clip"],
)
def test_programs_agree_with_the_reference(
    nodes: list[NodeSpec], constants: dict[str, Array], dtype: str
) -> None:
    assert_right(graph(nodes, {"x": (5, 8)}, constants), dtype, 2, inputs={"x": draw(5, 8)})
