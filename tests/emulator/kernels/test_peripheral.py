"""Counts, argmax and argmin, factorize, random numbers: against oracles that share no code with them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import asm
from asm.diagnostics import AsmError
from emulator.kernels.shared.lfsr import PIECE, first_states, next_states, step
from emulator.memory import state
from exact_fractions import exact, mul, rounded
from kernel_bench import RECORDS, SPECIAL, SPM_BYTES, Tile
from tx8isa.numbers.formats import FLOATS, Format

COMPILED = pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
LENGTHS = (1, 63, 64, 65, 1000)
DST, DST1, DST2, SRC0, SRC1 = 0x6000, 0x7000, 0x8000, 0x1000, 0x4000
VALID = 1 << 32
INFINITY = {Format.FP16: 0x7C00, Format.BF16: 0x7F80, Format.FP32: 0x7F800000, Format.TF32: 0x7F800000}
SPECIAL_NAN = {Format.FP16: 0xFD55, Format.BF16: 0x7F81, Format.FP32: 0xFFC12345, Format.TF32: 0x7F802000}
Array = np.ndarray[Any, Any]


def unsigned(fmt: Format) -> np.dtype[Any]:
    return np.dtype(f"u{fmt.bits // 8}")


def put(tile: Tile, at: int, data: Array) -> None:
    tile.spm[at : at + data.nbytes] = data.view(np.uint8)


def words(tile: Tile, at: int, n: int, fmt: Format) -> Array:
    return tile.spm[at : at + n * fmt.bits // 8].view(unsigned(fmt)).copy()


def returned(tile: Tile) -> list[int]:
    """wb_data0 and wb_data1, which must be marked valid."""
    found: list[int] = tile.write_back.tolist()
    assert all(word >> 32 == 1 for word in found)
    return [word & VALID - 1 for word in found]


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
    """Index of the wanted element, by exact comparison; -0 is below +0, NaN is never wanted."""

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


def test_argmax_over_several_blocks() -> None:
    rng = np.random.default_rng(8)
    data = rng.normal(size=5000).astype(np.float16).view(np.uint16)
    check_extreme(Format.FP16, data)
    for at in (4999, 4608, 4607, 2047, 1024, 1023, 512, 511, 128, 127, 0):
        data[at] = 0x7C00
        check_extreme(Format.FP16, data)
        data[at] = 0xFC00
        check_extreme(Format.FP16, data)


@pytest.mark.parametrize("fmt", FLOATS)
def test_argmax_of_values_far_apart(fmt: Format) -> None:
    """Two wanted ones in any lanes and groups; zeros of both signs; infinities among NaN."""
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
    """FP16, mixed signs: 100 at index 73. And what argmin should have given: -100 at index 42."""
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
    """Every exponent, the subnormal ones too."""
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


# --- randgen ------------------------------------------------------------------------------

MASK = (1 << 64) - 1
RANDOM_FORMATS = (Format.INT16, Format.FP16, Format.BF16, Format.INT32, Format.FP32, Format.TF32)
PRECISION = {Format.FP16: 11, Format.BF16: 8, Format.TF32: 11, Format.FP32: 24}


def xorshift(a: int, b: int) -> tuple[int, int, int]:
    """The published generator: (value, next words)."""
    value = a + b & MASK
    a ^= a << 23 & MASK
    return value, b, a ^ b ^ a >> 18 ^ b >> 5


def drawn(seed_a: list[int], seed_b: list[int], n: int) -> tuple[list[int], list[int], list[int]]:
    """``n`` values of 64 bits, and the seeds afterwards."""
    a, b, values = list(seed_a), list(seed_b), []
    for i in range(n):
        value, a[i % 16], b[i % 16] = xorshift(a[i % 16], b[i % 16])
        values.append(value)
    return values, a, b


def test_xorshift_first_steps() -> None:
    """By hand: from (1, 2)."""
    assert xorshift(1, 2) == (3, 2, 1 ^ 1 << 23 ^ 2 ^ (1 << 23) >> 18)
    assert xorshift(MASK, 1)[0] == 0


def seeded(seed: int) -> tuple[Tile, list[int], list[int]]:
    tile = Tile(seed)
    a, b = (tile.spm[at : at + 128].view(np.uint64).tolist() for at in (SRC0, SRC1))
    return tile, a, b


@pytest.mark.parametrize("n", (0, 15, 16, 17, *LENGTHS, 2048, 2049, 5000))
@pytest.mark.parametrize("fmt", RANDOM_FORMATS)
def test_randgen_draws_from_sixteen_generators(fmt: Format, n: int) -> None:
    tile, a, b = seeded(n)
    places = {"dst": DST, "dst1": DST1, "dst2": DST2, "src0": SRC0, "src1": SRC1, "n": n}
    before = tile.spm.copy()
    tile.run("ct.randgen", fmt, True, places)
    values, next_a, next_b = drawn(a, b, n)
    assert tile.spm[DST : DST + 128].view(np.uint64).tolist() == next_a
    assert tile.spm[DST1 : DST1 + 128].view(np.uint64).tolist() == next_b
    found = words(tile, DST2, n, fmt).tolist()
    if fmt.is_float:
        p = PRECISION[fmt]
        assert [exact(fmt, x) for x in found] == [Fraction(v >> 64 - p, 2**p) for v in values]
    else:
        assert found == [v >> 64 - fmt.bits for v in values]
    end = DST2 + n * fmt.bits // 8
    assert np.array_equal(tile.spm[end:], before[end:])
    assert np.array_equal(tile.spm[:DST], before[:DST])


def test_randgen_goes_on_where_it_stopped() -> None:
    """Seeds in place; whole rows of 16 make two calls equal to one."""
    tile, a, b = seeded(9)
    places = {"dst": SRC0, "dst1": SRC1, "dst2": DST2, "src0": SRC0, "src1": SRC1}
    tile.run("ct.randgen", Format.INT32, True, places | {"n": 320})
    tile.run("ct.randgen", Format.INT32, True, places | {"n": 100, "dst2": DST2 + 1280})
    values, next_a, next_b = drawn(a, b, 420)
    assert words(tile, DST2, 420, Format.INT32).tolist() == [v >> 32 for v in values]
    assert tile.spm[SRC0 : SRC0 + 128].view(np.uint64).tolist() == next_a
    assert tile.spm[SRC1 : SRC1 + 128].view(np.uint64).tolist() == next_b


def test_generators_of_zeros_give_zeros() -> None:
    tile = Tile()
    tile.spm[SRC0 : SRC0 + 128] = 0
    tile.spm[SRC1 : SRC1 + 128] = 0
    places = {"dst": DST, "dst1": DST1, "dst2": DST2, "src0": SRC0, "src1": SRC1, "n": 50}
    tile.run("ct.randgen", Format.FP16, True, places)
    assert not words(tile, DST2, 50, Format.FP16).any()


def test_random_fractions_are_spread_evenly() -> None:
    """Mean and variance of 8,000 within five standard deviations, none outside [0, 1)."""
    tile, _, _ = seeded(11)
    places = {"dst": SRC0, "dst1": SRC1, "dst2": DST2, "src0": SRC0, "src1": SRC1, "n": 8000}
    tile.run("ct.randgen", Format.FP32, True, places)
    x = words(tile, DST2, 8000, Format.FP32).view(np.float32).astype(np.float64)
    assert x.min() >= 0
    assert x.max() < 1
    assert abs(x.mean() - 1 / 2) < 5 * (1 / 12 / 8000) ** 0.5
    assert abs(x.var() - 1 / 12) < 5 * (1 / 180 / 8000) ** 0.5


@COMPILED
@pytest.mark.parametrize("fmt", RANDOM_FORMATS)
def test_randgen_equals_reference(fmt: Format, compiled: bool) -> None:
    for moved in (
        {},
        {"dst": SRC0, "dst1": SRC1},
        {"dst": SRC1, "dst1": SRC0},
        {"dst2": SRC0},
        {"src1": SRC0},
    ):
        for n in LENGTHS if compiled else (1, 65):
            places = {"dst": DST, "dst1": DST1, "dst2": DST2, "src0": SRC0, "src1": SRC1, "n": n} | moved
            Tile(n).check("ct.randgen", fmt, compiled, **places)


# --- elemmask -----------------------------------------------------------------------------


def sequential(start: int, count: int) -> list[int]:
    """States of the LFSR one after another: x^32 + x^22 + x^2 + x + 1, shifted right."""
    states, now = [], start or 1
    for _ in range(count):
        now = now >> 1 ^ (0x80200003 if now % 2 else 0)
        states.append(now)
    return states


@pytest.mark.parametrize("total", [1, 31, 1024, 1025, 2048, 2049, 3072, 3073, 9000])
@pytest.mark.parametrize("start", [0xACE1, 0, 1, 0xFFFFFFFF])
def test_states_made_many_at_a_time_are_the_sequence(total: int, start: int) -> None:
    place = np.zeros(4 * PIECE, np.uint32)
    first_states(place.ctypes.data, start, total)
    found: list[int] = []
    while len(found) < total:
        next_states(place.ctypes.data, total - len(found))
        found += place[: min(PIECE, total - len(found))].tolist()
    assert found == sequential(start, total)
    assert found[0] == step(start)


def uniform(lfsr_state: int) -> Fraction:
    """The number of 52 bits that a state stands for."""
    mixed = lfsr_state * 0x9E3779B97F4A7C15 & MASK
    mixed = (mixed ^ mixed >> 32) * 0x9E3779B97F4A7C15 & MASK
    return Fraction(mixed >> 12, 1 << 52)


SCALE = {Format.FP16: 0x3D55, Format.BF16: 0x3FAB, Format.FP32: 0x3FAAAAAB, Format.TF32: 0x3FAAAAAB}
"""About 4/3."""
TINY_SCALE = {Format.FP16: 0x0155, Format.BF16: 0x00AB, Format.FP32: 0x00AAAAAB, Format.TF32: 0x00AAA000}
HALF, QUARTER, ONE = 0x3F000000, 0x3E800000, 0x3F800000


@pytest.mark.parametrize("scale", [SCALE, TINY_SCALE], ids=["4/3", "tiny"])
@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("fmt", FLOATS)
def test_elemmask_drops_or_scales(fmt: Format, mode: int, scale: dict[Format, int]) -> None:
    """Products are rounded once from their exact value."""
    tile, n = Tile(mode, fmt), 300
    source = words(tile, SRC0, n, fmt)
    places = {"dst": DST, "src0": SRC0, "src1": scale[fmt], "n": n, "p": QUARTER, "rnd": mode}
    tile.run("ct.elemmask", fmt, True, places)
    states = sequential(0xACE1, n)
    found = words(tile, DST, n, fmt).tolist()
    for x, now, pattern in zip(source.tolist(), states, found, strict=True):
        product = mul(exact(fmt, x), exact(fmt, scale[fmt]))
        expected = 0 if uniform(now) < Fraction(1, 4) else rounded(fmt, product, mode)
        assert pattern == expected, f"{x:#x} {fmt!r} mode {mode}: {pattern:#x}, not {expected:#x}"
    assert tile.state[state.RANDOM] == states[-1]
    assert 40 < found.count(0) < 150


@pytest.mark.parametrize("fmt", FLOATS)
def test_stochastic_rounding_takes_a_second_step(fmt: Format) -> None:
    """Every other state decides about an element; the one behind it rounds."""
    tile, n = Tile(2, fmt), 2000
    source = words(tile, SRC0, n, fmt)
    places = {"dst": DST, "src0": SRC0, "src1": SCALE[fmt], "n": n, "p": HALF, "rnd": 4}
    tile.run("ct.elemmask", fmt, True, places)
    states = sequential(0xACE1, 2 * n)
    up = down = 0
    for i, pattern in enumerate(words(tile, DST, n, fmt).tolist()):
        product = mul(exact(fmt, int(source[i])), exact(fmt, SCALE[fmt]))
        if uniform(states[2 * i]) < Fraction(1, 2):
            assert pattern == 0
            continue
        low, high = rounded(fmt, product, 3), rounded(fmt, product, 2)
        if isinstance(product, Fraction) and exact(fmt, low) not in ("-inf", "+inf"):
            assert pattern in (low, high)
            up, down = up + (pattern == high != low), down + (pattern == low != high)
    assert min(up, down) > 100
    assert tile.state[state.RANDOM] == states[-1]


@pytest.mark.parametrize(
    ("p", "share"),
    [
        (0, 0.0),
        (0x80000000, 0.0),
        (0xBF800000, 0.0),
        (0x7FC00000, 0.0),
        (1, 0.0),
        (HALF, 0.5),
        (QUARTER, 0.25),
        (0x3F7FFFFF, 1.0),
        (ONE, 1.0),
        (0x40000000, 1.0),
        (0x7F800000, 1.0),
    ],
)
def test_probability(p: int, share: float) -> None:
    """0 and less and NaN drop none, 1 and more drop all, others about their share."""
    tile, n = Tile(), 4000
    put(tile, SRC0, np.full(n, 0xC000, np.uint16))
    tile.run("ct.elemmask", Format.FP16, True, {"dst": DST, "src0": SRC0, "src1": 0x3C00, "n": n, "p": p})
    found = words(tile, DST, n, Format.FP16)
    assert set(found.tolist()) <= {0, 0xC000}
    assert abs((found == 0).mean() - share) <= 5 * (share * (1 - share) / n) ** 0.5


def test_a_number_that_equals_the_probability_is_not_below_it() -> None:
    dropped = RECORDS["ct.elemmask"].meaning.dropped
    assert not dropped(0.25, 0.25)
    assert not dropped(0.0, 0.0)
    assert dropped(0.25, 0.25 + 2.0**-24)


def test_a_dropped_nan_is_zero() -> None:
    tile = Tile()
    put(tile, SRC0, np.array([0x7E01, 0xFC00, 0x8000], np.uint16))
    tile.run("ct.elemmask", Format.FP16, True, {"dst": DST, "src0": SRC0, "src1": 0x7E00, "n": 3, "p": ONE})
    assert words(tile, DST, 3, Format.FP16).tolist() == [0, 0, 0]


def test_elemmask_of_nothing_draws_nothing() -> None:
    tile = Tile()
    before = tile.spm.copy()
    tile.run("ct.elemmask", Format.FP16, True, {"dst": DST, "src0": SRC0, "src1": 0x3C00, "n": 0, "p": HALF})
    assert tile.state[state.RANDOM] == 0xACE1
    assert np.array_equal(tile.spm, before)


@COMPILED
@pytest.mark.parametrize("mode", [0, 2, 4])
@pytest.mark.parametrize("fmt", FLOATS)
def test_elemmask_equals_reference(fmt: Format, mode: int, compiled: bool) -> None:
    for n in (*LENGTHS, 2100, 4097) if compiled else (1, 65):
        for dst in (DST, SRC0, SRC0 + 8):
            tile = Tile(n, fmt)
            places = {"dst": dst, "src0": SRC0, "src1": SCALE[fmt], "n": n, "p": QUARTER, "rnd": mode}
            tile.check("ct.elemmask", fmt, compiled, **places)


# --- what is refused ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ct.argmax.fp16 src0=0, n=0", "an empty vector has no largest element"),
        ("ct.argmin.fp32 src0=0, n=0", "n must be at least 1"),
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
        "ct.count.fp32 src0=0x2fffff, n=0",
        "ct.factorize dst=0, dst1=8, dst2=16, src0=0, n=2",
        "ct.randgen.fp16 dst=0, dst1=0x80, dst2=0x100, src0=0x80, src1=0, n=0",
        "ct.randgen.int16 dst=0x220, dst1=0x180, dst2=0x200, src0=0x180, src1=0x180, n=16",
        "ct.elemmask.fp16 dst=0x2ffffe, src0=0x2ffffe, src1=1.5, n=1, p=0xffffffff, rnd=stochastic",
    ],
)
def test_what_just_fits_is_accepted(text: str) -> None:
    asm.assemble(f"_start: {text}")
