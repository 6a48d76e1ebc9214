"""Operations of two operands, in every format and rounding mode, against exact integer arithmetic."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import exact_oracles as oracle
from exact_bench import Array, random_patterns, run, special
from exact_fractions import ARITHMETIC, LAYOUT, RDN, RNE, RTZ, RUP, STOCHASTIC, exact, rounded
from exact_oracles import Reals
from tx8isa.numbers.formats import FLOATS, Format

OPERATIONS: dict[str, Callable[[Reals, Reals, int], Reals]] = {
    "add": oracle.add,
    "sub": oracle.sub,
    "mul": oracle.mul,
    "div": oracle.div,
}
EXTREMES: dict[str, Callable[[Reals, Reals], Reals]] = {"max": oracle.maximum, "min": oracle.minimum}
MODES = (RNE, RTZ, RUP, RDN)


def pairs(fmt: Format, n: int, seed: int) -> tuple[Array, Array]:
    """All pairs of special patterns, then ``n`` random ones of eight kinds in turn."""
    rng = np.random.default_rng(seed)
    exponent_bits, mantissa_bits, unused = LAYOUT[fmt]
    bias, ones = (1 << (exponent_bits - 1)) - 1, (1 << mantissa_bits) - 1
    a, b = (random_patterns(fmt, n, rng).astype(np.int64) >> unused for _ in range(2))
    sign = 1 << (exponent_bits + mantissa_bits)
    field = a >> mantissa_bits & ((1 << exponent_bits) - 1)

    def with_field(wanted: Array, x: Array) -> Array:
        wanted = np.clip(wanted, 0, (1 << exponent_bits) - 2)
        return x & (sign | ones) | wanted << mantissa_bits

    few = rng.integers(-3, 4, n)
    tiny = rng.integers(0, 1 << mantissa_bits, n) | (b & sign)
    huge = (1 << exponent_bits) - 2 - (few & 1)
    kinds = [
        b,
        with_field(field, b) ^ (b & sign) ^ ((a & sign) ^ sign),  # the same exponent, other sign
        (a ^ sign) + few & (2 * sign - 1),  # all places cancel but a few
        with_field(field - mantissa_bits + few, b),  # the addend is around the last place
        with_field(field - 2 * mantissa_bits + few, b),
        tiny,
        with_field(2 * bias - field + bias - 1 + few, b),  # products near the largest
        with_field(bias - mantissa_bits - field + few, b),  # products near the smallest
    ]
    turn = np.arange(n) % (len(kinds) + 1)
    second = np.choose(np.minimum(turn, len(kinds) - 1), kinds)
    first = np.where(turn == len(kinds), with_field(huge, a), a)  # the end of the range
    second = np.where(turn == len(kinds), with_field(huge, b), second)
    noise = rng.integers(0, 1 << unused, (2, n))
    dtype = f"u{fmt.bits // 8}"
    special_ones = special(fmt)
    size = len(special_ones)
    return (
        np.concatenate([np.repeat(special_ones, size), (first << unused | noise[0]).astype(dtype)]),
        np.concatenate([np.tile(special_ones, size), (second << unused | noise[1]).astype(dtype)]),
    )


def expect(found: Array, expected: Array, a: Array, b: Array, what: str) -> None:
    wrong = np.flatnonzero(found != expected)
    if wrong.size:
        i = int(wrong[0])
        pytest.fail(
            f"{what}: {wrong.size} of {len(a)} wrong, first {int(a[i]):#x}, {int(b[i]):#x}: "
            f"{int(found[i]):#x}, exact {int(expected[i]):#x}"
        )


def compare(name: str, fmt: Format, n: int, compiled: bool) -> None:
    a, b = pairs(fmt, n, 7)
    for mode in MODES:
        result = OPERATIONS[name](oracle.reals(fmt, a), oracle.reals(fmt, b), mode)
        found = run(f"ct.{name}.vv", fmt, (a, b), fmt, compiled, rnd=mode)
        expect(found, oracle.stored(fmt, result, mode), a, b, f"{name} {fmt.token} mode {mode}")


@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_arithmetic_is_rounded_once_in_every_mode(name: str, fmt: Format) -> None:
    compare(name, fmt, 10_000, True)


@pytest.mark.long
@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_arithmetic_on_a_million_pairs(name: str, fmt: Format) -> None:
    compare(name, fmt, 1_000_000, True)


@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes(name: str, fmt: Format) -> None:
    a, b = pairs(fmt, 10_000, 8)
    result = EXTREMES[name](oracle.reals(fmt, a), oracle.reals(fmt, b))
    found = run(f"ct.{name}.vv", fmt, (a, b), fmt, True)
    expect(found, oracle.stored(fmt, result, RNE), a, b, f"{name} {fmt.token}")


# --- the sign of a zero -------------------------------------------------------------------

DECIMAL = {RNE: ROUND_HALF_EVEN, RTZ: ROUND_DOWN, RUP: ROUND_CEILING, RDN: ROUND_FLOOR}


def zero_sums(fmt: Format) -> tuple[Array, Array]:
    """Both zeros with both, and special and random numbers with their negatives, in either order."""
    numbers = np.concatenate([special(fmt), random_patterns(fmt, 300, np.random.default_rng(3))])
    numbers = numbers[oracle.reals(fmt, numbers).kind == oracle.FINITE]
    sign = 1 << (fmt.bits - 1)
    zeros = np.array([0, 0, sign, sign], numbers.dtype), np.array([0, sign, 0, sign], numbers.dtype)
    return np.concatenate([zeros[0], numbers]), np.concatenate([zeros[1], numbers ^ numbers.dtype.type(sign)])


def decimals(fmt: Format, stored: Array) -> list[Decimal]:
    """Finite numbers as decimals with 28 digits, enough for opposite numbers to cancel."""
    values = [exact(fmt, x) for x in stored.tolist()]
    return [Decimal(x) if isinstance(x, str) else Decimal(x.numerator) / x.denominator for x in values]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", ["add", "sub"])
def test_sign_of_exact_zero_sums_is_that_of_decimal(name: str, fmt: Format, compiled: bool) -> None:
    """IEEE 754, 6.3, as Python's decimal has it; stochastic rounding as to nearest."""
    a, b = zero_sums(fmt)
    b = b if name == "add" else b ^ b.dtype.type(1 << (fmt.bits - 1))
    first, second, function = decimals(fmt, a), decimals(fmt, b), {"add": operator.add, "sub": operator.sub}
    for mode in (*MODES, STOCHASTIC):
        with localcontext(rounding=DECIMAL.get(mode, ROUND_HALF_EVEN)):
            sums = list(map(function[name], first, second))
        assert not any(sums)
        expected = np.array([x.is_signed() for x in sums]).astype(a.dtype) << (fmt.bits - 1)
        assert 0 < np.count_nonzero(expected) < len(a)
        found = run(f"ct.{name}.vv", fmt, (a, b), fmt, compiled, rnd=mode)
        expect(found, expected.astype(a.dtype), a, b, f"{name} {fmt.token} mode {mode}")


# --- stochastic rounding ------------------------------------------------------------------


def compare_stochastic(name: str, fmt: Format, a: Array, b: Array) -> None:
    """Results are one of the two neighbours; as many are rounded away from zero as expected, at each
    probability.

    The generator starts at a fixed state, so the outcome is always the same. Allowed: 5 standard deviations.
    """
    result = OPERATIONS[name](oracle.reals(fmt, a), oracle.reals(fmt, b), STOCHASTIC)
    low, high, probability = oracle.neighbours(fmt, result)
    found = run(f"ct.{name}.vv", fmt, (a, b), fmt, True, rnd=STOCHASTIC)
    expect(found, np.where(found == high, high, low), a, b, f"{name} {fmt.token} stochastic")
    open_ = (probability > 0) & (low != high)
    went = found[open_] == high[open_]
    chance = probability[open_]
    assert went.any() and not went.all()
    for first, last in ((0, 1), (0, 0.125), (0.125, 0.375), (0.375, 0.625), (0.625, 0.875), (0.875, 1)):
        some = (chance >= first) & (chance < last)
        spread = np.sqrt((chance[some] * (1 - chance[some])).sum())
        assert abs(went[some].sum() - chance[some].sum()) <= 5 * spread + 1, f"{name} {fmt.token} {first}"


@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_stochastic_rounding_of_random_pairs(name: str, fmt: Format) -> None:
    compare_stochastic(name, fmt, *pairs(fmt, 10_000, 9))


@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("eighths", range(9))
def test_stochastic_rounding_of_one_sum(fmt: Format, eighths: int) -> None:
    """1 plus some eighths of its last place, 8,000 times, is rounded up that often; 0 and 8 eighths are
    exact."""
    mantissa_bits, unused = LAYOUT[fmt][1:]
    one = rounded(fmt, Fraction(1), RNE)
    step = oracle.stored(fmt, Reals(*(np.array([v]) for v in (0, False, eighths, -mantissa_bits - 3))), RNE)
    a, b = np.full(8000, one, step.dtype), np.repeat(step, 8000)
    found = run("ct.add.vv", fmt, (a, b), fmt, True, rnd=STOCHASTIC)
    ups = (found.astype(np.int64) - one) >> unused
    p = eighths / 8
    assert set(ups.tolist()) == ({0, 1} if 0 < eighths < 8 else {eighths // 8})
    assert abs(ups.mean() - p) <= 5 * (p * (1 - p) / 8000) ** 0.5


@pytest.mark.parametrize("halvings", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("fmt", FLOATS)
def test_stochastic_rounding_below_the_smallest_number(fmt: Format, halvings: int) -> None:
    """The smallest subnormal divided by a power of two is returned as often as that probability says,
    otherwise 0."""
    smallest = 1 << LAYOUT[fmt][2]
    part = rounded(fmt, Fraction(1, 1 << halvings), RNE)
    a, b = (np.full(20_000, x, f"u{fmt.bits // 8}") for x in (smallest, part))
    found = run("ct.mul.vv", fmt, (a, b), fmt, True, rnd=STOCHASTIC)
    assert set(found.tolist()) == {0, smallest}
    p = 2.0**-halvings
    assert abs((found == smallest).mean() - p) <= 5 * (p * (1 - p) / 20_000) ** 0.5


@pytest.mark.long
@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_stochastic_rounding_of_a_million_pairs(name: str, fmt: Format) -> None:
    compare_stochastic(name, fmt, *pairs(fmt, 1_000_000, 10))


# --- the oracle itself --------------------------------------------------------------------


@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_oracle_equals_fractions(name: str, fmt: Format) -> None:
    a, b = (x[::29] for x in pairs(fmt, 10_000, 11))
    for mode in MODES:
        result = OPERATIONS[name](oracle.reals(fmt, a), oracle.reals(fmt, b), mode)
        found = oracle.stored(fmt, result, mode).tolist()
        for x, y, pattern in zip(a.tolist(), b.tolist(), found, strict=True):
            true = ARITHMETIC[name](exact(fmt, x), exact(fmt, y), mode)
            assert pattern == rounded(fmt, true, mode), f"{name} {x:#x} {y:#x} {fmt!r} mode {mode}"


NUMPY: dict[Format, Any] = {Format.FP16: np.float16, Format.BF16: ml_dtypes.bfloat16, Format.FP32: np.float32}


@pytest.mark.parametrize("fmt", NUMPY)
@pytest.mark.parametrize("name", OPERATIONS)
def test_oracle_equals_numpy_and_ml_dtypes(name: str, fmt: Format) -> None:
    """They round to nearest even on every pair; their NaN results may have any bits."""
    a, b = pairs(fmt, 10_000, 12)
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name]
    with np.errstate(all="ignore"):
        theirs = function(a.view(NUMPY[fmt]), b.view(NUMPY[fmt]))
    ours = oracle.stored(fmt, OPERATIONS[name](oracle.reals(fmt, a), oracle.reals(fmt, b), RNE), RNE)
    number = ~np.isnan(theirs.astype(np.float32))
    expect(theirs.view(a.dtype)[number], ours[number], a[number], b[number], f"numpy {name} {fmt.token}")
    assert np.array_equal(np.isnan(ours.view(NUMPY[fmt]).astype(np.float32)), ~number)


@pytest.mark.parametrize("fmt", FLOATS)
def test_pairs_reach_the_hard_cases(fmt: Format) -> None:
    """Cancellation, sums far apart, subnormal results and overflow all occur, many times."""
    a, b = (oracle.reals(fmt, x) for x in pairs(fmt, 10_000, 7))
    finite = (a.kind == 0) & (b.kind == 0)
    total, product = oracle.add(a, b), oracle.mul(a, b)
    sums = oracle.cut(fmt, total)
    one, infinity = 1 << LAYOUT[fmt][1], ((1 << LAYOUT[fmt][0]) - 1) << LAYOUT[fmt][1]
    assert (finite & (total.magnitude == 0)).sum() > 50
    assert (finite & (sums.rest > 0) & (sums.rest == 1 << np.maximum(sums.places - 1, 0))).sum() > 50  # ties
    products = oracle.cut(fmt, product).pattern
    assert (finite & (products < one) & (product.magnitude > 0)).sum() > 300
    assert (finite & (products >= infinity)).sum() > 300
    assert (finite & (sums.pattern >= infinity)).sum() > 50
    assert (finite & (np.abs(a.exponent - b.exponent) > LAYOUT[fmt][1])).sum() > 300
