"""Functions of one operand: all patterns of FP16 and BF16, and many of FP32 and TF32.

An exact operation must be rounded correctly, and a transcendental function must be within 1 ulp of the
format. ``python tests/support/kernels/exact_report.py`` prints the errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import exact_functions
import exact_oracles as oracle
from exact_bench import run
from exact_fractions import exact, number, rounded
from exact_oracles import FINITE, Reals
from kernel_bench import RECORDS
from tx8isa.numbers.formats import FLOATS, Format
from tx8isa.records.meaning import Elementwise, Form
from unary_cases import LIMITS, _numbers, sources, worst_ulps

# --- correctly rounded operations ---------------------------------------------------------


def relu(x: Reals) -> Reals:
    zero = oracle.constant(0, 0, x)
    return oracle.chosen(oracle.order_key(x) > 0, x, zero)


def satrelu(x: Reals) -> Reals:
    return oracle.minimum(relu(x), oracle.constant(6, 0, x))


def leakyrelu(x: Reals) -> Reals:
    """A hundredth of negative numbers."""
    below = oracle.div(x, oracle.constant(100, 0, x))
    pick = x.negative & (x.kind == FINITE) & (x.magnitude > 0)
    return Reals(x.kind, x.negative, *(np.where(pick, getattr(below, n), getattr(x, n)) for n in _SIZE))


_SIZE = ("magnitude", "exponent")

EXACT: dict[str, Callable[[Reals], Reals]] = {
    "abs": lambda x: Reals(x.kind, np.zeros_like(x.negative), x.magnitude, x.exponent),
    "recip": lambda x: oracle.div(oracle.constant(1, 0, x), x),
    "square": lambda x: oracle.mul(x, x),
    "sqrt": oracle.sqrt,
    "rsqrt": oracle.rsqrt,
    "neg": lambda x: oracle.sub(oracle.constant(0, 0, x), x),
    "relu": relu,
    "satrelu": satrelu,
    "leakyrelu": leakyrelu,
}


def compare_exact(name: str, fmt: Format, n: int) -> None:
    stored, x = _numbers(fmt, n)
    found = run(f"ct.{name}.v", fmt, (stored,), fmt, True)
    expected = oracle.stored(fmt, EXACT[name](x), 0)
    wrong = np.flatnonzero(found != expected)
    if wrong.size:
        i = int(wrong[0])
        pytest.fail(
            f"{name} {fmt.token}: {wrong.size} of {len(stored)} wrong, first {int(stored[i]):#x}: "
            f"{int(found[i]):#x}, exact {int(expected[i]):#x}"
        )


@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", EXACT)
def test_exact_operations_are_rounded_correctly(name: str, fmt: Format) -> None:
    compare_exact(name, fmt, 10_000)


@pytest.mark.long
@pytest.mark.parametrize("fmt", [Format.FP32, Format.TF32])
@pytest.mark.parametrize("name", EXACT)
def test_exact_operations_on_a_million_patterns(name: str, fmt: Format) -> None:
    compare_exact(name, fmt, 1_000_000)


# --- transcendental functions -------------------------------------------------------------


def check_limits(name: str, fmt: Format) -> None:
    places = [rounded(fmt, x, 0) for x in ("-inf", "+inf", Fraction(0), "-0")]
    stored = np.array(places, f"u{fmt.bits // 8}")
    found = run(f"ct.{name}.v", fmt, (stored,), fmt, True).tolist()
    assert found == [rounded(fmt, x, 0) for x in LIMITS[name]], f"{name} {fmt.token}"


@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", LIMITS)
def test_functions_are_within_one_ulp(name: str, fmt: Format) -> None:
    worst, at = worst_ulps(name, fmt, 7300)
    assert worst <= 1.0, f"{name} {fmt.token}: {worst} ulp at {at:#x}"
    check_limits(name, fmt)


@pytest.mark.long
@pytest.mark.parametrize("fmt", [Format.FP32, Format.TF32])
@pytest.mark.parametrize("name", LIMITS)
def test_functions_on_a_million_patterns(name: str, fmt: Format) -> None:
    worst, at = worst_ulps(name, fmt, 700_000)
    assert worst <= 1.0, f"{name} {fmt.token}: {worst} ulp at {at:#x}"


def test_every_function_of_one_operand_is_here() -> None:
    names = {
        i.mnemonic
        for i in RECORDS.values()
        if isinstance(i.meaning, Elementwise) and i.meaning.form is Form.V
    }
    assert names == {f"ct.{name}.v" for name in (*EXACT, *LIMITS)}


# --- the oracle itself --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["recip", "square", "sqrt", "rsqrt"])
def test_oracle_equals_mpmath(name: str) -> None:
    """Correctly rounded results of FP32, found by mpmath to 200 bits and rounded by fractions."""
    function = {
        "recip": lambda x: 1 / x,
        "square": lambda x: x * x,
        "sqrt": mpmath.sqrt,
        "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    }[name]
    stored = sources(Format.FP32, 500)
    found = oracle.stored(Format.FP32, EXACT[name](oracle.reals(Format.FP32, stored)), 0)
    compared = 0
    for pattern, result in zip(stored.tolist(), found.tolist(), strict=True):
        x = exact(Format.FP32, pattern)
        if isinstance(x, str) or x <= 0:
            continue
        with mpmath.workprec(200):
            y = function(mpmath.mpf(number(x).numerator) / number(x).denominator)
            true = Fraction(int(y.man)) * Fraction(2) ** int(y.exp)
        assert result == rounded(Format.FP32, true, 0), f"{name} {pattern:#x}"
        compared += 1
    assert compared > 200


LIBRARY: dict[str, Callable[[float], float]] = {
    "log2": math.log2,
    "ln": math.log,
    "pow2": lambda x: 2.0**x,
    "exp": math.exp,
    "exp_lp": math.exp,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "softplus": lambda x: x if x > 20 else math.log1p(math.exp(x)),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_functions_of_the_oracle_equal_the_c_library(name: str) -> None:
    """So a wrong oracle cannot agree with a wrong kernel; exp_lp has a separate error bound."""
    x = np.concatenate([np.geomspace(1e-3, 80, 200), np.array([math.pi])]).astype(np.float32)
    x = x if LIMITS[name][:2] == ("nan", "+inf") else np.concatenate([x, -x])
    x = np.append(x, np.float32(3e38)) if name in ("sin", "cos") else x
    found = exact_functions.true_values(name, Format.FP32, x.view(np.uint32))
    value = np.ldexp(found.magnitude.astype(np.float64), found.exponent) * np.where(found.negative, -1, 1)
    theirs = np.array([LIBRARY[name](number_) for number_ in x.tolist()])
    assert np.allclose(value, theirs, rtol=1e-5 if name == "exp_lp" else 1e-12, atol=0)


def test_ulps_of_known_distances() -> None:
    """Half a place, two places across a power of two, a wrong sign, infinity for a large number."""
    fmt, plus = Format.FP16, (False,) * 4
    true = Reals(*map(np.array, ((0,) * 4, plus, (2049, 1024, 1024, 4095), (-11, -10, -10, 4))))
    found = np.array([0x3C00, 0x3BFC, 0xBC00, 0x7C00], np.uint16)
    assert oracle.ulps(fmt, found, true).tolist() == [0.5, 2.0, np.inf, 0.5]
