"""The division of a chunk of an operand among a team of tiles, compared with all divisions one by one."""

from __future__ import annotations

from itertools import product

import pytest

from compiler.codegen.slices.tensors import BLOCK
from compiler.lowering.matmul.feed import ChunkShape
from tx8isa.numbers.formats import Format


@pytest.mark.parametrize("team", [1, 2, 3, 4, 6, 16])
def test_rows_are_divided_evenly_among_as_many_as_can_be(team: int) -> None:
    """If fewer than the planes could have a piece each, a piece has whole planes instead."""
    for blocks, planes in product(range(1, 20), (1, 2, 3, 5)):
        shape = ChunkShape(
            rows=blocks * BLOCK,
            lanes=planes * BLOCK,
            fixed=True,
            slots=2,
            team=team,
            raw=0,
            compute=Format.FP16,
            terms=True,
        )
        even = [parts for parts in range(1, team + 1) if blocks / parts == blocks // parts]
        enough = team > 1 and planes > 1 and max(even) >= min(team, planes)
        assert shape.row_pieces == (max(even) if enough else 1)
        assert planes % shape.group == 0 and shape.group * team >= planes * (shape.row_pieces == 1)
