"""The heads of an attention as strided views: operators that only move, repeat or pick rows are dropped.

Exporters take the heads of Q, K and V out of wider matrices by Reshape, Split and Transpose, repeat heads of
K and V for a group of queries, and concatenate the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from compiler.graph import Array, AttrValue, Node, Shape
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.parts import reshaped
from compiler.operators.linear.attention import VIEWS, matrices, result_order
from compiler.operators.linear.rotary import features
from compiler.operators.linear.strided import StridedView, compact
from compiler.operators.shapes.movement import permutation
from compiler.operators.shapes.slicing import slice_ranges

from .engine import RESHAPES, Replacement, Rewrite, RewrittenGraph, replacement

# --- views -----------------------------------------------------------------------------------------------


def _through(graph: RewrittenGraph, node: Node, name: str, seen: StridedView) -> StridedView | None:
    """Follow a view ``seen`` through a node: return the equivalent view of ``name`` if its operand is a view
    of it."""
    call = graph.call(node)
    if node.op in RESHAPES:
        return seen.reshaped(graph.shape(name))
    if node.op == "Transpose":
        return seen.transposed(permutation(call))
    if node.op == "Expand":
        return seen.expanded(graph.shape(name))
    if node.op == "Slice":
        return seen.sliced(slice_ranges(call))
    axis = call.integer("axis") % len(seen.shape)
    ranges = [range(size) for size in seen.shape]
    if node.op == "Split":
        sizes = [graph.shape(output)[axis] for output in node.outputs]
        start = sum(sizes[: node.outputs.index(name)])
        ranges[axis] = range(start, start + graph.shape(name)[axis])
        return seen.sliced(tuple(ranges))
    index = graph.array(node.inputs[1])
    if index is None or index.size != 1:
        return None
    ranges[axis] = range(first := int(index.reshape(())) % seen.shape[axis], first + 1)
    taken = seen.sliced(tuple(ranges))
    return None if taken is None else taken.reshaped(graph.shape(name))


def _sources(graph: RewrittenGraph, name: str) -> Iterator[tuple[str, StridedView]]:
    """Yield the values that ``name`` is a view of, the most distant first; the last one is ``name``."""
    node = graph.producer(name, *RESHAPES, "Transpose", "Expand", "Slice", "Split", "Gather")
    if node is not None and node.inputs[0] not in graph.constants:
        for source, seen in _sources(graph, node.inputs[0]):
            through = _through(graph, node, name, seen)
            if through is not None:
                yield source, through
    yield name, compact(graph.shape(name))


_VIEWS = {"FusedAttention": VIEWS, "Rotary": ("view",)}
"""Attributes that hold the views of an operator's first operands."""


def _seen(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """An operand that is a view of another value is replaced by that value; the view becomes an attribute."""
    call, attrs, names = graph.call(node), dict(node.attrs), list(node.inputs)
    for index, attribute in enumerate(_VIEWS[node.op]):
        if call.integers(attribute):
            continue
        for source, seen in _sources(graph, names[index]):
            if source != names[index] and seen.strides[-1] == 1:
                names[index], attrs[attribute] = source, seen.numbers
                break
    if names == list(node.inputs):
        return None
    build = graph.builder(node)
    return replacement(build, build(node.op, *names, **attrs))


def _result(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A transpose of the result becomes the order in which the axes are stored."""
    inner, perm = graph.sole_producer(node.inputs[0], "FusedAttention"), permutation(graph.call(node))
    if inner is None or perm[-1] != len(perm) - 1:
        return None
    before = result_order(graph.call(inner))
    build = graph.builder(node)
    attrs = {**dict(inner.attrs), "perm": tuple(before[axis] for axis in perm)}
    return replacement(build, build("FusedAttention", *inner.inputs, **attrs))


# --- heads that share keys and values --------------------------------------------------------------------


@dataclass(frozen=True)
class _RepeatedHeads:
    """Heads [..., G R, N, D] that repeat each of the G heads of ``x`` R times; ``shape`` is [..., G, R, N,
    D]."""

    x: str
    shape: Shape
    has_shape: bool = False  # x is that value already

    def value(self, build: Builder) -> str:
        """Return the value with ``shape``."""
        if self.has_shape:
            return self.x
        once = reshaped(build, self.x, *self.shape[:-3], 1, *self.shape[-2:])
        return build("Expand", once, build.ints(*self.shape))


def _repeated(graph: RewrittenGraph, name: str) -> _RepeatedHeads | None:
    """Return the heads that a value repeats by an Expand, a Tile, a Concat with itself, or a Gather."""
    taken = graph.producer(name, "Gather")
    if taken is not None:
        return _taken_again(graph, taken)
    node = graph.producer(name, *RESHAPES)
    inner = graph.producer(node.inputs[0], "Expand", "Tile", "Concat") if node is not None else None
    if node is None or inner is None:
        return None
    before, after = graph.shape(node.inputs[0]), graph.shape(name)
    if len(before) < 4 or after != (*before[:-4], before[-4] * before[-3], *before[-2:]):
        return None
    if inner.op == "Expand":
        return _RepeatedHeads(node.inputs[0], before, has_shape=True)
    x = inner.inputs[0]
    same = inner.op == "Tile" or set(inner.inputs) == {x}
    return _RepeatedHeads(x, before) if same and graph.shape(x) == (*before[:-3], 1, *before[-2:]) else None


def _taken_again(graph: RewrittenGraph, node: Node) -> _RepeatedHeads | None:
    """Return the heads that a Gather repeats R times each, one after another."""
    shape, indices = graph.shape(node.inputs[0]), graph.array(node.inputs[1])
    if len(shape) < 3 or indices is None or graph.call(node).integer("axis") % len(shape) != len(shape) - 3:
        return None
    groups = shape[-3]
    repeats = indices.size // groups
    if repeats < 2 or not np.array_equal(indices, np.repeat(np.arange(groups), repeats)):
        return None
    return _RepeatedHeads(node.inputs[0], (*shape[:-2], repeats, *shape[-2:]))


def _in_groups(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """Split queries into groups, one for each head of K and V, so that K and V are not repeated."""
    call = graph.call(node)
    keys, values = (_repeated(graph, name) for name in node.inputs[1:3])
    if keys is None or values is None or call.integers("view_q"):
        return None
    shape, repeats = graph.shape(node.inputs[0]), keys.shape[-3]
    if values.shape[-3] != repeats:
        return None
    groups, at = shape[-3] // repeats, len(shape) - 3
    build = graph.builder(node)
    query = reshaped(build, node.inputs[0], *shape[:-3], groups, repeats, *shape[-2:])
    operands = [query, keys.value(build), values.value(build)]
    if len(node.inputs) > 3:
        operands.append(_grouped_mask(build, node.inputs[3], groups, repeats))
    order: list[int] = []
    for axis in result_order(call):
        order += [at, at + 1] if axis == at else [axis + (axis > at)]
    result = build("FusedAttention", *operands, **_scoring(node), perm=tuple(order))
    return replacement(build, reshaped(build, result, *graph.shape(node.outputs[0])))


def _scoring(node: Node) -> dict[str, AttrValue]:
    """Return the attributes of the scores, which do not depend on the views of the operands."""
    return {name: value for name, value in node.attrs.items() if name not in (*VIEWS, "perm")}


def _grouped_mask(build: Builder, mask: str, groups: int, repeats: int) -> str:
    """Split the axis of heads of a mask, if it has one, into groups and repetitions."""
    shape = build.shape(mask)
    if len(shape) < 3:
        return mask
    heads = (1, 1) if shape[-3] == 1 else (groups, repeats)
    return reshaped(build, mask, *shape[:-3], *heads, *shape[-2:])


def _one_query(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """Heads of one query each that share keys and values become queries of one head."""
    call = graph.call(node)
    q, *shared = (matrices(call, index) for index in range(3))
    rank = len(q.shape)
    if rank < 3 or q.shape[-2] != 1 or q.shape[-3] == 1 or any(seen.strides[-3] for seen in shared):
        return None
    operands = list(node.inputs)
    build = graph.builder(node)
    if len(operands) > 3:
        mask = (*(1,) * (rank - len(graph.shape(operands[3]))), *graph.shape(operands[3]))
        if mask[-3:-1] != (1, 1):
            return None
        operands[3] = reshaped(build, operands[3], *mask[:-3], *mask[-2:])
    views = [_without(q, rank - 2), *(_without(seen, rank - 3) for seen in shared)]
    attrs = {name: seen.numbers for name, seen in zip(VIEWS, views, strict=True)}
    order = tuple(axis - (axis > rank - 2) for axis in result_order(call) if axis != rank - 2)
    result = build("FusedAttention", *operands, **_scoring(node), perm=order, **attrs)
    return replacement(build, reshaped(build, result, *graph.shape(node.outputs[0])))


def _without(seen: StridedView, axis: int) -> StridedView:
    """Return the view at index 0 of an axis, without this axis."""
    shape, strides = ((*of[:axis], *of[axis + 1 :]) for of in (seen.shape, seen.strides))
    return StridedView(seen.offset, shape, strides)


# --- one product for Q, K and V --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Product:
    """An operand of an attention that is a view of x times constant ``weights`` plus ``shift``."""

    of: int  # number of the operand
    seen: StridedView
    rotary: Node | None  # the rotary embedding in between
    x: str
    weights: Array
    shift: Array | None


def _operand(graph: RewrittenGraph, node: Node, of: int) -> _Product | None:
    """Return an operand that is a view of a product, with or without a rotary embedding."""
    rotary = graph.sole_producer(node.inputs[of], "Rotary")
    call = graph.call(rotary or node)
    if not call.integers("view" if rotary is not None else VIEWS[of]):
        return None
    found = _product(graph, rotary.inputs[0] if rotary is not None else node.inputs[of])
    if found is None:
        return None
    seen = features(call) if rotary is not None else matrices(call, of)
    return _Product(of, seen, rotary, *found)


def _product(graph: RewrittenGraph, name: str) -> tuple[str, Array, Array | None] | None:
    """Return x, weights and shift, if a value with one use is a product with a constant matrix."""
    shift, columns = None, graph.shape(name)[-1:]
    total = graph.sole_producer(name, "Add")
    if total is not None:
        for inner, other in (total.inputs, total.inputs[::-1]):
            array = graph.array(other)
            if array is not None and array.shape == columns and graph.shape(inner) == graph.shape(name):
                name, shift = inner, array
    node = graph.sole_producer(name, "MatMul", "Gemm")
    weights = graph.array(node.inputs[1]) if node is not None else None
    if node is None or weights is None or weights.ndim != 2:
        return None
    if node.op == "MatMul":
        return node.inputs[0], weights, shift
    call = graph.call(node)
    plain = call.number("alpha") == call.number("beta") == 1.0 and not call.integer("transA")
    if not plain or shift is not None:
        return None
    if len(node.inputs) > 2 and node.inputs[2]:
        shift = graph.array(node.inputs[2])
        if shift is None or shift.shape != columns:
            return None
    return node.inputs[0], weights.T if call.integer("transB") else weights, shift


def _widened(seen: StridedView, columns: int, first: int, all_columns: int) -> StridedView | None:
    """Turn a view of some columns of a matrix into a view of the whole matrix; None if it crosses rows."""
    within = [size - 1 for size, step in zip(seen.shape, seen.strides, strict=True) if step % columns]
    steps = [step for step in seen.strides if step % columns]
    reach = seen.offset % columns + sum(n * step for n, step in zip(within, steps, strict=True))
    if reach >= columns:
        return None
    strides = tuple(step if step % columns else step // columns * all_columns for step in seen.strides)
    row, column = divmod(seen.offset, columns)
    return StridedView(row * all_columns + first + column, seen.shape, strides)


def _together(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """Join the products of a value with constant matrices, whose views are the operands, into one product."""
    found = [part for of in range(3) if (part := _operand(graph, node, of)) is not None]
    parts = [part for part in found if sum(other.x == part.x for other in found) > 1]
    if not parts or len({part.x for part in parts}) > 1:
        return None
    starts = [0, *accumulate(part.weights.shape[1] for part in parts)]
    views = [
        _widened(part.seen, part.weights.shape[1], start, starts[-1])
        for part, start in zip(parts, starts, strict=False)
    ]
    build, attrs, operands = graph.builder(node), dict(node.attrs), list(node.inputs)
    product = _wide_product(build, parts)
    for part, seen in zip(parts, views, strict=True):
        if seen is None:
            return None
        if part.rotary is None:
            operands[part.of], attrs[VIEWS[part.of]] = product, seen.numbers
        else:
            turning = {**part.rotary.attrs, "view": seen.numbers}
            operands[part.of] = build("Rotary", product, *part.rotary.inputs[1:], **turning)
    return replacement(build, build("FusedAttention", *operands, **attrs))


def _wide_product(build: Builder, parts: Sequence[_Product]) -> str:
    """Return the results of products, concatenated along the columns."""
    dtype = build.dtype(parts[0].x)
    weights = np.concatenate([part.weights for part in parts], axis=1)
    product = build("MatMul", parts[0].x, build.constant(weights, dtype))
    if all(part.shift is None for part in parts):
        return product
    zeros = (np.zeros(part.weights.shape[1]) if part.shift is None else part.shift for part in parts)
    return build("Add", product, build.constant(np.concatenate(list(zeros)), dtype))


REWRITES = (
    Rewrite("grouped-heads", ("FusedAttention",), _in_groups),
    Rewrite("heads", tuple(_VIEWS), _seen),
    Rewrite("one-query", ("FusedAttention",), _one_query),
    Rewrite("heads-of-result", ("Transpose",), _result),
    Rewrite("products-of-heads", ("FusedAttention",), _together),
)
