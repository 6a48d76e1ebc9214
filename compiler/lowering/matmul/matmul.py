"""MatMul and Gemm on the matrix engine.

Large products follow a plan in which tiles share their loads (``plan``, ``sweep``). Other products, and
columns outside of a plan, are computed block by block (``blocks``). If there are few rows and columns, tiles
can divide the terms (``split``). A small right operand can be in all tiles (``shared_right``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.aligned import channel_vector
from compiler.codegen.slices.rates import Rates, rates_of
from compiler.codegen.slices.tensors import DdrTensor, broadcast_view, copy_views, whole
from compiler.evaluation.sizes import Size, always
from compiler.graph import FLOATS
from compiler.lowering.movement.movement import permute
from compiler.lowering.pointwise.epilogue import step_bytes
from compiler.lowering.pointwise.integers import integer_matmul
from compiler.lowering.pointwise.record import POINTWISE
from compiler.lowering.record import Cut, Engine, Work, lowering, of_integers
from tx8isa.numbers.formats import Format

from .blocks import multiply_blocks
from .plan import MatmulPlan, MatmulProblem, plan_of, problem_of
from .plan_cost import cost, meets_in_vain, ranked
from .product import Matrix, Product, ProductEpilogue
from .shared_right import WAY as BY_ROWS
from .shared_right import RowBlocks, constant_row_blocks, multiply_rows, row_blocks, row_blocks_of
from .split import Split, multiply_split, split_of, splits
from .split import rule as split_rule
from .sweep import sweep

_FEWEST_PLANNED_ROWS = 32
"""Least rows for which a product is planned; with fewer rows, no two tiles need the same weights."""
_WIDE_PASSES = 12
"""Instructions of a formula of several steps, roughly."""

_BLOCKS = Cut(choices=(("way", "blocks"),))
"""No plan: block by block."""


def matmul_cuts(target: Target, work: Work) -> Iterator[Cut]:
    """Yield the cheapest plan for each choice of resident and shared operands; then blocks, and divided
    terms.

    With few rows also the cheapest plans whose chunks have all terms: fewer steps lose less of the DDR's
    time between them.

    Before them come whole rows for each tile, if every tile can hold the right operand.
    """
    if work.output.fmt.is_float:
        yield from product_cuts(target, work, product_of(work))


def product_cuts(target: Target, work: Work, product: Product) -> Iterator[Cut]:
    """The cuts of a work whose result is a product of floats."""
    if isinstance(product.k, Size):
        yield _BLOCKS
        return
    problem, rates = _problem(product, work), rates_of(target.machine)
    plans = ranked(problem, target, target.spm_bytes)
    best = cost(problem, plans[0], rates) if plans else math.inf
    dealt = splits(product, target, target.spm_bytes)
    likely = dealt and dealt[0][0] < best
    if likely:
        yield from (split.cut() for _, split in dealt)
    few = product.m < _FEWEST_PLANNED_ROWS
    if few:
        yield _BLOCKS
    if product.packed and not target.ranged:
        constant = constant_row_blocks(product, target, target.spm_bytes, problem.extra)
        yield from (blocks.cut() for price, blocks in constant if price < best)
    elif not product.packed:
        blocks = row_blocks(product, target.tiles, target.spm_bytes, problem.extra)
        yield from (each.cut() for each in blocks)
    yield from (plan.cut() for plan in _of_each_kind(problem, plans, rates, few))
    if not few:
        yield _BLOCKS
    if not likely:
        yield from (split.cut() for _, split in dealt)


def _of_each_kind(
    problem: MatmulProblem, plans: Sequence[MatmulPlan], rates: Rates, few: bool
) -> Iterator[MatmulPlan]:
    """The cheapest plan for each choice of resident and shared operands; then the cheapest that deals
    otherwise, because a search may try only the first."""
    kinds, others = dict[tuple[str, str, bool], set[str]](), list[MatmulPlan]()
    for plan in plans:
        dealt = kinds.setdefault((plan.stay, plan.team_loads, few and plan.k == problem.k), set())
        if plan.deal in dealt or (few and meets_in_vain(problem, plan, rates)):
            continue
        if dealt:
            others.append(plan)
        else:
            yield plan
        dealt.add(plan.deal)
    yield from others


@lowering(
    "MatMul",
    types=(*FLOATS, "int32", "int64"),
    cuts=matmul_cuts,
    anchor=True,
    takes_fp32=True,
    engines=(Engine.MATRIX,),
    on_core=of_integers,
)
def matmul(kernel: Kernel, work: Work) -> None:
    """Batches broadcast; a vector is a row on the left and a column on the right."""
    if not work.output.fmt.is_float:
        integer_matmul(kernel, work)
        return
    multiply(kernel, work, replace(product_of(work), epilogue=ProductEpilogue(steps=work.steps)))


@lowering("Gemm", cuts=matmul_cuts, anchor=True, takes_fp32=True, engines=(Engine.MATRIX,))
def gemm(kernel: Kernel, work: Work) -> None:
    """alpha A' B' + beta C."""
    product, call = product_of(work), work.spec
    beta = call.number("beta")
    epilogue = ProductEpilogue(call.number("alpha"), beta, steps=work.steps)
    if work.has(2) and beta != 0.0:
        epilogue = _with_addend(kernel, epilogue, work.input(2), product.m, product.n)
    multiply(kernel, work, replace(product, epilogue=epilogue))


def multiply(kernel: Kernel, work: Work, product: Product) -> None:
    """Multiply as the search decided, or by the cheapest plan that fits; remaining columns are computed block
    by block."""
    if isinstance(product.k, Size):
        multiply_blocks(kernel, _with_terms_in_rows(kernel, product))
        return
    split = _split(kernel, work, product)
    if split is not None:
        multiply_split(kernel, product, split)
        return
    blocks = _row_blocks(work, product, kernel.target.tiles)
    if blocks is not None:
        multiply_rows(kernel, product, blocks)
        return
    problem, done = _problem(product, work), 0
    plan = _plan(kernel, work, product, problem)
    if plan is not None:
        done = sweep(kernel, product, problem, plan)
    if done < product.n:
        multiply_blocks(kernel, product, done)


def _with_terms_in_rows(kernel: Kernel, product: Product) -> Product:
    """The product with the terms of both operands in rows, for a dynamic number of rows.

    In lanes, each number of rows would need another last plane.
    """
    left, right = _by_terms(kernel, product.left), _by_terms(kernel, product.right)
    if (left.tensor, right.tensor) != (product.left.tensor, product.right.tensor):
        kernel.synchronize()
    return replace(product, left=left, right=right)


def _by_terms(kernel: Kernel, matrix: Matrix) -> Matrix:
    """Return an operand, transposed in DDR if the terms of a row or column are contiguous."""
    source = matrix.tensor
    if not matrix.along_k or always(matrix.x == 1):
        return replace(matrix, along_k=False)
    *outer, x, k = source.shape
    symbol = kernel.scratch("terms", source.size * source.bytes_each).symbol
    turned = DdrTensor(symbol, source.fmt, (*outer, k, x))
    permute(kernel, source, turned, (*range(len(outer)), len(outer) + 1, len(outer)))
    return replace(matrix, tensor=turned, along_k=False)


def _split(kernel: Kernel, work: Work, product: Product) -> Split | None:
    """The split of the terms over tiles; None if they are not divided."""
    if work.cut is None:
        return split_rule(product, kernel.target, kernel.budget)
    dealt = work.cut.choice("way", "plan") == "split"
    return split_of(product, work.cut, kernel.target.tiles) if dealt else None


def _row_blocks(work: Work, product: Product, tiles: int) -> RowBlocks | None:
    """The blocks of whole rows, if a cut says so."""
    if work.cut is None or work.cut.choice("way", "plan") != BY_ROWS:
        return None
    return row_blocks_of(product, work.cut, tiles)


def _plan(kernel: Kernel, work: Work, product: Product, problem: MatmulProblem) -> MatmulPlan | None:
    if work.cut is not None:
        if work.cut.choice("way", "plan") == "blocks":
            return None
        return plan_of(problem, work.cut, kernel.target.tiles)
    if (isinstance(product.m, Size) and kernel.target.tiles == 1) or product.m < _FEWEST_PLANNED_ROWS:
        return None
    return next(iter(ranked(problem, kernel.target, kernel.budget)), None)


def _problem(product: Product, work: Work) -> MatmulProblem:
    """The product as the numbers that plans depend on."""
    extra = step_bytes(work.steps, Format.FP32) + (8 if work.op == "Gemm" and work.has(2) else 0)
    passes = 1 + sum(_WIDE_PASSES if POINTWISE[step.op].wide else 1 for step in work.steps)
    return problem_of(product, extra, passes)


def product_of(work: Work) -> Product:
    """The operands of a MatMul or Gemm as matrices, without its addend and steps."""
    a, b = work.input(0), work.input(1)
    compute = work.arithmetic
    if work.op == "Gemm":
        trans_a, trans_b = bool(work.spec.integer("transA")), bool(work.spec.integer("transB"))
        m, inner = a.shape[::-1] if trans_a else a.shape
        n = b.shape[0] if trans_b else b.shape[1]
        left, right = Matrix(a, m, inner, not trans_a, (0,)), Matrix(b, n, inner, trans_b, (0,))
        return Product(left, right, work.output, (1,), compute)
    if len(b.shape) == 1:
        return _times_vector(work, a, b, compute)
    a = a.viewed(1, *a.shape) if len(a.shape) == 1 else a
    if math.prod(b.shape[:-2]) == 1:
        a, b = a.viewed(math.prod(a.shape[:-1]), a.shape[-1]), b.viewed(*b.shape[-2:])
    batches = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) or (1,)
    left = Matrix(a, a.shape[-2], a.shape[-1], True, _batch_steps(a, batches))
    right = Matrix(b, b.shape[-1], a.shape[-1], False, _batch_steps(b, batches))
    return Product(left, right, work.output, batches, compute)


def _times_vector(work: Work, a: DdrTensor, b: DdrTensor, compute: Format) -> Product:
    """A matrix times a column, computed as a row times the transposed matrix. So the result is one row."""
    a = a.viewed(1, *a.shape) if len(a.shape) == 1 else a
    batches = a.shape[:-2] or (1,)
    row = Matrix(b, 1, b.size, True, (0,) * len(batches))
    return Product(
        row, Matrix(a, a.shape[-2], b.size, True, _batch_steps(a, batches)), work.output, batches, compute
    )


def _batch_steps(tensor: DdrTensor, batches: tuple[int, ...]) -> tuple[int, ...]:
    """Elements from one matrix of a tensor to the next, over the batches of the result."""
    matrix = tensor.shape[-2] * tensor.shape[-1]
    view = broadcast_view(replace(tensor, shape=tensor.shape[:-2] or (1,)), batches)
    return tuple(step * matrix for step in view.strides)


def _with_addend(
    kernel: Kernel, epilogue: ProductEpilogue, addend: DdrTensor, m: int, n: int
) -> ProductEpilogue:
    """Add an addend to an epilogue: a vector over columns stays a vector, other shapes become a matrix."""
    if addend.value is not None:
        own = addend.shape[-2] if len(addend.shape) > 1 else 1
        rows = np.broadcast_to(np.asarray(addend.value, np.float64), (own, n))
        if bool((rows == rows[:1]).all()):
            vector = replace(addend, value=rows[0], shape=(n,))
            return replace(
                epilogue, beta=1.0, vector=channel_vector(kernel, "bias_data", vector, epilogue.beta)
            )
    elif addend.size == n and addend.shape[-1] == n and epilogue.beta == 1.0:
        return replace(epilogue, vector=channel_vector(kernel, "bias_data", addend.viewed(n)))
    matrix = addend
    if addend.shape != (m, n):
        symbol = kernel.scratch("addend", m * n * addend.bytes_each).symbol
        matrix = DdrTensor(symbol, addend.fmt, (m, n))
        copy_views(kernel, (m, n), broadcast_view(addend, (m, n)), whole(matrix))
        kernel.synchronize()
    return replace(epilogue, matrix=matrix)
