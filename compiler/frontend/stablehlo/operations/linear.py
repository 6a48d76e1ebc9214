"""Products of matrices and convolutions, with their axes in any order."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from compiler.frontend.onnx.partial import Unsupported
from compiler.frontend.stablehlo.attributes import body, lists
from compiler.frontend.stablehlo.site import Rewriter, Site, Value, inverse
from compiler.graph import FLOATS


def _common_type(site: Site, *operands: Value) -> list[Value]:
    """Return operands in the type of the result, which may be wider; integers of 8 bits stay as they are."""
    if site.dtype in FLOATS or not all(site.type_of(value) in ("int8", "uint8") for value in operands):
        return [site.cast(value, site.dtype) for value in operands]
    return list(operands)


def _rest(value: Value, *used: Sequence[int]) -> list[int]:
    """Return the axes of a value that are in none of some lists."""
    return [axis for axis in range(value.rank) if not any(axis in axes for axes in used)]


def _extents(value: Value, axes: Sequence[int]) -> list[int]:
    if any(not 0 <= axis < value.rank for axis in axes):
        raise Unsupported(f"{list(axes)} are not axes of {list(value.shape)}")
    return [value.shape[axis] for axis in axes]


def _dot_general(site: Site) -> Value:
    axes = lists(site.attributes.get("dot_dimension_numbers"))
    sides = [[axes.get(f"{side}_{kind}_dimensions", ()) for kind in _KINDS] for side in ("lhs", "rhs")]
    return _product(site, sides[0], sides[1])


_KINDS = ("batching", "contracting")


def _dot(site: Site) -> Value:
    """Multiply vectors and matrices as the older operation does."""
    a = site.operand(0)
    return _product(site, [(), (a.rank - 1,)], [(), (0,)])


def _product(site: Site, left: Sequence[Sequence[int]], right: Sequence[Sequence[int]]) -> Value:
    """Add a MatMul of operands whose axes are ordered: shared ones, free ones, contracted ones.

    ``left`` and ``right``: the shared and the contracted axes of each operand.
    """
    a, b = _common_type(site, site.operand(0), site.operand(1))
    (a_batch, a_sum), (b_batch, b_sum) = left, right
    a_free, b_free = _rest(a, a_batch, a_sum), _rest(b, b_batch, b_sum)
    batch, rows, columns = _extents(a, a_batch), _extents(a, a_free), _extents(b, b_free)
    summed = math.prod(_extents(a, a_sum))
    if batch != _extents(b, b_batch) or _extents(a, a_sum) != _extents(b, b_sum):
        raise Unsupported(f"operands {list(a.shape)} and {list(b.shape)} do not fit each other")
    folded = [*batch, math.prod(rows)] if batch or not rows else rows
    a = site.reshape(site.transpose(a, *a_batch, *a_free, *a_sum), *folded, summed)
    b = site.transpose(b, *b_batch, *b_sum, *b_free)
    b = site.reshape(b, *batch, summed, math.prod(columns))
    integer = site.type_of(a) in ("int8", "uint8")
    product = site.node("MatMulInteger" if integer else "MatMul", a, b)
    return site.cast(site.reshape(product, *batch, *rows, *columns), site.dtype)


# --- convolutions ------------------------------------------------------------------------------


def _order(text: str, names: str, rank: int) -> list[int]:
    """Return the positions, in a list of axes, of the two named axes and then of the image's axes."""
    places = {name: at for at, name in enumerate(re.findall(r"\w+", text))}
    wanted = [*names, *map(str, range(rank))]
    if sorted(places) != sorted(wanted):
        raise Unsupported(f"axes [{text}]; expected {', '.join(wanted)} in any order")
    return [places[name] for name in wanted]


def _axes(site: Site, rank: int) -> list[list[int]]:
    """Return the orders of the axes of image, kernel and result."""
    text = body(site.attributes.get("dimension_numbers"))
    found = re.fullmatch(r"\s*\[(.*)\]\s*x\s*\[(.*)\]\s*->\s*\[(.*)\]\s*", text)
    if found is None:
        raise Unsupported(f"dimension_numbers cannot be read: {text!r}")
    return [_order(part, names, rank) for part, names in zip(found.groups(), ("bf", "oi", "bf"), strict=True)]


def _convolution(site: Site) -> Value:
    """Add a Conv of the image with batch and channels in front; the image is padded before it."""
    if site.integer("batch_group_count", 1) != 1:
        raise Unsupported("batch_group_count is not 1, as in gradients; only inference is compiled")
    x, kernel = _common_type(site, site.operand(0), site.operand(1))
    rank = x.rank - 2
    orders = _axes(site, rank)
    x, kernel = site.transpose(x, *orders[0]), site.transpose(kernel, *orders[1])
    ones, zeros = (1,) * rank, (0,) * rank
    strides, dilations = site.integers("window_strides", ones), site.integers("rhs_dilation", ones)
    pads, gaps = site.integers("padding", zeros * 2), site.integers("lhs_dilation", ones)
    reversal = site.integers("window_reversal", zeros)
    x = site.spread(x, [0, 0, *(gap - 1 for gap in gaps)], None)
    before, after = pads[::2], pads[1::2]
    if min(pads, default=0) < 0:
        x = site.pad(x, [0, 0, *before], [0, 0, *after], None)
        before = after = zeros
    kernel = site.mirror(kernel, [2 + axis for axis, turned in enumerate(reversal) if turned])
    group = site.integer("feature_group_count", 1)
    if rank == 0:  # Conv has an image of one axis at least
        x, kernel = site.reshape(x, *x.shape, 1), site.reshape(kernel, *kernel.shape, 1)
        strides = dilations = (1,)
        before = after = (0,)
    pads = (*before, *after)
    made = site.node("Conv", x, kernel, strides=strides, dilations=dilations, pads=pads, group=group)
    made = site.reshape(made, *made.shape[: rank + 2])
    return site.transposed_later(made, *inverse(orders[2]))


REWRITES: dict[str, Rewriter] = {
    "stablehlo.dot_general": _dot_general,
    "stablehlo.dot": _dot,
    "stablehlo.convolution": _convolution,
}
"""Rewriters by operation, as in ``elementwise``."""
