"""The errors that a computed output may have.

The limits are data: one table for operator tests and whole models by compute type, and limits of integers and
half-precision outputs. They bound rounding, not mistakes: NaN and infinities must be at their places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from compiler.graph import Array, GraphError

Kind = Literal["operator", "movement", "quantising", "near", "quantised", "model"]
"""The kind of computation of an output: one operator, one that only moves values, one that quantises, a model
whose integers may be one step off, a quantised model in place of one of floats, or a model."""


@dataclass(frozen=True)
class Tolerance:
    """Limits on ``got - expected``; None is no limit.

    Each element within ``absolute + relative*|expected|``, the largest error within ``of_largest`` times the
    largest expected magnitude, the cosine at least ``cosine``.
    """

    absolute: float | None = None
    relative: float = 0.0
    of_largest: float | None = None
    cosine: float | None = None


EXACT = Tolerance(absolute=0.0)

MODELS = {
    "fp32": Tolerance(of_largest=2e-3, cosine=0.99999),
    "tf32": Tolerance(of_largest=3e-2, cosine=0.9995),
    "fp16": Tolerance(of_largest=3e-2, cosine=0.999),
    "bf16": Tolerance(of_largest=0.15, cosine=0.998),
}
"""Tolerances of whole models, by compute type."""

BYTES = Tolerance(of_largest=0.15, cosine=0.99)
"""The tolerance of models whose bytes no other program defines.

Either every convolution may differ by one step from ONNX's integers, or the model replaces one of floats.
"""

OPERATOR_TESTS = {
    "fp32": Tolerance(absolute=1e-4, relative=1e-3),
    "tf32": Tolerance(of_largest=1e-2, cosine=0.9999),
    "fp16": Tolerance(of_largest=2e-2, cosine=0.999),
    "bf16": Tolerance(of_largest=6e-2, cosine=0.999),
}
"""Tolerances of single operators, by compute type."""

HALF_OUTPUTS = {
    "float16": Tolerance(absolute=2e-3, relative=1e-2),
    "bfloat16": Tolerance(absolute=1e-2, relative=3e-2),
}
"""Tolerances of outputs that are declared in half precision and computed in fp32, by declared dtype."""

QUANTISING_ONE_IN = 20
"""A quantising operator may be off by one step in one of this many values."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a comparison. ``max_abs_error`` and ``cosine`` are over the finite elements expected."""

    ok: bool
    max_abs_error: float
    cosine: float
    text: str


def limits(kind: Kind, dtype: str, declared: str) -> Tolerance:
    """The tolerance for float outputs: ``dtype`` is the compute type, ``declared`` the output's own dtype."""
    if dtype not in MODELS:
        raise GraphError([f"unknown compute type {dtype!r}; allowed are {', '.join(MODELS)}"])
    if dtype == "fp32" and kind == "movement":
        return EXACT
    if dtype == "fp32" and declared in HALF_OUTPUTS:
        return HALF_OUTPUTS[declared]
    if kind in ("near", "quantised"):
        return BYTES
    return (MODELS if kind == "model" else OPERATOR_TESTS)[dtype]


def judge(
    kind: Kind,
    dtype: str,
    got: Array,
    expected: Array,
    *,
    declared: str | None = None,
    limit: Tolerance | None = None,
) -> Verdict:
    """Compare an output with its expected value.

    ``dtype`` is the compute type (``fp32``, ``tf32``, ``fp16``, ``bf16``). ``declared`` is the dtype that the
    graph declares for the output; without it, that of ``got`` (bfloat16 that travels as float32 must say so).
    ``limit`` replaces the limits of floats.
    """
    if got.shape != expected.shape:
        return Verdict(False, np.inf, 0.0, f"shape {list(got.shape)}, expected {list(expected.shape)}")
    if got.dtype.kind in "iub" or expected.dtype.kind in "iub":
        return _judge_integers(kind, got, expected)
    a, b = got.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
        return Verdict(False, np.inf, 0.0, "NaN or infinities are not where they are expected")
    limit = limit or limits(kind, dtype, declared or got.dtype.name)
    return _judge_finite(limit, a[finite], b[finite])


def _judge_finite(limit: Tolerance, a: Array, b: Array) -> Verdict:
    error = np.abs(a - b)
    largest = float(error.max(initial=0.0))
    cosine = cosine_of(a, b)
    problems = []
    if limit.absolute is not None:
        allowed = limit.absolute + limit.relative * np.abs(b)
        wrong = int(np.count_nonzero(error > allowed))
        if wrong:
            bound_text = f"{limit.absolute:g} + {limit.relative:g}*|expected|"
            problems.append(f"{wrong} of {a.size} elements beyond {bound_text}")
    if limit.of_largest is not None:
        bound = limit.of_largest * float(np.abs(b).max(initial=0.0))
        if largest > bound:
            problems.append(f"max error above {bound:.3g}, {limit.of_largest:g} of the largest value")
    if limit.cosine is not None and cosine < limit.cosine:
        problems.append(f"cosine below {limit.cosine:g}")
    measured = f"max error {largest:.3g}, cosine {cosine:.7f}"
    return Verdict(not problems, largest, cosine, "; ".join([measured, *problems]))


def _judge_integers(kind: Kind, got: Array, expected: Array) -> Verdict:
    """Equal, dtypes included; a quantising operator may be one step off in few values.

    Where single steps are allowed everywhere, they add up in later nodes, so only the cosine is limited. In a
    model that replaces one of floats, such as a classifier, an equally large share must be equal.
    """
    if got.dtype != expected.dtype:
        return Verdict(False, np.inf, 0.0, f"dtype {got.dtype.name}, expected {expected.dtype.name}")
    differ = got != expected
    wrong = int(np.count_nonzero(differ))
    pairs = zip(got[differ].tolist(), expected[differ].tolist(), strict=True)
    largest = max((abs(int(a) - int(b)) for a, b in pairs), default=0)
    cosine = cosine_of(got.astype(np.float64).ravel(), expected.astype(np.float64).ravel())
    tolerated = kind == "quantising" and largest <= 1 and wrong * QUANTISING_ONE_IN <= got.size
    least = BYTES.cosine or 0.0
    if kind == "near" and got.dtype.itemsize == 1:
        tolerated = cosine >= least
    if kind == "quantised":
        tolerated = got.size - wrong >= least * got.size
    return Verdict(not wrong or tolerated, float(largest), cosine, f"{wrong} of {got.size} values differ")


def cosine_of(a: Array, b: Array) -> float:
    """Cosine of the angle between two vectors; 1 if both are zero, 0 if one is."""
    scale_a, scale_b = np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0)
    if scale_a == 0.0 or scale_b == 0.0:
        return 1.0 if scale_a == scale_b else 0.0
    # Scaled first, so that the squares of very large or very small values stay in range.
    a, b = a / scale_a, b / scale_b
    return min(1.0, float(np.dot(a, b) / np.sqrt(np.dot(a, a) * np.dot(b, b))))
