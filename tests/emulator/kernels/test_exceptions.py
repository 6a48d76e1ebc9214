"""The exceptions that instructions raise, against exact arithmetic."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from math import isqrt, prod
from random import Random
from typing import Any

import numpy as np
import pytest

from checked_runs import HALF, WATCHED, one, run_checked
from exact_bench import random_patterns, special
from exact_fractions import LAYOUT, Exact, exact, number, rounded
from kernel_bench import Tile, pack
from tx8isa.numbers.formats import FLOATS, Format
from tx8isa.numbers.layouts import element_offset
from tx8isa.records.meaning import Convert, Form
from tx8isa.records.record import Instruction
from tx8isa.table.registry import by_mnemonic

RECORDS = by_mnemonic()
INFINITE, NAN_INPUT, OVERFLOW, INEXACT, INTEGER = 1 << 2, 1 << 3, 1 << 5, 1 << 6, 1 << 7
RNE, RTZ, RUP, RDN, STOCHASTIC = range(5)
DST, SRC0, SRC1 = 0x8000, 0x1000, 0x4000


def finite(x: Exact) -> bool:
    return x not in ("nan", "+inf", "-inf")


def overflows(fmt: Format, value: Fraction, mode: int) -> bool:
    """Return True if the value, rounded with an unbounded exponent, exceeds the largest number."""
    exponent_bits, mantissa_bits, _ = LAYOUT[fmt]
    limit, size = Fraction(2) ** (1 << (exponent_bits - 1)), abs(value)
    unit = limit / (1 << (mantissa_bits + 1))
    if size >= limit or size <= limit - unit:
        return size >= limit
    away = {RNE: size >= limit - unit / 2, RTZ: False, RUP: value > 0, RDN: value < 0}
    return away[mode]


def rounding(fmt: Format, value: Fraction, stored: int, mode: int) -> int:
    found = exact(fmt, stored)
    bits = OVERFLOW if overflows(fmt, value, mode) else 0
    return bits if finite(found) and number(found) == value else bits | INEXACT


def bits_of(fmt: Format, operands: list[Exact], value: Fraction | None, stored: int, mode: int) -> int:
    """Return the exceptions of an operation on numbers; ``value`` is None at a pole or outside the domain."""
    bits = NAN_INPUT if "nan" in operands else 0
    bits |= INFINITE if exact(fmt, stored) in ("+inf", "-inf") else 0
    if value is not None and all(map(finite, operands)):
        bits |= rounding(fmt, value, stored, mode)
    return bits


BINARY: dict[str, Callable[[Fraction, Fraction], Fraction | None]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": lambda x, y: x / y if y else None,
    "max": max,
    "min": min,
}


def patterns(fmt: Format, n: int, seed: int) -> list[int]:
    rng = np.random.default_rng(seed)
    both = np.concatenate([special(fmt), random_patterns(fmt, n, rng)])
    return rng.permutation(both).tolist()  # type: ignore[no-any-return]


def largest(fmt: Format) -> list[tuple[int, int]]:
    """The largest numbers with each other, with the smallest ones, and with half a unit of their own."""
    exponent_bits, mantissa_bits, unused = LAYOUT[fmt]
    sign, infinity = 1 << (exponent_bits + mantissa_bits), ((1 << exponent_bits) - 1) << mantissa_bits
    half = infinity - ((mantissa_bits + 2) << mantissa_bits)
    ends = [infinity - 1, sign | infinity - 1, half, half - 1, sign | half, 1]
    return [(a << unused, b << unused) for a in ends for b in ends]


@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", BINARY)
def test_exceptions_of_two_operands(name: str, fmt: Format) -> None:
    modes = (RNE, RTZ, RUP, RDN) if name in ("add", "sub", "mul", "div") else (RNE,)
    seen = 0
    for mode in modes:
        for a, b in [*zip(patterns(fmt, 30, 1), patterns(fmt, 30, 2), strict=True), *largest(fmt)]:
            stored, bits = one(f"ct.{name}.vv", fmt, fmt, fmt, a, b, rnd=mode)
            x, y = exact(fmt, a), exact(fmt, b)
            value = BINARY[name](number(x), number(y)) if finite(x) and finite(y) else None
            assert bits == bits_of(fmt, [x, y], value, stored, mode), (
                f"{a:#x} {b:#x} mode {mode}: {stored:#x}"
            )
            seen |= bits
    every = INFINITE | NAN_INPUT
    assert seen == (every if name in ("max", "min") else every | OVERFLOW | INEXACT)


def square_root(x: Fraction) -> Fraction | None:
    """The root of a square; a number with too many bits represents something irrational."""
    if x < 0:
        return None
    n, d = isqrt(x.numerator), isqrt(x.denominator)
    if n * n == x.numerator and d * d == x.denominator:
        return Fraction(n, d)
    return Fraction(isqrt(x.numerator * x.denominator << 200), x.denominator << 100)


def inverse(x: Fraction | None) -> Fraction | None:
    return 1 / x if x else None


ALGEBRAIC: dict[str, Callable[[Fraction], Fraction | None]] = {
    "abs": abs,
    "neg": operator.neg,
    "square": lambda x: x * x,
    "recip": inverse,
    "sqrt": square_root,
    "rsqrt": lambda x: inverse(square_root(x)),
    "relu": lambda x: max(x, Fraction(0)),
    "satrelu": lambda x: min(max(x, Fraction(0)), Fraction(6)),
    "leakyrelu": lambda x: x if x >= 0 else x / 100,
}


def awkward(fmt: Format) -> list[int]:
    """Numbers for which some function is exact, and their neighbours."""
    values = [0, 1, 2, 3, 4, 9, 20, 21, 100, 300, Fraction(9, 4), HALF, Fraction(1, 4), 1 << 10]
    stored = [rounded(fmt, sign * Fraction(v), RNE) for v in values for sign in (1, -1)]
    return stored + [p ^ 1 << LAYOUT[fmt][2] for p in stored]


@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", ALGEBRAIC)
def test_exceptions_of_algebraic_functions(name: str, fmt: Format) -> None:
    for a in patterns(fmt, 30, 3) + awkward(fmt):
        stored, bits = one(f"ct.{name}.v", fmt, fmt, fmt, a, 0)
        x = exact(fmt, a)
        value = ALGEBRAIC[name](number(x)) if finite(x) else None
        assert bits == bits_of(fmt, [x], value, stored, RNE), f"{a:#x}: {stored:#x}"


def two_power(x: Fraction) -> bool:
    return x > 0 and x.numerator & (x.numerator - 1) == 0 and x.denominator & (x.denominator - 1) == 0


EXACT_AT: dict[str, Callable[[Fraction], bool]] = {
    "log2": two_power,
    "ln": lambda x: x == 1,
    "pow2": lambda x: x.denominator == 1,
    "exp": lambda x: x == 0,
    "exp_lp": lambda x: x == 0,
    "sin": lambda x: x == 0,
    "cos": lambda x: x == 0,
    "tanh": lambda x: x == 0,
    "sigmoid": lambda x: x == 0,
    "softplus": lambda x: False,
}
"""Operands at which a transcendental function has a dyadic value (Lindemann, Gelfond and Schneider)."""


@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", EXACT_AT)
def test_exceptions_of_transcendental_functions(name: str, fmt: Format) -> None:
    for a in patterns(fmt, 30, 4) + awkward(fmt):
        stored, bits = one(f"ct.{name}.v", fmt, fmt, fmt, a, 0)
        x, result = exact(fmt, a), exact(fmt, stored)
        expected = bits_of(fmt, [x], None, stored, RNE)
        pole = name in ("ln", "log2") and finite(x) and number(x) == 0
        if finite(x) and result != "nan" and not pole:
            vanished = name == "pow2" and number(result if finite(result) else "-0") == 0
            if not EXACT_AT[name](number(x)) or vanished:
                expected |= INEXACT
            expected |= 0 if finite(result) else OVERFLOW | INEXACT
        assert bits == expected, f"{a:#x}: {stored:#x}"


CONVERTS = [i for i in WATCHED if isinstance(i.meaning, Convert)]


def whole(value: Fraction, mode: int) -> int:
    down = value.numerator // value.denominator
    rest = value - down
    up = {RNE: rest > HALF or (rest == HALF and down & 1), RTZ: value < 0, RUP: True, RDN: False}[mode]
    return down + 1 if rest and up else down


def convert_bits(source: Format, target: Format, a: int, zero: int, stored: int, mode: int) -> int:
    integer = Fraction(a - (a >> (source.bits - 1) << source.bits) - zero)
    x = exact(source, a) if source.is_float else integer
    if target.is_float:
        return bits_of(target, [x], number(x) if finite(x) else None, stored, mode)
    if x == "nan":
        return NAN_INPUT | INTEGER
    if not finite(x):
        return INTEGER
    near = whole(number(x), mode)
    if not -1 << (target.bits - 1) <= near < 1 << (target.bits - 1):
        return INTEGER
    return 0 if near == number(x) else INEXACT


@pytest.mark.parametrize("record", CONVERTS, ids=lambda r: r.mnemonic)
def test_exceptions_of_converts(record: Instruction) -> None:
    source, target = record.meaning.source, record.meaning.target
    ends = [127, 128, 255, 32767, 32768, 2**31 - 1, 2**31]
    values = [Fraction(n) + Fraction(part, 4) for n in ends for part in range(-1, 4)]
    if source.is_float:
        sources = patterns(source, 15, 5) + [rounded(source, s * v, RNE) for v in values for s in (1, -1)]
    else:
        sources = [int(s * v) & (1 << source.bits) - 1 for v in values for s in (1, -1)]
    names = {operand.name for operand in record.operands}
    for mode in (RNE, RTZ, RUP, RDN) if "rnd" in names else (RNE,):
        for turn, a in enumerate(sources):
            zero = turn % 128 if "zero" in names else 0
            stored, bits = one(record.mnemonic, None, source, target, a, 0, rnd=mode, zero=zero)
            expected = convert_bits(source, target, a, zero, stored, mode)
            assert bits == expected, f"{a:#x} mode {mode} zero {zero}: {stored:#x}"


@pytest.mark.parametrize(("mnemonic", "source"), [("ct.add.vv", "fp16"), ("ct.cvt.fp32.int8", "fp32")])
def test_stochastic_rounding_is_inexact_exactly_when_a_nearest_one_is(mnemonic: str, source: str) -> None:
    fmt = Format.parse(source)
    target = fmt if mnemonic == "ct.add.vv" else Format.INT8
    suffix = fmt if mnemonic == "ct.add.vv" else None
    one_third = rounded(fmt, Fraction(1, 3), RNE)
    for a, expected in ((one_third, INEXACT), (rounded(fmt, Fraction(2), RNE), 0)):
        b = rounded(fmt, Fraction(64), RNE)
        assert one(mnemonic, suffix, fmt, target, a, b, rnd=STOCHASTIC)[1] == expected


@pytest.mark.parametrize("form", [Form.VV, Form.VS, Form.VUV, Form.VUV_LOOP])
@pytest.mark.parametrize("compiled", [False, True])
def test_one_element_of_many_raises_the_bits_of_the_instruction(form: Form, compiled: bool) -> None:
    """In each form: 1 + 1 everywhere, and 65504 + 65504 in FP16 at one place."""
    record, n = RECORDS[f"ct.add.{form.value}"], 128
    bench, big = Tile(), 0x7BFF
    named = {"dst": DST, "src0": SRC0, "src1": SRC1, "n": n, "unit": 64, "full": n, "full_unit": 64}
    if form is Form.VS:
        named["src1"] = big
    values = [named.get(o.name, 0) for o in record.operands]
    bench.spm[SRC0 : SRC0 + 2 * n] = np.full(n, 0, np.uint16).view(np.uint8)
    bench.spm[SRC1 : SRC1 + 2 * n] = np.full(n, big, np.uint16).view(np.uint8)
    assert run_checked(bench, record, Format.FP16, values, compiled) == 0
    for place in (0, 77, n - 1):
        bench.spm[SRC0 + 2 * place : SRC0 + 2 * place + 2] = np.array([big], np.uint16).view(np.uint8)
        bits = run_checked(bench, record, Format.FP16, values, compiled)
        assert bits == INFINITE | OVERFLOW | INEXACT
        bench.spm[SRC0 + 2 * place : SRC0 + 2 * place + 2] = 0


def folded(name: str, fmt: Format, elements: list[int], count: int) -> int:
    """The bits of one result: every sum rounded to FP32, then one rounding to the format."""
    bits, total = 0, Fraction(0)
    numbers = [exact(fmt, e) for e in elements]
    if any(not finite(x) for x in numbers):
        raise ValueError("finite elements only")
    if name in ("max", "min"):
        return 0
    for x in numbers:
        wide = total + number(x)
        stored = rounded(Format.FP32, wide, RNE)
        bits |= rounding(Format.FP32, wide, stored, RNE)
        if not finite(exact(Format.FP32, stored)):
            return bits | INFINITE
        total = number(exact(Format.FP32, stored))
    value = total / count if name == "avg" else total
    stored = rounded(fmt, value, RNE)
    return bits | bits_of(fmt, [], value, stored, RNE)


Shape = tuple[int, int, int, int]


def place(fmt: Format, shape: Shape, index: Shape) -> int:
    """Address of an element of the tensor at SRC0."""
    _, h, w, c = shape
    return SRC0 + element_offset(h * w, c, fmt.bits, index[0], index[1] * w + index[2], index[3])


def fill(fmt: Format, shape: Shape, kind: str, seed: int) -> tuple[Tile, dict[Shape, int]]:
    """A tile with a tensor at SRC0, and its elements; the padding lanes hold NaN, which must not count."""
    rng, bench, elements = Random(seed), Tile(), {}
    size, nan = fmt.bits // 8, rounded(fmt, "nan", RNE)
    bench.spm[SRC0:DST] = np.full((DST - SRC0) // size, nan, f"u{size}").view(np.uint8)
    for index in product(*map(range, shape)):
        value = {
            "small": Fraction(rng.randint(-9, 9)),
            "thirds": Fraction(rng.randint(-99, 99), 3),
            "large": Fraction(2) ** ((1 << (LAYOUT[fmt][0] - 1)) - 1),
            "quarters": Fraction(2) ** ((1 << (LAYOUT[fmt][0] - 1)) - 3),
        }[kind]
        pattern = rounded(fmt, value, RNE)
        where: Any = index
        at = place(fmt, shape, where)
        bench.spm[at : at + size] = np.frombuffer(pattern.to_bytes(size, "little"), np.uint8)
        elements[where] = pattern
    return bench, elements


KINDS = ("small", "thirds", "large", "quarters")
"""Of the last kind, a row of four is finite, and three rows together are not."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["sum", "avg", "max", "min"])
@pytest.mark.parametrize("dims", [0, 1, 2, 4])
def test_exceptions_of_reductions(name: str, dims: int, kind: str) -> None:
    shape, record = (2, 3, 4, 5), RECORDS[f"ct.reduce.{name}"]
    axes = {0: (3,), 1: (2,), 2: (1,), 4: (1, 2)}[dims]
    for seed, fmt in enumerate(FLOATS):
        bench, elements = fill(fmt, shape, kind, seed)
        expected = 0
        for kept in product(*(range(1 if a in axes else shape[a]) for a in range(4))):
            inner = product(*(range(shape[a]) if a in axes else (kept[a],) for a in range(4)))
            expected |= folded(name, fmt, [elements[i] for i in inner], prod(shape[a] for a in axes))
        named = {"dst": DST, "src0": SRC0, "shape": pack(*shape), "dims": dims}
        values = [named.get(o.name, 0) for o in record.operands]
        assert run_checked(bench, record, fmt, values, False) == expected, fmt


@pytest.mark.parametrize("name", ["sum", "avg"])
def test_numbers_after_an_infinity_raise_nothing(name: str) -> None:
    shape, record = (1, 1, 1, 5), RECORDS[f"ct.reduce.{name}"]
    for fmt in FLOATS:
        for infinity in ("+inf", "-inf"):
            bench, _ = fill(fmt, shape, "thirds", 3)
            at, size = place(fmt, shape, (0, 0, 0, 0)), fmt.bits // 8
            pattern = rounded(fmt, infinity, RNE).to_bytes(size, "little")
            bench.spm[at : at + size] = np.frombuffer(pattern, np.uint8)
            named = {"dst": DST, "src0": SRC0, "shape": pack(*shape), "dims": 0}
            values = [named.get(o.name, 0) for o in record.operands]
            assert run_checked(bench, record, fmt, values, False) == INFINITE, fmt


def windows(elements: dict[Shape, int], shape: Shape, result: Shape, outside: bool) -> Iterator[list[int]]:
    """Windows of 3 x 2 (wide, high), strides 2 and 1, one row above and one column at the left outside."""
    for n, row, column, c in product(*map(range, result)):
        places = [(n, row - 1 + y, 2 * column - 1 + x, c) for y, x in product(range(2), range(3))]
        yield [elements.get(p, 0) for p in places if p in elements or outside]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["sum", "avg", "max", "max_idx", "min"])
def test_exceptions_of_pools(name: str, kind: str) -> None:
    shape, result, record = (1, 4, 5, 3), (1, 4, 2, 3), RECORDS[f"ct.pool.{name}"]
    for seed, fmt in enumerate(FLOATS):
        bench, elements = fill(fmt, shape, kind, seed)
        expected, kernel = 0, name.removesuffix("_idx")
        for inside in windows(elements, shape, result, name in ("sum", "avg")):
            expected |= folded(kernel, fmt, inside, 6)
        named = {
            "dst": DST,
            "dst1": DST + 0x1000,
            "src0": SRC0,
            "shape": pack(*shape),
            "dst_shape": pack(*result),
            "pad": pack(1, 0, 1, 0),
            "window": pack(3, 2, 2, 1),
        }
        values = [named.get(o.name, 0) for o in record.operands]
        assert run_checked(bench, record, fmt, values, False) == expected, fmt


@pytest.mark.parametrize("mnemonic", ["ct.reduce.max", "ct.reduce.sum", "ct.pool.min"])
def test_a_nan_among_the_elements_is_found(mnemonic: str) -> None:
    shape, fmt, record = (1, 2, 2, 3), Format.BF16, RECORDS[mnemonic]
    bench, _ = fill(fmt, shape, "small", 1)
    at = place(fmt, shape, (0, 1, 0, 2))
    named = {"dst": DST, "src0": SRC0, "shape": pack(*shape), "dims": 4}
    named |= {"dst_shape": pack(1, 1, 1, 3), "window": pack(2, 2, 1, 1)}
    values = [named.get(o.name, 0) for o in record.operands]
    assert run_checked(bench, record, fmt, values, False) == 0
    bench.spm[at : at + 2] = np.array([0x7FC0], np.uint16).view(np.uint8)
    assert run_checked(bench, record, fmt, values, False) == NAN_INPUT
