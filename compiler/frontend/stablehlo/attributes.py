"""Attributes and types of StableHLO as plain Python values: integers, lists, arrays, element types."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnregisteredAttr,
)
from xdsl.ir import Attribute

from compiler.frontend.onnx.partial import Unsupported
from compiler.graph import Array, Shape

_FLOATS = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def tensor_type(kind: Attribute) -> tuple[str, Shape]:
    """Return the element type, by its name in NumPy, and the shape of a tensor type.

    Unsupported for a free extent, and for anything but a tensor of numbers.
    """
    if not isinstance(kind, TensorType):
        raise Unsupported(f"{kind} is not a tensor; only tensors of numbers are supported")
    if any(extent < 0 for extent in kind.get_shape()):  # xDSL's extent for a question mark
        raise Unsupported(f"{kind} has a dynamic dimension; shapes must be static: trace with arrays")
    return element_type(kind.get_element_type()), tuple(kind.get_shape())


def element_type(kind: Attribute) -> str:
    """Return the name in NumPy of an element type. Unsupported for complex numbers and other kinds."""
    if isinstance(kind, IntegerType):
        width, unsigned = kind.width.data, kind.signedness.data is Signedness.UNSIGNED
        if width == 1:
            return "bool"
        if width in (8, 16, 32, 64):
            return f"{'u' * unsigned}int{width}"
    if kind.name in _FLOATS:
        return _FLOATS[kind.name]
    raise Unsupported(f"elements of type {kind} are not supported")


def numpy_type(name: str) -> np.dtype[Any]:
    """Return the type of NumPy that ``element_type`` named."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def dense(attribute: Attribute | None) -> Array:
    """Return the array of a dense constant; Unsupported for other data, such as a separate resource."""
    if not isinstance(attribute, DenseIntOrFPElementsAttr):
        found = "absent" if attribute is None else f"of kind {attribute.name}"
        raise Unsupported(f"its value is {found}; expected numbers in the text (dense<...>)")
    name, shape = tensor_type(attribute.type)
    stored = np.dtype(np.int8) if name == "bool" else numpy_type(name)
    array = np.frombuffer(attribute.data.data, stored)
    return (array != 0 if name == "bool" else array).reshape(shape)


def integers(attribute: Attribute) -> tuple[int, ...]:
    """Return the numbers of ``array<i64: ...>``, a dense constant, or a list; Unsupported for others."""
    if isinstance(attribute, DenseArrayBase):
        return tuple(int(value) for value in attribute.get_values())
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        return tuple(int(value) for value in dense(attribute).reshape(-1))
    if isinstance(attribute, ArrayAttr):
        return tuple(integer(item) for item in attribute)
    raise Unsupported(f"expected a list of integers; found {attribute}")


def integer(attribute: Attribute) -> int:
    """Return the number of an attribute; a truth value is 0 or 1."""
    if isinstance(attribute, IntegerAttr):
        return int(attribute.value.data)
    raise Unsupported(f"expected an integer; found {attribute}")


def word(attribute: Attribute) -> str:
    """Return a string, the name of a symbol, or the last word of one of the dialect's enumerations."""
    if isinstance(attribute, StringAttr):
        return attribute.data
    if isinstance(attribute, SymbolRefAttr):
        return str(attribute.root_reference.data)
    if isinstance(attribute, UnregisteredAttr):
        found = re.findall(r"\w+", attribute.value.data)
        return str(found[-1]) if found else ""
    raise Unsupported(f"expected a word; found {attribute}")


def body(attribute: Attribute | None) -> str:
    """Return the text between the brackets of ``#stablehlo.name<...>``; empty if the attribute is absent."""
    return attribute.value.data if isinstance(attribute, UnregisteredAttr) else ""


def lists(attribute: Attribute | None) -> dict[str, tuple[int, ...]]:
    """Return the entries of a record such as ``#stablehlo.dot<lhs_contracting_dimensions = [1], ...>``.

    A single number is a list of one.
    """
    pairs = re.findall(r"(\w+)\s*=\s*(\[[^\]]*\]|-?\d+)", body(attribute))
    return {name: tuple(map(int, re.findall(r"-?\d+", text))) for name, text in pairs}
