"""Converts: all patterns of 8 and 16 bits, many of 32, in every rounding mode, against exact integers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import exact_oracles as oracle
from exact_bench import Array, all_16_bits, has_modes, random_patterns, run, special
from exact_fractions import LAYOUT, RDN, RNE, RTZ, RUP, STOCHASTIC, exact, number, rounded
from exact_oracles import FINITE, INFINITE, NAN, Reals
from kernel_bench import RECORDS
from tx8isa.numbers.formats import Format
from tx8isa.records.meaning import Convert

CONVERTS: list[Convert] = [i.meaning for i in RECORDS.values() if isinstance(i.meaning, Convert)]
ROUNDED = [c for c in CONVERTS if has_modes(f"ct.cvt.{c.source.token}.{c.target.token}")]
WITH_ZERO = [c for c in CONVERTS if c.zero_point]


def ident(meaning: Convert) -> str:
    return f"{meaning.source.token}-{meaning.target.token}"


def convert(meaning: Convert, data: Array, mode: int, **more: int) -> Array:
    mnemonic = f"ct.cvt.{meaning.source.token}.{meaning.target.token}"
    rounding = {"rnd": mode} if has_modes(mnemonic) else {}
    return run(mnemonic, None, (data,), meaning.target, True, **rounding, **more)


def sources(fmt: Format, n: int) -> Array:
    """Every pattern of 8 or 16 bits; of 32 bits special, random and difficult ones."""
    if fmt.bits == 8:
        return np.arange(256, dtype=np.uint8)
    if fmt.bits == 16:
        return all_16_bits()
    rng = np.random.default_rng(21)
    if not fmt.is_float:
        return integers_of_every_size(n, rng)
    wide = rng.uniform(-33, 33, n // 4)
    near_whole = np.ldexp(rng.integers(-(1 << 12), 1 << 12, n // 4), rng.integers(-4, 21, n // 4))
    sizes = np.concatenate([np.exp2(wide) * rng.choice([-1, 1], len(wide)), near_whole]).astype(np.float32)
    narrow_ties = random_patterns(fmt, n // 4, rng) & np.uint32(0xFFFFF000)
    others = random_patterns(fmt, n - n // 4 * 3, rng)
    return np.concatenate([special(fmt), sizes.view(np.uint32), narrow_ties, others])


def integers_of_every_size(n: int, rng: np.random.Generator) -> Array:
    """Powers of two, neighbours, midpoints between numbers of fewer bits, of both signs; random ones."""
    powers = 1 << np.arange(32, dtype=np.int64)
    ties = np.concatenate([(1 << k) + powers[:k] for k in range(1, 31)])
    edges = np.concatenate([powers + d for d in (-2, -1, 0, 1, 2)] + [ties, ties - 1, ties + 1])
    any_size = rng.integers(0, 1 << 32, n) >> rng.integers(0, 32, n)
    found = np.concatenate([edges, -edges, any_size, -any_size])
    return (found & 0xFFFFFFFF).astype(np.uint32)


def numbers(fmt: Format, data: Array) -> Reals:
    return oracle.reals(fmt, data) if fmt.is_float else oracle.integers(fmt, data)


def quieted(source: Format, target: Format, data: Array) -> Array:
    """NaN in another format, by text: sign, ones, a one for the quiet bit, the payload cut or filled."""
    exponent, mantissa, unused = LAYOUT[source]
    results = []
    for pattern in data.tolist():
        text = f"{pattern >> unused:0{1 + exponent + mantissa}b}"
        payload = text[2 + exponent :].ljust(64, "0")[: LAYOUT[target][1] - 1]
        new = text[0] + "1" * LAYOUT[target][0] + "1" + payload + "0" * LAYOUT[target][2]
        results.append(int(new, 2))
    return np.array(results, f"u{target.bits // 8}")


def expected(meaning: Convert, data: Array, mode: int) -> Array:
    """The exact results."""
    x = numbers(meaning.source, data)
    if not meaning.target.is_float:
        return oracle.stored_integers(meaning.target, x, mode)
    result = oracle.stored(meaning.target, x, mode)
    if meaning.source.is_float:
        nan = x.kind == NAN
        result[nan] = quieted(meaning.source, meaning.target, data[nan])
    return result


def expect(found: Array, right: Array, data: Array, what: str) -> None:
    wrong = np.flatnonzero(found != right)
    if wrong.size:
        i = int(wrong[0])
        pytest.fail(
            f"{what}: {wrong.size} of {len(data)} wrong, first {int(data[i]):#x}: "
            f"{int(found[i]):#x}, exact {int(right[i]):#x}"
        )


def compare(meaning: Convert, n: int) -> None:
    data = sources(meaning.source, n)
    for mode in (RNE, RTZ, RUP, RDN) if meaning in ROUNDED else (RNE,):
        found = convert(meaning, data, mode)
        expect(found, expected(meaning, data, mode), data, f"{ident(meaning)} mode {mode}")


def test_every_convert_is_here() -> None:
    assert len(CONVERTS) == 36
    assert len(ROUNDED) == 36 - 4 - 9  # INT8 sources, and nine without an operand for it (spec)
    assert [c.source for c in WITH_ZERO] == [Format.INT8] * 4


@pytest.mark.parametrize("meaning", CONVERTS, ids=ident)
def test_converts_are_rounded_once_in_every_mode(meaning: Convert) -> None:
    compare(meaning, 10_000)


@pytest.mark.long
@pytest.mark.parametrize("meaning", [c for c in CONVERTS if c.source.bits == 32], ids=ident)
def test_converts_of_a_million_patterns(meaning: Convert) -> None:
    compare(meaning, 1_000_000)


@pytest.mark.parametrize("meaning", WITH_ZERO, ids=ident)
def test_every_zero_point(meaning: Convert) -> None:
    data = sources(Format.INT8, 0)
    value = data.view(np.int8).astype(np.int64)
    for zero in range(128):
        right = oracle.stored(meaning.target, oracle.whole(value - zero), RNE)
        expect(convert(meaning, data, RNE, zero=zero), right, data, f"{ident(meaning)} zero={zero}")


# --- stochastic rounding ------------------------------------------------------------------


def neighbours(meaning: Convert, data: Array) -> tuple[Array, Array, Array]:
    """Return (toward zero, away from zero, probability of the second) for all values but NaN."""
    x = numbers(meaning.source, data)
    if meaning.target.is_float:
        return oracle.neighbours(meaning.target, x)
    kept, rest, places = oracle.whole_neighbours(x)
    low, high = (oracle.saturated(meaning.target, x, m) for m in (kept, kept + (rest > 0)))
    return low, high, np.where(x.kind == FINITE, np.ldexp(rest.astype(np.float64), -places), 0.0)


@pytest.mark.parametrize("meaning", ROUNDED, ids=ident)
def test_stochastic_rounding(meaning: Convert) -> None:
    """Results are one of the two neighbours; as many are rounded away from zero as expected, at each
    probability; NaN by its rule.

    The generator starts at a fixed state, so the outcome is always the same. Allowed: 5 standard deviations.
    """
    data = sources(meaning.source, 20_000)
    low, high, probability = neighbours(meaning, data)
    found = convert(meaning, data, STOCHASTIC)
    nan = numbers(meaning.source, data).kind == NAN if meaning.source.is_float else np.zeros(len(data), bool)
    right = np.where(found == high, high, low)
    right[nan] = expected(meaning, data[nan], RNE)
    expect(found, right, data, f"{ident(meaning)} stochastic")
    inexact = (probability > 0) & (low != high) & ~nan
    went, chance = found[inexact] == high[inexact], probability[inexact]
    for first, last in ((0, 1), (0, 0.125), (0.125, 0.375), (0.375, 0.625), (0.625, 0.875), (0.875, 1)):
        some = (chance >= first) & (chance < last)
        spread = np.sqrt((chance[some] * (1 - chance[some])).sum())
        assert abs(went[some].sum() - chance[some].sum()) <= 5 * spread + 1, f"{ident(meaning)} {first}"


@pytest.mark.parametrize("meaning", ROUNDED, ids=ident)
def test_stochastic_rounding_is_tested_where_it_can_be_inexact(meaning: Convert) -> None:
    """Lossless converts have a mode too; the others see hundreds of inexact values."""
    low, high, probability = neighbours(meaning, sources(meaning.source, 20_000))
    inexact = int(((probability > 0) & (low != high)).sum())
    width = {Format.INT16: 15, Format.INT32: 31}
    kept = LAYOUT[meaning.target][1] + 1 if meaning.target.is_float else 0
    always_exact = width.get(meaning.source, 99) <= kept
    assert inexact == 0 if always_exact else inexact > 300


# --- the oracle itself --------------------------------------------------------------------

NUMPY: dict[Format, Any] = {
    Format.FP16: np.float16,
    Format.BF16: ml_dtypes.bfloat16,
    Format.FP32: np.float32,
    Format.INT8: np.int8,
    Format.INT16: np.int16,
    Format.INT32: np.int32,
}


@pytest.mark.parametrize(
    "meaning", [c for c in CONVERTS if c.target.is_float and {c.source, c.target} <= set(NUMPY)], ids=ident
)
def test_oracle_equals_numpy_and_ml_dtypes(meaning: Convert) -> None:
    """Rounds to nearest even; NaN has a separate rule. From INT32 numpy rounds to FP16 and BF16 through
    FP32."""
    data = sources(meaning.source, 20_000)
    with np.errstate(all="ignore"):
        values = data.view(NUMPY[meaning.source])
        theirs = values.astype(NUMPY[meaning.target])
    right = expected(meaning, data, RNE)
    number_ = ~np.isnan(theirs.astype(np.float32))
    if meaning.source is Format.INT32 and meaning.target.bits == 16:
        number_ &= np.abs(values.astype(np.int64)) < 1 << 24
    expect(theirs.view(right.dtype)[number_], right[number_], data[number_], f"numpy {ident(meaning)}")


@pytest.mark.parametrize("target", [Format.INT8, Format.INT16, Format.INT32])
@pytest.mark.parametrize("source", [Format.FP16, Format.BF16, Format.FP32, Format.TF32])
def test_oracle_of_integers_equals_fractions(source: Format, target: Format) -> None:
    data = sources(source, 2000)[:: 47 if source.bits == 16 else 3]
    high = (1 << (target.bits - 1)) - 1
    for mode in (RNE, RTZ, RUP, RDN):
        found = oracle.stored_integers(target, oracle.reals(source, data), mode).tolist()
        for pattern, result in zip(data.tolist(), found, strict=True):
            x = exact(source, pattern)
            if x in ("nan", "+inf", "-inf"):
                value = {"nan": 0, "+inf": high, "-inf": -high - 1}[str(x)]
            else:
                f = number(x)
                low, up = f.numerator // f.denominator, -(-f.numerator // f.denominator)
                value = {RNE: round(f), RTZ: up if f < 0 else low, RUP: up, RDN: low}[mode]
            assert result == min(max(value, -high - 1), high) % (1 << target.bits), f"{pattern:#x} {mode}"


@pytest.mark.parametrize("target", [Format.FP16, Format.BF16, Format.FP32, Format.TF32])
@pytest.mark.parametrize("source", [Format.INT32, Format.FP32])
def test_oracle_of_floats_equals_fractions(source: Format, target: Format) -> None:
    data = sources(source, 600)[::3]
    x = numbers(source, data)
    for mode in (RNE, RTZ, RUP, RDN):
        found = oracle.stored(target, x, mode).tolist()
        for pattern, result in zip(data.tolist(), found, strict=True):
            value = exact(source, pattern) if source.is_float else _integer(pattern)
            assert result == rounded(target, value, mode), f"{pattern:#x} mode {mode}"


def _integer(pattern: int) -> Fraction:
    return Fraction(pattern - (1 << 32) if pattern >> 31 else pattern)


def test_infinities_of_the_oracle_saturate() -> None:
    x = oracle.reals(Format.FP16, np.array([0x7C00, 0xFC00, 0x7E00], np.uint16))
    assert x.kind.tolist() == [INFINITE, INFINITE, NAN]
    assert oracle.stored_integers(Format.INT8, x, RNE).tolist() == [0x7F, 0x80, 0]
