"""Functions of one operand over all exponents and at halves, within the errors of docs/numbers.md."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import compiler
from compiler.graph import Array
from compiler.tools import run
from compiler_harness import graph
from paths import ROOT

ELEMENT = {"fp32": np.float32, "tf32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16}
FRACTION_BITS = {"fp32": 23, "tf32": 10, "fp16": 10, "bf16": 7}
LEAST_EXPONENT = {"fp32": -126, "tf32": -126, "fp16": -14, "bf16": -126}


def _exact_gelu(x: Array) -> Array:
    """x / 2 erfc(-x / sqrt 2): erfc has all digits of a small result."""
    finite = [value * math.erfc(-value / math.sqrt(2.0)) / 2 for value in np.where(np.isfinite(x), x, 0.0)]
    return np.where(np.isfinite(x), finite, np.where(x > 0, np.inf, np.nan))


def _exact_elu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(x))


_SLOPE, _ALPHA, _GAMMA = (
    float(np.float32(number)) for number in (0.01, 1.6732631921768188, 1.0507010221481323)
)
EXACT: dict[str, Callable[[Array], Array]] = {
    "Abs": np.abs,
    "Neg": np.negative,
    "Sign": np.sign,
    "Ceil": np.ceil,
    "Floor": np.floor,
    "Round": np.rint,
    "IsNaN": np.isnan,
    "IsInf": np.isinf,
    "LeakyRelu": lambda x: np.where(x < 0, _SLOPE * x, x),
    "ThresholdedRelu": lambda x: np.where(x > 1, x, 0.0),
    "Shrink": lambda x: np.where(np.abs(x) > 0.5, x, 0.0),
    "Reciprocal": lambda x: 1 / x,
    "Sqrt": np.sqrt,
    "Exp": np.exp,
    "Log": np.log,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Tanh": np.tanh,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Asinh": np.arcsinh,
    "Acosh": np.arccosh,
    "Atanh": np.arctanh,
    "Erf": lambda x: np.array([math.erf(value) for value in x]),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Softplus": lambda x: np.logaddexp(0, x),
    "Softsign": lambda x: np.where(np.isinf(x), np.nan, x / (1 + np.abs(x))),
    "Elu": _exact_elu,
    "Celu": _exact_elu,
    "Selu": lambda x: _GAMMA * _exact_elu(x, _ALPHA),
    "Gelu": _exact_gelu,
    "Swish": lambda x: x / (1 + np.exp(-x)),
    "Mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "HardSigmoid": lambda x: np.clip(float(np.float32(0.2)) * x + 0.5, 0, 1),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
}
_ROW = re.compile(r"^\| (.+?) \| (\d\S*) \| (\d\S*) \|(.*?)\|$", re.MULTILINE)


@cache
def stated() -> dict[str, tuple[float, float, str]]:
    """By function: ulp in FP32, ulp in other formats, and another bound, from the page."""
    page = (ROOT / "docs" / "numbers.md").read_text(encoding="utf-8").partition("## Accuracy")[2]
    found: dict[str, tuple[float, float, str]] = {}
    for names, single, short, other in _ROW.findall(page):
        found |= {name: (float(single), float(short), other.strip()) for name in names.split(", ")}
    return found


def _other_bound(text: str, x: Array) -> Array:
    """An absolute bound such as "2^-22 x" or "2^-24"; 0 where none is stated."""
    power = re.match(r"2\^(-\d+)( x)?$", text)
    if power is None:
        assert not text
        return np.zeros_like(x)
    return 2.0 ** int(power[1]) * (np.abs(x) if power[2] else np.ones_like(x))


def grid(dense: bool) -> Array:
    """All exponents of FP32, neighbours of 1, halves up to 2^24, and numbers where functions overflow."""
    fractions = np.linspace(1, 2, 9 if dense else 2, endpoint=False) + 0.015625
    sizes = [fractions * 2.0**exponent for exponent in range(-149, 128)]
    halves = [number + 0.5 for number in (0, 1, 2, 3, 1000, 2**20, 2**22 - 1, 2**22, 2**22 + 1, 2**23 - 1)]
    ends = [2.0**23 + 1, 2.0**24 - 1, 65504.0, 65520.0, 3.4028234663852886e38, math.inf, 0.0, 1.0]
    near_one = [1 + sign * 2.0**-k for k in range(1, 24) for sign in (-1, 1)]
    steps = np.linspace(0.01, 12, 2000 if dense else 150).tolist() + np.linspace(80, 110, 61).tolist()
    positive = np.array([*np.concatenate(sizes), *halves, *ends, *near_one, *steps])
    return np.concatenate([positive, -positive, [math.nan]]).astype(np.float32)


@cache
def computed(dtype: str, dense: bool) -> tuple[Array, dict[str, Array]]:
    """The operand in the format, in binary64, and the results of all functions on the chip."""
    with np.errstate(over="ignore"):
        given = grid(dense).astype(ELEMENT[dtype]).astype(np.float32)
    if dtype == "tf32":
        given = given.view(np.uint32)
        given = (given & np.uint32(0xFFFFE000)).view(np.float32)  # 10 fraction bits
        given[-1] = math.nan
    nodes: list[Any] = [(op, ["x"], [op], {}) for op in EXACT]
    made = graph(nodes, {"x": given.shape}, outputs=list(EXACT), opset=24)
    outputs, *_ = run.execute(compiler.compile(made, dtype, search="off", residency="off"), {"x": given})
    return given.astype(np.float64), dict(outputs)


def _check(op: str, dtype: str, dense: bool) -> None:
    x, results = computed(dtype, dense)
    got = np.asarray(results[op]).astype(np.float64)
    with np.errstate(all="ignore"):
        wanted = EXACT[op](x).astype(np.float64)
        rounded = wanted.astype(ELEMENT[dtype]).astype(np.float64)
    kept = ~(np.isnan(x) & np.isin(op, (*_DROPS_NAN,)))
    if op in ("Swish", "Mish", "HardSwish", "Gelu"):
        kept &= x != -math.inf  # 0 times infinity, as in the formula
    assert not np.any(np.isnan(got[kept]) ^ np.isnan(wanted[kept])), op
    single, short, other = stated()[op]
    ulp = single if dtype == "fp32" else short
    finite = np.isfinite(rounded) & np.isfinite(got)
    exponents = np.floor(np.log2(np.maximum(np.abs(wanted[finite]), 2.0 ** LEAST_EXPONENT[dtype])))
    unit = 2.0 ** (exponents - FRACTION_BITS[dtype])
    excess = np.abs(got[finite] - wanted[finite]) - np.maximum(ulp * unit, _other_bound(other, x[finite]))
    worst = int(np.argmax(excess))
    assert excess[worst] <= 0, (op, x[finite][worst], got[finite][worst], wanted[finite][worst])
    # An output in FP32 is not rounded to the format, so it may exceed the format's range.
    ends = np.isinf(rounded) | np.isinf(got)
    largest = float(ml_dtypes.finfo(ELEMENT[dtype]).max)
    assert np.all(np.abs(got[ends & kept]) >= largest), op
    assert np.all(np.sign(got[ends & kept]) == np.sign(wanted[ends & kept])), op


_DROPS_NAN = ("HardSigmoid", "ThresholdedRelu", "Shrink")
"""Functions that turn NaN into numbers, the first by docs/numbers.md, the others by ONNX."""


def test_the_page_states_all_functions() -> None:
    assert set(EXACT) == set(stated())


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("op", EXACT)
def test_a_coarse_grid(op: str, dtype: str) -> None:
    _check(op, dtype, dense=False)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ELEMENT)
@pytest.mark.parametrize("op", EXACT)
def test_a_dense_grid(op: str, dtype: str) -> None:
    _check(op, dtype, dense=True)


def test_an_error_beyond_the_bound_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXACT, "Tanh", lambda x: np.tanh(x) * (1 + 2.0**-20))
    with pytest.raises(AssertionError, match="Tanh"):
        _check("Tanh", "fp32", dense=False)
