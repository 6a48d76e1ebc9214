"""Exchanges between the tiles of a mesh: the all-gather of a value's columns or rows, and of weights; stores.

All copies go over the DTE. Copies of weights may start after the exchange before, while the layers between
are computed. Other tiles may write the target of a copy as soon as they have met for the exchange before,
so it is reserved from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from compiler.codegen.expr import Value, minimum
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.aligned import Aligned
from compiler.codegen.slices.long_runs import CompactSlice, out_of_planes, reorders
from compiler.codegen.slices.shards import within
from compiler.codegen.slices.tensors import BLOCK, DdrTensor, dma_loops
from compiler.codegen.teams.gather import Gather
from compiler.codegen.teams.team import Team, power_of_two, send, tiles_from
from compiler.evaluation.sizes import always
from tx8isa.numbers.division import ceil_div

from .mesh import Mesh


@dataclass
class Participants:
    """The tiles of a mesh, as one of them sees them: its place, its mesh row and its mesh column.

    ``rows``: the rows of the values; a tile computes ``share`` of them. Shares that do not divide them evenly
    overlap at the end: then several tiles compute a row, and one of them stores it.
    """

    kernel: Kernel
    mesh: Mesh
    rows: int
    row: Value = field(init=False)
    column: Value = field(init=False)
    own_row: Team = field(init=False)
    own_column: Team = field(init=False)

    def __post_init__(self) -> None:
        kernel, mesh = self.kernel, self.mesh
        self.row, self.column = kernel.let(kernel.tile // mesh.pitch), kernel.let(kernel.tile % mesh.pitch)
        row = tiles_from(kernel, self.row * mesh.pitch, mesh.columns)
        pattern = sum(1 << (other * mesh.pitch) for other in range(mesh.rows))
        column = kernel.let(power_of_two(self.column) * pattern)
        self.own_row = Team(mesh.columns, self.column, row)
        self.own_column = Team(mesh.rows, self.row, column)

    @property
    def share(self) -> int:
        """The rows of a tile."""
        return ceil_div(self.rows, self.mesh.rows)

    @property
    def even(self) -> bool:
        """True if no row is in two shares."""
        return always(self.share * self.mesh.rows == self.rows)

    @property
    def first_row(self) -> Value:
        """The first row of this tile's share."""
        return minimum(self.row * self.share, self.rows - self.share)

    @contextmanager
    def own_rows(self) -> Iterator[tuple[Value, Value]]:
        """Code for the rows that this tile stores, if there are any: the first within its share, and their
        number.
        """
        kernel, share = self.kernel, self.share
        begin = kernel.let(self.row * share)
        with kernel.if_below(begin, self.rows):
            skipped = within(begin - self.first_row, 0, share - 1)
            yield kernel.let(skipped), kernel.let(within(minimum(share, self.rows - begin), 1, share))

    @contextmanager
    def taking_part(self) -> Iterator[None]:
        """Code for the tiles of the mesh."""
        kernel, mesh = self.kernel, self.mesh
        if mesh.size == kernel.target.tiles:
            yield
            return
        with kernel.if_below(self.row, mesh.rows), kernel.if_below(self.column, mesh.columns):
            yield

    def meet(self) -> None:
        """Wait for the copies of this tile, and then for all tiles of the mesh."""
        self.kernel.emit("dte.wait")
        if self.mesh.size > 1:
            self.kernel.emit("ncc.barrier", tiles=self.mesh.tiles)


@dataclass(frozen=True)
class Outgoing:
    """``size`` bytes at ``source`` for all tiles of a team; each has a place of its own in ``target``."""

    team: Team
    source: Value
    target: Value
    size: int

    def send(self, kernel: Kernel) -> None:
        send(kernel, self.team, self.source, self.target + self.team.member * self.size, self.size)


@dataclass
class Weights:
    """Constants that the tiles of a mesh column need; if ``shared``, each tile loads a part and sends it.

    ``send`` is called some time after ``load``; the next exchange waits for the copies.
    """

    participants: Participants
    run: tuple[DdrTensor, Value, int]
    """The tensor, the first element of this tile's mesh column, and its number of elements."""
    target: Value
    shared: bool
    gather: Gather | None = None

    def load(self) -> None:
        """Start to load the part of this tile, or all if they are not shared."""
        participants, (tensor, first, count) = self.participants, self.run
        if self.shared:
            self.gather = Gather.loaded(participants.kernel, participants.own_column, self.run, self.target)
            return
        source = tensor.at(first)
        participants.kernel.emit(f"rdma.{tensor.fmt.token}", dst=self.target, src=source, n=count)

    def send(self) -> None:
        """Start the copies; the part must have arrived."""
        if self.gather is not None:
            self.gather.send()

    def arrived(self) -> None:
        """The copies are complete."""
        if self.gather is not None:
            self.participants.kernel.keep_alive(self.gather.staged)


def exchange(
    participants: Participants,
    values: Sequence[Outgoing],
    weights: Sequence[Weights],
    meanwhile: Callable[[], None],
    meets: bool,
) -> None:
    """Send this tile's share of values; if it ``meets``, all tiles wait until all have and weights arrived.

    ``meanwhile`` writes code for the time of the copies: no engine of this tile computes then.
    """
    kernel = participants.kernel
    kernel.emit("ncc.wait")
    for value in values:
        value.send(kernel)
    meanwhile()
    if not meets:
        return
    participants.meet()
    for value in values:
        kernel.keep_alive(value.source)
    for each in weights:
        each.arrived()


def store_rows(
    kernel: Kernel, source: Aligned, matrix: DdrTensor, first: Value, part: tuple[Value, Value]
) -> None:
    """Write some rows of a slice of whole planes to a matrix; ``part``: the first row, and the number.

    ``first``: the element at which the slice begins. It is copied as ``store_aligned`` copies all of it.
    """
    (begin, count), columns, each = part, matrix.shape[-1], matrix.bytes_each
    first, rows, token = first + begin * columns, source.grid.room, f"wdma.{matrix.fmt.token}"
    together = rows if columns == source.channels else 1
    if reorders(kernel, CompactSlice(rows, 1, source.channels, each, together), loading=False):
        compact = kernel.buffer("rows", rows * source.channels * each)
        out_of_planes(kernel, matrix.fmt, source.base, compact, source.grid.positions, source.channels)
        loops, place = dma_loops((columns, 1), (count, source.channels)), begin * (source.channels * each)
        kernel.emit(token, dst=matrix.at(first), src=compact + place, **loops)
        return
    for plane in range(source.planes):
        place = source.plane(plane) + begin * (BLOCK * each)
        loops = dma_loops((columns, 1), (count, BLOCK))
        kernel.emit(token, dst=matrix.at(first + plane * BLOCK), src=place, **loops)
