"""Rotary position embedding whose real and imaginary parts are computed separately and joined.

Real = a cos - b sin and imaginary = b cos + a sin. Here a and b are features of one value: its halves, which
a Concat joins again, or alternating features, which a Reshape interleaves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.graph import Node
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.parts import reshaped
from compiler.operators.types import broadcast_shapes

from .engine import Replacement, Rewrite, RewrittenGraph, can_be_compiled, replacement
from .rotary import PICKS, picked_features


@dataclass(frozen=True)
class _Term:
    """Features of x, numbered from 1, times a table; ``sign`` is 1 or -1."""

    sign: int
    columns: tuple[int, ...]
    table: str


def _joined(graph: RewrittenGraph, node: Node) -> tuple[list[str], bool] | None:
    """Return the two parts of a result, and True if they are interleaved."""
    shape, pair = graph.shape(node.outputs[0]), node
    if node.op == "Reshape":
        inner = graph.sole_producer(node.inputs[0], "Concat")
        if inner is None or graph.shape(inner.outputs[0]) != (*shape[:-1], shape[-1] // 2, 2):
            return None
        pair = inner
    axis = graph.call(pair).integer("axis") % len(graph.shape(pair.outputs[0]))
    if len(pair.inputs) != 2 or axis != len(graph.shape(pair.outputs[0])) - 1:
        return None
    if node.op == "Concat":
        return list(pair.inputs), False
    apart = [graph.sole_producer(name, "Unsqueeze", "Reshape") for name in pair.inputs]
    names = [part.inputs[0] for part in apart if part is not None]
    half = (*shape[:-1], shape[-1] // 2)
    return (names, True) if len(names) == 2 and all(graph.shape(name) == half for name in names) else None


def _terms(graph: RewrittenGraph, name: str, source: str) -> list[_Term] | None:
    """Split a value into a sum or difference of two products of features of x with tables."""
    node = graph.sole_producer(name, "Add", "Sub")
    if node is None:
        return None
    found = []
    for sign, operand in zip((1, -1 if node.op == "Sub" else 1), node.inputs, strict=True):
        product = graph.sole_producer(operand, "Mul")
        for x, table in (product.inputs, product.inputs[::-1]) if product is not None else ():
            columns = picked_features(graph, x, source)
            if columns is not None and columns.ndim == 1 and graph.shape(table)[-1:] == columns.shape:
                found.append(_Term(sign, tuple(int(at) for at in columns), table))
                break
    return found if len(found) == 2 else None


def _source(graph: RewrittenGraph, name: str, shape: tuple[int, ...]) -> str | None:
    """Return the value of a given shape whose features a value contains."""
    node = graph.sole_producer(name, "Add", "Sub")
    product = graph.sole_producer(node.inputs[0], "Mul") if node is not None else None
    for start in product.inputs if product is not None else ():
        value = start
        while (producer := graph.producer(value, *PICKS)) is not None and graph.shape(value) != shape:
            value = producer.inputs[0]
        if graph.shape(value) == shape and value not in graph.constants:
            return value
    return None


def _rotary(graph: RewrittenGraph, node: Node) -> Replacement | None:
    shape, joined = graph.shape(node.outputs[0]), _joined(graph, node)
    if joined is None or len(shape) < 2 or not graph.tensor(node.outputs[0]).is_float:
        return None
    parts, interleaved = joined
    source = _source(graph, parts[0], shape)
    sums = [_terms(graph, name, source) for name in parts] if source is not None else [None]
    known = [terms for terms in sums if terms is not None]
    if source is None or len(known) != 2:
        return None
    own = np.arange(1, shape[-1] + 1)
    half = shape[-1] // 2
    features = [own[at::2] if interleaved else own[at * half : (at + 1) * half] for at in (0, 1)]
    pairs = [_ordered(terms, tuple(place)) for terms, place in zip(known, features, strict=True)]
    found = [pair for pair in pairs if pair is not None]
    return _made(graph, node, source, found, interleaved) if len(found) == 2 else None


def _ordered(terms: list[_Term], own: tuple[int, ...]) -> tuple[_Term, _Term] | None:
    """Return the term whose features stay in place, and the other one."""
    for first, second in (terms, terms[::-1]):
        if first.columns == own and first.sign == 1:
            return first, second
    return None


def _made(
    graph: RewrittenGraph, node: Node, source: str, pairs: list[tuple[_Term, _Term]], interleaved: bool
) -> Replacement | None:
    shape, build = graph.shape(source), graph.builder(node)
    turns = [[other.sign * at for at in other.columns] for _, other in pairs]
    turn = np.stack(turns, -1).reshape(-1) if interleaved else np.concatenate(turns)
    tables = []
    for which in (0, 1):
        names = [pair[which].table for pair in pairs]
        if graph.shape(names[0]) != graph.shape(names[1]):
            return None
        tables.append(_joined_table(build, names, interleaved))
        if broadcast_shapes(build.shape(tables[-1]), shape) != shape:
            return None
    result = build("Rotary", source, *tables, turn=tuple(int(at) for at in turn))
    return replacement(build, result) if can_be_compiled(build) else None


def _joined_table(build: Builder, names: list[str], interleaved: bool) -> str:
    """Join the tables of the two parts into the table of the result."""
    if not interleaved:
        return build("Concat", *names, axis=-1)
    shape = build.shape(names[0])
    apart = [reshaped(build, name, *shape, 1) for name in names]
    return reshaped(build, build("Concat", *apart, axis=-1), *shape[:-1], 2 * shape[-1])


REWRITES = (Rewrite("rotary-pairs", ("Concat", "Reshape"), _rotary),)
