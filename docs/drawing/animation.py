"""A small run as an animation: sixteen tiles that pass slices round a ring, from the trace of an example."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .runs import Slice, of_example, of_tile
from .svg import GREY, WIDTH, Sheet

PROGRAM = "examples/assembly/allgather_ring.s"
TILES, ALL, BYTES = 16, 0x10000, 256
"""As in the program: the slices of the tiles are at ``ALL`` in the scratchpad of each tile."""
SECONDS, SHARE = 24, 0.9
"""Seconds of the animation, and the share of them after which the run is over and its end stays."""
LEFT, TOP, ROOM, DOWN = 30, 60, 144, 122
SIDE, GAP = 20, 3
OWN = 4
"""Places in a row: of the tiles on the chip, and of the slices in a tile."""


def draw() -> str:
    """The animation as SVG."""
    slices = of_example(PROGRAM)
    end = max(s.end for s in slices if s.track == "WDMA")
    clock = Clock(end)
    sheet = Sheet("Sixteen tiles gather the slices of all in a ring: an animation of a run")
    sheet.write(12, 20, "*Every tile has a slice, and each passes on what it got last", size=14)
    sheet.write(12, 38, f"{PROGRAM}: {end:.0f} µs in {SECONDS} seconds. A colour is a slice.", fill=GREY)
    for tile in range(TILES):
        own = of_tile(slices, tile)
        arrivals = [copy for copy in slices if copy.name == "dte.unicast" and copy.to[1] == tile]
        _tile(sheet, tile, own, arrivals, clock)
    for tile in range(TILES):
        _packets(sheet, tile, [s for s in of_tile(slices, tile) if s.name == "dte.unicast"], clock)
    bottom = TOP + OWN * DOWN + 8
    _time(sheet, clock, bottom)
    return sheet.text(bottom + 26)


class Clock:
    """Turns microseconds of the run into shares of the animation."""

    def __init__(self, end: float) -> None:
        self.end = end

    def __call__(self, time: float) -> float:
        return time / self.end * SHARE

    def animate(self, attribute: str, steps: Sequence[tuple[float, str]], mode: str) -> str:
        """An element that gives an attribute these values at these shares of the time, again and again."""
        times = ";".join(f"{at:.4f}" for at, _ in steps)
        values = ";".join(value for _, value in steps)
        run = f'dur="{SECONDS}s" repeatCount="indefinite" calcMode="{mode}"'
        return f'<animate attributeName="{attribute}" values="{values}" keyTimes="{times}" {run}/>'


def colour(number: int) -> str:
    """The colour of a slice, by the tile that it comes from."""
    return f"hsl({number * 360 // TILES},70%,{55 if number % 2 else 72}%)"


def slice_of(found: Slice) -> int:
    """The slice that a load or a copy brings, by its place."""
    return (found.operand("dst") - ALL) // BYTES


def corner(tile: int) -> tuple[float, float]:
    """The corner of a drawn tile: tile x * 4 + y is at (x, y)."""
    return LEFT + tile // OWN * ROOM, TOP + tile % OWN * DOWN


def _tile(sheet: Sheet, tile: int, own: Iterable[Slice], arrivals: Iterable[Slice], clock: Clock) -> None:
    """A tile: its edge is thick while it loads or stores, its slices show when they are there."""
    x, y = corner(tile)
    size = OWN * (SIDE + GAP) + 11
    own = list(own)
    busy = sorted((s.begin, s.end) for s in own if s.track in ("RDMA", "WDMA"))
    steps = [(0.0, "#999999")]
    for begin, end in busy:
        steps += [(clock(begin), "#d9480f"), (clock(end), "#999999")]
    box = f'x="{x}" y="{y}" width="{size}" height="{size}" fill="#f6f6f6" stroke="#999999" stroke-width="2"'
    sheet.add(f"<rect {box}>{clock.animate('stroke', steps, 'discrete')}</rect>")
    sheet.write(x + size / 2, y + size + 13, f"tile {tile}", anchor="middle", fill=GREY)
    loads = [s for s in own if s.name.startswith("rdma")]
    for found in (*loads, *arrivals):
        number = slice_of(found)
        at_x = x + 7 + number % OWN * (SIDE + GAP)
        at_y = y + 7 + number // OWN * (SIDE + GAP)
        shown = clock.animate("fill", [(0, "#ffffff"), (clock(found.end), colour(number))], "discrete")
        place = (
            f'x="{at_x}" y="{at_y}" width="{SIDE}" height="{SIDE}" fill="{colour(number)}" stroke="#cccccc"'
        )
        sheet.add(f"<rect {place}>{shown}</rect>")


def _packets(sheet: Sheet, tile: int, copies: Sequence[Slice], clock: Clock) -> None:
    """The copies of a tile: a dot moves to the target while a copy runs, in the colour of its slice."""
    middle = OWN * (SIDE + GAP) / 2 + 5
    x, y = (at + middle for at in corner(tile))
    moves: dict[str, list[tuple[float, str]]] = {"cx": [(0, f"{x:.0f}")], "cy": [(0, f"{y:.0f}")]}
    shown, fills = [(0.0, "0")], [(0.0, "#ffffff")]
    for copy in copies:
        to = corner(copy.to[1])
        begin, end = clock(copy.begin), clock(copy.end)
        for name, here, there in (("cx", x, to[0] + middle), ("cy", y, to[1] + middle)):
            moves[name] += [(begin, f"{here:.0f}"), (end, f"{there:.0f}"), (end, f"{here:.0f}")]
        shown += [(begin, "1"), (end, "0")]
        fills.append((begin, colour(slice_of(copy))))
    for steps in moves.values():
        steps.append((1, steps[0][1]))
    elements = [clock.animate(name, steps, "linear") for name, steps in moves.items()]
    elements += [clock.animate("opacity", shown, "discrete"), clock.animate("fill", fills, "discrete")]
    sheet.add(f'<circle r="11" stroke="#1a1a1a" opacity="0">{"".join(elements)}</circle>')


def _time(sheet: Sheet, clock: Clock, y: float) -> None:
    """A bar that grows with the time of the run."""
    width = WIDTH - 2 * LEFT
    grows = clock.animate("width", [(0, "0"), (SHARE, str(width)), (1, str(width))], "linear")
    sheet.box(LEFT, y, width, 8, "#eeeeee")
    sheet.add(f'<rect x="{LEFT}" y="{y}" width="{width}" height="8" fill="#3b6ea5">{grows}</rect>')
    for part in range(5):
        at = LEFT + width * part / 4
        sheet.write(at, y + 22, f"{clock.end * part / 4:.0f} µs", anchor="middle", fill=GREY)
