"""Counts, argmax and argmin, factorize, random numbers: against oracles that share no code with them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import asm
from asm.diagnostics import AsmError
from exact_fractions import exact
from kernel_bench import SPECIAL, SPM_BYTES, Tile
from returned_values import (
    COMPILED,
    INFINITY,
    LENGTHS,
    SPECIAL_NAN,
    VALID,
    Array,
    put,
    returned,
    unsigned,
    words,
)
from tx8isa.numbers.formats import FLOATS, Format

DST, DST1, DST2, SRC0, SRC1 = 0x6000, 0x7000, 0x8000, 0x1000, 0x4000


# --- count and bitcount -------------------------------------------------------------------


@pytest.mark.parametrize("n", (0, *LENGTHS))
@pytest.mark.parametrize("fmt", FLOATS)
def test_count_is_the_number_of_elements_that_are_not_zero(fmt: Format, n: int) -> None:
    tile = Tile(n, fmt)
    data = tile.rng.choice(np.array([0, 1 << fmt.bits - 1, *SPECIAL[fmt]], unsigned(fmt)), n)
    put(tile, SRC0, data)
    before = tile.spm.copy()
    tile.run("ct.count", fmt, True, {"src0": SRC0, "n": n})
    expected = sum(exact(fmt, x) not in (0, "-0") for x in data.tolist())
    assert tile.write_back.tolist() == [VALID | expected, 11]  # wb_data1 stays
    assert np.array_equal(tile.spm, before)


@pytest.mark.parametrize("n", (0, 7, 8, 9, *LENGTHS, 8191))
def test_bitcount_is_the_number_of_ones(n: int) -> None:
    for shift in (0, 1, 5):
        tile = Tile(n)
        bits = np.unpackbits(tile.spm[SRC0 + shift :], count=n, bitorder="little")
        tile.run("ct.bitcount", None, True, {"src0": SRC0 + shift, "n": n})
        assert tile.write_back.tolist() == [VALID | int(bits.sum()), 11]


@pytest.mark.parametrize(("byte", "n", "ones"), [(0, 64, 0), (0xFF, 64, 64), (0xFF, 61, 61), (0x80, 63, 7)])
def test_bitcount_of_known_bytes(byte: int, n: int, ones: int) -> None:
    tile = Tile()
    tile.spm[-8:] = byte
    tile.run("ct.bitcount", None, True, {"src0": SPM_BYTES - 8, "n": n})
    assert tile.write_back[0] == VALID | ones


# --- argmax and argmin --------------------------------------------------------------------


def extreme(fmt: Format, data: Array, largest: bool) -> int:
    """Return the index of the extreme element, by exact comparison; -0 is below +0, and NaN is never
    chosen."""

    def rank(i: int) -> tuple[Fraction | float, int, int]:
        x = exact(fmt, int(data[i]))
        value = {"+inf": math.inf, "-inf": -math.inf, "-0": 0}.get(x, 0) if isinstance(x, str) else x
        ordered = (value, 0 if x == "-0" else 1)
        return (*(ordered if largest else (-ordered[0], -ordered[1])), -i)

    numbers = [i for i in range(len(data)) if exact(fmt, int(data[i])) != "nan"]
    return max(numbers, key=rank) if numbers else 0


def check_extreme(fmt: Format, data: Array, base: int = SRC0) -> None:
    kept = 0xFFFFE000 if fmt is Format.TF32 else 0xFFFFFFFF
    for name in ("argmax", "argmin"):
        tile = Tile()
        put(tile, base, data)
        tile.run(f"ct.{name}", fmt, True, {"src0": base, "n": len(data)})
        index = extreme(fmt, data, name == "argmax")
        assert returned(tile) == [int(data[index]) & kept, index], f"{name} {fmt!r} {data[:8]}"


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("fmt", FLOATS)
def test_argmax_and_argmin(fmt: Format, n: int) -> None:
    """Few different values, so that there are ties, and all kinds of numbers."""
    rng = np.random.default_rng(n)
    for count in (1, 2, 5, len(SPECIAL[fmt])):
        some = rng.choice(np.array(SPECIAL[fmt], unsigned(fmt)), count)
        check_extreme(fmt, rng.choice(some, n))
    check_extreme(fmt, rng.integers(0, 1 << fmt.bits, n).astype(unsigned(fmt)))


@pytest.mark.long
def test_argmax_over_several_blocks() -> None:
    rng = np.random.default_rng(8)
    data = rng.normal(size=5000).astype(np.float16).view(np.uint16)
    check_extreme(Format.FP16, data)
    for at in (4999, 4608, 4607, 2047, 1024, 1023, 512, 511, 128, 127, 0):
        data[at] = 0x7C00
        check_extreme(Format.FP16, data)
        data[at] = 0xFC00
        check_extreme(Format.FP16, data)


@pytest.mark.long
@pytest.mark.parametrize("fmt", FLOATS)
def test_argmax_of_values_far_apart(fmt: Format) -> None:
    """Two extremes in any lanes and groups; zeros of both signs; infinities among NaN."""
    sign, nan, infinity = 1 << fmt.bits - 1, SPECIAL_NAN[fmt], INFINITY[fmt]
    rng = np.random.default_rng(fmt.bits)
    for n in (513, 1500):
        for others, wanted in (
            (nan, (infinity | sign, infinity)),
            (nan, (sign, 0)),
            (nan, (1 << 13, 1 << 13 | sign)),
            (infinity, (sign, 0)),
            (infinity | sign, (0, sign)),
            (sign, (0, 0)),
            (0, (sign, sign)),
        ):
            data = np.full(n, others, unsigned(fmt))
            check_extreme(fmt, data)
            for _ in range(3):
                data[rng.integers(0, n, 3)] = wanted[0]
                data[rng.integers(0, n, 2)] = wanted[1]
                check_extreme(fmt, data)


@pytest.mark.parametrize(
    ("values", "largest", "smallest"),
    [
        ([np.nan, np.nan, np.nan], 0, 0),
        ([np.nan, -np.inf, np.nan], 1, 1),
        ([-0.0, 0.0, -0.0, 0.0], 1, 0),
        ([0.0, -0.0], 0, 1),
        ([1, 2, 2, 1], 1, 0),
        ([-1, -2, -2], 0, 1),
        ([np.inf, np.nan, -np.inf], 0, 2),
        ([5], 0, 0),
    ],
)
@pytest.mark.parametrize("fmt", [Format.FP16, Format.FP32])
def test_ties_zeros_and_nan(fmt: Format, values: list[float], largest: int, smallest: int) -> None:
    """At the end of SPM."""
    data = np.array(values, np.float16 if fmt is Format.FP16 else np.float32).view(unsigned(fmt))
    base = SPM_BYTES - data.nbytes
    check_extreme(fmt, data, base)
    for name, index in (("argmax", largest), ("argmin", smallest)):
        tile = Tile()
        put(tile, base, data)
        tile.run(f"ct.{name}", fmt, True, {"src0": base, "n": len(data)})
        assert returned(tile)[1] == index


def test_argmax_as_the_board_showed_it() -> None:
    """FP16, mixed signs: 100 at index 73. argmin should have given -100 at index 42."""
    data = np.linspace(-30, 30, 128).astype(np.float16)
    data[73], data[42] = 100, -100
    tile = Tile()
    put(tile, SRC0, data)
    tile.run("ct.argmax", Format.FP16, True, {"src0": SRC0, "n": 128})
    assert returned(tile) == [0x5640, 73]
    tile.run("ct.argmin", Format.FP16, True, {"src0": SRC0, "n": 128})
    assert returned(tile) == [0xD640, 42]


@COMPILED
@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", ["count", "argmax", "argmin"])
def test_returned_values_equal_reference(name: str, fmt: Format, compiled: bool) -> None:
    for n in LENGTHS if compiled else (1, 65):
        Tile(n, fmt).check(f"ct.{name}", fmt, compiled, src0=SRC0, n=n)


@COMPILED
def test_bitcount_equals_reference(compiled: bool) -> None:
    for n in (0, 3, *LENGTHS):
        Tile(n).check("ct.bitcount", None, compiled, src0=SRC0 + 1, n=n)


# --- factorize ----------------------------------------------------------------------------


def factors(x: float) -> tuple[float, float, float]:
    if x != x:
        return math.nan, math.nan, math.nan
    if x == 0:
        return 1.0, 0.0, 0.0
    if math.isinf(x):
        return math.copysign(1.0, x), math.inf, 1.0
    fraction, exponent = math.frexp(abs(x))
    return math.copysign(1.0, x), float(exponent - 1), 2 * fraction


@pytest.mark.parametrize("n", (0, *LENGTHS))
def test_factorize_gives_sign_exponent_and_fraction(n: int) -> None:
    tile = Tile(n, Format.FP32)
    source = words(tile, SRC0, n, Format.FP32).view(np.float32)
    places = {"dst": DST, "dst1": DST1, "dst2": DST2, "src0": SRC0, "n": n}
    tile.run("ct.factorize", None, True, places)
    expected = np.array([factors(float(x)) for x in source], np.float32).reshape(n, 3)
    expected.view(np.uint32)[np.isnan(expected)] = 0x7FC00000
    for part, place in enumerate((DST, DST1, DST2)):
        found = words(tile, place, n, Format.FP32)
        assert found.tolist() == expected.view(np.uint32)[:, part].tolist()


def test_factors_multiply_to_the_number() -> None:
    """Every exponent, including the subnormal ones."""
    tile = Tile()
    source = np.array([x << 23 | 0x2AAAAA for x in range(255)] + [1, 3, 0x7FFFFF, 0x80000001], np.uint32)
    n = len(source)
    put(tile, SRC0, source)
    places = {"dst": DST, "dst1": DST1, "dst2": DST2, "src0": SRC0, "n": n}
    tile.run("ct.factorize", None, True, places)
    sign, exponent, fraction = (words(tile, at, n, Format.FP32).view(np.float32) for at in (DST, DST1, DST2))
    assert np.all((fraction >= 1) & (fraction < 2))
    product = sign.astype(np.float64) * np.exp2(exponent.astype(np.float64)) * fraction
    assert product.astype(np.float32).view(np.uint32).tolist() == source.tolist()


@COMPILED
def test_factorize_equals_reference(compiled: bool) -> None:
    for moved in ({}, {"dst": SRC0}, {"dst1": SRC0 + 4}, {"dst2": SRC0 - 4}, {"dst1": SRC0}):
        places = {"dst": DST, "dst1": DST1, "dst2": DST2, "src0": SRC0, "n": 65} | moved
        Tile(1, Format.FP32).check("ct.factorize", None, compiled, **places)


# --- what is refused ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ct.argmin.fp32 src0=0, n=0", "operand 'n': 0 is outside 1..16777215"),
        ("ct.argmax.int16 src0=0, n=4", "int16"),
        ("ct.argmax.fp16 src0=0x2ffffe, n=2", "src0"),
        ("ct.argmax.fp16 dst=0, src0=0x100, n=2", "no operand 'dst'"),
        ("ct.count.bool src0=0, n=4", "bool"),
        ("ct.count.fp16 src0=0x2fffff, n=1", "src0"),
        ("ct.bitcount src0=0x2fffff, n=9", "src0"),
        ("ct.bitcount.bool src0=0, n=9", "bitcount"),
        ("ct.factorize dst=0, dst1=0x100, dst2=0xfc, src0=0x1000, n=2", "must not overlap"),
        ("ct.factorize dst=0, dst1=4, dst2=0x100, src0=0x1000, n=2", "must not overlap"),
        ("ct.factorize dst=0x104, dst1=0, dst2=0x100, src0=0x1000, n=2", "must not overlap"),
        ("ct.factorize dst=0x2ffffc, dst1=0, dst2=0x100, src0=0x1000, n=2", "dst"),
        ("ct.randgen.fp16 dst=0, dst1=0x78, dst2=0x200, src0=0, src1=0x80, n=16", "must not overlap"),
        ("ct.randgen.fp16 dst=0, dst1=0x80, dst2=0xfe, src0=0, src1=0x80, n=16", "must not overlap"),
        ("ct.randgen.fp16 dst=0x220, dst1=0x80, dst2=0x200, src0=0, src1=0x80, n=17", "must not overlap"),
        ("ct.randgen.int8 dst=0, dst1=0x80, dst2=0x200, src0=0, src1=0x80, n=16", "int8"),
        ("ct.randgen.fp16 dst=0, dst1=0x80, dst2=0x200, src0=0x2fff88, src1=0x80, n=16", "src0"),
        ("ct.elemmask.fp16 dst=0, src0=0x1000, src1=0x3c00, n=16", "p missing"),
        ("ct.elemmask.fp16 dst=0, src0=0x1000, src1=0x13c00, n=16, p=0", "src1"),
        ("ct.elemmask.fp16 dst=0, src0=0x1000, src1=0x3c00, n=16, p=0x100000000", "p"),
        ("ct.elemmask.fp16 dst=0, src0=0x1000, src1=0x3c00, n=16, p=0, rnd=5", "rnd"),
    ],
)
def test_what_does_not_fit_is_refused(text: str, message: str) -> None:
    with pytest.raises(AsmError) as caught:
        asm.assemble(f"_start: {text}")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "ct.argmax.fp16 src0=0x2ffffe, n=1",
        "ct.bitcount src0=0x2fffff, n=8",
        "ct.count.fp32 src0=0x2ffffc, n=1",
        "ct.factorize dst=0, dst1=8, dst2=16, src0=0, n=2",
        "ct.randgen.fp16 dst=0, dst1=0x80, dst2=0x100, src0=0x80, src1=0, n=1",
        "ct.randgen.int16 dst=0x220, dst1=0x180, dst2=0x200, src0=0x180, src1=0x180, n=16",
        "ct.elemmask.fp16 dst=0x2ffffe, src0=0x2ffffe, src1=1.5, n=1, p=0xffffffff, rnd=stochastic",
    ],
)
def test_what_just_fits_is_accepted(text: str) -> None:
    asm.assemble(f"_start: {text}")
