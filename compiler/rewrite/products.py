"""Matrix products: transposed operands, the addend of a Gemm, rows that get their axes back."""

from __future__ import annotations

import math

from compiler.codegen.program import same_bits, sample
from compiler.graph import Array, Node
from compiler.operators.expansion.parts import reshaped
from compiler.operators.shapes.movement import permutation

from .engine import Replacement, Rewrite, RewrittenGraph, replacement

_TRANSPOSED = ("transA", "transB")


def _transposed(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A product with a transposed matrix is a Gemm that reads the matrix itself."""
    operands, call = list(node.inputs), graph.call(node)
    if any(len(graph.shape(name)) != 2 for name in operands[:2]) or not graph.tensor(operands[0]).is_float:
        return None
    transposed = [call.integer(name) if node.op == "Gemm" else 0 for name in _TRANSPOSED]
    found = False
    for at in (0, 1):
        inner = graph.producer(operands[at], "Transpose")
        if inner is not None and permutation(graph.call(inner)) == (1, 0):
            operands[at], transposed[at], found = inner.inputs[0], 1 - transposed[at], True
    if not found:
        return None
    build = graph.builder(node)
    attrs = {**dict(node.attrs), **dict(zip(_TRANSPOSED, transposed, strict=True))}
    return replacement(build, build("Gemm", *operands, **attrs))


def _of_table(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A product with the transposed table of a Gather, as at the end of a language model, reads the table.

    So the program stores it once.
    """
    x, weights, *_ = node.inputs
    array, shape = graph.array(weights), graph.shape(x)
    if array is None or array.ndim != 2 or not graph.tensor(x).is_float or len(shape) < 2:
        return None
    table = next((name for name in graph.tables() if same_bits_transposed(graph.array(name), array)), None)
    if table is None:
        return None
    build = graph.builder(node)
    rows = x if len(shape) == 2 else reshaped(build, x, math.prod(shape[:-1]), shape[-1])
    result = build("Gemm", rows, table, transB=1)
    if len(shape) > 2:
        result = reshaped(build, result, *shape[:-1], array.shape[1])
    return replacement(build, result)


def same_bits_transposed(table: Array | None, weights: Array) -> bool:
    """Return True if weights [k, n] are the transpose of a table [n, k]."""
    if table is None or table.ndim != 2 or table.shape[::-1] != weights.shape:
        return False
    return sample(table.T) == sample(weights) and same_bits(table.T, weights)


def _added(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A vector added to the rows of a matrix product is the addend of a Gemm."""
    for x, vector in (node.inputs, node.inputs[::-1]):
        product = graph.sole_producer(x, "MatMul", "Gemm")
        if product is None or len(product.inputs) > 2 or not graph.tensor(x).is_float:
            continue
        rank = {len(graph.shape(name)) for name in (*product.inputs, *node.outputs)}
        if rank != {2} or graph.shape(vector) not in (graph.shape(x)[1:], (1, graph.shape(x)[1])):
            continue
        if graph.shape(x) != graph.shape(node.outputs[0]):
            continue
        build = graph.builder(node)
        return replacement(build, build("Gemm", *product.inputs, vector, **dict(product.attrs)))
    return None


def _flattened(graph: RewrittenGraph, node: Node) -> Replacement | None:
    """A product of rows that reshapes join before and split after it is a product over the original axes.

    Activations and residuals then come directly after the product.
    """
    product, shape = graph.sole_producer(node.inputs[0], "Gemm", "MatMul"), graph.shape(node.outputs[0])
    if product is None or graph.producer(product.inputs[0], "Reshape") is None or len(shape) < 3:
        return None
    x, weights, *shift = (name for name in product.inputs if name)
    if (
        len(graph.shape(x)) != 2
        or not graph.tensor(x).is_float
        or shape[-1] != graph.shape(product.outputs[0])[-1]
    ):
        return None
    if len(graph.shape(weights)) != 2 or any(graph.shape(name) != shape[-1:] for name in shift):
        return None
    build = graph.builder(node)
    if product.op == "Gemm":
        call, array = graph.call(product), graph.array(weights)
        plain = call.number("alpha") == call.number("beta") == 1.0 and not call.integer("transA")
        if not plain or (call.integer("transB") and (array is None or weights in graph.tables())):
            return None
        if call.integer("transB") and array is not None:
            weights = build.constant(array.T, graph.tensor(weights).dtype)
    result = build("MatMul", reshaped(build, x, *shape[:-1], graph.shape(x)[1]), weights)
    for name in shift:
        result = build("Add", result, name)
    return replacement(build, result)


REWRITES = (
    Rewrite("product-of-table", ("MatMul",), _of_table),
    Rewrite("flattened-product", ("Reshape",), _flattened),
    Rewrite("transpose-into-product", ("MatMul", "Gemm"), _transposed),
    Rewrite("addend-into-product", ("Add",), _added),
)
