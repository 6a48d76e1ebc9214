"""Numeric exceptions of CT: a checked kernel detects them for each result in addition to storing it.

A checked kernel is made from the same element function and the same record as the plain one and stores the
same bytes. The bits of all elements are collected in ``state.NUMERIC``, which has the unit's field of the
exception register (docs/isa.md, Exceptions, spec). Subnormal results are supported, so bit 4 is never set.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from numpy import float64

from emulator.memory.state import NUMERIC, SIZE
from emulator.native.primitives.memory import view_i64
from tx8isa.numbers.formats import EXPONENT_BITS, Format
from tx8isa.numbers.primitives import s64, u64
from tx8isa.records.meaning import Elementwise, Form

from .access import ACCESS
from .vectors import Element, Pass

INFINITE, NAN_INPUT, OVERFLOW, INEXACT, INTEGER_OVERFLOW = 1 << 2, 1 << 3, 1 << 5, 1 << 6, 1 << 7
"""Bits of the unit's field (spec)."""
NUMERIC_BITS = INFINITE | NAN_INPUT | OVERFLOW | INEXACT | INTEGER_OVERFLOW

Events = Callable[[int, int, int], int]
"""(pattern of a, pattern of b, pattern of the result) -> bits."""
Rounding = Callable[[float, bool, int], int]
"""(binary64 result, 1 if it is exact, pattern of the stored result) -> bits."""


def rounding_events(fmt: Format) -> Rounding:
    """Make the detection of exceptions in rounding to ``fmt``; the operands are finite.

    Overflow means that the result, rounded with an unbounded exponent, exceeds the largest number (IEEE 754);
    a directed mode may store it as that number. A pole is exact and infinite.
    """
    load, limit = ACCESS[fmt].load, 2.0 ** (1 << (EXPONENT_BITS[fmt] - 1))

    def events(x: float, exact: bool, stored: int) -> int:
        value = float64(load(stored))
        if value != value or (exact and value == x):
            return 0
        return INEXACT | OVERFLOW if abs(value) == inf or abs(x) >= limit else INEXACT

    return events


def body_events(meaning: Elementwise, fmt: Format) -> Events:
    """Make the detection of exceptions for one element of a vector instruction."""
    body, load, rounding = meaning.body, ACCESS[fmt].load, rounding_events(fmt)
    exact, error = meaning.exact or _anywhere, meaning.error or _no_error

    def unary(a: int, b: int, stored: int) -> int:
        x = float64(load(a))
        seen = NAN_INPUT if x != x else 0
        if abs(float64(load(stored))) == inf:
            seen |= INFINITE
        return seen | rounding(body(x), exact(x), stored) if abs(x) < inf else seen

    def binary(a: int, b: int, stored: int) -> int:
        x, y = float64(load(a)), float64(load(b))
        seen = NAN_INPUT if x != x or y != y else 0
        if abs(float64(load(stored))) == inf:
            seen |= INFINITE
        if abs(x) < inf and abs(y) < inf:
            result = body(x, y)
            seen |= rounding(result, error(x, y, result) == 0.0, stored)
        return seen

    return unary if meaning.form is Form.V else binary


def _anywhere(x: float) -> bool:
    return True


def _no_error(a: float, b: float, result: float) -> float:
    return 0.0


def watched(element: Element, events: Events, fmt: Format, form: Form) -> Pass:
    """Make the loop over ``element`` that also records the events."""
    view = ACCESS[fmt].view

    def over_one(target: int, first: int, scalar: int, n: int, mode: int, state: int) -> None:
        to, of, memory = view(target, n), view(first, n), view_i64(state, SIZE)
        seen = 0
        for i in range(u64(n)):
            result = element(s64(of[i]), scalar, mode, state)
            to[i] = result
            seen |= events(s64(of[i]), scalar, result)
        memory[NUMERIC] = memory[NUMERIC] | seen

    def over_two(target: int, first: int, second: int, n: int, mode: int, state: int) -> None:
        to, of, by, memory = view(target, n), view(first, n), view(second, n), view_i64(state, SIZE)
        seen = 0
        for i in range(u64(n)):
            result = element(s64(of[i]), s64(by[i]), mode, state)
            to[i] = result
            seen |= events(s64(of[i]), s64(by[i]), result)
        memory[NUMERIC] = memory[NUMERIC] | seen

    return over_one if form in (Form.V, Form.VS) else over_two
