"""Python values as attributes of operations, and back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute

from compiler.graph import Array, AttrValue

_ELEMENTS: dict[np.dtype[Any], Any] = {
    np.dtype(np.bool_): i1,
    np.dtype(np.int8): IntegerType(8),
    np.dtype(np.uint8): IntegerType(8, Signedness.UNSIGNED),
    np.dtype(np.int16): IntegerType(16),
    np.dtype(np.uint16): IntegerType(16, Signedness.UNSIGNED),
    np.dtype(np.int32): IntegerType(32),
    np.dtype(np.uint32): IntegerType(32, Signedness.UNSIGNED),
    np.dtype(np.int64): i64,
    np.dtype(np.float16): f16,
    np.dtype(ml_dtypes.bfloat16): bf16,
    np.dtype(np.float32): f32,
}
_DTYPES = {element: dtype for dtype, element in _ELEMENTS.items()}
_BYTES = ("int8", "uint8")
"""Element types that can make up all weights of a network: the bytes of such arrays are copied as a whole."""


def encoded(value: AttrValue) -> Attribute:
    """Encode a value of a graph node as an attribute; numbers keep all their digits."""
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    if isinstance(value, str):
        return StringAttr(value)
    return ArrayAttr([encoded(element) for element in value])


def decoded(attribute: Attribute) -> Any:
    """Decode an attribute that ``encoded`` made; ValueError for any other attribute."""
    if isinstance(attribute, IntegerAttr):
        return attribute.value.data
    if isinstance(attribute, FloatAttr):
        return attribute.value.data
    if isinstance(attribute, StringAttr):
        return attribute.data
    if isinstance(attribute, ArrayAttr):
        return tuple(decoded(element) for element in attribute.data)
    raise ValueError(f"{attribute} is not a number, a string or a list of them")


def encoded_array(array: Array) -> DenseIntOrFPElementsAttr:
    """Encode an array as an attribute; its element type must be one of the graph's."""
    kind = TensorType(_ELEMENTS[array.dtype], array.shape)
    if array.dtype.name in _BYTES:
        return DenseIntOrFPElementsAttr(kind, BytesAttr(array.tobytes()))
    return DenseIntOrFPElementsAttr.from_list(kind, array.reshape(-1).tolist())


def decoded_array(attribute: Attribute) -> Array:
    """Decode an attribute that ``encoded_array`` made; ValueError for any other attribute."""
    if not isinstance(attribute, DenseIntOrFPElementsAttr) or attribute.get_element_type() not in _DTYPES:
        raise ValueError(f"{attribute} is not an array of an element type of graphs")
    dtype = _DTYPES[attribute.get_element_type()]
    if dtype.name in _BYTES:
        return np.frombuffer(attribute.data.data, dtype).reshape(attribute.get_shape())
    return np.array(attribute.get_values()).astype(dtype).reshape(attribute.get_shape())
