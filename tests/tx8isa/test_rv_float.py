"""The bodies of the F and D instructions against exact rational arithmetic, rounded by this test."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from math import isqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from float_cases import DZ, FORMS, NV, NX, UF, Form, invalid, multiply, operands, register
from tx8isa.numbers.primitives import fma64
from tx8isa.riscv.registers import ROUNDING_MODES
from tx8isa.table.scalar import scalar_by_mnemonic, scalar_instructions

MODES = {name: code for name, code in ROUNDING_MODES.items() if name != "dyn"}
BY_MNEMONIC = scalar_by_mnemonic()


def fma(form: Form, a: int, b: int, c: int, mode: str) -> tuple[int, int]:
    times_inf = {form.is_infinite(a) and b & ~form.sign == 0, form.is_infinite(b) and a & ~form.sign == 0}
    if True in times_inf:
        return form.nan, NV
    found = invalid(form, a, b, c)
    if found:
        return found
    sign = form.negative(a) != form.negative(b)
    if form.is_infinite(a) or form.is_infinite(b):
        if form.is_infinite(c) and form.negative(c) != sign:
            return form.nan, NV
        return form.infinity | sign * form.sign, 0
    if form.is_infinite(c):
        return c, 0
    exact = form.value(a) * form.value(b) + form.value(c)
    zero_product = a & ~form.sign == 0 or b & ~form.sign == 0
    if sign == form.negative(c) and zero_product and c & ~form.sign == 0:
        return sign * form.sign, 0
    return form.round(exact, mode, mode == "rdn")


def add(form: Form, a: int, b: int, mode: str) -> tuple[int, int]:
    found = invalid(form, a, b)
    if found:
        return found
    if form.is_infinite(a) or form.is_infinite(b):
        if form.is_infinite(a) and form.is_infinite(b) and a != b:
            return form.nan, NV
        return (a if form.is_infinite(a) else b), 0
    both = form.negative(a) and form.negative(b)
    same = form.negative(a) == form.negative(b)
    return form.round(form.value(a) + form.value(b), mode, both or (not same and mode == "rdn"))


def divide(form: Form, a: int, b: int, mode: str) -> tuple[int, int]:
    found = invalid(form, a, b)
    if found:
        return found
    sign = (form.negative(a) != form.negative(b)) * form.sign
    if form.is_infinite(a):
        return (form.nan, NV) if form.is_infinite(b) else (form.infinity | sign, 0)
    if form.is_infinite(b):
        return sign, 0
    if form.value(b) == 0:
        return (form.nan, NV) if form.value(a) == 0 else (form.infinity | sign, DZ)
    return form.round(form.value(a) / form.value(b), mode, bool(sign))


def root(form: Form, a: int, mode: str) -> tuple[int, int]:
    found = invalid(form, a)
    if found:
        return found
    if form.negative(a):
        return (a, 0) if form.value(a) == 0 else (form.nan, NV)
    if form.is_infinite(a):
        return a, 0
    # Enough bits for the comparison with any rounding boundary; then a small change that keeps "not exact".
    scale = 1 << 1400
    scaled = form.value(a) * scale * scale
    floor = isqrt(int(scaled))
    exact = Fraction(floor, scale) + (Fraction(1, 2 * scale) if floor * floor != scaled else 0)
    return form.round(exact, mode)


def negated(form: Form, bits: int) -> int:
    return bits ^ form.sign


ARITHMETIC: dict[str, tuple[int, Callable[..., tuple[int, int]]]] = {
    "fadd": (2, add),
    "fsub": (2, lambda f, a, b, m: add(f, a, b if f.is_nan(b) else negated(f, b), m)),
    "fmul": (2, multiply),
    "fdiv": (2, divide),
    "fsqrt": (1, root),
    "fmadd": (3, fma),
    "fmsub": (3, lambda f, a, b, c, m: fma(f, a, b, negated(f, c), m)),
    "fnmsub": (3, lambda f, a, b, c, m: fma(f, negated(f, a), b, c, m)),
    "fnmadd": (3, lambda f, a, b, c, m: fma(f, negated(f, a), b, negated(f, c), m)),
}


def check_arithmetic(name: str, letter: str, seed: int, count: int) -> None:
    form, (operand_count, oracle) = FORMS[letter], ARITHMETIC[name]
    body = BY_MNEMONIC[f"{name}.{letter}"].body
    source = operands(form, random.Random(seed), operand_count * count)
    for given_bits in zip(*[source] * operand_count, strict=True):
        for mode, code in MODES.items():
            expected, flags = oracle(form, *given_bits, mode)
            found = body(*(register(form, b) for b in given_bits), code)
            shown = [f"{b:#x}" for b in given_bits]
            assert found == (register(form, expected), flags), (name, letter, mode, shown)


@pytest.mark.parametrize("letter", FORMS)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name: str, letter: str) -> None:
    check_arithmetic(name, letter, 3, 250)


@pytest.mark.long
@pytest.mark.parametrize("letter", FORMS)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_at_length(name: str, letter: str) -> None:
    check_arithmetic(name, letter, 77, 15_000)


def test_the_fused_primitive_on_binary64() -> None:
    """``primitives.fma64`` as plain Python; test_emulator_float runs its machine version."""
    form, rng = FORMS["d"], random.Random(12)
    source = operands(form, rng, 3 * 800)
    for bits in zip(source, source, source, strict=True):
        numbers = [struct.unpack("<d", struct.pack("<Q", b))[0] for b in bits]
        expected, _ = fma(form, *bits, "rne")
        found = struct.unpack("<Q", struct.pack("<d", fma64(*numbers)))[0]
        assert found == expected, [hex(b) for b in bits]


def halfway(form: Form, rng: random.Random) -> tuple[int, int]:
    """Summands whose exact sum lies at or next to the middle of two numbers."""
    one = ((1 << form.exponent_bits - 1) - 1) << form.mantissa_bits
    a = one + rng.getrandbits(form.mantissa_bits)
    b = one - (form.mantissa_bits + 1 << form.mantissa_bits) + rng.choice((0, 1, -1))
    return a, b | rng.choice((0, form.sign))


@pytest.mark.parametrize("letter", FORMS)
def test_sums_next_to_ties(letter: str) -> None:
    form, rng = FORMS[letter], random.Random(5)
    for _ in range(60):
        a, b = halfway(form, rng)
        for mode, code in MODES.items():
            expected, flags = add(form, a, b, mode)
            found = BY_MNEMONIC[f"fadd.{letter}"].body(register(form, a), register(form, b), code)
            assert found == (register(form, expected), flags)


@pytest.mark.parametrize("letter", FORMS)
def test_products_at_the_border_of_the_normal_range(letter: str) -> None:
    """Underflow is detected after rounding: a result rounded up to the smallest normal number is not tiny."""
    form, rng = FORMS[letter], random.Random(6)
    body = BY_MNEMONIC[f"fmul.{letter}"].body
    one = ((1 << form.exponent_bits - 1) - 1) << form.mantissa_bits
    seen = set()
    for _ in range(300):
        a = one + (1 << form.mantissa_bits) - 1 - rng.randrange(3)  # a little below 2
        half_least = (1 << form.mantissa_bits) - rng.choice((0, 1 << form.mantissa_bits - 1, 1, 2))
        b = half_least + rng.randrange(3)
        for mode, code in MODES.items():
            expected, flags = multiply(form, a, b, mode)
            found = body(register(form, a), register(form, b), code)
            assert found == (register(form, expected), flags), (hex(a), hex(b), mode)
            seen.add(flags)
    assert {NX, NX | UF} <= seen


# -- integers and other formats --------------------------------------------------------------------------

INTEGERS = {"w": (32, True), "wu": (32, False), "l": (64, True), "lu": (64, False)}


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def integer(form: Form, a: int, mode: str, bits: int, is_signed: bool) -> tuple[int, int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    if form.is_nan(a) or form.is_infinite(a):
        return (low if form.is_infinite(a) and form.negative(a) else high), NV
    exact = form.value(a)
    count = form.nearest(exact, mode, 0) * (-1 if exact < 0 else 1)
    if not low <= count <= high:
        return max(low, min(count, high)), NV
    return count, NX if count != exact else 0


def near_integers(form: Form, rng: random.Random) -> Iterator[int]:
    yield from operands(form, rng, 300)
    for power in (0, 1, 8, 22, 23, 24, 30, 31, 32, 51, 52, 53, 61, 62, 63, 64):
        for quarter in range(-4, 5):
            for sign in (1, -1):
                exact = sign * (Fraction(2) ** power + Fraction(quarter, 4))
                yield form.round(exact, "rtz")[0]


@pytest.mark.parametrize("letter", FORMS)
@pytest.mark.parametrize("kind", INTEGERS)
def test_to_integer(kind: str, letter: str) -> None:
    form, (bits, is_signed) = FORMS[letter], INTEGERS[kind]
    body = BY_MNEMONIC[f"fcvt.{kind}.{letter}"].body
    for a in near_integers(form, random.Random(8)):
        for mode, code in MODES.items():
            value, flags = integer(form, a, mode, bits, is_signed)
            assert body(register(form, a), code) == (signed(value, bits), flags), (hex(a), mode)


words = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.builds(
        lambda power, delta, sign: signed(sign * ((1 << power) + delta), 64),
        st.integers(0, 63),
        st.integers(-3, 3),
        st.sampled_from((1, -1)),
    ),
)


@given(words, st.sampled_from(sorted(INTEGERS)), st.sampled_from(sorted(FORMS)))
def test_from_integer(word: int, kind: str, letter: str) -> None:
    form, (bits, is_signed) = FORMS[letter], INTEGERS[kind]
    value = signed(word, bits) if is_signed else word & (1 << bits) - 1
    for mode, code in MODES.items():
        expected, flags = form.round(Fraction(value), mode)
        assert BY_MNEMONIC[f"fcvt.{letter}.{kind}"].body(word, code) == (register(form, expected), flags)


def converted(source: Form, form: Form, a: int, mode: str) -> tuple[int, int]:
    if source.is_nan(a):
        return form.nan, NV if source.signals(a) else 0
    sign = form.sign if source.negative(a) else 0
    if source.is_infinite(a):
        return sign | form.infinity, 0
    return form.round(source.value(a), mode, bool(sign))


@pytest.mark.parametrize(("target", "letter"), [("s", "d"), ("d", "s")])
def test_format_conversions(target: str, letter: str) -> None:
    source, form, rng = FORMS[letter], FORMS[target], random.Random(9)
    body = BY_MNEMONIC[f"fcvt.{target}.{letter}"].body
    near = [FORMS["s"].value(b) for b in operands(FORMS["s"], rng, 200) if b & 0x7F800000 != 0x7F800000]
    # Values that binary32 holds, and their neighbours in binary64, for both directions.
    patterns = [source.round(v, "rtz")[0] for v in near] + list(operands(source, rng, 300))
    patterns += [p + d for p in patterns for d in (-1, 1, 1 << 28) if 0 <= p + d < source.sign]
    for a in patterns:
        for mode, code in MODES.items():
            expected, flags = converted(source, form, a, mode)
            assert body(register(source, a), code) == (register(form, expected), flags), (hex(a), mode)


# -- comparisons, signs, moves ---------------------------------------------------------------------------


def corner_pairs(form: Form) -> Iterator[tuple[int, int]]:
    one = ((1 << form.exponent_bits - 1) - 1) << form.mantissa_bits
    corners = [0, 1, one, one + 1, form.infinity - 1, form.infinity]
    corners += [form.nan, form.infinity | 1, form.nan | 7]
    yield from product([*corners, *(c | form.sign for c in corners)], repeat=2)


@pytest.mark.parametrize("letter", FORMS)
def test_comparisons(letter: str) -> None:
    form = FORMS[letter]
    for a, b in corner_pairs(form):
        x, y = register(form, a), register(form, b)
        nan, signals = form.is_nan(a) or form.is_nan(b), form.signals(a) or form.signals(b)
        key_a, key_b = (form.value(v) for v in (a, b))  # an infinity has the value of the next power of two
        results = {"feq": key_a == key_b, "flt": key_a < key_b, "fle": key_a <= key_b}
        for name, result in results.items():
            flags = NV if signals or (nan and name != "feq") else 0
            assert BY_MNEMONIC[f"{name}.{letter}"].body(x, y) == (int(result and not nan), flags)


@pytest.mark.parametrize("letter", FORMS)
def test_minimum_and_maximum(letter: str) -> None:
    form = FORMS[letter]
    for a, b in corner_pairs(form):
        flags = NV if form.signals(a) or form.signals(b) else 0
        for name, best in (("fmin", min), ("fmax", max)):
            numbers = [v for v in (a, b) if not form.is_nan(v)]
            key = {v: (form.value(v), not form.negative(v)) for v in numbers}
            expected = best(numbers, key=key.__getitem__) if numbers else form.nan
            body = BY_MNEMONIC[f"{name}.{letter}"].body
            assert body(register(form, a), register(form, b)) == (register(form, expected), flags)


@pytest.mark.parametrize("letter", FORMS)
def test_signs_and_classes(letter: str) -> None:
    form = FORMS[letter]
    for a, b in corner_pairs(form):
        x, y = register(form, a), register(form, b)
        magnitude, sign_a, sign_b = a & ~form.sign, a & form.sign, b & form.sign
        for name, sign in (("fsgnj", sign_b), ("fsgnjn", sign_b ^ form.sign), ("fsgnjx", sign_a ^ sign_b)):
            expected = register(form, magnitude | sign)
            assert BY_MNEMONIC[f"{name}.{letter}"].body(x, y) == (expected, 0)
    classes = [form.infinity, 1 << form.mantissa_bits, (1 << form.mantissa_bits) - 1, 0]
    table = [c | form.sign for c in classes] + classes[::-1] + [form.infinity | 3, form.nan | form.sign]
    body = BY_MNEMONIC[f"fclass.{letter}"].body
    assert [body(register(form, bits)) for bits in table] == [(1 << k, 0) for k in range(10)]


def unboxed_operands(count: int) -> list[int]:
    return [0x3F800000, -(2 << 32) | 0x3F800000, (0xFFFFFFFE << 32 | 0x3F800000) - (1 << 64)][:count]


@pytest.mark.parametrize(
    "record",
    [r for r in scalar_instructions() if r.kind == "float" and r.mnemonic.endswith(".s")],
    ids=lambda r: r.mnemonic,
)
def test_an_operand_that_is_not_boxed_is_a_nan(record) -> None:  # type: ignore[no-untyped-def]
    count = sum(f.kind == "float" and f.name != "rd" for f in record.fields)
    mode = [0] if any(f.kind == "rounding" for f in record.fields) else []
    nan = register(FORMS["s"], FORMS["s"].nan)
    assert record.body(*unboxed_operands(count), *mode) == record.body(*[nan] * count, *mode)


def test_moves_and_memory_do_not_look_at_the_box() -> None:
    word = 0x1234_5678_9ABC_DEF0
    low = signed(0x9ABCDEF0, 32)
    boxed = register(FORMS["s"], 0x9ABCDEF0)
    assert BY_MNEMONIC["fmv.x.w"].body(word) == (low, 0)
    assert BY_MNEMONIC["fmv.w.x"].body(word) == (boxed, 0)
    assert BY_MNEMONIC["fmv.x.d"].body(word) == BY_MNEMONIC["fmv.d.x"].body(word) == (word, 0)
    assert BY_MNEMONIC["fsw"].body(word) == 0x9ABCDEF0
    assert BY_MNEMONIC["flw"].body(0x9ABCDEF0) == boxed
    assert BY_MNEMONIC["fld"].body(1 << 63) == -(1 << 63)
    assert BY_MNEMONIC["fsd"].body(-1) == (1 << 64) - 1
