"""Rounds arrays to the float formats in NumPy, as ``formats.narrow`` rounds one number.

The compiler rounds constants with it. The emulator's kernels use ``narrow``, the definition; a test compares
both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .formats import Format
from .packing import storage_dtype

Array = npt.NDArray[Any]

_DROPPED_TF32 = 13
"""Fraction bits of FP32 that TF32 does not have."""


def rounded(values: Array, fmt: Format) -> Array:
    """Round binary64 numbers once to a float format, nearest even, in its ``storage_dtype``.

    Overflow gives infinity. In TF32 the low 13 bits are 0, and NaN is the canonical one.
    """
    wide = np.asarray(values, np.float64)
    with np.errstate(all="ignore"):
        if fmt is Format.BF16:
            return np.asarray(_to_odd(wide).astype(storage_dtype(fmt)))
        if fmt is Format.TF32:
            return _from_odd_to_tf32(_to_odd(wide))
        return np.asarray(wide.astype(storage_dtype(fmt)))


def _to_odd(wide: Array) -> Array:
    """Round binary64 to binary32 so that a second rounding, to a shorter format, equals a single one.

    An inexact number gets an odd last bit, so that it is never a tie between two shorter numbers.
    """
    single = wide.astype(np.float32)
    single = np.where(np.abs(single) > np.abs(wide), np.nextafter(single, np.float32(0)), single)
    inexact = (single != wide) & ~np.isnan(wide)
    return np.asarray((single.view(np.uint32) | inexact).view(np.float32))


def _from_odd_to_tf32(single: Array) -> Array:
    bits = single.view(np.uint32).astype(np.uint64)
    below_half = (1 << (_DROPPED_TF32 - 1)) - 1
    kept = (bits + below_half + ((bits >> _DROPPED_TF32) & 1)) >> _DROPPED_TF32 << _DROPPED_TF32
    result = kept.astype(np.uint32).view(np.float32)
    return np.where(np.isnan(single), np.float32(np.nan), result)
