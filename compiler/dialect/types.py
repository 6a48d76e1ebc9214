"""Tensor types of the dialect: builtin tensors whose encoding is the order in which DDR holds them."""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import cache

from xdsl.dialects.builtin import IntegerType, NoneAttr, Signedness, StringAttr, TensorType, bf16, f16, f32
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition

from compiler.graph import Shape
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels

from .orders import Order
from .planes import BLOCK, image_bytes, used_bytes


@irdl_attr_definition
class TF32Type(ParametrizedAttribute, TypeAttribute):
    """TF32: an FP32 word with 10 used fraction bits."""

    name = "tx8be.tf32"


_ELEMENTS: dict[Format, Attribute] = {
    Format.FP16: f16,
    Format.BF16: bf16,
    Format.FP32: f32,
    Format.TF32: TF32Type(),
    Format.INT8: IntegerType(8),
    Format.UINT8: IntegerType(8, Signedness.UNSIGNED),
    Format.INT16: IntegerType(16),
    Format.UINT16: IntegerType(16, Signedness.UNSIGNED),
    Format.INT32: IntegerType(32),
    Format.UINT32: IntegerType(32, Signedness.UNSIGNED),
    Format.INT64: IntegerType(64),
}
_FORMATS = {element: fmt for fmt, element in _ELEMENTS.items()}
_STORED = {order.value: order for order in (Order.CHANNELS_LAST, Order.BLOCKED)}
"""Orders by the encoding of a type; a type without encoding is in the plain order."""

DTYPE_FORMATS = {
    "float32": Format.FP32,
    "float16": Format.FP16,
    "bfloat16": Format.BF16,
    "int8": Format.INT8,
    "uint8": Format.UINT8,
    "int16": Format.INT16,
    "uint16": Format.UINT16,
    "int32": Format.INT32,
    "uint32": Format.UINT32,
    "int64": Format.INT64,
    "bool": Format.INT8,
}
"""Formats of the graph's element types. A truth value is a byte, 0 or 1, as in NumPy's files."""


@cache
def tensor_type(fmt: Format, shape: Shape, order: Order = Order.PLAIN) -> TensorType[Attribute]:
    """The type of a tensor that is stored in DDR in ``order``; ``shape`` is as in the specification."""
    encoding = NoneAttr() if order is Order.PLAIN else StringAttr(order.value)
    return TensorType(_ELEMENTS[fmt], shape, encoding)


def format_of(kind: Attribute) -> Format:
    """Return the format of a tensor type's elements; ValueError for a format that the chip cannot compute."""
    if isinstance(kind, TensorType) and kind.element_type in _FORMATS:
        return _FORMATS[kind.element_type]
    raise ValueError(f"{kind} is not a tensor of " + ", ".join(fmt.token for fmt in _ELEMENTS))


def order_of(kind: Attribute) -> Order:
    """Return the order of a tensor type; ValueError for an unknown encoding."""
    encoding = kind.encoding if isinstance(kind, TensorType) else None
    if isinstance(encoding, NoneAttr):
        return Order.PLAIN
    if isinstance(encoding, StringAttr) and encoding.data in _STORED:
        return _STORED[encoding.data]
    raise ValueError(f"{kind} has an unknown order; known are plain, {', '.join(_STORED)}")


def shape_of(kind: Attribute) -> Shape:
    """The shape of a tensor type, with the axes as in the specification."""
    if not isinstance(kind, TensorType):
        raise ValueError(f"{kind} is not a tensor")
    return tuple(kind.get_shape())


def storage_permutation(rank: int, order: Order) -> tuple[int, ...]:
    """Return the specification's axis for each axis in DDR, from the outermost inwards."""
    if order in (Order.CHANNELS_LAST, Order.BLOCKED) and rank > 2:
        return (0, *range(2, rank), 1)
    return tuple(range(rank))


def blockable(kind: Attribute) -> bool:
    """Return True for a tensor that planes can store: floats with a batch, channels and positions."""
    return format_of(kind).is_float and len(shape_of(kind)) > 2


def integers_blockable(kind: Attribute) -> bool:
    """Return True for a tensor of integers that planes can store, in which products of bytes compute."""
    return format_of(kind) in (Format.INT8, Format.INT32) and len(shape_of(kind)) > 2


def stored_shape(kind: Attribute) -> Shape:
    """Return the shape with the axes in the order of DDR."""
    shape = shape_of(kind)
    return tuple(shape[axis] for axis in storage_permutation(len(shape), order_of(kind)))


def stored_bytes(kind: Attribute) -> int:
    """Return the bytes that a tensor takes in DDR, with the padding of planes of channels."""
    if order_of(kind) is Order.BLOCKED:
        batches, *image, channels = stored_shape(kind)
        size = math.prod(image), channels, format_of(kind).bits
        return (batches - 1) * image_bytes(*size) + used_bytes(*size)
    return -(-math.prod(shape_of(kind)) * format_of(kind).bits // 8)


def readable_as(before: Attribute, after: Attribute, open_axes: Collection[int] = ()) -> bool:
    """Return True if the bytes of a tensor of type ``before`` can be read as type ``after`` unchanged.

    Both types have the same shape and format. Padding that only ``after`` has makes it False; padding after
    the last element that only ``before`` has does not matter. ``open_axes``: the axes with dynamic extents;
    then the answer holds for all extents of these.
    """
    if format_of(before) is not format_of(after):
        return False
    orders, shape = {order_of(before), order_of(after)}, shape_of(before)
    longer = [axis for axis, extent in enumerate(shape) if extent != 1 or axis in open_axes]
    if not _same_order(len(shape), longer, orders):
        return False
    if Order.BLOCKED not in orders or len(orders) == 1:
        return True
    if 1 in open_axes:
        return False
    channels, bits = shape[1], format_of(before).bits
    positions = math.prod(extent for axis, extent in enumerate(shape) if axis > 1 and axis not in open_axes)
    logical, used = positions * channels * bits // 8, used_bytes(positions, channels, bits)
    one_plane = channels == aligned_channels(channels, BLOCK) and channels <= BLOCK
    if not one_plane and any(axis > 1 for axis in longer):
        return False
    if 0 in longer:  # what holds for the other extents holds for all multiples of their product
        return image_bytes(positions, channels, bits) == logical
    return used == logical or order_of(before) is Order.BLOCKED


def _same_order(rank: int, longer: Collection[int], orders: set[Order]) -> bool:
    """Return True if the axes longer than 1 follow each other in the same sequence in all of these orders."""
    found = {tuple(axis for axis in storage_permutation(rank, order) if axis in longer) for order in orders}
    return len(found) == 1
