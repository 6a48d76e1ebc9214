"""Nodes that read found values: the valid part of their results."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from onnx import NodeProto, helper

from compiler.frontend.onnx.flow import ControlFlow, Importer
from compiler.frontend.onnx.model import onnx_node, plain
from compiler.frontend.onnx.partial import Scope
from compiler.graph import DTYPES
from compiler.operators.types import axis_from_front

from .boxes import non_max_suppression
from .propagation import Propagation
from .selections import compress, non_zero, top_k, unique
from .shapes import READ_SHAPES, followed, shape, size, takes_shape
from .site import FoundSite, renamed
from .slices import found_slice, is_found_slice


def take_found(importer: Importer, node: NodeProto, opset: int, scope: Scope, depth: int) -> bool:
    """Add a node whose results have data-dependent sizes, or that reads such values; False for others."""
    site = FoundSite(ControlFlow(importer, node, opset, scope, depth))
    op, graph = site.node.op_type, site.graph
    found = [name for name in site.node.input if name in graph.bounded]
    if all(name in graph.constants and name not in found for name in site.node.input if name):
        return False
    if op == "TopK" and not (graph.value(site.operand(1)) is None or _is_found_axis(site)):
        return _propagated(site) if found else False
    if op in SOURCES:
        SOURCES[op](site)
    elif op == "Slice" and is_found_slice(site):
        found_slice(site)
    elif followed(site):
        pass
    elif found and op in READ_SHAPES:
        shape(site) if op == "Shape" else size(site)
    elif takes_shape(site):
        pass
    elif found or _has_shape(site):
        _consume(site)
    else:
        return False
    return True


def _has_shape(site: FoundSite) -> bool:
    """Return True if an operand that must be known is a data-dependent shape."""
    return site.node.op_type in ("Reshape", "Expand", "Tile") and site.operand(1) in site.graph.extents


def _is_found_axis(site: FoundSite) -> bool:
    name, axis = site.operand(0), plain(site.node, "axis", -1)
    assert isinstance(axis, int)
    return axis_from_front(axis, site.graph.tensor(name).rank) in site.counts(name)


def _propagated(site: FoundSite) -> bool:
    Propagation(site).run()
    return True


def _consume(site: FoundSite) -> None:
    op, axes = site.node.op_type, _folded_axes(site)
    if op in _SCATTERS and (site.counts(site.operand(1)) or site.counts(site.operand(2))):
        _scatter(site)
    elif op == "ReduceMean" and axes:
        _mean(site, axes)
    elif op in _NEUTRAL and axes:
        _with_neutral(site, axes)
    else:
        _propagated(site)


# --- operators that fold the valid elements -------------------------------------------------------------

_NEUTRAL = {
    **dict.fromkeys(("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"), 0.0),
    **dict.fromkeys(("ReduceMax", "ArgMax", "Softmax", "LogSoftmax"), -math.inf),
    **dict.fromkeys(("ReduceMin", "ArgMin"), math.inf),
    "ReduceProd": 1.0,
}
"""The neutral element of each operator, which replaces padding along the axes that it folds."""
_OF_ONE_AXIS = {"ArgMax": 0, "ArgMin": 0, "Softmax": -1, "LogSoftmax": -1}
"""Operators that fold the axis of an attribute, with its default."""


def _folded_axes(site: FoundSite) -> list[int]:
    """Return the axes of found extents that a node folds."""
    op, name = site.node.op_type, site.operand(0)
    if op not in (*_NEUTRAL, "ReduceMean"):
        return []
    rank = site.graph.tensor(name).rank
    if op in _OF_ONE_AXIS:
        axis = plain(site.node, "axis", _OF_ONE_AXIS[op])
        assert isinstance(axis, int)
        given = [axis]
    else:
        known = site.graph.value(site.operand(1)) if site.operand(1) else None
        if site.operand(1) and known is None:
            return []
        given = [] if known is None else [int(axis) for axis in known]
        if not given:
            given = [] if plain(site.node, "noop_with_empty_axes", 0) else list(range(rank))
    return [axis for axis in sorted(axis % rank for axis in given) if axis in site.counts(name)]


def _with_neutral(site: FoundSite, axes: list[int]) -> None:
    """Replace the padding by the neutral element, so that the axis can be folded like any other."""
    op, name = site.node.op_type, site.operand(0)
    counts, value = site.counts(name), _NEUTRAL[op]
    filled = site.filled(name, value, axes)
    site.graph.mark(filled, {axis: count for axis, count in counts.items() if axis not in axes})
    _place(site, renamed(site.node, {0: filled}))
    if op in ("Softmax", "LogSoftmax"):
        site.graph.mark(site.node.output[0], counts)


def _mean(site: FoundSite, axes: list[int]) -> None:
    """Divide the sum of the valid elements by their number."""
    name, total = site.operand(0), site.graph.fresh()
    tensor, counts = site.graph.tensor(name), site.counts(name)
    copy = renamed(site.node, {})
    copy.op_type, copy.name, copy.output[0] = "ReduceSum", f"{site.node.name}/sum", total
    known = site.graph.value(site.operand(1)) if site.operand(1) else None
    reduced = range(tensor.rank) if known is None else [int(axis) % tensor.rank for axis in known]
    others = math.prod(tensor.shape[axis] for axis in reduced if axis not in axes)
    _place(site, copy)
    number = site.flow.number(others)
    for axis in axes:
        number = site.place("Mul", number, counts[axis])
    kind = helper.np_dtype_to_tensor_dtype(DTYPES[tensor.dtype])
    divisor = site.place("Cast", number, to=kind)
    _place(site, onnx_node("Div", [total, divisor], site.node.output, site.node.name))


def _place(site: FoundSite, node: NodeProto) -> None:
    flow = site.flow
    flow.importer.place(node, flow.opset, flow.scope, flow.depth)


# --- scatters --------------------------------------------------------------------------------------------

_SCATTERS = ("ScatterND", "ScatterElements")


def _scatter(site: FoundSite) -> None:
    """Scatter the updates that are not valid to a row after the data, which is cut off."""
    data, indices, updates = (site.operand(at) for at in range(3))
    shape, counts, graph = site.graph.tensor(data).shape, dict(site.counts(indices)), site.graph
    for name, others in ((data, site.counts(data)), (updates, dict(site.counts(updates)))):
        if others and (name == data or others != counts):
            raise site.refuse(name, min(others), f"{site.node.op_type} needs indices of that size for it")
    by_rows = site.node.op_type == "ScatterND"
    axis = 0 if by_rows else plain(site.node, "axis", 0)
    assert isinstance(axis, int)
    axis, depth = axis_from_front(axis, len(shape)), graph.tensor(indices).shape[-1]
    limits = np.array(shape[:depth] if by_rows else shape[axis], np.int64)
    if graph.tensor(indices).dtype != "int64":
        indices = site.place("Cast", indices, to=7)
        graph.mark(indices, counts)
    mask = site.valid(indices)
    assert mask is not None
    if indices not in graph.places:
        negative = site.place("Less", indices, site.flow.number(0))
        from_end = site.place("Add", indices, graph.constant(limits))
        indices = site.place("Where", negative, from_end, indices)
    behind = np.where(np.arange(depth) == 0, limits, 0) if by_rows else limits
    indices = site.place("Where", mask, indices, graph.constant(behind))
    row = list(shape)
    row[axis] = 1
    more = graph.constant(np.zeros(row, DTYPES[graph.tensor(data).dtype]))
    longer = site.place("Concat", data, more, axis=axis)
    made, result = site.graph.fresh(), renamed(site.node, {0: longer, 1: indices})
    result.output[0] = made
    site.place_plain(result)
    cut = site.place("Slice", made, site.ints(0), site.ints(shape[axis]), site.ints(axis))
    site.flow.finish([cut])


SOURCES: dict[str, Callable[[FoundSite], None]] = {
    "NonZero": non_zero,
    "Compress": compress,
    "TopK": top_k,
    "Unique": unique,
    "NonMaxSuppression": non_max_suppression,
}
"""Operators whose results have data-dependent sizes."""
