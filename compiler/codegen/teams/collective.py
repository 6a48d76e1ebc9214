"""Partial results of the tiles of a team, combined: reduce-scatter and all-reduce.

Every tile of a team has a partial result: consecutive FP32 words in the scratchpad. For a *reduce-scatter* it
is divided into parts of equal size, and part p of all tiles is sent to member p of the team, its owner, which
folds the parts. For an *all-reduce* the whole result is sent to all members, and all fold the same numbers.

Sums do not depend on which tile is first: one instruction adds up the parts in the order of the members.

Tiles exchange data over the DTE. If there is little data they use DDR, because a copy of the DTE takes longer
to start than a short store and load. A cut names one of these ways (``WAYS``); the search compares their
times.
"""

from __future__ import annotations

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.slices.vector import WORD
from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LARGEST_EXTENT

from .team import Team, meet, tiles_from

WAYS = ("dte", "ddr")
"""The routes of partial results between tiles: by the DTE or through DDR."""
COMBINE = {"sum": "add", "max": "max"}
"""The instruction of two operands for each way to fold."""


class Exchange:
    """One exchange of partial results in each team of ``members`` tiles.

    There are ``parts`` parts of ``size`` elements, each for one owner; None if one part is for all members.
    The tiles of a team differ along the last axis of a grid. ``lanes``: a divisor of ``size``, 4, 8, 16, 32
    or 64. ValueError for more rows of ``lanes`` than one instruction can add up.

    It must be created outside of ``tile_grid``, because all tiles have to meet before one of them may write
    the inbox of another.
    """

    def __init__(
        self, kernel: Kernel, way: str, members: int, size: int, lanes: int, parts: int | None = None
    ) -> None:
        self.kernel, self.way = kernel, way
        self.members, self.size, self.lanes, self.parts = members, size, lanes, parts
        if size % lanes or size // lanes > LARGEST_EXTENT:
            raise ValueError(f"{size} elements in rows of {lanes}")
        self._inbox = kernel.buffer("inbox", WORD * members * size)
        if way == "dte":
            kernel.ensure_synchronized()
            kernel.receive(self._inbox)
            return
        scratch = kernel.scratch("partials", WORD * kernel.target.tiles * size * (parts or 1))
        self._partials = DdrTensor(scratch.symbol, Format.FP32, (kernel.target.tiles * size * (parts or 1),))

    def exchange(self, team: Team, source: Value) -> None:
        """Send the partial result at ``source`` to the owners of its parts, and wait for those of the others.

        All tiles of a team execute this; ``source`` must not be overwritten before they have met here.
        """
        if self.way == "dte":
            self._send(team, source)
        else:
            self._store(team, source)
        meet(self.kernel, team)

    def folded(self, team: Team, name: str) -> Value:
        """The address of the ``sum`` or ``max`` of the received parts, in the order of the members.

        Only owners execute this, after ``exchange``.
        """
        kernel = self.kernel
        kernel.keep_alive(self._inbox)
        if self.way == "ddr":
            first = 0 if self.parts is None else team.member * (self.members * self.size)
            kernel.emit(
                "rdma.fp32",
                dst=self._inbox,
                src=self._partials.at(self._team_first() + first),
                n=self.members * self.size,
            )
        result = kernel.buffer(name, WORD * self.size)
        shape: list[Value] = [1, self.members, self.size // self.lanes, self.lanes]
        kernel.emit(f"ct.reduce.{name}.fp32", dst=result, src0=self._inbox, shape=shape, dims="h")
        return result

    def _send(self, team: Team, source: Value) -> None:
        kernel, n = self.kernel, WORD * self.size
        kernel.emit("ncc.wait")
        target = self._inbox + team.member * n
        first = kernel.tile // self.members * self.members
        if self.parts is None:
            kernel.emit("dte.broadcast", dst=target, src=source, tiles=team.tiles, n=n)
        else:
            owners = tiles_from(kernel, first, self.parts)
            kernel.emit("dte.scatter", dst=target, src=source, tiles=owners, n=n)

    def _store(self, team: Team, source: Value) -> None:
        """Store the parts to DDR; the parts of one owner are adjacent, in the order of the members."""
        place = self._team_first() + team.member * self.size
        loops: dict[str, Argument] = {"n": self.size}
        if self.parts is not None and self.parts > 1:
            loops |= {"stride0": self.members * self.size, "iter0": self.parts}
        self.kernel.emit("wdma.fp32", dst=self._partials.at(place), src=source, **loops)

    def _team_first(self) -> Value:
        """The first element of this team's partial results."""
        return self.kernel.tile // self.members * (self.members * self.size * (self.parts or 1))


def fold_halves(kernel: Kernel, name: str, data: Value, count: int, width: int, target: Value) -> None:
    """Fold FP32 rows [count, width] to one row at ``target``, by ``sum`` or ``max``.

    One half of the rows is added to the other until one is left; ``count`` is a power of two, at least 2.
    """
    here, there = data, kernel.buffer("half", WORD * count // 2 * width)
    while count > 1:
        count //= 2
        result, other = there if count > 1 else target, here + WORD * count * width
        kernel.emit(f"ct.{COMBINE[name]}.vv.fp32", dst=result, src0=here, src1=other, n=count * width)
        here, there = there, here
