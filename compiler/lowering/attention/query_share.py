"""A tile's blocks of queries of a head, in the order in which it computes them."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.expr import Value, maximum, minimum


@dataclass(frozen=True)
class QueryShare:
    """The blocks of a stretch that one of ``tiles`` tiles computes, one in each turn.

    ``alternate``: later blocks take longer, so tiles take the blocks of a turn in their order and in the
    opposite order by turns, also from head to head. Then all tiles end together. ``before``: blocks of the
    stretches before; a stretch with some before it has one block.
    """

    count: int
    tiles: int
    place: Value
    alternate: bool = False
    before: int = 0

    @property
    def whole_turns(self) -> int:
        """The turns in which every tile has a block."""
        return self.count // self.tiles

    @property
    def follows(self) -> bool:
        """True if this tile may have computed blocks of the same head before."""
        return self.before >= self.tiles

    def turns(self, head: Value) -> Value:
        """Number of this tile's turns."""
        if self.before:
            missed = self._position(self.before // self.tiles, head) - self.before % self.tiles
            return 1 - minimum(maximum(missed, 0 - missed), 1)
        whole, rest = self.whole_turns, self.count % self.tiles
        if self.tiles == 1 or (isinstance(rest, int) and rest == 0):
            return whole
        return whole + maximum(minimum(rest - self._position(whole, head), 1), 0)

    def block(self, turn: Value, head: Value) -> Value:
        """The number of the block of a turn in the stretch."""
        return 0 if self.before else turn * self.tiles + self._position(turn, head)

    def _position(self, turn: Value, head: Value) -> Value:
        if not self.alternate or self.tiles == 1:
            return self.place
        back = (turn + head) % 2
        return minimum(back * (self.tiles - 1 - self.place) + (1 - back) * self.place, self.tiles - 1)
