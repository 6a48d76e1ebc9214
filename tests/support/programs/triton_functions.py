"""Launches of the operators of examples/triton/functions.py, with their references in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from paths import ROOT
from triton_launches import DTYPES, PRODUCTS, ROUNDING, Case, case_in, draw, poison, wide

FUNCTIONS = ROOT / "examples/triton/functions"

_N = 5001
_ERF = np.vectorize(math.erf)

Function = Callable[..., Any]

UNARY: dict[str, tuple[Function, float, float]] = {
    "abs": (np.abs, 1.0, 0.0),
    "neg": (np.negative, 1.0, 0.0),
    "square": (np.square, 1.0, 0.0),
    "exp": (np.exp, 1.0, 0.0),
    "log": (np.log, 0.5, 4.0),
    "sqrt": (np.sqrt, 0.5, 4.0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.5, 4.0),
    "reciprocal": (np.reciprocal, 0.5, 4.0),
    "sin": (np.sin, 1.0, 0.0),
    "cos": (np.cos, 1.0, 0.0),
    "erf": (_ERF, 1.0, 0.0),
    "relu": (lambda x: np.maximum(x, 0), 1.0, 0.0),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 1.0, 0.0),
    "silu": (lambda x: x / (1 + np.exp(-x)), 1.0, 0.0),
    "tanh": (np.tanh, 1.0, 0.0),
}
"""Functions with the spread and the middle of the numbers that they get."""
_EXACT = ("abs", "neg", "relu")
BINARY: dict[str, Function] = {
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "maximum": np.maximum,
    "ge": np.greater_equal,
    "pow": np.power,
}


_case = partial(case_in, FUNCTIONS)


def _unary(name: str, fmt: str) -> Case:
    function, scale, middle = UNARY[name]
    x = draw(fmt, _N, scale=scale, middle=middle)
    arguments = {"x": x, "out": poison(fmt, _N), "n": _N}
    allowed = {} if name in _EXACT else {"out": ROUNDING[fmt]}
    return _case(name, fmt, (2, 1, 1), arguments, {"out": function(wide(x))}, allowed)


def _binary(name: str, fmt: str) -> Case:
    x, y = draw(fmt, _N, seed=1, scale=0.5, middle=4.0), draw(fmt, _N, seed=2, scale=0.5, middle=2.0)
    y[:100] = x[:100]
    want = BINARY[name](wide(x), wide(y)).astype(np.float64)
    arguments = {"x": x, "y": y, "out": poison(fmt, _N), "n": _N}
    allowed = {} if name in ("maximum", "ge") else {"out": ROUNDING[fmt]}
    return _case(name, fmt, (2, 1, 1), arguments, {"out": want}, allowed)


def _clamp(fmt: str) -> Case:
    x = draw(fmt, _N)
    arguments = {"x": x, "out": poison(fmt, _N), "n": _N, "low": -0.5, "high": 0.75}
    return _case("clamp", fmt, (2, 1, 1), arguments, {"out": np.clip(wide(x), -0.5, 0.75)})


def _add_row(fmt: str) -> Case:
    x, row = draw(fmt, 37, 501), draw(fmt, 501, seed=2)
    arguments = {"x": x, "row": row, "out": poison(fmt, 37, 501), "rows": 37, "columns": 501}
    return _case("add_row", fmt, (3, 1, 1), arguments, {"out": x + row})


def _outer(fmt: str) -> Case:
    x, y = draw(fmt, 37), draw(fmt, 501, seed=2)
    arguments = {"x": x, "y": y, "out": poison(fmt, 37, 501), "rows": 37, "columns": 501}
    return _case("outer", fmt, (3, 1, 1), arguments, {"out": x[:, None] * y})


def _of_rows(name: str, fmt: str) -> Case:
    x = draw(fmt, 37, 901, middle=0.5)
    functions: dict[str, Function] = {
        "sum": np.sum,
        "mean": np.mean,
        "variance": np.var,
        "norm": np.linalg.norm,
    }
    arguments = {"x": x, "out": poison("fp32", 37), "rows": 37, "columns": 901}
    want = functions[name](wide(x), axis=1)
    return _case(name, fmt, (3, 1, 1), arguments, {"out": want}, {"out": ROUNDING["fp32"] * 4})


def _batch_norm(fmt: str) -> Case:
    x = draw(fmt, 2, 3, 31, 41)
    mean, scale, shift = (draw("fp32", 3, seed=seed) for seed in (2, 3, 4))
    variance = np.abs(draw("fp32", 3, seed=5)) + np.float32(0.5)
    each = (np.asarray(part, np.float64)[:, None, None] for part in (mean, variance, scale, shift))
    middle, spread, factor, offset = each
    want = (wide(x) - middle) / np.sqrt(spread + 1e-5) * factor + offset
    arguments = {
        **{"x": x, "mean": mean, "variance": variance, "scale": scale, "shift": shift},
        **{"out": poison(fmt, 2, 3, 31, 41), "channels": 3, "size": 31 * 41, "eps": 1e-5},
    }
    return _case("batch_norm", fmt, (6, 1, 1), arguments, {"out": want}, {"out": ROUNDING[fmt]})


def _group_norm(fmt: str) -> Case:
    x = draw(fmt, 2, 6, 29, 31)
    scale, shift = draw("fp32", 6, seed=2), draw("fp32", 6, seed=3)
    groups = wide(x).reshape(2, 2, -1)
    normal = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    factor, offset = (np.asarray(part, np.float64)[:, None, None] for part in (scale, shift))
    want = normal.reshape(x.shape) * factor + offset
    arguments = {
        **{"x": x, "scale": scale, "shift": shift, "out": poison(fmt, 2, 6, 29, 31)},
        **{"groups": 2, "channels": 3, "size": 29 * 31, "eps": 1e-5},
    }
    return _case("group_norm", fmt, (4, 1, 1), arguments, {"out": want}, {"out": ROUNDING[fmt]})


def _bmm(fmt: str) -> Case:
    a, b = draw(fmt, 3, 70, 90, seed=1), draw(fmt, 3, 90, 150, seed=2)
    arguments = {"a": a, "b": b, "c": poison(fmt, 3, 70, 150), "m": 70, "n": 150, "k": 90}
    return _case("bmm", fmt, (2, 2, 3), arguments, {"c": wide(a) @ wide(b)}, {"c": PRODUCTS[fmt]})


def _mv(fmt: str) -> Case:
    a, x = draw(fmt, 37, 1501), draw(fmt, 1501, seed=2)
    arguments = {"a": a, "x": x, "out": poison(fmt, 37), "rows": 37, "columns": 1501}
    return _case("mv", fmt, (3, 1, 1), arguments, {"out": wide(a) @ wide(x)}, {"out": ROUNDING[fmt]})


def _fill(fmt: str) -> Case:
    value = DTYPES[fmt].type(2.75)
    arguments = {"out": poison(fmt, _N), "n": _N, "value": 2.75}
    return _case("fill", fmt, (2, 1, 1), arguments, {"out": np.full(_N, value)})


def _pad(fmt: str) -> Case:
    x = draw(fmt, 5, 301)
    want = np.pad(wide(x), ((0, 0), (7, 9)), constant_values=1.5)
    arguments = {
        **{"x": x, "out": poison(fmt, 5, 317), "columns": 301, "before": 7, "width": 317, "value": 1.5}
    }
    return _case("pad", fmt, (5, 1, 1), arguments, {"out": want})


def _repeat(fmt: str) -> Case:
    x = draw(fmt, 5, 301)
    arguments = {"x": x, "out": poison(fmt, 15, 301), "columns": 301, "times": 3}
    return _case("repeat", fmt, (5, 1, 1), arguments, {"out": x.repeat(3, axis=0)})


def _concatenate(fmt: str) -> Case:
    x, y = draw(fmt, 5, 301), draw(fmt, 5, 77, seed=2)
    arguments = {"x": x, "y": y, "out": poison(fmt, 5, 378), "first": 301, "second": 77}
    return _case("concatenate", fmt, (5, 1, 1), arguments, {"out": np.concatenate([x, y], 1)})


_MADE: dict[str, Callable[[str], Case]] = {
    **{name: lambda fmt, name=name: _unary(name, fmt) for name in UNARY},  # type: ignore[misc]
    **{name: lambda fmt, name=name: _binary(name, fmt) for name in BINARY},  # type: ignore[misc]
    **{
        name: lambda fmt, name=name: _of_rows(name, fmt)  # type: ignore[misc]
        for name in ("sum", "mean", "variance", "norm")
    },
    **{"clamp": _clamp, "add_row": _add_row, "outer": _outer, "batch_norm": _batch_norm},
    **{"group_norm": _group_norm, "bmm": _bmm, "mv": _mv, "fill": _fill, "pad": _pad},
    **{"repeat": _repeat, "concatenate": _concatenate},
}

CASES = [(name, fmt) for name in _MADE for fmt in DTYPES]
"""Names and formats of all cases."""


def case(name: str, fmt: str) -> Case:
    """The case of an operator in a format."""
    return _MADE[name](fmt)
