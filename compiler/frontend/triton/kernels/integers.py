"""Arithmetic of integers as formulas, and comparisons as boxes of indices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from compiler.codegen.expr import Value, bounds, maximum, minimum
from tx8isa.numbers.division import ceil_div

from .values import STILL, Indices, Region, Shape, Span, Steps, UnsupportedOperation, everywhere, scalar

Combined = Callable[[Indices, Indices], Indices]


def uniform(value: Value, shape: Shape = ()) -> Indices:
    """Return indices that are all the same integer."""
    return Indices(value, (STILL,) * len(shape), shape)


def add(left: Indices, right: Indices) -> Indices:
    """Return left + right; UnsupportedOperation if both wrap around along one axis."""
    axes = tuple(map(_sum_of_steps, left.axes, right.axes))
    return Indices(left.offset + right.offset, axes, left.shape)


def _sum_of_steps(one: Steps, other: Steps) -> Steps:
    if one.constant or other.constant:
        return other if one.constant else one
    if one.modulus or other.modulus:
        raise UnsupportedOperation(
            "a position modulo a number can only be added to what does not depend on its axis"
        )
    return Steps(one.step + other.step)


def subtract(left: Indices, right: Indices) -> Indices:
    """Return left - right."""
    return add(left, _scaled(right, -1))


def multiply(left: Indices, right: Indices) -> Indices:
    """Return left * right; one of them must be the same everywhere."""
    if right.uniform:
        return _scaled(left, right.offset)
    if left.uniform:
        return _scaled(right, left.offset)
    raise UnsupportedOperation("a product of two numbers that both depend on the position in the block")


def _scaled(value: Indices, factor: Value) -> Indices:
    if factor == 0:
        return uniform(0, value.shape)
    axes = tuple(replace(axis, step=axis.step * factor) for axis in value.axes)
    return Indices(value.offset * factor, axes, value.shape)


def divide(left: Indices, right: Indices) -> Indices:
    """Return the quotient of numbers that are not negative."""
    dividend, divisor = _operands_of_division(scalar(left), scalar(right))
    return uniform(dividend // divisor, left.shape)


def remainder(left: Indices, right: Indices) -> Indices:
    """Return the remainder of numbers that are not negative, or of consecutive ones along one axis."""
    if left.uniform:
        dividend, divisor = _operands_of_division(left.offset, scalar(right))
        return uniform(dividend % divisor, left.shape)
    modulus, axis = scalar(right), single_axis(left)
    low, high = left.range
    if not isinstance(modulus, int) or axis is None or left.axes[axis] != Steps(1) or low < 0 or modulus < 1:
        raise UnsupportedOperation(
            "modulo takes consecutive positions of 0 and above, and a known number above 0"
        )
    if high < modulus:
        return left
    axes = tuple(
        Steps(1, left.offset % modulus, modulus) if a == axis else STILL for a in range(len(left.axes))
    )
    return Indices(0, axes, left.shape)


def _operands_of_division(dividend: Value, divisor: Value) -> tuple[Value, Value]:
    least, low = bounds(dividend)[0], bounds(divisor)[0]
    if least < 0 or low < 1:
        ranges = f"dividend {bounds(dividend)}, divisor {bounds(divisor)}"
        raise UnsupportedOperation(f"division takes 0 and above by 1 and above: {ranges}")
    return dividend, divisor


def _of_scalars(combine: Callable[[Value, Value], Value]) -> Combined:
    def combined(left: Indices, right: Indices) -> Indices:
        return uniform(combine(scalar(left), scalar(right)), left.shape)

    return combined


def _shifted(left: Value, right: Value) -> Value:
    if not isinstance(right, int) or not 0 <= right < 32:
        raise UnsupportedOperation("a shift takes a known number of bits, 0 to 31")
    return left * (1 << right)


ARITHMETIC: dict[str, Combined] = {
    "arith.addi": add,
    "arith.subi": subtract,
    "arith.muli": multiply,
    "arith.divsi": divide,
    "arith.divui": divide,
    "arith.remsi": remainder,
    "arith.remui": remainder,
    "arith.ceildivsi": _of_scalars(lambda a, b: sum_before_division(a, b)),
    "arith.minsi": _of_scalars(minimum),
    "arith.minui": _of_scalars(minimum),
    "arith.maxsi": _of_scalars(maximum),
    "arith.maxui": _of_scalars(maximum),
    "arith.shli": _of_scalars(_shifted),
}
"""Operations of two integers by their names."""


def sum_before_division(left: Value, right: Value) -> Value:
    """Return left / right rounded up."""
    dividend, divisor = _operands_of_division(left, right)
    return (dividend + (divisor - 1)) // divisor


# --- comparisons ------------------------------------------------------------------------------------------


def single_axis(value: Indices) -> int | None:
    """Return the only axis along which a number changes; None if there are none or several."""
    axes = [number for number, axis in enumerate(value.axes) if not axis.constant]
    return axes[0] if len(axes) == 1 else None


def compare(predicate: str, left: Indices, right: Indices) -> Region | None:
    """Return the region where ``left predicate right`` holds; None if it is not a box.

    Predicates are those of arith.cmpi: slt, sle, sgt, sge, eq, and the unsigned ones for numbers that are
    not negative.
    """
    if predicate.startswith("u") and min(left.range[0], right.range[0]) < 0:
        raise UnsupportedOperation(f"'{predicate}' compares numbers that may be negative")
    order = predicate[1:] if predicate[0] in "su" else predicate
    if order in ("gt", "ge"):
        left, right, order = right, left, {"gt": "lt", "ge": "le"}[order]
    if order == "eq":
        return _both(compare("sle", left, right), compare("sle", right, left))
    if order not in ("lt", "le") or not _comparable(left, right):
        return None
    difference = subtract(left, right)
    if order == "le":
        difference = add(difference, uniform(-1, difference.shape))
    return _negative(difference)


def _comparable(left: Indices, right: Indices) -> bool:
    return not any(axis.modulus for axis in (*left.axes, *right.axes))


def _negative(value: Indices) -> Region | None:
    """Return the region where a number is below 0; None if it is not a box."""
    if value.uniform:
        return _uniform_region(value)
    axis = single_axis(value)
    step = value.axes[axis].step if axis is not None else 0
    if axis is None or not isinstance(step, int):
        return None
    extent = value.shape[axis]
    if step > 0:
        span = Span(0, _quotient_up(_clipped(0 - value.offset, extent * step), step))
    else:
        span = Span(_clipped(value.offset - step, extent * -step) // -step, extent)
    spans = tuple(span if number == axis else Span(0, size) for number, size in enumerate(value.shape))
    return Region(spans, (), value.shape)


def _quotient_up(value: Value, step: int) -> Value:
    if isinstance(value, int):
        return ceil_div(value, step)
    return value if step == 1 else (value + (step - 1)) // step


def _clipped(value: Value, most: int) -> Value:
    return minimum(maximum(value, 0), most)


def _uniform_region(value: Indices) -> Region:
    whole = everywhere(value.shape)
    return whole if bounds(value.offset)[1] < 0 else replace(whole, conditions=((value.offset, 0),))


def _both(one: Region | None, other: Region | None) -> Region | None:
    return None if one is None or other is None else intersection(one, other)


def intersection(one: Region, other: Region) -> Region:
    """Return the region where both hold."""
    spans = tuple(
        Span(maximum(a.low, b.low), minimum(a.high, b.high))
        for a, b in zip(one.spans, other.spans, strict=True)
    )
    return Region(spans, (*one.conditions, *other.conditions), one.shape)


def truth_of(region: Region) -> bool | None:
    """Return the value of a scalar condition, if it is known at compile time."""
    if all(bounds(left)[1] < bounds(right)[0] for left, right in region.conditions):
        return True
    if any(bounds(left)[0] >= bounds(right)[1] for left, right in region.conditions):
        return False
    return None
