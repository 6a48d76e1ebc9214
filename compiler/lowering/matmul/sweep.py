"""Large products by plan: a pipeline over the chunks of all blocks of a tile.

Step s multiplies chunk s. Meanwhile later chunks are loaded, from DDR or by the tiles that share them, and
the block before is stored. Chunks alternate between two slots, or have one slot each if they stay. Tiles
that share anything meet once for each step; all have equally many steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from compiler.codegen.expr import Value, maximum, minimum
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import Aligned, Grid, Place
from compiler.codegen.slices.long_runs import CompactSlice, out_of_planes, reorders
from compiler.codegen.slices.precision import engine_format, multiply_parts
from compiler.codegen.slices.tensors import BLOCK, Stretch, dma_loops
from compiler.codegen.teams.team import Team, TileGrid, meet, tile_grid
from compiler.evaluation.sizes import ever
from tx8isa.numbers.division import round_up
from tx8isa.numbers.layouts import LINE_BYTES

from .blocks import OperandRange, load_operand, right_operand
from .feed import ALONE, BY_ROWS, Chunk, Feed, Source
from .plan import MatmulPlan, MatmulProblem
from .product import Product, constant_planes
from .result import ResultBlock, finish, sums_format
from .row_blocks import first_row, row_count
from .tail import TailColumns


def sweep(kernel: Kernel, product: Product, problem: MatmulProblem, plan: MatmulPlan) -> int:
    """Write the code of a plan; returns the number of columns that it computes."""
    columns = plan.columns(problem)
    right = Source(product.right, constant_planes(kernel, product) if product.packed else None)
    with tile_grid(kernel, plan.grid) as grid, _if_rows(kernel, problem, plan, grid):
        _Sweep(kernel, product, problem, plan, grid, right).run()
    return columns + plan.tail(problem)


def _if_rows(
    kernel: Kernel, problem: MatmulProblem, plan: MatmulPlan, grid: TileGrid
) -> AbstractContextManager[None]:
    """Code for the tiles that have rows: all tiles, unless some sizes of a run leave tiles without rows."""
    if plan.rows is None or plan.has_teams:
        return nullcontext()
    return kernel.if_below(grid.position[1], problem.m)


@dataclass(frozen=True)
class _Place:
    """The position of a step: numbers of the tile's block, chunk, batch and blocks; the rows of the block."""

    turn: Value
    chunk: Value
    batch: Value
    row: Value
    column: Value
    rows: Value


@dataclass(frozen=True)
class _StoredRows:
    """``rows`` rows of a block, at most ``most``, from ``source`` on; ``pitch``: rows of its planes.

    ``first``: element of the result at which they begin.
    """

    source: Value
    rows: Value
    most: int
    pitch: Value
    first: Value


class _Sweep:
    """The pipeline of one tile."""

    def __init__(
        self,
        kernel: Kernel,
        product: Product,
        problem: MatmulProblem,
        plan: MatmulPlan,
        grid: TileGrid,
        right: Source,
    ) -> None:
        self.kernel, self.product, self.problem, self.plan, self.grid = kernel, product, problem, plan, grid
        alone = Team(1, 0, 0)
        left_team = grid.team(kernel, 2) if plan.left_team > 1 else alone
        right_team = grid.team(kernel, 1) if plan.right_team > 1 else alone
        self.left = Feed(kernel, product, "a", Source(product.left), plan.left(problem), left_team)
        self.right = Feed(kernel, product, "b", right, plan.right(problem), right_team)
        self.everyone = grid.team(kernel, 1, 2) if plan.has_teams else alone
        self.ahead = sorted({feed.ahead for feed in (self.left, self.right)} - {ALONE}, reverse=True)
        """Steps from the load of a tile's piece to its product, for the operands that tiles share."""
        self.chunks = plan.chunks(problem)
        self.passes = plan.row_turns(problem) if plan.stay == "right" else plan.column_turns(problem)
        self.turns = problem.batches // plan.grid[0] * plan.row_turns(problem) * plan.column_turns(problem)
        self.steps = self.turns * self.chunks
        self.parts = plan.right(problem).row_pieces
        """Pieces of a chunk that are multiplied one after another."""
        single = self.chunks == 1 and self.parts == 1 and not problem.rest
        self.format = sums_format(product, single)
        columns = Stretch(0, plan.n, plan.columns(problem) // plan.n)
        self.rest = [Stretch(problem.k, problem.rest, 1)] if problem.rest else []
        self.right_rest = right_operand(kernel, product, columns, self.rest)
        self.blocks = columns.count
        self.pieces = plan.store_pieces(problem)
        self.tail = None
        if plan.tail(problem):
            self.tail = TailColumns(kernel, product, plan.tail(problem), plan.m, self.format)
        room = plan.m * plan.n
        self.sums_bytes = round_up(room * self.format.bits // 8, LINE_BYTES)
        self.sums = kernel.buffer("sums", 2 * self.sums_bytes)
        rounds = self.format is not product.out.fmt
        self.rounded = kernel.buffer("rounded", room * product.out.bytes_each) if rounds else None

    def run(self) -> None:
        kernel, feeds = self.kernel, (self.left, self.right)
        for feed in feeds:
            feed.claim()
        self._begin()
        around = self.turns // self.passes
        with (
            kernel.loop(around) as outer,
            kernel.loop(self.passes) as inner,
            kernel.loop(self.chunks) as chunk,
        ):
            turn = outer * self.passes + inner
            self._step(kernel.let(turn * self.chunks + chunk))
        for feed in feeds:
            feed.claim()
        self._finish(self.turns - 1)
        with kernel.loop(self.pieces) as piece:
            self._store(self.turns - 1, piece)
        self._finish_tail(self.turns - 1)

    def _step(self, step: Value) -> None:
        """Multiply a chunk, bring the next one, load pieces of later ones, and finish the block before."""
        if ever(self.steps > 1):
            for ahead in self.ahead:
                self._send(step + ahead - 1, ahead)
            self._bring(step + 1)
        if ever(self.turns > 1):
            self._end_block_before(step)
        if ever(self.steps > 1):
            self._arrange(step + 1)
        self._multiply(step)
        for ahead in self.ahead:
            if ever(self.steps > ahead):
                self._stage(step + ahead, ahead)
        if self.plan.has_teams:
            meet(self.kernel, self.everyone)

    def _begin(self) -> None:
        """Bring the first chunk to its slot, send the next ones as far as slots are free, and begin to load
        pieces of the one after.

        Nothing is sent before all tiles are done with the scratchpad's data of the phase before.
        """
        for ahead in self.ahead:
            self._stage(0, ahead)
        self._bring(0)
        if self.tail is not None:
            self.tail.load(self.grid.position[0])
        if self.plan.has_teams:
            meet(self.kernel, self.everyone)
        for step in range(max(self.ahead, default=ALONE) - 1):
            for ahead in self.ahead:
                if ahead > step + 1 and ever(self.steps > step):
                    self._send(step, ahead)
                if ahead > step + 1 and ever(self.steps > step + 1):
                    self._stage(step + 1, ahead)
            if step:
                self._arrange(0)
            meet(self.kernel, self.everyone)

    def _place(self, step: Value) -> _Place:
        kernel, plan = self.kernel, self.plan
        turn = step // self.chunks
        rows, columns = plan.row_turns(self.problem), plan.column_turns(self.problem)
        if plan.stay == "right":
            row, column = turn % rows, turn // rows % columns
        else:
            row, column = turn // columns % rows, turn % columns
        batch = turn // (rows * columns) * plan.grid[0] + self.grid.position[0]
        row = kernel.let(row * plan.grid[1] + self.grid.position[1])
        count = kernel.let(row_count(plan.rows, plan.m, self.product.m, row))
        column = column * plan.grid[2] + self.grid.position[2]
        return _Place(turn, step % self.chunks, batch, row, column, count)

    def _row(self, place: _Place) -> Value:
        """The first row of the block."""
        return first_row(self.plan.rows, self.plan.m, place.row)

    def _each(self, step: Value, ahead: int) -> Iterator[tuple[Feed, Chunk, Value]]:
        """Feed, chunk and slot of a step's operands that are loaded ``ahead`` steps before."""
        for name, feed in (("left", self.left), ("right", self.right)):
            if feed.ahead != ahead:
                continue
            again = step // self.chunks % self.passes if self.plan.stay == name else 0
            with self.kernel.if_zero(again + step // self.steps):
                place = self._place(step)
                yield feed, self._chunk(place, name), self._slot(name, step)

    def _chunk(self, place: _Place, name: str) -> Chunk:
        plan = self.plan
        first = place.chunk * plan.k
        if name == "left":
            return Chunk(place.batch, place.row, self._row(place), place.rows, place.chunk, first)
        return Chunk(place.batch, place.column, place.column * plan.n, plan.n, place.chunk, first)

    def _slot(self, name: str, step: Value) -> Value:
        """The slot of a step. Slots alternate; if a single chunk stays, it has one slot."""
        if self.plan.stay != name:
            return step % 2
        if self.chunks > 1:
            return step % self.chunks
        return step // self.passes % 2

    def _bring(self, step: Value) -> None:
        for feed, chunk, slot in self._each(step, ALONE):
            with self.kernel.if_zero(chunk.number % feed.shape.together):
                feed.bring(chunk, slot)

    def _stage(self, step: Value, ahead: int) -> None:
        for feed, chunk, _ in self._each(step, ahead):
            feed.stage(chunk, step % 2)

    def _send(self, step: Value, ahead: int) -> None:
        for feed, chunk, slot in self._each(step, ahead):
            feed.send(chunk, step % 2, slot)

    def _arrange(self, step: Value) -> None:
        for feed, _, slot in self._each(step, BY_ROWS):
            feed.arrange(step % 2, slot)

    def _multiply(self, step: Value) -> None:
        """The product of a step, added to the sums of its block unless it is the first chunk."""
        kernel = self.kernel
        with kernel.registers.scope():
            place = self._place(step)
            left, right = self.left.slot(self._slot("left", step)), self.right.slot(self._slot("right", step))
            for more in (False, True)[: self.chunks]:
                with kernel.unless_zero(place.chunk) if more else kernel.if_zero(place.chunk):
                    for part in range(self.parts):
                        self._multiply_part(place, left, right, part, more or part > 0)
            for rest in self.rest:
                with kernel.if_below(self.chunks - 2, place.chunk):
                    self._multiply_rest(place, rest)

    def _multiply_part(
        self, place: _Place, left: list[Value], right: list[Value], part: int, more: bool
    ) -> None:
        """Multiply a piece of a chunk, usually all of it; ``more`` adds the product to the sums."""
        each, inner = self.right.shape.each, self.plan.k // self.parts
        engine, operands = engine_format(self.product.compute), self._operands(place, inner)
        before = place.rows * (part * inner * each)
        a = [base + before for base in left] if part else left
        b = [base + part * self.right.shape.piece_elements * each for base in right]
        mnemonic, sums = f"ne.gemm.{engine.token}", self._sums(place).base
        multiply_parts(self.kernel, mnemonic, ("a", a), ("b", b), sums, more, operands)
        with self._last_columns(place) as tail:
            if tail is not None:
                out, first = tail.block(place.turn, place.rows), place.chunk * self.plan.k + part * inner
                tail.multiply(a, first, out, more, operands)

    @contextmanager
    def _last_columns(self, place: _Place) -> Iterator[TailColumns | None]:
        """Code for the steps of blocks of the last columns, if there are columns after them."""
        if self.tail is None:
            yield None
            return
        with self.kernel.if_below(self.blocks - 2, place.column):
            yield self.tail

    def _multiply_rest(self, place: _Place, rest: Stretch) -> None:
        """Multiply the rest of the inner dimension after the last chunk; each tile loads its own."""
        kernel, product, plan = self.kernel, self.product, self.plan
        x = OperandRange(place.batch, self._row(place), place.rows, plan.m)
        left = load_operand(kernel, "a_rest", product, product.left, x, rest.start, rest.size)
        right = self.right_rest(place.column, rest, 0, place.batch)
        mnemonic = f"ne.gemm.{engine_format(product.compute).token}"
        operands = self._operands(place, rest.size)
        multiply_parts(kernel, mnemonic, ("a", left), ("b", right), self._sums(place).base, True, operands)
        with self._last_columns(place) as tail:
            if tail is not None:
                tail.multiply(left, rest.start, tail.block(place.turn, place.rows), True, operands)

    def _operands(self, place: _Place, inner: int) -> dict[str, Argument]:
        """Operands of the instruction that are not addresses."""
        return {
            "m": place.rows,
            "n": self.plan.n,
            "k": inner,
            "lt": int(not self.problem.left_along_k),
            "rt": int(not self.problem.right_along_k),
            "out_format": self.format.token,
        }

    def _sums(self, place: _Place) -> Aligned:
        base = self.sums + place.turn % 2 * self.sums_bytes
        return Aligned(base, self.format, Grid(place.rows, 1, self.plan.m), self.plan.n)

    def _result(self, place: _Place) -> Aligned:
        """The slice with the rounded block."""
        sums = self._sums(place)
        return sums if self.rounded is None else sums.at(self.rounded, self.product.out.fmt)

    def _first(self, place: _Place) -> Value:
        """Element of the result at which the block begins."""
        row, column = self._row(place), place.column * self.plan.n
        return self.product.place(place.batch, row, column)

    def _finish(self, turn: Value) -> None:
        """Finish a block after its last chunk, without storing it."""
        with self.kernel.registers.scope():
            place = self._place(turn * self.chunks)
            row = self.product.row(place.batch, self._row(place))
            at = Place(0, self.kernel.let(row), place.column * self.plan.n)
            finish(
                self.product,
                ResultBlock(self.kernel, self._sums(place), at, self.product.n),
                self._result(place),
            )

    def _finish_tail(self, turn: Value) -> None:
        """Finish and store the columns after the last whole plane."""
        if self.tail is None:
            return
        with self.kernel.registers.scope():
            place = self._place(turn * self.chunks)
            with self._last_columns(place) as tail:
                if tail is not None:
                    sums = tail.block(place.turn, place.rows)
                    tail.finish(sums, place.batch, self._row(place))

    def _end_block_before(self, step: Value) -> None:
        """Finish the block before in the first step of this one, so that CT works in parallel with the matrix
        engine.

        A piece of it is stored in each step, or all of it in the first step.
        """
        turn, chunk = step // self.chunks, step % self.chunks
        none, before = 1 - minimum(turn, 1), maximum(turn, 1) - 1
        with self.kernel.if_zero(none + chunk):
            self._finish(before)
            if self.pieces == 1:
                self._store(before, 0)
            self._finish_tail(before)
        if self.pieces > 1:
            with self.kernel.if_zero(none):
                self._store(before, chunk)

    def _store(self, turn: Value, piece: Value) -> None:
        """Return some rows of a block; all of it if it is one piece."""
        kernel, product, plan = self.kernel, self.product, self.plan
        with kernel.registers.scope():
            place = self._place(turn * self.chunks)
            result, first = self._result(place), kernel.let(self._first(place))
            most = plan.m // self.pieces
            rows, row = (place.rows, 0) if self.pieces == 1 else (most, piece * most)
            source = result.base + row * (BLOCK * result.fmt.bits // 8)
            block = _StoredRows(source, rows, most, place.rows, first + row * product.n)
            if not self._store_reordered(block):
                self._store_planes(block)

    def _store_reordered(self, block: _StoredRows) -> bool:
        """Store rows in long runs if that takes less time; True if it did."""
        kernel, out, columns = self.kernel, self.product.out, self.plan.n
        together = block.most if columns == self.product.n else 1
        piece = CompactSlice(block.most, 1, columns, out.bytes_each, together)
        if not reorders(kernel, piece, loading=False):
            return False
        compact = kernel.buffer("stored", block.most * columns * out.bytes_each)
        out_of_planes(kernel, out.fmt, block.source, compact, block.rows, columns, block.pitch)
        loops = dma_loops((self.product.n, 1), (block.rows, columns))
        kernel.emit(f"wdma.{out.fmt.token}", dst=out.at(block.first), src=compact, **loops)
        return True

    def _store_planes(self, block: _StoredRows) -> None:
        """Store rows plane by plane, with one instruction if they are all rows of the planes."""
        kernel, out, n = self.kernel, self.product.out, self.product.n
        planes = self.plan.n // BLOCK
        mnemonic = f"wdma.{out.fmt.token}"
        if block.rows is block.pitch:
            loops = dma_loops((BLOCK, n, 1), (planes, block.rows, BLOCK))
            kernel.emit(mnemonic, dst=out.at(block.first), src=block.source, **loops)
            return
        for plane in range(planes):
            source = block.source + block.pitch * (plane * BLOCK * out.bytes_each)
            target = out.at(block.first + plane * BLOCK)
            kernel.emit(mnemonic, dst=target, src=source, **dma_loops((n, 1), (block.rows, BLOCK)))
