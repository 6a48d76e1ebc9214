"""Recognises the bodies of reductions, sorts and scatters, which are small functions of scalars.

A body of one operation is recognised by it. A body that compares and selects is evaluated in NumPy on all
pairs of a few elements, which tell an order from every other one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Operation, Region, SSAValue

from compiler.frontend.onnx.partial import Unsupported
from compiler.frontend.stablehlo.attributes import dense, numpy_type, tensor_type, word
from compiler.graph import Array

RETURNS = ("stablehlo.return", "func.return")

SECOND = "second"
"""The kind of a body that returns its second operand."""

_MONOIDS = ("add", "maximum", "minimum", "multiply", "and", "or")


def operation_name(op: Operation) -> str:
    """Return the name of an operation, of a dialect that xDSL knows or not."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def kind_of(region: Region) -> str:
    """Return ``add``, ``maximum``, ``minimum``, ``multiply``, ``and``, ``or`` of both operands, or SECOND.

    Unsupported for a body that computes something else.
    """
    ops = list(region.block.ops)
    names = [operation_name(op) for op in ops]
    given = list(region.block.args)
    if len(given) == 2 and names and names[-1] in RETURNS:
        if len(ops) == 1 and list(ops[0].operands) == [given[1]]:
            return SECOND
        kind = names[0].removeprefix("stablehlo.")
        if len(ops) == 2 and kind in _MONOIDS and set(ops[0].operands) == set(given):
            return kind
    found = ", ".join(names) or "nothing"
    raise Unsupported(f"its body is {found}; supported is one of {', '.join(_MONOIDS)} of its operands")


def sort_key(region: Region) -> tuple[int, bool]:
    """Return the operand by which a comparator sorts, and True if the largest comes first.

    Unsupported for a comparator of several operands, or of another order.
    """
    grid = _grid(region)
    (smaller,) = _evaluated(region, grid)
    for at in range(len(grid) // 2):
        a, b = grid[2 * at], grid[2 * at + 1]
        for descending, expected in ((False, a < b), (True, a > b)):
            if np.array_equal(smaller, expected):
                return at, descending
    raise Unsupported("its comparator is not 'less' or 'greater' of one of its operands")


def extremum_of(region: Region) -> str:
    """Return ``ArgMax`` or ``ArgMin`` for a body of a value, its index, and another value and index.

    Of equal values the one with the lower index is chosen. Unsupported for other bodies.
    """
    grid = _grid(region)
    if len(grid) != 4:
        raise Unsupported(f"reduces {len(grid) // 2} operands together; supported are values with indices")
    a, at, b, bt = grid
    found = _evaluated(region, grid)
    for op, better in (("ArgMax", a > b), ("ArgMin", a < b)):
        chosen = better | ((a == b) & (at < bt))
        expected = np.where(chosen, a, b), np.where(chosen, at, bt)
        if all(map(np.array_equal, found, expected)):
            return op
    raise Unsupported("its body does not choose the largest or smallest value and the lowest index")


def _grid(region: Region) -> list[Array]:
    """Return arrays for the operands of a body with all combinations of a few elements."""
    few = [_elements(*tensor_type(argument.type)) for argument in region.block.args]
    if len(few) > 6:
        few = [line[:3] for line in few]
    if len(few) > 10:
        raise Unsupported(f"its body has {len(few)} operands; supported are 10")
    rows = list(product(*few))
    return [np.array([row[at] for row in rows], line.dtype) for at, line in enumerate(few)]


def _elements(dtype: str, shape: tuple[int, ...]) -> Array:
    """Return small, large and equal elements of a type, without NaN, which has no order."""
    if shape:
        raise Unsupported(f"its body is of tensors of shape {list(shape)}; expected scalars")
    kind = numpy_type(dtype)
    if dtype == "bool":
        return np.array([False, True])
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return np.array([0, 1, limits.max, limits.min, 2], kind)
    return np.array([0.0, -1.5, np.inf, 2.0, -np.inf]).astype(kind)


def _compare(op: Operation, a: Array, b: Array) -> Array:
    found = word({**op.attributes, **op.properties}["comparison_direction"])
    known = {"EQ": a == b, "NE": a != b, "LT": a < b, "LE": a <= b, "GT": a > b, "GE": a >= b}
    return np.asarray(known[found])


def _constant(op: Operation) -> Array:
    return dense({**op.attributes, **op.properties}.get("value"))


def _constant_outside(value: SSAValue) -> Array:
    """Return a constant that is defined before a body which uses it."""
    if not isinstance(value.owner, Operation) or operation_name(value.owner) != "stablehlo.constant":
        raise Unsupported("its body uses values from outside of it that are not constants")
    return _constant(value.owner)


_EVALUATED: dict[str, Callable[..., Array]] = {
    "stablehlo.compare": _compare,
    "stablehlo.select": lambda _, test, a, b: np.asarray(np.where(test, a, b)),
    "stablehlo.and": lambda _, a, b: a & b,
    "stablehlo.or": lambda _, a, b: a | b,
    "stablehlo.xor": lambda _, a, b: a ^ b,
    "stablehlo.not": lambda _, a: ~a,
    "stablehlo.minimum": lambda _, a, b: np.minimum(a, b),
    "stablehlo.maximum": lambda _, a, b: np.maximum(a, b),
    "stablehlo.constant": _constant,
}
"""The operations that choose and order, in NumPy."""


def _evaluated(region: Region, operands: Sequence[Array]) -> list[Array]:
    """Evaluate a body on arrays with the elements that its operands take one after the other."""
    values: dict[SSAValue, Array] = dict(zip(region.block.args, operands, strict=True))
    for op in region.block.ops:
        name = operation_name(op)
        given = [values[x] if x in values else _constant_outside(x) for x in op.operands]
        if name in RETURNS:
            return [np.broadcast_to(value, operands[0].shape) for value in given]
        if name not in _EVALUATED:
            raise Unsupported(f"its body has {name}; supported are {', '.join(_EVALUATED)}")
        values[op.results[0]] = _EVALUATED[name](op, *given)
    raise Unsupported("its body returns nothing")
