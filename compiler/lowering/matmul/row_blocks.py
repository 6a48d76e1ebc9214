"""Divides the rows of a product evenly among the tiles if their number is dynamic."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.expr import Value, minimum
from compiler.codegen.slices.shards import within
from compiler.evaluation.sizes import Size
from tx8isa.numbers.division import ceil_div


@dataclass(frozen=True)
class EvenRows:
    """Blocks of rows whose sizes differ by one at most.

    ``turns``: blocks of each tile; ``each``: rows of a block; the first ``longer`` blocks have one row more.
    """

    turns: int
    each: int
    longer: int

    def first(self, block: Value) -> Value:
        """The row at which a block begins."""
        return block * self.each + minimum(block, self.longer)

    def count(self, block: Value, most: int) -> Value:
        """The rows of a block, which are at most ``most``."""
        rest = minimum(block + 1, self.longer) - minimum(block, self.longer)
        return within(self.each + rest, 1, most)


def row_blocks(rows: int, parts: int, size: int, alone: bool) -> EvenRows | None:
    """Blocks of at most ``size`` rows for ``parts`` tiles; None for a known number of rows.

    None, too, if there are fewer rows than blocks. Tiles that work ``alone`` (without a team) may have no
    rows if they have at most one block.
    """
    if not isinstance(rows, Size):
        return None
    turns = ceil_div(rows, parts * size)
    if not (alone and size > 1) and rows < parts * turns:
        return None
    return EvenRows(turns, rows // (parts * turns), rows % (parts * turns))


def first_row(rows: EvenRows | None, size: int, block: Value) -> Value:
    """The row at which a block begins. Without ``rows``, blocks have ``size`` rows and the last one the
    remaining rows."""
    return block * size if rows is None else rows.first(block)


def row_count(rows: EvenRows | None, size: int, count: int, block: Value) -> Value:
    """The rows of a block of ``count`` rows in all."""
    return minimum(size, count - block * size) if rows is None else rows.count(block, size)
