"""Integers and truth values that the core computes from operands, also seen under other shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from compiler.frontend.triton.kernels.engines import shapes
from compiler.frontend.triton.kernels.integers import add, intersection, multiply, subtract
from compiler.frontend.triton.kernels.values import (
    Computed,
    Indices,
    KernelValue,
    Pointers,
    Region,
    Shape,
    SpmBlock,
    UnsupportedOperation,
    bits_of,
    everywhere,
    varies,
)

from .arithmetic import WIDE, WORD

View = Callable[[KernelValue], KernelValue]
Data = Computed | SpmBlock


def computed(operation: str, operands: tuple[KernelValue, ...], element: str, source: str) -> Computed:
    """Return a value that is computed from operands of one shape."""
    shape = operands[0].shape
    parts = [varies(operand) for operand in operands]
    stored = tuple(any(part[axis] for part in parts) for axis in range(len(shape)))
    return Computed(operation, operands, element, source, shape, stored)


def two(operation: str, left: KernelValue, right: KernelValue, source: str, element: str = "") -> Computed:
    """Return an operation of two operands of the type ``source``.

    Unsigned operations that the core has only for words are computed with more bits.
    """
    element = element or source
    narrow = operation in ("divui", "remui", "shrui") and bits_of(source) < WORD
    if narrow or (operation == "mulhui" and bits_of(source) < WIDE):
        wide = [computed("extui", (each,), "i64", source) for each in (left, right)]
        if operation == "mulhui":
            product = computed("mul", tuple(wide), "i64", "i64")
            count = Indices(bits_of(source), (), ())
            shift = shapes.splat(count, left.shape) if left.shape else count
            wide_result = computed("shrui", (product, shift), "i64", "i64")
        else:
            wide_result = computed(operation, tuple(wide), "i64", "i64")
        return computed("trunc", (wide_result,), element, "i64")
    return computed(operation, (left, right), element, source)


def leaves(value: KernelValue) -> list[KernelValue]:
    """Return the operands of a value that are not themselves computed, each once."""
    found: list[KernelValue] = []
    waiting, seen = [value], set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Computed):
            waiting += part.operands
        else:
            found.append(part)
    return found


# --- other shapes -----------------------------------------------------------------------------------------


def viewed(value: Computed, view: View) -> Computed:
    """Return the same operations with all operands seen under another shape."""
    (found,) = all_viewed([value], view)
    assert isinstance(found, Computed)
    return found


def all_viewed(values: Sequence[KernelValue], view: View) -> list[KernelValue]:
    """Apply a view to all values; an operation that several of them use stays a single one."""
    known: dict[int, KernelValue] = {}

    def seen(part: KernelValue) -> KernelValue:
        if id(part) not in known:
            if isinstance(part, Computed):
                operands = tuple(seen(operand) for operand in part.operands)
                known[id(part)] = computed(part.operation, operands, part.element, part.source)
            else:
                known[id(part)] = view(part)
        return known[id(part)]

    return [seen(value) for value in values]


def any_shape(value: KernelValue, view: View) -> KernelValue:
    """Apply ``view`` to a value, to the operands of a computed one and to the data of pointers."""
    if isinstance(value, Computed):
        return viewed(value, view)
    if isinstance(value, Pointers) and value.data is not None:
        seen, data = view(value), any_shape(value.data, view)
        assert isinstance(seen, Pointers) and isinstance(data, Computed | SpmBlock)
        return replace(seen, data=data)
    return view(value)


# --- formulas within it ------------------------------------------------------------------------------------

_CASTS = ("extsi", "extui", "trunc")


def parts_of(value: KernelValue) -> tuple[Indices | None, Data | None]:
    """Split integers into a formula and data that are added; None takes the place of a missing one."""
    if isinstance(value, Indices):
        return value, None
    if not isinstance(value, Computed | SpmBlock):
        raise UnsupportedOperation("needs integers")
    if not isinstance(value, Computed):
        return None, value
    if value.operation in _CASTS and value.source != "i1":
        formula, data = parts_of(value.operands[0])
        if formula is None:
            return None, value
        rest = None if data is None else computed(value.operation, (data,), value.element, value.source)
        return formula, rest
    if value.operation in ("add", "sub"):
        return _sum_of_parts(value)
    if value.operation == "mul":
        return _product_of_parts(value)
    return None, value


def _sum_of_parts(value: Computed) -> tuple[Indices | None, Data | None]:
    (one, first), (other, second) = map(parts_of, value.operands)
    if one is None and other is None:
        return None, value
    if first is not None and second is not None:
        data: Data | None = two(value.operation, first, second, value.source)
    elif second is not None and value.operation == "sub":
        data = two("sub", _zero(value.shape), second, value.source)
    else:
        data = first if first is not None else second
    if one is None or other is None:
        formula = one if one is not None else other
        assert formula is not None
        if one is None and value.operation == "sub":
            formula = subtract(_zero(value.shape), formula)
        return formula, data
    return (add if value.operation == "add" else subtract)(one, other), data


def _product_of_parts(value: Computed) -> tuple[Indices | None, Data | None]:
    for number, factor in enumerate(value.operands):
        if isinstance(factor, Indices) and factor.uniform:
            formula, data = parts_of(value.operands[1 - number])
            if formula is not None and data is not None:
                return multiply(formula, factor), two("mul", data, factor, value.source)
    return None, value


def _zero(shape: Shape) -> Indices:
    zero = shapes.splat(Indices(0), shape)
    assert isinstance(zero, Indices)
    return zero


def conditions_of(value: KernelValue | None, shape: Shape) -> tuple[Region, list[KernelValue]]:
    """Split a mask into a box and other truth values; an element counts if it is in the box and all hold."""
    if value is None:
        return everywhere(shape), []
    if isinstance(value, Region):
        return value, []
    if isinstance(value, Computed) and value.operation == "and":
        parts = [conditions_of(operand, shape) for operand in value.operands]
        (one, first), (other, second) = parts
        return intersection(one, other), [*first, *second]
    return everywhere(shape), [value]
