"""A group on tiles and in time: where values are at home, what tiles exchange, and what that saves.

From the traces of a network whose operators are compiled alone and as one group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

import tx8

from .lanes import LANE, Axis, draw_lanes
from .runs import Slice, array, of_program, of_tile
from .svg import EDGES, WIDTH, Sheet

TOKENS, COLUMNS, HIDDEN = 32, 512, 1024
TILE, SIDE = 0, 4
"""The tile whose copies and times are drawn, and tiles in a row of the chip."""
TRACKS = ("core", "RDMA", "DTE", "NE", "CT", "TDMA", "WDMA")
BOX, TALL, ROOM, DOWN = 104, 60, 132, 76
"""Pixels: width and height of a tile, and from one tile to the next."""
HUES = (210, 30, 120, 280)
VALUES, WEIGHTS = EDGES["RDMA"], EDGES["DTE"]


def graph() -> tx8.GraphBuilder:
    """A feed-forward block: a normalization, two products, a sum."""
    rng = np.random.default_rng(2)
    made = tx8.GraphBuilder("feed_forward")
    x = made.input("x", "float32", (TOKENS, COLUMNS))
    normal = made.LayerNormalization(x, np.ones(COLUMNS, np.float32), np.zeros(COLUMNS, np.float32))
    up = (rng.standard_normal((COLUMNS, HIDDEN)) / 32).astype(np.float32)
    down = (rng.standard_normal((HIDDEN, COLUMNS)) / 32).astype(np.float32)
    made.output(x + made.Relu(normal @ up) @ down, "y")
    return made


def draw() -> str:
    """The picture as SVG."""
    group, alone = compiled(), compiled(patterns="none", residency="off")
    traces = {title: of_program(program, array(TOKENS, COLUMNS)) for title, program in names(group, alone)}
    together = next(iter(traces.values()))
    sheet = Sheet("A group of operators on the tiles of a chip and in time, and the same operators alone")
    sheet.write(
        12, 20, f"*y, {TOKENS} x {COLUMNS}: the part that each tile has, and what tile {TILE} sends", size=14
    )
    _tiles(sheet, {tile: home(group, of_tile(together, tile)) for tile in range(SIDE * SIDE)})
    bottom = _copies(sheet, of_tile(together, TILE))
    axis = Axis(0, max(s.end for slices in traces.values() for s in work(slices)), 92, WIDTH - 16)
    for title, slices in traces.items():
        sheet.write(12, bottom + 24, f"*{title}", size=14)
        axis.grid(sheet, bottom + 34, bottom + 40 + len(TRACKS) * LANE, 20)
        bottom = draw_lanes(sheet, of_tile(work(slices), TILE), TRACKS, axis, bottom + 40) + 24
    return sheet.text(bottom)


def compiled(**options: str) -> tx8.Program:
    return tx8.compile(graph(), dtype="fp16", **options)


def names(group: tx8.Program, alone: tx8.Program) -> Iterator[tuple[str, tx8.Program]]:
    """Titles of the two times, with the number of phases."""
    for title, program in ((f"tile {TILE}, operators in a group", group), (f"tile {TILE}, alone", alone)):
        phases = dict.fromkeys(re.findall(r'^\s+\.node "(.*)"', program.text, re.MULTILINE))
        yield f"{title}: {len(phases)} phases", program


def work(slices: list[Slice]) -> list[Slice]:
    """The slices without the end that every program has."""
    return [s for s in slices if s.name != "wait: program"]


def home(program: tx8.Program, slices: list[Slice]) -> tuple[range, range]:
    """The rows and columns of the output that a tile stores."""
    (output,) = program.outputs
    size, columns = 4, output.shape[1]
    stores = [s for s in slices if s.name == "wdma.fp32" and s.operand("dst") >= output.address]
    (store,) = stores
    row, column = divmod((store.operand("dst") - output.address) // size, columns)
    return range(row, row + store.operand("iter0")), range(column, column + store.operand("n"))


def corner(tile: int) -> tuple[float, float]:
    """The corner of a drawn tile, at its place on the chip."""
    return 40 + tile // SIDE * ROOM, 54 + tile % SIDE * DOWN


def _tiles(sheet: Sheet, homes: dict[int, tuple[range, range]]) -> None:
    first = sorted({rows.start for rows, _ in homes.values()})
    for tile, (rows, columns) in homes.items():
        x, y = corner(tile)
        hue = HUES[first.index(rows.start) % len(HUES)]
        sheet.box(x, y, BOX, TALL, f"hsl({hue},70%,88%)", f"hsl({hue},45%,45%)")
        sheet.write(x + 6, y + 16, f"*tile {tile}")
        sheet.write(x + 6, y + 35, f"rows {rows.start}..{rows[-1]}")
        sheet.write(x + 6, y + 51, f"cols {columns.start}..{columns[-1]}")


def _copies(sheet: Sheet, slices: list[Slice]) -> float:
    """Arrows from the tile to those that it sends to, and their labels; returns the place below."""
    sent: dict[frozenset[int], list[Slice]] = {}
    copies = [s for s in slices if s.name == "dte.broadcast"]
    for copy in copies:
        team = frozenset(s.to[1] for s in copies if s.operand("tiles") == copy.operand("tiles"))
        sent.setdefault(team, []).append(copy)
    bottom = corner(SIDE - 1)[1] + TALL + 24
    for (team, found), colour in zip(sent.items(), (WEIGHTS, VALUES), strict=True):
        for tile in sorted(team - {TILE}):
            sheet.arrow(_way(tile), colour, 2)
        operands = {(s.operand("src"), s.operand("n")) for s in found}
        what = "its parts of the weights" if colour == WEIGHTS else "its part of the hidden values"
        size = sum(n for _, n in operands)
        sheet.box(40, bottom - 10, 12, 12, colour)
        sheet.write(
            58, bottom, f"{what}: {size:,} bytes, to tiles {', '.join(map(str, sorted(team - {TILE})))}"
        )
        bottom += 20
    return bottom


def _way(tile: int) -> list[tuple[float, float]]:
    """A line from the tile that sends to another one, beside the tiles between them."""
    (x, y), (to_x, to_y) = corner(TILE), corner(tile)
    far = (abs(to_x - x) / ROOM + abs(to_y - y) / DOWN) * 6
    if to_x == x:
        left = x - far - 4
        return [(x, y + 10 + far), (left, y + 10 + far), (left, to_y + 20), (to_x - 1, to_y + 20)]
    return [(x + BOX - far, y), (x + BOX - far, y - far), (to_x + 20, y - far), (to_x + 20, to_y - 1)]
