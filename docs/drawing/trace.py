"""The picture of one tile of a tiled product, with arrows and the traffic of DDR, from an example's trace."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from .runs import Event, events_of_example
from .svg import EDGES, FILLS

PROGRAM = "examples/assembly/gemm_tiled.s"
TILE = 5
"""The tile that is drawn: any does the same."""

LEFT, RIGHT, TOP, ROW, BAR, GRAPH = 70, 850, 40, 30, 20, 46


def draw() -> str:
    """The picture as SVG."""
    return Picture(events_of_example(PROGRAM)).draw()


class Picture:
    """The tracks of a tile, one below the other, above the DDR traffic of the chip."""

    def __init__(self, events: list[Event]) -> None:
        names = {(e["pid"], e["args"].get("name")): e for e in events if e["name"].endswith("_name")}
        chip = next(pid for pid, name in names if name.startswith("chip"))
        own = [e for e in events if e["pid"] == TILE + 1]
        self.tracks = {
            e["tid"]: e["args"]["name"]
            for e in sorted((e for e in own if e["name"] == "thread_name"), key=lambda e: e["tid"])
        }
        self.slices = [e for e in own if e["ph"] == "X"]
        self.begins = {e["id"]: e for e in own if e["ph"] == "s"}
        self.ends = {e["id"]: e for e in own if e["ph"] == "f"}
        self.traffic = [e for e in events if e["ph"] == "C" and e["pid"] == chip]
        self.end = max(e["ts"] + e.get("dur", 0) for e in self.slices)
        self.bottom = TOP + ROW * len(self.tracks) + 20

    def x(self, microseconds: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * min(microseconds / self.end, 1), 1)

    def y(self, tid: int) -> int:
        return TOP + ROW * list(self.tracks).index(tid)

    def draw(self) -> str:
        """The picture as SVG."""
        height = self.bottom + GRAPH + 34
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 {height}"',
            '  font-family="sans-serif" font-size="12">',
            f"<title>Tile {TILE} of {escape(PROGRAM)}: a bar for each instruction, by queue</title>",
            f'<rect width="860" height="{height}" fill="#ffffff"/>',
            *self._time(),
            *self._bars(),
            *self._arrows(),
            *self._traffic(),
            "</svg>",
        ]
        return "\n".join(lines) + "\n"

    def _time(self) -> Iterator[str]:
        yield f'<text x="{LEFT}" y="18" font-weight="bold">tile {TILE}</text>'
        for at in range(0, int(self.end) + 1, 10):
            x = self.x(at)
            yield f'<path d="M{x} {TOP - 8}V{self.bottom + GRAPH}" stroke="#dddddd"/>'
            below = f'x="{x}" y="{self.bottom + GRAPH + 18}" text-anchor="middle" fill="#666"'
            yield f"<text {below}>{at} µs</text>"

    def _bars(self) -> Iterator[str]:
        for tid, name in self.tracks.items():
            yield f'<text x="{LEFT - 10}" y="{self.y(tid) + 15}" text-anchor="end">{name}</text>'
        for event in self.slices:
            name = self.tracks[event["tid"]]
            x, y = self.x(event["ts"]), self.y(event["tid"])
            width = round(max(self.x(event["ts"] + event["dur"]) - x, 1.5), 1)
            colours = f'fill="{FILLS[name]}" stroke="{EDGES[name]}"'
            yield f'<rect x="{x}" y="{y}" width="{width}" height="{BAR}" {colours}/>'
            text = event["name"].split(".")[0] if width < 90 else event["name"]
            if width > 8 * len(text):
                middle = round(x + width / 2, 1)
                yield f'<text x="{middle}" y="{y + 14}" text-anchor="middle" font-size="11">{text}</text>'

    def _arrows(self) -> Iterator[str]:
        for number, begin in self.begins.items():
            end = self.ends[number]
            if begin["tid"] != end["tid"]:
                down = self.y(end["tid"]) > self.y(begin["tid"])
                y1 = self.y(begin["tid"]) + (BAR if down else 0)
                y2 = self.y(end["tid"]) + (0 if down else BAR)
                x1, x2, tip = self.x(begin["ts"]), self.x(end["ts"]), -5 if down else 5
                path = f"M{x1} {y1}L{x2} {y2}M{x2 - 3} {y2 + tip}L{x2} {y2}L{x2 + 3} {y2 + tip}"
                yield f'<path d="{path}" stroke="#444" fill="none"/>'

    def _traffic(self) -> Iterator[str]:
        most = max(event["args"]["read"] for event in self.traffic)
        base = self.bottom + GRAPH
        path, level = f"M{LEFT} {base}", base
        for event in self.traffic:
            x = self.x(event["ts"])
            path += f"H{x}"
            level = round(base - GRAPH * event["args"]["read"] / most, 1)
            path += f"V{level}"
        yield f'<path d="{path}H{RIGHT}V{base}Z" fill="#dbe9f6" stroke="#3b6ea5"/>'
        yield f'<text x="{LEFT - 10}" y="{base - 26}" text-anchor="end">DDR read</text>'
        yield f'<text x="{LEFT - 10}" y="{base - 12}" text-anchor="end" font-size="10">{most:.0f} GB/s</text>'
