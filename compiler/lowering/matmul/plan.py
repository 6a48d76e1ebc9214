"""Plans of large products: the blocks of each tile, the slices of blocks, and the loads that tiles share.

The tiles are a grid of batches, rows and columns. Every tile goes through its blocks of the result, and for
each through the inner dimension, a chunk of both operands at a time. An operand may *stay*: all its chunks
are kept during the loop over blocks along the other axis. Candidates are ranked by a rough cost; the search
asks the timing model about the best of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from compiler.codegen.slices.precision import engine_format, part_count
from compiler.codegen.slices.tensors import BLOCK
from compiler.lowering.record import Cut
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import aligned_channels
from tx8isa.numbers.limits import LARGEST_CHANNELS, LARGEST_EXTENT

from .feed import ChunkShape, chunk_shape
from .product import Product
from .row_blocks import EvenRows, row_blocks

_SPARE = 12 << 10
"""Scratchpad bytes for vectors and other data of an epilogue, in addition to blocks."""
_SUMS = 8
"""Bytes of the FP32 sums of two blocks, for each element of one."""
_MOST_ROWS, _MOST_COLUMNS = 2048, 1024
_TOGETHER = (4, 2)
"""Chunks that may be loaded at once."""


@dataclass(frozen=True)
class MatmulProblem:
    """The numbers on which plans depend. ``raw``: bytes of an element in DDR if loads convert it, else 0.

    ``k`` is the part of the inner dimension in whole planes, ``rest`` is the remainder. ``extra``: scratchpad
    bytes that the epilogue needs for each element of a block; ``passes``: about how many times it processes a
    block. ``packed``: the right operand is laid out for the engine when compiling.
    """

    m: int
    n: int
    k: int
    rest: int
    batches: int
    left_along_k: bool
    right_along_k: bool
    left_raw: int
    right_raw: int
    out_bytes: int
    extra: int
    passes: int
    compute: Format
    packed: bool = False

    @property
    def inner(self) -> int:
        """The whole inner dimension."""
        return self.k + self.rest

    @property
    def sizes(self) -> str:
        """Batches, rows, inner dimension and columns, for messages."""
        return f"{self.batches} x {self.m} x {self.k} x {self.n}"


def problem_of(product: Product, extra: int, passes: int) -> MatmulProblem:
    """The numbers of a product; a packed right operand is [k, n] in the engine's format."""
    each = product.left.tensor.bytes_each
    left_raw = 0 if product.left.tensor.fmt is engine_format(product.compute) else each
    right_raw = 0
    if not product.packed and product.right.tensor.fmt is not engine_format(product.compute):
        right_raw = product.right.tensor.bytes_each
    along_k = product.right.along_k and not product.packed
    return MatmulProblem(
        product.m,
        product.n,
        product.k // BLOCK * BLOCK,
        product.k % BLOCK,
        product.batches,
        product.left.along_k,
        along_k,
        left_raw,
        right_raw,
        product.out.bytes_each,
        extra,
        passes,
        product.compute,
        product.packed,
    )


@dataclass(frozen=True)
class MatmulPlan:
    """``grid``: tiles along batches, rows and columns; ``m``, ``n``, ``k``: sizes of a slice.

    ``stay``: left, right or none; ``share``: rows (of the left operand), columns (of the right one), both or
    none. ``deal``: what tiles send of operands that they share, pieces in planes or rows as in DDR.
    ``together``: chunks of a left operand that stays which a tile loads at once, in longer runs.
    """

    grid: tuple[int, int, int]
    m: int
    n: int
    k: int
    stay: str
    team_loads: str
    rows: EvenRows | None = None
    """Blocks of at most ``m`` rows, for a dynamic number of rows."""
    deal: str = "planes"
    together: int = 1

    @property
    def left_team(self) -> int:
        """Tiles that share chunks of the left operand."""
        return self.grid[2] if self.team_loads in ("rows", "both") else 1

    @property
    def right_team(self) -> int:
        return self.grid[1] if self.team_loads in ("columns", "both") else 1

    @property
    def has_teams(self) -> bool:
        return max(self.left_team, self.right_team) > 1

    def chunks(self, problem: MatmulProblem) -> int:
        return problem.k // self.k

    def row_turns(self, problem: MatmulProblem) -> int:
        """Blocks of rows of each tile."""
        if self.rows is not None:
            return self.rows.turns
        return ceil_div(problem.m, self.m) // self.grid[1]

    def column_turns(self, problem: MatmulProblem) -> int:
        """Blocks of columns of each tile."""
        return problem.n // BLOCK // (self.n // BLOCK * self.grid[2])

    def columns(self, problem: MatmulProblem) -> int:
        """Columns that the plan distributes; the tail is less than a block for each tile."""
        return self.column_turns(problem) * self.n * self.grid[2]

    def tail(self, problem: MatmulProblem) -> int:
        """Columns after the distributed ones, which tiles compute in addition to their own.

        They are less than a plane, which can stay in the scratchpad; 0 for a longer tail.
        """
        left = problem.n - self.columns(problem)
        fits = left < BLOCK and problem.batches == self.grid[0] and problem.inner <= LARGEST_EXTENT
        return left if fits else 0

    def left(self, problem: MatmulProblem) -> ChunkShape:
        slots = max(self.chunks(problem), 2) if self.stay == "left" else 2
        fixed = not problem.left_along_k or (self.rows is None and problem.m % self.m == 0)
        rows, lanes = (self.m, self.k) if problem.left_along_k else (self.k, self.m)
        by_rows = fixed and self._by_rows(self.left_team, rows, lanes)
        return chunk_shape(
            rows,
            lanes,
            fixed,
            slots,
            self.left_team,
            problem.left_raw,
            problem.compute,
            by_rows=by_rows,
            together=self.together,
        )

    def right(self, problem: MatmulProblem) -> ChunkShape:
        slots = max(self.chunks(problem), 2) if self.stay == "right" else 2
        rows, lanes = (self.n, self.k) if problem.right_along_k else (self.k, self.n)
        return chunk_shape(
            rows,
            lanes,
            True,
            slots,
            self.right_team,
            problem.right_raw,
            problem.compute,
            problem.packed,
            problem.left_along_k and not problem.right_along_k,
            not problem.packed and self._by_rows(self.right_team, rows, lanes),
        )

    def _by_rows(self, team: int, rows: int, lanes: int) -> bool:
        """True if the tiles of a team send each other rows of a chunk."""
        return self.deal == "rows" and team > 1 and lanes > BLOCK and rows % team == 0

    def store_pieces(self, problem: MatmulProblem) -> int:
        """Number of pieces in which a block is stored, so that no meeting waits long for a store."""
        chunks = self.chunks(problem)
        equal = self.rows is None and problem.m % self.m == 0 and self.m % chunks == 0
        return chunks if equal and self.has_teams else 1

    def bytes(self, problem: MatmulProblem) -> int:
        """Scratchpad bytes: operands, two blocks of sums, a rounded one, and two parts in storage order."""
        sums = self.m * self.n
        rounded = sums * problem.out_bytes if problem.out_bytes < 4 else 0
        operands = self.left(problem).bytes + self.right(problem).bytes + self._rest_bytes(problem)
        operands += self._tail_bytes(problem)
        if self.n > BLOCK:
            rounded += 2 * sums * problem.out_bytes // self.store_pieces(problem)
        return operands + _SUMS * sums + rounded + problem.extra * sums + _SPARE

    def _rest_bytes(self, problem: MatmulProblem) -> int:
        """Bytes of a slice of the rest: as in DDR, with rearranged lanes, and in the engine's format."""
        each = part_count(problem.compute) * engine_format(problem.compute).bits // 8
        raw = max(problem.left_raw, problem.right_raw, each)
        return (self.m + self.n) * BLOCK * (2 * raw + each) if problem.rest else 0

    def _tail_bytes(self, problem: MatmulProblem) -> int:
        """Bytes for columns beyond the last plane: right operand, as stored and converted; sums; epilogue."""
        columns = self.tail(problem)
        each = part_count(problem.compute) * engine_format(problem.compute).bits // 8
        if not columns:
            return 0
        lanes = aligned_channels(columns, BLOCK)
        inner = round_up(problem.inner, BLOCK) if problem.right_along_k else problem.inner
        right = inner * lanes * (2 * max(problem.right_raw, each) + each)
        return right + self.m * lanes * (2 * _SUMS + problem.extra) + _SPARE

    def cut(self) -> Cut:
        """This plan as a cut, the form in which the search stores it."""
        sizes = [("m", self.m), ("n", self.n), ("k", self.k)]
        if self.together > 1:
            sizes.append(("together", self.together))
        choices = [("stay", self.stay), ("share", self.team_loads)]
        if self.deal != "planes":
            choices.append(("deal", self.deal))
        return Cut(tuple(zip(("batch", "m", "n"), self.grid, strict=True)), tuple(sizes), tuple(choices))


def plan_of(problem: MatmulProblem, cut: Cut, tiles: int) -> MatmulPlan:
    """The plan that a cut names; ValueError if there is no such plan, or if tiles get unequal numbers of
    steps."""
    grid = (cut.parts("batch"), cut.parts("m"), cut.parts("n"))
    sizes = (cut.size("m"), cut.size("n"), cut.size("k"))
    stay, share = cut.choice("stay", "none"), cut.choice("share", "none")
    rows = row_blocks(problem.m, grid[1], sizes[0], alone=share == "none")
    deal, together = cut.choice("deal", "planes"), dict(cut.sizes).get("together", 1)
    plan = MatmulPlan(grid, *sizes, stay, share, rows, deal, together)
    equal = (
        math.prod(grid) <= tiles
        and problem.batches % grid[0] == 0
        and (rows is not None or ceil_div(problem.m, plan.m) % grid[1] == 0)
        and plan.n % BLOCK == 0
        and plan.k % BLOCK == 0
        and problem.k % plan.k == 0
        and plan.column_turns(problem) > 0
        and (problem.left_along_k or (rows is None and plan.m % BLOCK == problem.m % plan.m == 0))
        and (plan.together == 1 or (plan.together > 0 and _loads_together(problem, plan, plan.together)))
        and deal in ("planes", "rows")
    )
    if not equal:
        raise ValueError(f"{plan} does not divide a product of {problem.sizes} evenly")
    return plan


def candidates(problem: MatmulProblem, tiles: int, room: int) -> Iterator[MatmulPlan]:
    """Whole blocks for every tile: the inner dimension in equal chunks, columns in planes."""
    if problem.k < BLOCK or problem.n < BLOCK:
        return
    for grid in _grids(problem, tiles):
        for m, n in itertools.product(_row_sizes(problem, grid[1]), _column_sizes(problem, grid[2])):
            if _SUMS * m * n > room:
                continue
            for stay, (share, deal) in itertools.product(("none", "left", "right"), _ways_to_share(grid)):
                fitting = 0
                for inner in _inner_sizes(problem):
                    plan = MatmulPlan(grid, m, n, inner, stay, share, deal=deal)
                    if _useful(problem, plan) and plan.bytes(problem) <= room:
                        yield _with_long_runs(problem, plan, room)
                        fitting += 1
                    if fitting == 2:
                        break


def _with_long_runs(problem: MatmulProblem, plan: MatmulPlan, room: int) -> MatmulPlan:
    """The plan with as many chunks loaded at once as fit."""
    joined = (replace(plan, together=count) for count in _TOGETHER if _loads_together(problem, plan, count))
    return next((each for each in joined if each.bytes(problem) <= room), plan)


def _loads_together(problem: MatmulProblem, plan: MatmulPlan, count: int) -> bool:
    """True if each tile loads its own chunks of a left operand that stays, ``count`` or a multiple of it.

    Slots have room for all rows, so planes of a block with fewer rows would not reach the next slot.
    """
    alone = plan.stay == "left" and plan.left_team == 1 and not problem.left_raw
    alike = plan.left(problem).fixed and plan.chunks(problem) % count == 0
    return alone and problem.left_along_k and alike


def _grids(problem: MatmulProblem, tiles: int) -> Iterator[tuple[int, int, int]]:
    """Grids of all tiles, or of fewer tiles if that may divide the work evenly; of any number for a small
    product."""
    parts = {tiles, tiles - 1, tiles * 3 // 4, tiles // 2} - {0}
    if problem.batches * ceil_div(problem.m, BLOCK) * (problem.n // BLOCK) < 4 * tiles:
        parts = set(range(1, tiles + 1))
    for used in sorted(parts):
        for batch in _divisors(math.gcd(used, problem.batches)):
            for rows in _divisors(used // batch):
                yield batch, rows, used // batch // rows


def _divisors(number: int) -> list[int]:
    return [part for part in range(1, number + 1) if number % part == 0]


def _row_sizes(problem: MatmulProblem, parts: int) -> list[int]:
    """Sizes of blocks with which every tile has equally many."""
    sizes = []
    for turns in (1, 2, 3, 4, 6, 8, 12, 16, 32, 64):
        size = ceil_div(problem.m, parts * turns)
        if not problem.left_along_k:
            size = round_up(size, BLOCK)
            if problem.m % size:
                continue
        if size <= _MOST_ROWS and ceil_div(problem.m, size) == parts * turns:
            sizes.append(size)
    return sizes[:3]


def _column_sizes(problem: MatmulProblem, parts: int) -> list[int]:
    planes = problem.n // BLOCK // parts
    sizes = [size * BLOCK for size in (1, 2, 3, 4, 8, 12) if size <= planes]
    return [size for size in sizes if size <= _MOST_COLUMNS]


def _inner_sizes(problem: MatmulProblem) -> list[int]:
    """Equal parts of the inner dimension, the longest first."""
    blocks = problem.k // BLOCK
    return [problem.k // parts for parts in _divisors(blocks) if problem.k // parts <= LARGEST_CHANNELS]


def _ways_to_share(grid: tuple[int, int, int]) -> list[tuple[str, str]]:
    """The choices of sharing: nothing, or everything that two tiles need, in planes or by rows."""
    names = {(False, False): [], (False, True): ["rows"], (True, False): ["columns"], (True, True): ["both"]}
    found = names[grid[1] > 1, grid[2] > 1]
    return [("none", "planes"), *itertools.product(found, ("planes", "rows"))]


def _useful(problem: MatmulProblem, plan: MatmulPlan) -> bool:
    """True if the operand that stays is used again, and has several chunks whose order matters."""
    if plan.column_turns(problem) < 1:
        return False
    if plan.deal == "rows" and not (plan.left(problem).by_rows or plan.right(problem).by_rows):
        return False
    again = {"left": plan.column_turns(problem), "right": plan.row_turns(problem), "none": 2}[plan.stay]
    return again > 1
