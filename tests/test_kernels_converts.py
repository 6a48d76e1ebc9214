"""Converts against numpy, ml_dtypes and fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from test_kernels import RECORDS, SPECIAL, Tile, patterns
from test_kernels_oracles import LAYOUT, RDN, RNE, RTZ, RUP, Exact, exact, number, rounded

from tx8isa.formats import Format

DST = 0x8000
STOCHASTIC = 4


def run_convert(
    source: Format, target: Format, mode: int, data: np.ndarray[Any, Any], compiled: bool = True
) -> np.ndarray[Any, Any]:
    tile, mnemonic = Tile(0), f"ct.cvt.{source.token}.{target.token}"
    found = []
    rounded_by = {"rnd": mode} if any(o.name == "rnd" for o in RECORDS[mnemonic].operands) else {}
    for at in range(0, len(data), 0x1000):
        piece = data[at : at + 0x1000]
        tile.spm[: piece.nbytes] = piece.view(np.uint8)
        tile.run(mnemonic, None, compiled, {"dst": DST, "src0": 0, "n": len(piece), **rounded_by})
        size = len(piece) * target.bits // 8
        found.append(tile.spm[DST : DST + size].view(f"u{target.bits // 8}").copy())
    return np.concatenate(found)


NUMPY = {
    Format.FP16: np.float16, Format.BF16: ml_dtypes.bfloat16, Format.FP32: np.float32,
    Format.INT8: np.int8, Format.INT16: np.int16, Format.INT32: np.int32,
}  # fmt: skip
ALL_16 = np.arange(65536, dtype=np.uint16)


@pytest.mark.parametrize("target", [Format.FP16, Format.BF16, Format.FP32])
@pytest.mark.parametrize("source", [Format.FP16, Format.BF16, Format.INT16])
def test_converts_of_all_16_bit_patterns(source: Format, target: Format) -> None:
    """Against numpy and ml_dtypes; NaNs by rule: sign and upper payload kept, quiet bit set."""
    if source is target:
        return
    with np.errstate(all="ignore"):
        values = ALL_16.view(NUMPY[source]).astype(np.float32)
        expected = values.astype(NUMPY[target]).view(f"u{target.bits // 8}")
    found = run_convert(source, target, RNE, ALL_16)
    number_ = ~np.isnan(values)
    assert np.array_equal(found[number_], expected[number_])
    for pattern, result in zip(ALL_16[~number_].tolist(), found[~number_].tolist(), strict=True):
        assert result == _nan(source, target, pattern), f"{pattern:#x}"


def _nan(source: Format, target: Format, pattern: int) -> int:
    """By text: sign, then all ones, then a one for the quiet bit, then the payload cut or filled."""
    width = LAYOUT[source][0], LAYOUT[source][1]
    text = f"{pattern >> LAYOUT[source][2]:0{1 + sum(width)}b}"
    payload = text[1 + width[0] + 1 :].ljust(64, "0")[: LAYOUT[target][1] - 1]
    return int(text[0] + "1" * LAYOUT[target][0] + "1" + payload + "0" * LAYOUT[target][2], 2)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (Format.FP32, Format.FP16),
        (Format.TF32, Format.BF16),
        (Format.FP32, Format.TF32),
        (Format.BF16, Format.TF32),
    ],
)
def test_nans_keep_sign_and_payload(source: Format, target: Format) -> None:
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << 32, 500, dtype=np.uint64).astype(np.uint32) | np.uint32(0x7F802000)
    if source.bits == 16:
        bits = (bits >> 16).astype(np.uint16) | np.uint16(0x7F81)
    for pattern, result in zip(bits.tolist(), run_convert(source, target, RNE, bits).tolist(), strict=True):
        assert result == _nan(source, target, pattern), f"{pattern:#x}"


def integer(fmt: Format, pattern: int) -> int:
    return pattern - (1 << fmt.bits) if pattern >> (fmt.bits - 1) else pattern


def to_integer(x: Exact, fmt: Format, mode: int) -> int:
    """Rounded, saturated, NaN to 0; as an unsigned pattern."""
    high = (1 << (fmt.bits - 1)) - 1
    if x in ("nan", "+inf", "-inf"):
        value = {"nan": 0, "+inf": high, "-inf": -high - 1}[str(x)]
    else:
        exact_value = number(x)
        low = exact_value.numerator // exact_value.denominator
        up = -(-exact_value.numerator // exact_value.denominator)
        value = {RNE: round(exact_value), RTZ: up if exact_value < 0 else low, RUP: up, RDN: low}[mode]
        value = min(max(value, -high - 1), high)
    return value % (1 << fmt.bits)


CONVERTS = [i.meaning for i in RECORDS.values() if i.mnemonic.startswith("ct.cvt.")]


def convert_sources(source: Format, n: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(11)
    data = np.concatenate([np.array(SPECIAL[source], f"u{source.bits // 8}"), patterns(source, n, rng)])
    if source.is_float:
        return data
    small = rng.integers(-70000, 70000, n).astype(np.int32).view(np.uint32)
    return np.concatenate([data, small if source is Format.INT32 else data])


def compare_convert(source: Format, target: Format, data: np.ndarray[Any, Any], compiled: bool) -> None:
    has_modes = any(o.name == "rnd" for o in RECORDS[f"ct.cvt.{source.token}.{target.token}"].operands)
    for mode in (RNE, RTZ, RUP, RDN) if has_modes else (RNE,):
        found = run_convert(source, target, mode, data, compiled)
        for pattern, result in zip(data.tolist(), found.tolist(), strict=True):
            x: Exact = exact(source, pattern) if source.is_float else Fraction(integer(source, pattern))
            if not target.is_float:
                expected = to_integer(x, target, mode)
            else:
                expected = _nan(source, target, pattern) if x == "nan" else rounded(target, x, mode)
            where = f"{source!r} {pattern:#x} to {target!r}, mode {mode}"
            assert result == expected, f"{where}: {result:#x}"


@pytest.mark.parametrize("meaning", CONVERTS, ids=lambda m: f"{m.source.token}-{m.target.token}")
def test_converts_are_rounded_once_in_every_mode(meaning: Any) -> None:
    compare_convert(meaning.source, meaning.target, convert_sources(meaning.source, 60), False)


@pytest.mark.long
@pytest.mark.parametrize("meaning", CONVERTS, ids=lambda m: f"{m.source.token}-{m.target.token}")
def test_converts_of_many_patterns(meaning: Any) -> None:
    data = ALL_16 if meaning.source.bits == 16 else convert_sources(meaning.source, 50_000)
    compare_convert(meaning.source, meaning.target, data, True)


@pytest.mark.parametrize("fmt", [Format.FP16, Format.BF16, Format.TF32])
def test_stochastic_rounding_is_fair(fmt: Format) -> None:
    """A value a quarter of the way between two neighbours goes up a quarter of the time, by one step."""
    low = 0x3F800000
    step = 1 << (23 - LAYOUT[fmt][1])
    data = np.full(8000, low + step // 4, np.uint32)
    found = run_convert(Format.FP32, fmt, STOCHASTIC, data)
    shift = LAYOUT[fmt][2]
    one = rounded(fmt, Fraction(1), RNE) >> shift
    ups = (found >> shift).astype(np.int64) - one
    assert set(ups.tolist()) == {0, 1}
    assert abs(ups.mean() - 0.25) < 5 * (0.25 * 0.75 / 8000) ** 0.5
