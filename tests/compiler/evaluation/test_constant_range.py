"""Constants beyond the range of a format: finite ones become its largest number, infinite ones do not
change."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from compiler.codegen.slices.precision import stored
from compiler.evaluation.storage import STORAGE, all_finite, extremes, within_range
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


EVERY = np.arange(1 << 16, dtype=np.uint16)
"""The bits of every number of a 16-bit format."""
NUMBERS_OF = {"fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


def finite_in(every: Array) -> Array:
    """Return True for numbers of a 16-bit format that NumPy calls finite."""
    with np.errstate(invalid="ignore"):
        return np.isfinite(every.astype(np.float64))


@pytest.mark.parametrize("dtype", NUMBERS_OF)
def test_every_number_is_finite_or_not(dtype: str) -> None:
    fmt, every = STORAGE[dtype], EVERY.view(NUMBERS_OF[dtype])
    finite = finite_in(every)
    assert [all_finite(one, fmt) for one in every.reshape(-1, 1)] == finite.tolist()
    assert all_finite(every[finite], fmt) and not all_finite(every, fmt)
    assert all_finite(every[:0], fmt)


@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan])
def test_one_number_that_is_not_finite_is_found_anywhere(wrong: float) -> None:
    data = draw(6, 7)[:, ::2]
    assert all_finite(data, Format.FP32)
    data[5, 3] = wrong
    assert not all_finite(data, Format.FP32)


@pytest.mark.parametrize("dtype", NUMBERS_OF)
def test_what_has_the_format_already_is_stored_as_it_is(dtype: str) -> None:
    every = EVERY.view(NUMBERS_OF[dtype])
    finite = every[finite_in(every)]
    assert stored(finite, STORAGE[dtype]) is finite
    infinite = finite.copy()
    infinite[7] = np.inf
    beyond = stored(infinite, STORAGE[dtype])
    assert np.array_equal(beyond.view(np.uint16), infinite.view(np.uint16))


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


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize(
    "numbers", [[0.5, -3, 2], [-0.5, -3, -2], [0.5, 3], [-0.0, 0.0], [1, np.inf], [-np.inf, -1]]
)
def test_extremes(numbers: list[float], dtype: type) -> None:
    low, high = extremes(np.array(numbers, dtype))
    assert (low, high) == (min(numbers), max(numbers))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_extremes_of_what_has_no_number(dtype: type, sign: float) -> None:
    array = np.array([1, np.copysign(np.nan, sign), -np.inf], dtype)
    assert np.isnan(extremes(array)).all()
