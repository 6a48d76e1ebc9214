"""Operands of F and D instructions, and their results by exact rational arithmetic."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

NX, UF, OF, DZ, NV = 1, 2, 4, 8, 16


@dataclass(frozen=True)
class Form:
    """An IEEE 754 binary format; values are Fractions, or one of the words below with a sign."""

    exponent_bits: int
    mantissa_bits: int

    @property
    def width(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    @property
    def nan(self) -> int:
        return self.infinity | 1 << self.mantissa_bits - 1

    @property
    def sign(self) -> int:
        return 1 << self.width - 1

    @property
    def least(self) -> int:
        """Exponent of the least subnormal."""
        return 2 - (1 << self.exponent_bits - 1) - self.mantissa_bits

    def is_nan(self, bits: int) -> bool:
        return bits & ~self.sign > self.infinity

    def signals(self, bits: int) -> bool:
        return self.is_nan(bits) and not bits >> self.mantissa_bits - 1 & 1

    def is_infinite(self, bits: int) -> bool:
        return bits & ~self.sign == self.infinity

    def negative(self, bits: int) -> bool:
        return bits >= self.sign

    def value(self, bits: int) -> Fraction:
        magnitude = bits & ~self.sign
        field, fraction = divmod(magnitude, 1 << self.mantissa_bits)
        if field:
            fraction += 1 << self.mantissa_bits
        value = Fraction(fraction) * Fraction(2) ** (self.least + max(field, 1) - 1)
        return -value if self.negative(bits) else value

    def nearest(self, exact: Fraction, mode: str, quantum: int) -> int:
        """``exact`` as a multiple of 2**quantum."""
        scaled = abs(exact) / Fraction(2) ** quantum
        whole = int(scaled)
        rest = scaled - whole
        up = {
            "rne": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1),
            "rtz": False,
            "rdn": rest > 0 and exact < 0,
            "rup": rest > 0 and exact > 0,
            "rmm": rest >= Fraction(1, 2),
        }[mode]
        return whole + up

    def round(self, exact: Fraction, mode: str, negative_zero: bool = False) -> tuple[int, int]:
        """Pattern and flags of a non-NaN result; the sign of an exact zero is given."""
        if exact == 0:
            return (self.sign if negative_zero else 0), 0
        sign = self.sign if exact < 0 else 0
        unbounded = self.exponent(exact) - self.mantissa_bits
        quantum = max(unbounded, self.least)
        count = self.nearest(exact, mode, quantum)
        rounded = Fraction(count) * Fraction(2) ** quantum
        inexact = rounded != abs(exact)
        smallest_normal = Fraction(2) ** (self.least + self.mantissa_bits)
        tiny = Fraction(self.nearest(exact, mode, unbounded)) * Fraction(2) ** unbounded < smallest_normal
        largest = self.value(self.infinity - 1)
        if rounded > largest:
            inward = mode == "rtz" or (mode == "rdn" and exact > 0) or (mode == "rup" and exact < 0)
            return sign | self.infinity - inward, OF | NX
        return sign | self.pattern(rounded), (NX | (UF if tiny else 0)) if inexact else 0

    @staticmethod
    def exponent(exact: Fraction) -> int:
        guess = abs(exact.numerator).bit_length() - exact.denominator.bit_length()
        return guess if abs(exact) >= Fraction(2) ** guess else guess - 1

    def pattern(self, magnitude: Fraction) -> int:
        """Of a number that the format holds."""
        low, high = 0, self.infinity - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.value(middle) <= magnitude else (low, middle - 1)
        assert self.value(low) == magnitude
        return low


FORMS = {"s": Form(8, 23), "d": Form(11, 52)}


def register(form: Form, bits: int) -> int:
    """An f register with this pattern, as a signed word."""
    word = bits | (0 if form.width == 64 else 0xFFFFFFFF << 32)
    return word - (1 << 64) if word >> 63 else word


def operands(form: Form, rng: random.Random, count: int) -> Iterator[int]:
    """Patterns near every kind of corner, and random ones of similar magnitude."""
    one = ((1 << form.exponent_bits - 1) - 1) << form.mantissa_bits
    corners = [0, 1, 2, (1 << form.mantissa_bits) - 1, 1 << form.mantissa_bits, one, one + 1, one - 1]
    corners += [form.infinity - 1, form.infinity, form.nan, form.nan | 5, form.infinity | 1]
    for _ in range(count):
        kind = rng.random()
        if kind < 0.4:
            bits = rng.choice(corners)
        elif kind < 0.6:
            bits = one + (rng.randint(-3, 3) << form.mantissa_bits) + rng.getrandbits(form.mantissa_bits)
        elif kind < 0.8:
            bits = one + rng.randint(-60 << form.mantissa_bits, 60 << form.mantissa_bits)
            bits &= -1 << rng.randrange(form.mantissa_bits)
        elif kind < 0.9:
            bits = rng.getrandbits(form.mantissa_bits + 2)
        else:
            bits = rng.getrandbits(form.width - 1)
        yield bits | rng.choice((0, form.sign))


def invalid(form: Form, *bits: int) -> tuple[int, int] | None:
    """Result of an operation with a NaN among its operands."""
    if not any(form.is_nan(b) for b in bits):
        return None
    return form.nan, NV if any(form.signals(b) for b in bits) else 0


def multiply(form: Form, a: int, b: int, mode: str) -> tuple[int, int]:
    found = invalid(form, a, b)
    if found:
        return found
    sign = form.negative(a) != form.negative(b)
    if form.is_infinite(a) or form.is_infinite(b):
        if a & ~form.sign == 0 or b & ~form.sign == 0:
            return form.nan, NV
        return form.infinity | sign * form.sign, 0
    return form.round(form.value(a) * form.value(b), mode, sign)
