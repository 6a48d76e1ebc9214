"""Loads chunks of an operand from DDR into the scratchpad, in the order of the matrix engine.

A chunk is a matrix in planes of 64 lanes. If a team of tiles needs it, each tile loads and converts a piece
into a staging buffer and sends it to all. A piece is some whole planes, some rows of one plane, or some rows
of all planes. Pieces of several planes are loaded in long runs (``codegen.slices.long_runs``). Or tiles send
rows as they lie in DDR, and each tile moves all rows to planes: then all tiles load, and in the longest runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.long_runs import CompactSlice, into_planes, reorders
from compiler.codegen.slices.precision import engine_format, part_count
from compiler.codegen.slices.tensors import BLOCK, dma_loops
from compiler.codegen.slices.vector import Vector, convert
from compiler.codegen.teams.team import Team, own_parts, send
from tx8isa.numbers.division import ceil_div, round_up
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import LINE_BYTES

from .product import ConstantPlanes, Matrix, PlaneBox, Product

ALONE, IN_PLANES, BY_ROWS = 1, 2, 3
"""Steps from a load to the product, for each tile alone, and for tiles that send pieces in planes or rows."""
_CONVERTED = 1 << 14
"""Elements that a tile loads and converts at a time for itself."""


@dataclass(frozen=True)
class ChunkShape:
    """A chunk of at most ``rows`` rows and exactly ``lanes`` lanes, in whole planes; ``fixed``: it always has
    all rows.

    ``slots``: chunks that the scratchpad keeps. ``team``: number of tiles that share the loads. ``raw``:
    bytes of an element in DDR, 0 if it has the engine's format there; ``compute``: the format of the product.
    ``packed``: the chunk lies in planes in DDR. ``terms``: rows are terms of the product, so pieces of all
    planes may be multiplied one after another. ``by_rows``: tiles send rows, and each moves all to planes.
    ``together``: chunks that a tile loads at once, in longer runs; their slots are adjacent.
    """

    rows: int
    lanes: int
    fixed: bool
    slots: int
    team: int
    raw: int
    compute: Format
    packed: bool = False
    terms: bool = False
    by_rows: bool = False
    together: int = 1

    @property
    def each(self) -> int:
        """Bytes of an element of the engine's format."""
        return engine_format(self.compute).bits // 8

    @property
    def planes(self) -> int:
        return self.lanes // BLOCK

    @cached_property
    def row_pieces(self) -> int:
        """Number of pieces of all planes into which the team divides the rows; 1 if pieces are whole
        planes."""
        if not self.terms or self.team == 1 or self.packed or self.planes == 1 or self.by_rows:
            return 1
        blocks = self.rows // BLOCK
        parts = max(parts for parts in range(1, self.team + 1) if blocks % parts == 0)
        return parts if parts >= min(self.team, self.planes) else 1

    @cached_property
    def group(self) -> int:
        """Whole planes of a piece: as few as the team can deal, or as many as are converted at a time."""
        if (self.team == 1 and not self.raw) or self.row_pieces > 1 or self.by_rows:
            return self.planes
        least = ceil_div(self.planes, self.team) if self.team > 1 else _CONVERTED // (self.rows * BLOCK)
        whole = [size for size in range(1, self.planes + 1) if self.planes % size == 0]
        if self.team > 1:
            return min(size for size in whole if size >= least)
        return max(size for size in whole if size <= max(least, 1))

    @cached_property
    def splits(self) -> int:
        """Number of pieces into which a plane is cut if it is a group of its own, or all planes are."""
        if self.by_rows:
            return self.team
        if self.row_pieces > 1:
            return self.row_pieces
        if self.group > 1 or not self.fixed:
            return 1
        if self.team > 1:
            most = self.team // self.planes
        else:
            most = ceil_div(self.rows * BLOCK, _CONVERTED) if self.raw else 1
        return max(parts for parts in range(1, most + 1) if self.rows % parts == 0)

    @property
    def pieces(self) -> int:
        return self.planes // self.group * self.splits

    @property
    def piece_elements(self) -> int:
        return self.group * BLOCK * (self.rows // self.splits)

    @cached_property
    def slot_bytes(self) -> int:
        """Bytes of a slot for one part; engines write whole lines."""
        return round_up(self.rows * self.lanes * self.each, LINE_BYTES)

    @property
    def staged_bytes(self) -> int:
        """Bytes of a staging buffer for one part."""
        return round_up(self.piece_elements * self.each, LINE_BYTES) if self.team > 1 else 0

    @cached_property
    def bytes(self) -> int:
        """Scratchpad bytes of slots and staging buffers."""
        raw = 2 * round_up(self.piece_elements * self.raw, LINE_BYTES)
        compact = 2 * self.together * self.piece_elements * (self.raw or self.each)
        if self.packed or self.by_rows or self.group == 1:
            compact = 0
        arrived = 2 * self.by_rows
        staged = (self.slots + arrived) * self.slot_bytes + 2 * self.staged_bytes
        return part_count(self.compute) * staged + raw + compact


chunk_shape = lru_cache(1 << 14)(ChunkShape)
"""``ChunkShape``, cached so that plans with equal chunks share one object."""


@dataclass(frozen=True)
class Chunk:
    """Names a chunk: batch, block number, first and number of x (m or n), and number and first of k."""

    batch: Value
    block: Value
    x: Value
    count: Value
    number: Value
    k: Value


@dataclass(frozen=True)
class Source:
    """An operand in DDR: a matrix, or planes that were arranged when compiling."""

    matrix: Matrix
    planes: ConstantPlanes | None = None


class Feed:
    """Brings the chunks of one operand into its slots."""

    def __init__(
        self, kernel: Kernel, product: Product, name: str, source: Source, shape: ChunkShape, team: Team
    ) -> None:
        self.kernel, self.product, self.source, self.shape, self.team = kernel, product, source, shape, team
        parts = part_count(product.compute)
        self._slots = [kernel.buffer(name, shape.slots * shape.slot_bytes) for _ in range(parts)]
        self._staged: list[Value] = []
        self._arrived: list[Value] = []
        """Two slots for the rows of a chunk, as tiles send them."""
        if team.size > 1:
            self._staged = [kernel.buffer(f"{name}_part", 2 * shape.staged_bytes) for _ in range(parts)]
        if shape.by_rows:
            self._arrived = [kernel.buffer(f"{name}_sent", 2 * shape.slot_bytes) for _ in range(parts)]

    def claim(self) -> None:
        """Reserve the memory of slots and staging buffers from the first call to the last.

        Other tiles write the slots and the DTE reads the staging buffers, unseen by this tile's instructions.
        """
        if self.team.size > 1:
            for base in self._arrived or self._slots:
                self.kernel.receive(base)
            for base in self._staged:
                self.kernel.keep_alive(base)

    @property
    def ahead(self) -> int:
        """Steps from the load of a tile's piece of a chunk to the product of the chunk."""
        if self.team.size == 1:
            return ALONE
        return BY_ROWS if self.shape.by_rows else IN_PLANES

    @property
    def converted(self) -> bool:
        """True if elements are converted when they are loaded."""
        return self.shape.raw > 0

    def slot(self, number: Value) -> list[Value]:
        """Addresses of a slot, one for each part."""
        return [base + number * self.shape.slot_bytes for base in self._slots]

    def bring(self, chunk: Chunk, slot: Value) -> None:
        """Load a chunk into a slot, for this tile only."""
        if self.converted:
            with self.kernel.loop(self.shape.pieces) as piece:
                offset = self._elements(chunk) * (piece * self.shape.each)
                self._load(chunk, piece, [base + offset for base in self.slot(slot)])
        else:
            self._load(chunk, 0, self.slot(slot))

    def stage(self, chunk: Chunk, turn: Value) -> None:
        """Load this tile's piece of a chunk into the staging buffer of ``turn``, 0 or 1."""
        with own_parts(self.kernel, self.team, self.shape.pieces) as piece:
            self._load(chunk, piece, self._stage(turn))

    def send(self, chunk: Chunk, turn: Value, slot: Value) -> None:
        """Send this tile's piece to a slot of all tiles of the team, or its rows to where ``arrange`` reads
        them.
        """
        size, targets = self._elements(chunk) * self.shape.each, self.slot(slot)
        if self.shape.by_rows:
            targets = self._sent(turn)
        with own_parts(self.kernel, self.team, self.shape.pieces) as piece:
            for source, target in zip(self._stage(turn), targets, strict=True):
                send(self.kernel, self.team, source, target + size * piece, size)

    def arrange(self, turn: Value, slot: Value) -> None:
        """Move the rows of a chunk that have arrived to the planes of a slot."""
        fmt, shape = engine_format(self.product.compute), self.shape
        for source, target in zip(self._sent(turn), self.slot(slot), strict=True):
            into_planes(self.kernel, fmt, target, source, (1, shape.rows), shape.lanes)

    def _sent(self, turn: Value) -> list[Value]:
        return [base + turn * self.shape.slot_bytes for base in self._arrived]

    def _stage(self, turn: Value) -> list[Value]:
        return [base + turn * self.shape.staged_bytes for base in self._staged]

    def _rows(self, chunk: Chunk) -> Value:
        """Rows of a piece."""
        if self.shape.fixed:
            return self.shape.rows // self.shape.splits
        return chunk.count

    def _elements(self, chunk: Chunk) -> Value:
        """Elements of a piece."""
        return self._rows(chunk) * (self.shape.group * BLOCK)

    def _load(self, chunk: Chunk, piece: Value, targets: Sequence[Value]) -> None:
        """Load a piece and convert it; one target for each part."""
        n = self._elements(chunk)
        if self.source.planes is not None:
            plane, rows = piece // self.shape.splits * (self.shape.group * BLOCK), self.shape.rows
            rows //= self.shape.splits
            row = chunk.k + piece % self.shape.splits * rows
            box = PlaneBox(chunk.x + plane, self.shape.group * BLOCK, row, rows)
            self.source.planes.load(self.kernel, targets, box)
        elif self.converted:
            tensor = self.source.matrix.tensor
            raw = self.kernel.buffer("raw", self.shape.piece_elements * tensor.bytes_each)
            self._read(chunk, piece, raw)
            to_parts(self.kernel, targets, raw, n, tensor.fmt, self.product.compute)
        else:
            self._read(chunk, piece, targets[0])

    def _read(self, chunk: Chunk, piece: Value, target: Value) -> None:
        """Read a piece of a matrix in DDR, unchanged, to consecutive bytes."""
        matrix, shape, rows = self.source.matrix, self.shape, self._rows(chunk)
        plane = piece // shape.splits * (shape.group * BLOCK)
        row = piece % shape.splits * rows
        x, inner = (row, plane) if matrix.along_k else (plane, row)
        first = matrix.first(self.product.batch(chunk.batch), chunk.x + x, chunk.k + inner)
        planes = shape.group * shape.together
        tensor, source, lanes = matrix.tensor, matrix.tensor.at(first), planes * BLOCK
        most = shape.rows // shape.splits
        together = most if lanes == matrix.pitch else 1
        if shape.by_rows:
            loops = dma_loops((matrix.pitch, 1), (rows, lanes))
            self.kernel.emit(f"rdma.{tensor.fmt.token}", dst=target, src=source, **loops)
            return
        if reorders(self.kernel, CompactSlice(most, 1, lanes, tensor.bytes_each, together), loading=True):
            compact = self.kernel.buffer("rows", most * lanes * tensor.bytes_each)
            loops = dma_loops((matrix.pitch, 1), (rows, lanes))
            self.kernel.emit(f"rdma.{tensor.fmt.token}", dst=compact, src=source, **loops)
            into_planes(self.kernel, tensor.fmt, target, compact, (1, rows), lanes)
            return
        loops = dma_loops((BLOCK, matrix.pitch, 1), (planes, rows, BLOCK))
        self.kernel.emit(f"rdma.{tensor.fmt.token}", dst=target, src=source, **loops)


def to_parts(
    kernel: Kernel, targets: Sequence[Value], source: Value, n: Value, fmt: Format, compute: Format
) -> None:
    """Convert elements to the format of the matrix engine; for an FP32 product, into two parts."""
    if compute is not Format.FP32:
        convert(kernel, targets[0], source, n, fmt, compute)
        return
    high, low = targets
    convert(kernel, high, source, n, Format.FP32, Format.TF32)
    Vector(kernel, Format.FP32, n).vv("sub", low, source, high)
    convert(kernel, low, low, n, Format.FP32, Format.TF32)
