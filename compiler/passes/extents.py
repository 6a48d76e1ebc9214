"""The extents of values in a program that runs a range of sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, SSAValue

from compiler.dialect.ops import LoadConstOp, NodeOperation
from compiler.dialect.sizes import formula_texts
from compiler.dialect.types import format_of, order_of, shape_of, stored_bytes, tensor_type
from compiler.evaluation.sizes import Domain, dimension
from compiler.evaluation.sizes.formulas import ExtentFormula
from compiler.evaluation.sizes.ranged import RangedGraph
from compiler.graph import Array, Shape
from compiler.passes.base import Context, RangedContext


def formulas_of(context: Context, value: SSAValue) -> tuple[ExtentFormula, ...] | None:
    """The formulas of the extents of a value; None if they do not depend on the sizes of a run."""
    ranged = _ranged(context)
    texts = None if ranged is None else formula_texts(value)
    return None if ranged is None or texts is None else _formulas(ranged, texts)


def _ranged(context: Context) -> RangedGraph | None:
    """The extents that depend on the sizes of a run; None for one size, and before pass ``sizes``."""
    return context.ranged if isinstance(context, RangedContext) else None


def _domain(context: Context) -> Domain | None:
    """The points for which code is generated; None for one size, and while no code is generated."""
    return context.domain if isinstance(context, RangedContext) else None


def _formulas(ranged: RangedGraph, texts: Iterable[str]) -> tuple[ExtentFormula, ...]:
    return tuple(ranged.formulas[text] for text in texts)


def shape_in(context: Context, value: SSAValue) -> Shape:
    """The shape of a value; while code is generated for a range, extents may be sizes."""
    domain, formulas = _domain(context), formulas_of(context, value)
    return shape_of(value.type) if domain is None or formulas is None else _at(domain, formulas)


def _at(domain: Domain, formulas: Sequence[ExtentFormula]) -> tuple[Any, ...]:
    sizes = {name: dimension(domain, name) for name in domain.symbols}
    return tuple(formula.at(sizes) for formula in formulas)


def is_ranged(context: Context, value: SSAValue) -> bool:
    """True if the shape of a value depends on the sizes of a run."""
    return formulas_of(context, value) is not None


def most_shape(context: Context, value: SSAValue) -> Shape:
    """The shape with the largest extent of each axis."""
    ranged, formulas = _ranged(context), formulas_of(context, value)
    if ranged is None or formulas is None:
        return shape_of(value.type)
    points = ranged.ranges.points
    return tuple(int(np.max(formula.at(points))) for formula in formulas)


def most_bytes(context: Context, value: SSAValue) -> int:
    """Upper bound on a value's bytes in DDR."""
    if not is_ranged(context, value):
        return stored_bytes(value.type)
    return stored_bytes(tensor_type(format_of(value.type), most_shape(context, value), order_of(value.type)))


def constant_in(context: Context, operation: LoadConstOp) -> Array:
    """The data of a constant, at the largest sizes if they depend on them."""
    name, ranged = operation.node.data, _ranged(context)
    if ranged is not None and name in ranged.constants and operation.sizes is not None:
        return ranged.constants[name]
    return context.constants[name]


def numbers_in(context: Context, operation: NodeOperation, key: str, value: Any) -> Any:
    """An attribute of a node, or a known operand, with sizes in place of numbers that depend on a run."""
    found = operation.numbers.data.get(key) if operation.numbers is not None else None
    ranged, domain = _ranged(context), _domain(context)
    if found is None or ranged is None or domain is None:
        return value
    sizes = _at(domain, _formulas(ranged, _texts(found)))
    if isinstance(value, np.ndarray):
        array = np.empty(len(sizes), object)
        array[:] = sizes
        return array.reshape(value.shape)
    return sizes if isinstance(value, tuple) else sizes[0]


def number_formulas(context: Context, operation: NodeOperation) -> list[ExtentFormula]:
    """The formulas of all attributes and known operands of a node that depend on the sizes of a run."""
    ranged, numbers = _ranged(context), operation.numbers
    if ranged is None or numbers is None:
        return []
    return [formula for each in numbers.data.values() for formula in _formulas(ranged, _texts(each))]


def _texts(formulas: Attribute) -> list[str]:
    assert isinstance(formulas, ArrayAttr)
    return [text.data for text in formulas if isinstance(text, StringAttr)]
