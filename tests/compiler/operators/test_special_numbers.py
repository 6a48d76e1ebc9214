"""NaN and infinities: one in an operand changes the results that ONNX computes from it, and no others.

docs/numbers.md lists the operators that differ, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import compiler
from compiler.evaluation.storage import STORAGE
from compiler.graph import Array
from compiler.operators import OPERATORS
from compiler.tools import run
from onnx_oracle import Case, run_evaluator, run_onnxruntime
from operator_cases import DRAWS
from operator_draws import Draw, Random, normal, small
from special_numbers import listed
from tx8isa.numbers.rounding import rounded


def _tensors(count: int, **attrs: Any) -> Draw:
    def draw(rng: Random) -> tuple[Mapping[str, Array | None], dict[str, Any]]:
        shape = small(rng, 1, 6, 3)
        return {f"x{at}": normal(rng, *shape) for at in range(count)}, attrs

    return draw


def _image(op: str) -> Draw:
    def draw(rng: Random) -> tuple[Mapping[str, Array | None], dict[str, Any]]:
        x = normal(rng, small(rng, 1, 2, 1)[0], 2 * small(rng, 1, 35, 1)[0], *small(rng, 4, 9, 2))
        if op in ("Global", ""):
            return {"x": x}, {"blocksize": 1} if not op else {}
        size = tuple(small(rng, 1, 3, 2))
        if op == "Pool":
            return {"x": x}, {"kernel_shape": size, "strides": (1, 2), "ceil_mode": 1}
        group = small(rng, 1, 2, 1)[0]
        maps = normal(rng, 4, x.shape[1] // group, *size)
        return {"x": x, "w": maps}, {"group": group, "pads": (1, 0, 0, 1)}

    return draw


def _product(rng: Random) -> tuple[Mapping[str, Array | None], dict[str, Any]]:
    m, k, n = small(rng, 1, 70, 3)
    return {"a": normal(rng, m, k), "b": normal(rng, k, n)}, {}


def _transpose(rng: Random) -> tuple[Mapping[str, Array | None], dict[str, Any]]:
    return {"x": normal(rng, *small(rng, 1, 40, 3))}, {
        "perm": tuple(int(axis) for axis in rng.permutation(3))
    }


def _rows(axis: int) -> Draw:
    """Long enough for rows in planes and for rows that tiles share."""

    def draw(rng: Random) -> tuple[Mapping[str, Array | None], dict[str, Any]]:
        return {"x": normal(rng, small(rng, 1, 70, 1)[0], small(rng, 60, 200, 1)[0])}, {"axis": axis}

    return draw


CASES: dict[str, tuple[str, Draw]] = {op: (op, draw) for op, draw in DRAWS.items()} | {
    **{op: (op, _tensors(1)) for op in ("Erf", "Gelu", "LeakyRelu", "Sigmoid", "IsNaN", "IsInf", "Identity")},
    **{
        op: (op, _tensors(2))
        for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "Sum", "Mean", "Pow")
    },
    "Concat": ("Concat", _tensors(2, axis=1)),
    "Conv": ("Conv", _image("Conv")),
    **{op: (op, _image("Pool")) for op in ("MaxPool", "AveragePool")},
    **{
        op: (op, _image("Global"))
        for op in ("GlobalMaxPool", "GlobalAveragePool", "MeanVarianceNormalization")
    },
    **{op: (op, _image("")) for op in ("DepthToSpace", "SpaceToDepth")},
    "MatMul": ("MatMul", _product),
    "Gemm": ("Gemm", _product),
    "Transpose": ("Transpose", _transpose),
    **{f"{op} of long rows": (op, _rows(1)) for op in ("Softmax", "LogSoftmax", "ArgMax", "LpNormalization")},
    **{f"{op} of columns": (op, _rows(0)) for op in ("Softmax", "LogSoftmax")},
}
_OF_INTEGERS = (
    "DynamicQuantizeLinear",
    "QuantizeLinear",
    "MatMulInteger",
    "ConvInteger",
    "BitShift",
    "Det",
    "Mod",
)
"""Operators without floats, or with results for which ONNX says nothing."""
_BY_ONNXRUNTIME = ("LpNormalization", "Pow", "AveragePool", "LpPool")
"""Operators that ONNX's evaluator computes in another way on such numbers: it drops NaN from means."""
SPECIAL = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}


def _poisoned(name: str, seed: int, dtype: str, special: str) -> Case | None:
    """A case whose first operand has one special number; None where it has no floats."""
    op, draw = CASES[name]
    rng = np.random.default_rng([seed, *name.encode(), *special.encode()])
    operands, attrs = draw(rng)
    given = {key: value for key, value in operands.items() if value is not None}
    first = next(iter(given))
    if given[first].dtype != np.float32:
        return None
    for key, value in given.items():
        if value.dtype == np.float32:
            given[key] = rounded(value, STORAGE[dtype]).astype(np.float32)
    given[first].reshape(-1)[int(rng.integers(given[first].size))] = SPECIAL[special]
    names = [key if value is not None else "" for key, value in operands.items()]
    return Case(op, given, attrs, max(OPERATORS[op].since, 25), names)


def _expected(case: Case) -> Array:
    model, given = case.model(), case.fed()
    if case.op in _BY_ONNXRUNTIME:
        model.opset_import[0].version = 22
        return np.asarray(run_onnxruntime(model, given))
    with np.errstate(all="ignore"):
        return run_evaluator(model, given)


def differences(name: str, seed: int, dtype: str, special: str, tiles: int) -> list[str]:
    """Return the elements that are wrongly finite, or wrongly not."""
    case = _poisoned(name, seed, dtype, special)
    if case is None:
        return []
    wanted = _expected(case).astype(np.float64)
    got = run.execute(compiler.compile(case.graph(), dtype, tiles), case.fed())[0]["out"].astype(np.float64)
    assert got.shape == wanted.shape
    wrong = np.isnan(got) != np.isnan(wanted)
    wrong |= (np.isinf(got) | np.isinf(wanted)) & ~np.isnan(wanted) & (got != wanted)
    if dtype == "fp32" or OPERATORS[case.op].precise:
        wrong &= ~(np.isnan(got) & np.isinf(wanted))  # the last row of the table on the page
    return [f"{got.reshape(-1)[at]} for {wanted.reshape(-1)[at]} at {at}" for at in np.flatnonzero(wrong)[:3]]


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][0] not in _OF_INTEGERS])
def test_a_special_number_stays_where_it_belongs(name: str) -> None:
    if CASES[name][0] in listed():
        pytest.skip("listed in docs/numbers.md")
    assert not differences(name, 0, "fp32", "nan", 16)
    assert not differences(name, 1, "fp16", "inf", 3)


def _samples(op: str, image: Array) -> Case:
    """One sample inside of an image and one outside, where the value is 0."""
    if op == "GridSample":
        grid = np.array([[[[0.0, 0.0], [3.0, -3.0]]]], np.float32)
        return Case(op, {"x": image, "grid": grid}, {"padding_mode": "zeros"}, 22, ["x", "grid"])
    if op == "RoiAlign":
        rois = np.array([[1, 1, 2, 2], [9, -9, 11, -7]], np.float32)
        operands = {"x": image, "rois": rois, "i": np.zeros(2, np.int64)}
        return Case(op, operands, {"sampling_ratio": 1}, 22, list(operands))
    offsets = np.zeros((1, 2, 4, 4), np.float32)
    offsets[0, :, 3, 3] = 7
    operands = {"x": image, "w": np.ones((1, 1, 1, 1), np.float32), "o": offsets}
    return Case(op, operands, {"kernel_shape": (1, 1)}, 22, list(operands))


@pytest.mark.parametrize(
    "special", ["nan", *(pytest.param(each, marks=pytest.mark.long) for each in ("inf", "-inf"))]
)
@pytest.mark.parametrize("op", ["GridSample", "RoiAlign", "DeformConv"])
def test_samples_outside_of_an_image_are_zero_whatever_its_border_holds(op: str, special: str) -> None:
    image = np.ones((1, 1, 4, 4), np.float32)
    image[0, 0, [0, 3], :] = image[0, 0, :, [0, 3]] = SPECIAL[special]
    image[0, 0, 0, 0] = 1.0  # which ONNX's evaluator multiplies by 0 for a region outside
    case = _samples(op, image)
    got = run.execute(compiler.compile(case.graph(), "fp16", 3), case.fed())[0]["out"].reshape(-1)
    wanted = _expected(case).reshape(-1).astype(np.float64)
    np.testing.assert_array_equal(got.astype(np.float64), wanted)
    assert wanted[-1] == 0.0 and np.count_nonzero(wanted == 1.0)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 7))
@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][0] not in (*_OF_INTEGERS, *listed())])
def test_more_places_and_numbers(name: str, special: str, seed: int) -> None:
    dtype = "fp32" if special == "nan" and seed % 2 else "fp16"
    assert not differences(name, seed, dtype, special, (1, 3, 16)[seed % 3])


@pytest.mark.parametrize("name", ["Max", "Relu", "Resize"])
def test_the_list_names_what_differs(name: str) -> None:
    assert name in listed()
    assert any(differences(name, seed, "fp16", "nan", 16) for seed in range(6))
