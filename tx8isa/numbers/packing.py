"""Converts arrays to and from memory images of tensors, in any layout.

Elements keep their storage dtype and every bit; nothing is rounded. Chip and host are both little-endian.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from .formats import Format
from .layouts import Layout, LayoutError, Placement, place

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

_STORAGE: dict[Format, np.dtype[Any]] = {
    Format.INT8: np.dtype(np.int8),
    Format.INT16: np.dtype(np.int16),
    Format.FP16: np.dtype(np.float16),
    Format.BF16: np.dtype(ml_dtypes.bfloat16),
    Format.INT32: np.dtype(np.int32),
    Format.FP32: np.dtype(np.float32),
    Format.TF32: np.dtype(np.float32),
    Format.BOOL: np.dtype(np.bool_),
    Format.UINT8: np.dtype(np.uint8),
    Format.UINT16: np.dtype(np.uint16),
    Format.UINT32: np.dtype(np.uint32),
    Format.INT64: np.dtype(np.int64),
    Format.UINT64: np.dtype(np.uint64),
}


def storage_dtype(fmt: Format) -> np.dtype[Any]:
    """Return the dtype whose elements hold the bits of ``fmt``; TF32 is float32, whose low 13 bits are kept.

    BOOL is numpy's bool, one byte an element; memory images hold one bit an element.
    """
    return _STORAGE[fmt]


def stored_numbers(patterns: npt.NDArray[np.int64], fmt: Format) -> npt.NDArray[np.float64]:
    """Return the numbers of unsigned patterns; the low bits that TF32 does not use are ignored."""
    if fmt is Format.BF16:
        patterns, fmt = patterns << 16, Format.FP32
    used = patterns & -(1 << 13) if fmt is Format.TF32 else patterns
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return used.astype(f"u{fmt.bits // 8}").view(storage_dtype(fmt)).astype(np.float64)


def pack(array: Array, fmt: Format, layout: Layout) -> Bytes:
    """Return the memory image of ``array``: uint8, ``place(...).total_bytes`` long, padding and gaps zero.

    LayoutError when the dtype is not ``storage_dtype(fmt)`` or the shape cannot be placed.
    """
    expected = storage_dtype(fmt)
    if array.dtype != expected:
        raise LayoutError(
            f"array of dtype {array.dtype} packed as {fmt.token}: expected {expected}; convert it first"
        )
    placement = place(fmt, array.shape, layout)
    if fmt is Format.BOOL:
        return np.packbits(array.reshape(-1), bitorder="little")
    if not layout.blocked:
        return array.flatten().view(np.uint8)
    data = np.zeros(placement.total_bytes, np.uint8)
    rows = _as_bits(array).reshape(placement.batches, placement.hw, array.shape[-1])
    for stored, logical in _planes(placement, data, rows):
        stored[...] = logical
    return data


def unpack(data: Bytes, fmt: Format, shape: Sequence[int], layout: Layout) -> Array:
    """Return the tensor whose memory image is ``data``, in ``storage_dtype(fmt)``; padding lanes are ignored.

    ``data`` is a one-dimensional uint8 array of exactly ``place(...).total_bytes``; LayoutError otherwise.
    The result owns its memory.
    """
    placement = place(fmt, shape, layout)
    if data.dtype != np.uint8 or data.shape != (placement.total_bytes,):
        raise LayoutError(
            f"memory image of dtype {data.dtype} and shape {data.shape}: "
            f"expected {placement.total_bytes} bytes of uint8 for {placement}"
        )
    data = np.ascontiguousarray(data)
    if fmt is Format.BOOL:
        elements = np.unpackbits(data, count=prod(placement.shape), bitorder="little")
        return elements.view(np.bool_).reshape(tuple(shape))
    result = np.empty(tuple(shape), storage_dtype(fmt))
    if not layout.blocked:
        result.reshape(-1).view(np.uint8)[...] = data
        return result
    rows = _as_bits(result).reshape(placement.batches, placement.hw, placement.shape[-1])
    for stored, logical in _planes(placement, data, rows):
        logical[...] = stored
    return result


def _as_bits(array: Array) -> Array:
    """View the elements as unsigned integers of their size, which numpy copies faster than bfloat16."""
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def _planes(placement: Placement, data: Bytes, rows: Array) -> list[tuple[Array, Array]]:
    """Yield pairs of equal-shaped views (stored, logical): the whole blocks, then the remaining channels.

    ``data`` is the memory image, ``rows`` the logical elements as [batches, hw, channels].
    """
    n, hw, channels = rows.shape
    size = rows.dtype.itemsize
    block = placement.split.block
    whole, rest = divmod(channels, block)
    plane = hw * block * size
    pairs = []
    if whole:
        strides = (placement.batch_stride, plane, block * size, size)
        stored = np.ndarray((n, whole, hw, block), rows.dtype, data, 0, strides)
        logical = rows[:, :, : whole * block].reshape(n, hw, whole, block).transpose(0, 2, 1, 3)
        pairs.append((stored, logical))
    if rest:
        # The remainder is in a tail plane or, when it exceeds half a plane, in one more whole plane.
        width = placement.split.tail or block
        strides_rest = (placement.batch_stride, width * size, size)
        stored = np.ndarray((n, hw, rest), rows.dtype, data, whole * plane, strides_rest)
        pairs.append((stored, rows[:, :, whole * block :]))
    return pairs
