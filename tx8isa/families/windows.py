"""Windows that slide over an image: extents of their results, and rules (docs/isa.md, Pooling)."""

from __future__ import annotations

from tx8isa.records.operands import rule

from .aligned import tensor


def places(extent: int, before: int, after: int, kernel: int, stride: int) -> int:
    """Positions of a window along one dimension; at least one when it fits the padded extent."""
    return (extent + before + after - kernel) // stride + 1


@rule("dst_shape.h", "shape.h", "pad.top", "pad.bottom", "window.ky", "window.sy")
def rows(out: int, extent: int, top: int, bottom: int, ky: int, sy: int) -> bool:
    """dst_shape.h must be floor((shape.h + top + bottom - ky) / sy) + 1"""
    return extent + top + bottom >= ky and out == (extent + top + bottom - ky) // sy + 1


@rule("dst_shape.w", "shape.w", "pad.left", "pad.right", "window.kx", "window.sx")
def columns(out: int, extent: int, left: int, right: int, kx: int, sx: int) -> bool:
    """dst_shape.w must be floor((shape.w + left + right - kx) / sx) + 1"""
    return extent + left + right >= kx and out == (extent + left + right - kx) // sx + 1


@rule("dst_shape.n", "shape.n", "dst_shape.c", "shape.c")
def same_planes(out_n: int, n: int, out_c: int, c: int) -> bool:
    """dst_shape must have the n and c of shape"""
    return out_n == n and out_c == c


def windowed(bits: int, n: int, h: int, w: int, c: int, kx: int, ky: int, sx: int, sy: int) -> int:
    """Bytes of the aligned result of windows without pads over (n, h, w, c)."""
    return tensor(bits, n, places(h, 0, 0, ky, sy), places(w, 0, 0, kx, sx), c)
