"""Estimates the cost of a product's plans, so that the search sees the best ones first."""

from __future__ import annotations

import math
from functools import lru_cache

from compiler.codegen.kernel import Target
from compiler.codegen.slices.precision import part_count
from compiler.codegen.slices.rates import Rates, rates_of
from compiler.codegen.slices.tensors import BLOCK
from tx8isa.numbers.division import ceil_div

from .blocks import MOST_COLUMNS, MOST_ROWS
from .feed import ChunkShape
from .plan import MatmulPlan, MatmulProblem, candidates

_UNHIDDEN = 0.35
"""The share of the other parts of a step that is not hidden by the slowest one."""
_TILES_OF_REST = 8
"""Number of tiles assumed to take part in columns that a plan leaves to be computed block by block."""


@lru_cache(256)
def ranked(problem: MatmulProblem, target: Target, room: int) -> tuple[MatmulPlan, ...]:
    """Plans that fit ``room`` scratchpad bytes, cheap ones first."""
    rates = rates_of(target.machine)
    found = candidates(problem, target.tiles, room)
    return tuple(sorted(found, key=lambda plan: cost(problem, plan, rates)))


def cost(problem: MatmulProblem, plan: MatmulPlan, rates: Rates) -> float:
    """Cycles of a plan, roughly: a step takes as long as its slowest part."""
    tiles, chunks = math.prod(plan.grid), plan.chunks(problem)
    turns, other = plan.row_turns(problem), plan.column_turns(problem)
    steps = problem.batches // plan.grid[0] * turns * other * chunks
    again = {"left": other, "right": turns, "none": 1}[plan.stay]
    first = steps // again
    shapes = plan.left(problem), plan.right(problem)
    slow = fast = _step(problem, plan, shapes, rates, True)
    if plan.stay != "none":
        fast = _step(problem, plan, shapes, rates, False)
    sums = plan.m * plan.n * problem.out_bytes * tiles / rates.ddr
    chunks_of_all = sum(shape.slot_bytes / shape.team for shape in shapes)
    load = chunks_of_all * tiles / rates.ddr
    begin = rates.first_copy if plan.has_teams else 0
    rest = _left_cost(problem, problem.n - plan.columns(problem) - plan.tail(problem), rates)
    rest += _tail_cost(problem, plan, rates)
    return begin + first * slow + (steps - first) * fast + sums + load + rest


def meets_in_vain(problem: MatmulProblem, plan: MatmulPlan, rates: Rates) -> bool:
    """True if sharing saves less time in a step than the meeting takes, for example with one row and many
    weights."""
    teams = (plan.left_team, plan.left(problem)), (plan.right_team, plan.right(problem))
    saved = sum(shape.slot_bytes * (team - 1) / team for team, shape in teams)
    return plan.has_teams and saved * math.prod(plan.grid) / rates.ddr < rates.meeting


def _tail_cost(problem: MatmulProblem, plan: MatmulPlan, rates: Rates) -> float:
    """Cycles for the tail, which tiles compute in addition to the last columns; each of its rows is a run of
    DDR."""
    if not plan.tail(problem):
        return 0.0
    turns, loaded = plan.row_turns(problem), 0 if problem.packed else problem.inner
    runs = loaded * rates.run + turns * plan.m * rates.ddr_run
    return runs + turns * (4 + plan.chunks(problem)) * rates.issue


def _left_cost(problem: MatmulProblem, columns: int, rates: Rates) -> float:
    """Cycles for columns outside of a plan, block by block: both operands are read repeatedly."""
    if not columns:
        return 0.0
    engine = problem.batches * rates.products(problem.compute, problem.m, problem.k, columns, wide=True)
    left = problem.m * problem.k * ceil_div(columns, MOST_COLUMNS) * (problem.left_raw or 2)
    right = columns * problem.k * ceil_div(problem.m, MOST_ROWS) * (problem.right_raw or 2)
    moved = problem.batches * (left + right + problem.m * columns * problem.out_bytes)
    return rates.first_copy + 2 * max(engine / _TILES_OF_REST, moved / rates.ddr)


def _engine(problem: MatmulProblem, plan: MatmulPlan, right: ChunkShape, rates: Rates) -> float:
    """Cycles of the matrix engine in a step."""
    pieces = rates.product * right.row_pieces
    return pieces + rates.products(problem.compute, plan.m, plan.k, plan.n, wide=True)


def _step(
    problem: MatmulProblem, plan: MatmulPlan, shapes: tuple[ChunkShape, ChunkShape], rates: Rates, fresh: bool
) -> float:
    """Cycles of one step; ``fresh``: it loads a chunk of the operand that stays.

    ``shapes``: the chunks of the left and the right operand.
    """
    tiles, engine = math.prod(plan.grid), _engine(problem, plan, shapes[1], rates)
    chunks, planes = plan.chunks(problem), plan.n // BLOCK
    stored = plan.m * plan.n * problem.out_bytes / chunks
    issue, copies, own, all_bytes = 4 * rates.issue, 0.0, stored / rates.store, stored * tiles
    runs, moves = plan.m / chunks * tiles, plan.m / chunks * planes * (planes > 1)
    for name, shape in zip(("left", "right"), shapes, strict=True):
        if plan.stay == name and not fresh:
            continue
        size = shape.slot_bytes // shape.each * (shape.raw or shape.each)
        own += size / min(shape.team, shape.pieces) / rates.load
        all_bytes += size * tiles / shape.team
        if not shape.packed:
            of_tile = shape.pieces * (shape.rows // shape.splits) / shape.team
            runs += of_tile * tiles
            own += of_tile * rates.run
            moved_by = 1 if shape.by_rows else min(shape.team, shape.pieces)
            moves += shape.rows * shape.planes * (shape.group > 1) / moved_by
        loads = ceil_div(shape.pieces, shape.team)
        own += loads * rates.transfer
        issue += loads * rates.issue * (1 if not shape.raw else 1 + part_count(problem.compute))
        if shape.team > 1:
            sent = shape.team * shape.piece_elements * shape.each
            copies += rates.send + rates.copy + sent / rates.link
    vectors = problem.passes * plan.m * plan.n / (rates.vector * chunks) + moves * rates.move
    issue += problem.passes * rates.issue / chunks
    parts = engine, vectors, own, all_bytes / rates.ddr + runs * rates.ddr_run, copies + issue
    return max(parts) + _UNHIDDEN * sum(parts) + (rates.meeting if plan.has_teams else 0)
