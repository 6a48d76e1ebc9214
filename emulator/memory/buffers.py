"""Converts between arrays and the buffers of a program: shapes, types and bytes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from asm.image import Buffer
from tx8isa.errors import Tx8Error
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout, place
from tx8isa.numbers.packing import pack, storage_dtype, unpack

Array = np.ndarray[Any, Any]


class InputError(Tx8Error):
    """An input that is missing, unknown, or not of the declared shape or type."""


def unpacked(buffer: Buffer, data: Array) -> Array:
    """Convert the bytes of a buffer to an array of its dtype in files."""
    fmt, layout = Format.parse(buffer.format), Layout.parse(buffer.layout)
    if is_plain(fmt, layout):
        return data.view(storage_dtype(fmt)).reshape(buffer.shape).astype(travel_dtype(buffer))
    return unpack(data, fmt, buffer.shape, layout).astype(travel_dtype(buffer), copy=False)


def is_plain(fmt: Format, layout: Layout) -> bool:
    """Return True if the bytes of a buffer equal those of an array of the format's dtype."""
    return fmt is not Format.BOOL and not layout.blocked


@lru_cache
def size_of(fmt: str, shape: tuple[int, ...], layout: str) -> int:
    """Return the bytes of a buffer; cached, because every run needs it several times and it is slow."""
    return place(Format.parse(fmt), shape, Layout.parse(layout)).total_bytes


def travel_dtype(buffer: Buffer) -> np.dtype[Any]:
    """Return the dtype of a buffer's array and .npy file.

    NumPy files do not support bfloat16, which is stored there as float32.
    """
    if buffer.dtype == "bfloat16" or (buffer.dtype is None and buffer.format == "bf16"):
        return np.dtype(np.float32)
    if buffer.dtype is None:
        return storage_dtype(Format.parse(buffer.format))
    try:
        return np.dtype(buffer.dtype)
    except TypeError:
        raise InputError(f"buffer '{buffer.name}': NumPy has no dtype '{buffer.dtype}'") from None


def packed(buffer: Buffer, array: Array) -> Array:
    """Convert an array to the bytes of a buffer; InputError for another shape or type."""
    check_array(buffer, array)
    fmt, layout = Format.parse(buffer.format), Layout.parse(buffer.layout)
    stored = _stored(buffer, array, fmt)
    if is_plain(fmt, layout):
        return np.ascontiguousarray(stored).reshape(-1).view(np.uint8)
    return pack(stored, fmt, layout)


def check_array(buffer: Buffer, array: Array) -> None:
    """Raise InputError unless an array has the shape of a buffer and its ``travel_dtype``."""
    if array.shape != buffer.shape or array.dtype != travel_dtype(buffer):
        found, wanted = f"{_shape(array.shape)} {array.dtype}", described_array(buffer)
        raise InputError(f"{buffer.kind} '{buffer.name}' is {found}, expected {wanted}")


def described_array(buffer: Buffer) -> str:
    """Describe shape and dtype of the array that a buffer takes, for messages."""
    return f"{_shape(buffer.shape)} {travel_dtype(buffer)}"


def _stored(buffer: Buffer, array: Array, fmt: Format) -> Array:
    """Convert an array to the dtype of its format; InputError for an integer out of range."""
    target = storage_dtype(fmt)
    if array.dtype.kind in "iu" and target.kind in "iu":
        limits = np.iinfo(target)
        outside = (array < limits.min) | (array > limits.max)
        if outside.any():
            found = array[outside].flat[0]
            allowed = f"{limits.min}..{limits.max} ({fmt.token})"
            raise InputError(f"{buffer.kind} '{buffer.name}' holds {found}, expected {allowed}")
    # Rounding turns a number too large for its format into an infinity.
    with np.errstate(over="ignore"):
        return array.astype(target, copy=False)


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(str(extent) for extent in shape) if shape else "scalar"
