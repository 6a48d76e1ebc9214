"""Partial results of the tiles of a team, brought together: reduce-scatter and all-reduce.

Every tile of a team has a partial result, FP32 words one after the other in the scratchpad. For a
*reduce-scatter* it is cut into parts of equal size, and part p of all tiles goes to member p of the team, its
owner, who folds them. For an *all-reduce* all of it goes to everybody, and everybody folds the same numbers.

Sums do not depend on who is early: one instruction adds up what lies side by side, in the order of the
members.

What tiles exchange goes over the DTE, or through DDR when it is little: a copy of the DTE takes more time to
set out than a short store and load. A cut names the way (``WAYS``), and the search asks the timing model.
"""

from __future__ import annotations

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.tensors import DdrTensor
from tx8isa.numbers.formats import Format
from tx8isa.numbers.limits import LARGEST_EXTENT

from .team import Team, meet, tiles_from

WAYS = ("dte", "ddr")
"""How partial results travel."""
WORD = 4
COMBINE = {"sum": "add", "max": "max"}
"""The instruction of two operands for each way to fold."""


class Exchange:
    """What the ``members`` tiles of each team exchange once in a phase.

    ``parts`` of ``size`` elements each, for as many owners; None when all of them are for everybody. A team
    are tiles that differ along the last axis of a grid. ``lanes``: a divisor of ``size``, 4, 8, 16, 32 or 64.

    To be made before the tiles part (``tile_grid``): other tiles may write the inbox only when this one is
    done with what lay there before.
    """

    def __init__(
        self, kernel: Kernel, way: str, members: int, size: int, lanes: int, parts: int | None = None
    ) -> None:
        self.kernel, self.way, self.members, self.size, self.lanes, self.parts = (
            kernel,
            way,
            members,
            size,
            lanes,
            parts,
        )
        if size % lanes or size // lanes > LARGEST_EXTENT:
            raise ValueError(f"{size} elements in rows of {lanes}")
        self._inbox = kernel.buffer("inbox", WORD * members * size)
        if way == "dte":
            kernel.ensure_synchronized()
            kernel.keep_alive(self._inbox)
            return
        scratch = kernel.scratch("partials", WORD * kernel.target.tiles * size * (parts or 1))
        self._partials = DdrTensor(scratch.symbol, Format.FP32, (kernel.target.tiles * size * (parts or 1),))

    def give(self, team: Team, source: Value) -> None:
        """Send this tile's partial result to those that fold it, and wait for what the others send.

        All tiles of a team come here together; none of them may use ``source`` for something else before.
        """
        if self.way == "dte":
            self._send(team, source)
        else:
            self._store(team, source)
        meet(self.kernel, team)

    def folded(self, team: Team, name: str) -> Value:
        """The ``sum`` or ``max`` of all parts that came, in the order of the members: its address.

        For owners alone, after ``give``.
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
        """Side by side are the parts of one owner, in the order of the members."""
        place = self._team_first() + team.member * self.size
        loops: dict[str, Argument] = {"n": self.size}
        if self.parts is not None and self.parts > 1:
            loops |= {"stride0": self.members * self.size, "iter0": self.parts}
        self.kernel.emit("wdma.fp32", dst=self._partials.at(place), src=source, **loops)

    def _team_first(self) -> Value:
        """The first element of this team's partial results."""
        return self.kernel.tile // self.members * (self.members * self.size * (self.parts or 1))


def fold_halves(kernel: Kernel, name: str, data: Value, count: int, width: int, target: Value) -> None:
    """Fold FP32 rows [count, width] to one at ``target``, ``sum`` or ``max``: one half onto the other.

    ``count`` is a power of two, at least 2.
    """
    here, there = data, kernel.buffer("half", WORD * count // 2 * width)
    while count > 1:
        count //= 2
        result, other = there if count > 1 else target, here + WORD * count * width
        kernel.emit(f"ct.{COMBINE[name]}.vv.fp32", dst=result, src0=here, src1=other, n=count * width)
        here, there = there, here
