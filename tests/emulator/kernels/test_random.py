"""Random numbers and masks: randgen, elemmask."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from emulator.kernels.shared.lfsr import PIECE, first_states, next_states, step
from emulator.memory import state
from exact_fractions import exact, mul, rounded
from kernel_bench import RECORDS, Tile
from returned_values import COMPILED, LENGTHS, put, words
from tx8isa.numbers.formats import FLOATS, Format

DST, DST1, DST2, SRC0, SRC1 = 0x6000, 0x7000, 0x8000, 0x1000, 0x4000


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
    """Seeds are updated in place; with whole rows of 16, two calls equal one."""
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
    """Consecutive states of the LFSR: x^32 + x^22 + x^2 + x + 1, shifted right."""
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
    """The number of 52 bits that a state represents."""
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
    _check_elemmask(fmt, mode, scale[fmt], DST)


@pytest.mark.parametrize("shift", [0, 8, -8, 400, -400])
def test_elemmask_reads_all_before_it_writes(shift: int) -> None:
    """In place, and with the result overlapping the begin or end of the source; of 600 bytes also the last
    200."""
    _check_elemmask(Format.FP16, 0, SCALE[Format.FP16], SRC0 + shift)


def _check_elemmask(fmt: Format, mode: int, scale: int, target: int) -> None:
    tile, n = Tile(mode, fmt), 300
    source = words(tile, SRC0, n, fmt).copy()
    places = {"dst": target, "src0": SRC0, "src1": scale, "n": n, "p": QUARTER, "rnd": mode}
    tile.run("ct.elemmask", fmt, True, places)
    states = sequential(0xACE1, n)
    found = words(tile, target, n, fmt).tolist()
    for x, now, pattern in zip(source.tolist(), states, found, strict=True):
        product = mul(exact(fmt, x), exact(fmt, scale))
        expected = 0 if uniform(now) < Fraction(1, 4) else rounded(fmt, product, mode)
        assert pattern == expected, f"{x:#x} {fmt!r} mode {mode}: {pattern:#x}, not {expected:#x}"
    assert tile.state[state.RANDOM] == states[-1]
    assert 40 < found.count(0) < 150


@pytest.mark.long
@pytest.mark.parametrize("fmt", FLOATS)
def test_stochastic_rounding_takes_a_second_step(fmt: Format) -> None:
    """Every other state selects an element; the state after it rounds."""
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


@COMPILED
@pytest.mark.parametrize("mode", [0, 2, 4])
@pytest.mark.parametrize("fmt", FLOATS)
def test_elemmask_equals_reference(fmt: Format, mode: int, compiled: bool) -> None:
    for n in (*LENGTHS, 2100, 4097) if compiled else (1, 65):
        for dst in (DST, SRC0, SRC0 + 8):
            tile = Tile(n, fmt)
            places = {"dst": dst, "src0": SRC0, "src1": SCALE[fmt], "n": n, "p": QUARTER, "rnd": mode}
            tile.check("ct.elemmask", fmt, compiled, **places)
