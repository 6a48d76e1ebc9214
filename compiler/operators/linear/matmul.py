"""Matrix products."""

from __future__ import annotations

import numpy as np

from compiler.graph import FLOATS, Array, Box, Shape
from compiler.operators.boxes.forms import broadcast_from, everywhere
from compiler.operators.record import (
    Attribute,
    Call,
    Contraction,
    Input,
    Operator,
    Output,
    Types,
    register,
    rule,
)
from compiler.operators.types import FLOAT, broadcast_shapes, rank_within

_PRODUCT = Types("T", (*FLOATS, "int32", "int64"))


def gemm_sizes(call: Call) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (M, K) of A and (K, N) of B after transA and transB; both operands have rank 2."""
    (a0, a1), (b0, b1) = call.shape(0), call.shape(1)
    a = (a1, a0) if call.integer("transA") else (a0, a1)
    b = (b1, b0) if call.integer("transB") else (b0, b1)
    return a, b


@rule
def second_operand_is_matrix(call: Call) -> str | None:
    """B must have rank 2 (a matrix)"""
    return None if call.tensor(1).rank == 2 else f"shape {list(call.shape(1))}"


@rule
def gemm_inner_sizes_agree(call: Call) -> str | None:
    """The columns of A must be as many as the rows of B, after transA and transB"""
    a, b = gemm_sizes(call)
    return None if a[1] == b[0] else f"{list(a)} and {list(b)}"


@rule
def addend_broadcasts(call: Call) -> str | None:
    """C must broadcast to the shape [M, N] of the product"""
    if not call.has(2):
        return None
    a, b = gemm_sizes(call)
    product = (a[0], b[1])
    found = f"{list(call.shape(2))} with [M, N] = {list(product)}"
    return None if broadcast_shapes(call.shape(2), product) == product else found


def _gemm_shapes(call: Call) -> tuple[Shape, ...]:
    a, b = gemm_sizes(call)
    return ((a[0], b[1]),)


def _gemm(call: Call, a: Array, b: Array, c: Array | None = None) -> tuple[Array, ...]:
    left = a.T if call.integer("transA") else a
    right = b.T if call.integer("transB") else b
    product = call.number("alpha") * (left @ right)
    return (product if c is None else product + call.number("beta") * c,)


def _needs_of_gemm(call: Call, number: int, box: Box) -> tuple[Box | None, ...]:
    rows, columns = box.intervals
    inner = (0, gemm_sizes(call)[0][1])
    left = Box((inner, rows) if call.integer("transA") else (rows, inner))
    right = Box((columns, inner) if call.integer("transB") else (inner, columns))
    return left, right, broadcast_from(call.shape(2), box) if call.has(2) else None


def _as_matrices(a: Shape, b: Shape) -> tuple[Shape, Shape]:
    """Return shapes as matrices: a vector on the left is a row, on the right a column (numpy.matmul)."""
    return (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b


@rule
def no_scalars(call: Call) -> str | None:
    """The operands must have rank 1 or more"""
    return next((f"scalar '{t.name}'" for t in call.inputs if t is not None and not t.rank), None)


@rule
def matmul_inner_sizes_agree(call: Call) -> str | None:
    """The last axis of A must be as long as the last but one axis of B (the only one of a vector)"""
    a, b = _as_matrices(call.shape(0), call.shape(1))
    return None if a[-1] == b[-2] else f"{list(call.shape(0))} and {list(call.shape(1))}"


@rule
def batches_broadcast(call: Call) -> str | None:
    """The axes before the last two must broadcast to a common shape"""
    a, b = _as_matrices(call.shape(0), call.shape(1))
    found = f"{list(call.shape(0))} and {list(call.shape(1))}"
    return found if broadcast_shapes(a[:-2], b[:-2]) is None else None


def _matmul_shapes(call: Call) -> tuple[Shape, ...]:
    a, b = _as_matrices(call.shape(0), call.shape(1))
    batch = broadcast_shapes(a[:-2], b[:-2]) or ()
    rows = () if call.tensor(0).rank == 1 else a[-2:-1]
    columns = () if call.tensor(1).rank == 1 else b[-1:]
    return ((*batch, *rows, *columns),)


def _matmul(call: Call, a: Array, b: Array) -> tuple[Array, ...]:
    return (np.asarray(np.matmul(a, b)),)


def _needs_of_matmul(call: Call, number: int, box: Box) -> tuple[Box, ...]:
    """Return rows of A and columns of B, with the part of the inner axis from :func:`_rows_of_band`."""
    a, b = _as_matrices(call.shape(0), call.shape(1))
    is_row, is_column = call.tensor(0).rank == 1, call.tensor(1).rank == 1
    outer = list(box.intervals)
    columns = (0, 1) if is_column else outer.pop()
    rows = (0, 1) if is_row else outer.pop()
    batch, inner = Box(tuple(outer)), _rows_of_band(call.values[1], columns, a[-1])
    left = (*broadcast_from(a[:-2], batch).intervals, rows, inner)
    right = (*broadcast_from(b[:-2], batch).intervals, inner, columns)
    return Box(left[-1:] if is_row else left), Box(right[:-1] if is_column else right)


_SMALLEST_BAND = 16
"""The fewest rows of a band matrix; a shorter column may have many zeros by chance."""


def _rows_of_band(known: Array | None, columns: tuple[int, int], size: int) -> tuple[int, int]:
    """Return the rows in which some columns of a known band matrix are not zero; for another matrix all
    ``size`` rows.

    With a band matrix, as interpolation has, a product reads a window. An infinity outside the window does
    not become NaN. Any other matrix is needed whole, however many zeros it has, so that divisions do not
    depend on them.
    """
    if known is None or known.ndim != 2 or size < _SMALLEST_BAND:
        return 0, size
    begin, end = columns
    for column in (begin, (begin + end) // 2, end - 1):
        places = np.flatnonzero(known[:, column] != 0)
        if places.size and places[-1] - places[0] >= size // 4:
            return 0, size
    filled = np.flatnonzero((known[:, begin:end] != 0).any(axis=1))
    return (int(filled[0]), int(filled[-1]) + 1) if filled.size else (0, size)


register(
    Operator(
        name="Gemm",
        since=11,
        summary="alpha * A' @ B' + beta * C with matrices A and B, transposed on demand",
        inputs=(Input("A", FLOAT), Input("B", FLOAT), Input("C", FLOAT, optional=True)),
        outputs=(Output("Y", FLOAT),),
        attributes=(
            Attribute("alpha", "float", 1.0, factor=True),
            Attribute("beta", "float", 1.0, factor=True),
            Attribute("transA", "int", 0, allowed=(0, 1)),
            Attribute("transB", "int", 0, allowed=(0, 1)),
        ),
        rules=(
            rank_within("A", 2, 2, "a matrix"),
            second_operand_is_matrix,
            gemm_inner_sizes_agree,
            addend_broadcasts,
        ),
        shapes=_gemm_shapes,
        reference=_gemm,
        needs=_needs_of_gemm,
        product=Contraction(
            lambda call: gemm_sizes(call)[0][1], lambda call: 0 if call.integer("transB") else 1
        ),
        uniform=everywhere,
    )
)

register(
    Operator(
        name="MatMul",
        since=1,
        summary="Matrix product of the last two axes; the axes before broadcast, vectors are rows or columns",
        inputs=(Input("A", _PRODUCT), Input("B", _PRODUCT)),
        outputs=(Output("Y", _PRODUCT),),
        rules=(no_scalars, matmul_inner_sizes_agree, batches_broadcast),
        shapes=_matmul_shapes,
        reference=_matmul,
        needs=_needs_of_matmul,
        product=Contraction(lambda call: call.shape(0)[-1], lambda call: call.tensor(1).rank - 1),
        uniform=everywhere,
    )
)
