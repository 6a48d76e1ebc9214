"""Four chips that add their vectors in a ring: who sends to whom, and when, from the trace of an example."""

from __future__ import annotations

from .lanes import BAR, LANE, Axis, engine_colours
from .runs import Slice, of_example, of_tile
from .svg import EDGES, FILLS, WIDTH, Sheet

PROGRAM, MESH, CHIPS, TILE = "examples/assembly/ring.s", "2x2", 4, 0
BOX, APART = 64, 110
ENGINES = ("RDMA", "CT", "WDMA")
COPY = EDGES["DTE"]


def draw() -> str:
    """The picture as SVG."""
    slices = of_example(PROGRAM, MESH)
    chips = [of_tile(slices, TILE, chip) for chip in range(CHIPS)]
    copies = [s for found in chips for s in found if s.track == "DTE"]
    sheet = Sheet("Four chips add their vectors in a ring: links and times")
    sheet.write(12, 20, f"*{PROGRAM} on {MESH} chips, tile {TILE} of each", size=14)
    _ring(sheet, {(s.chip, s.to[0]) for s in copies})
    _legend(sheet)
    top = 44 + APART + BOX + 30
    axis = Axis(0, max(s.end for found in chips for s in found if s.track in ENGINES), 92, WIDTH - 16)
    bottom = top + CHIPS * (2 * LANE + 14)
    axis.grid(sheet, top - 6, bottom - 8, 10)
    for chip, found in enumerate(chips):
        _chip(sheet, chip, found, axis, lane(top, chip))
    for copy in copies:
        _arrow(sheet, copy, chips[copy.to[0]], axis, top)
    return sheet.text(bottom + 16)


def lane(top: float, chip: int) -> float:
    """The top of a chip's two lanes."""
    return top + chip * (2 * LANE + 14)


def place(chip: int) -> tuple[float, float]:
    """The place of a drawn chip: chip x * 2 + y is at (x, y)."""
    return 40 + chip // 2 * APART, 40 + chip % 2 * APART


def _ring(sheet: Sheet, links: set[tuple[int, int]]) -> None:
    """The chips, with an arrow for each link that carries something."""
    for chip in range(CHIPS):
        x, y = place(chip)
        sheet.box(x, y, BOX, BOX, FILLS["RDMA"], EDGES["RDMA"])
        sheet.write(x + BOX / 2, y + BOX / 2 + 4, f"chip {chip}", anchor="middle")
    for sender, receiver in sorted(links):
        (x, y), (to_x, to_y) = place(sender), place(receiver)
        middle, to_middle = (x + BOX / 2, y + BOX / 2), (to_x + BOX / 2, to_y + BOX / 2)
        inside = BOX / 2 + 2
        across, down = _sign(to_x - x) * inside, _sign(to_y - y) * inside
        start = middle[0] + across, middle[1] + down
        sheet.arrow((start, (to_middle[0] - across, to_middle[1] - down)), COPY, 2)


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def _legend(sheet: Sheet) -> None:
    for row, (track, text) in enumerate(
        (
            ("RDMA", "loads its row from its DDR"),
            ("DTE", "sends a chunk to the next chip"),
            ("CT", "adds the chunk that has come"),
            ("WDMA", "stores the sum"),
        )
    ):
        y = 60 + row * 32
        sheet.box(270, y, 30, BAR, FILLS[track], EDGES[track])
        sheet.write(310, y + 14, f"{track} {text}")


def _chip(sheet: Sheet, chip: int, found: list[Slice], axis: Axis, y: float) -> None:
    sheet.write(12, y + 24, f"*chip {chip}")
    for row, name in enumerate(("DTE", "others")):
        sheet.write(axis.left - 4, y + row * LANE + 13, "DTE" if not row else "", anchor="end", size=11)
        for each in found:
            if (each.track == "DTE") if name == "DTE" else (each.track in ENGINES):
                width = max(axis(each.end) - axis(each.begin), 2)
                sheet.box(axis(each.begin), y + row * LANE, width, BAR, *engine_colours(each))


def _arrow(sheet: Sheet, copy: Slice, receiver: list[Slice], axis: Axis, top: float) -> None:
    """From the end of a copy to what its receiver does next."""
    after = [s for s in receiver if s.track in (*ENGINES, "DTE") and s.begin >= copy.end]
    if not after:
        return
    first = min(after, key=lambda s: s.begin)
    row = 0 if first.track == "DTE" else 1
    y, to_y = lane(top, copy.chip), lane(top, copy.to[0]) + row * LANE
    down = to_y > y
    ends = (axis(copy.end), y + (BAR if down else 0)), (axis(first.begin), to_y + (0 if down else BAR))
    sheet.arrow(ends, "#777777", 1)
