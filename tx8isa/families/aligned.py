"""Byte counts of aligned (Cx/NCx) tensors as extents of operands, over the arithmetic of ``layouts``."""

from __future__ import annotations

from tx8isa.numbers.layouts import batch_bytes


def tensor(bits: int, n: int, h: int, w: int, c: int) -> int:
    """Bytes of an aligned NHWC tensor; every batch, also the last, occupies its full rounded size."""
    return n * batch_bytes(h * w, c, bits)


def reduced(bits: int, n: int, h: int, w: int, c: int, dims: int) -> int:
    """Bytes of the aligned result of a reduction over ``dims`` (0 C, 1 W, 2 H, 4 HW)."""
    if dims == 0:
        return tensor(bits, n, h, w, 1)
    if dims == 1:
        return tensor(bits, n, h, 1, c)
    if dims == 2:
        return tensor(bits, n, 1, w, c)
    return tensor(bits, n, 1, 1, c)


def compact(bits: int, n: int, h: int, w: int, c: int) -> int:
    """Bytes of a packed tensor."""
    return (n * h * w * c * bits + 7) >> 3


def matrices(bits: int, batch: int, rows: int, columns: int) -> int:
    """Bytes of a batch of aligned matrices, each on its own 256-byte boundary."""
    return batch * batch_bytes(rows, columns, bits)
