"""Pictures of a run for the cells of a notebook: SVG without links and scripts.

They show the charts of ``--report`` (docs/report.md), drawn from the same figures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.watch.report.flows import drawn
from emulator.watch.report.lives import NEVER
from tx8isa.errors import Tx8Error
from tx8isa.tools.files import write_whole

_LEFT, _TOP, _WIDTH, _BELOW = 96, 30, 820, 34
"""Pixels: left of the axes, above them, their width, and below them."""
_LANE, _GAP = 6, 5
"""Pixels: the height of an engine's lane, and the space between two tiles."""
_COLUMNS = 400
"""The most bars of a lane."""
_PLANE = 340
"""Pixels: the height of the scratchpad and of the roofline."""
_LEGEND = 12
"""The most nodes that the legend names; the others are grey."""
_GREY = "#9aa0a6"
_DEPTHS = 4
"""Number of shades of a colour, for the share of the time that an engine was busy."""
_APART = 14
"""The least distance of two lines of text in pixels."""


@dataclass(frozen=True)
class Drawing:
    """A picture; a notebook shows it, ``save`` writes it."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file; Tx8Error if that fails."""
        write_whole(path, self.svg.encode())
        return Path(path)


def timeline(texts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], title: str) -> Drawing:
    """Draw when each engine of each tile was busy, a lane for each engine, in the colour of its node.

    ``texts`` and ``arrays`` are those of the page (``emulator/watch/report/data.py``).
    """
    colours = _Colours(texts)
    busy, node = _columns(arrays["busy"], np.array(texts["kinds"]["node"])[arrays["busy_kind"]])
    parts, y, before = list[str](), float(_TOP), -1
    for (tile, track), shares, nodes in zip(texts["rows"], busy, node, strict=True):
        name = texts["tracks"][track]
        if tile != before:
            y, before = y + _GAP * (before >= 0), tile
            parts.append(_text(8, y + _LANE, f"tile {tile}"))
        parts.append(_text(_LEFT - 4, y + _LANE - 1, name, "end", 6))
        parts += _lane(y, shares, nodes, colours, f"tile {tile}, {name}")
        y += _LANE
    axis = _time_axis(texts["bins"] * texts["bin_cycles"], y)
    return _drawn(title, y + _BELOW, [*parts, *axis], colours)


def _lane(
    y: float, shares: npt.NDArray[np.float64], nodes: npt.NDArray[Any], colours: _Colours, name: str
) -> Iterator[str]:
    """Draw the bars of an engine, one path for each node and shade."""
    wide = _WIDTH / max(len(shares), 1)
    paths: dict[tuple[int, int], list[str]] = {}
    for first, count, share, node in _stretches(shares, nodes):
        bar = f"M{_LEFT + first * wide:.1f} {y:.0f}h{count * wide:.1f}v{_LANE - 1}h{-count * wide:.1f}z"
        paths.setdefault((node, math.ceil(share * _DEPTHS)), []).append(bar)
    for (node, depth), bars in paths.items():
        tip = escape(f"{name}: {colours.names[node] or 'no node'}")
        look = f'fill="{colours.of(node)}" fill-opacity="{_opacity(depth / _DEPTHS)}"'
        yield f'<path d="{"".join(bars)}" {look}><title>{tip}</title></path>'


def scratchpad(
    texts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], title: str, tile: int
) -> Drawing:
    """Draw the buffers of a tile's scratchpad: addresses upwards, from the first access to the last one.

    Addresses without a buffer are omitted. Tx8Error for a tile that was idle.
    """
    active = list(texts["active_tiles"])
    if tile not in active:
        raise Tx8Error(f"tile {tile} has done nothing; tiles that worked: {active}")
    lives, colours = texts["lives"], _Colours(texts)
    times = (arrays[f"live_{name}"].reshape(len(active), -1)[active.index(tile)] for name in ("start", "end"))
    start, end = (each.tolist() for each in times)
    used = [at for at, last in enumerate(end) if last != NEVER]
    axis = _Addresses((lives["first"][at], lives["bytes"][at]) for at in used)
    across = _WIDTH / texts["cycles"]
    parts = [_frame(_PLANE)]
    for at in used:
        first, size = lives["first"][at], lives["bytes"][at]
        tip = f"{lives['name'][at]}: {size:,} bytes at 0x{first:x}, cycles {start[at]:,.0f} to {end[at]:,.0f}"
        x, width = _LEFT + start[at] * across, (end[at] - start[at]) * across
        height = size * axis.scale
        parts.append(_box(x, axis(first) - height, width, height, colours.of(lives["phase"][at]), 0.8, tip))
    parts += (_beside(axis(first), f"0x{first:x}") for first in axis.begins)
    below = _time_axis(texts["cycles"], _TOP + _PLANE)
    return _drawn(f"{title}, scratchpad of tile {tile}", _TOP + _PLANE + _BELOW, [*parts, *below], colours)


def roofline(texts: Mapping[str, Any], title: str) -> Drawing:
    """Draw operations a cycle over operations a byte of DDR, both logarithmic: run, nodes and roofs."""
    chart, colours = texts["roofline"], _Colours(texts)
    across, up = _Logarithmic(chart["x"], _LEFT, _WIDTH), _Logarithmic(chart["y"], _TOP + _PLANE, -_PLANE)
    parts = [_frame(_PLANE)]
    for roof in chart["roofs"]:
        points = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in zip(roof["x"], roof["y"], strict=True))
        line = f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-dasharray="4 3">'
        parts.append(f"{line}<title>{escape(roof['name'])}</title></polyline>")
        parts.append(_text(_LEFT + _WIDTH - 4, up(roof["y"][-1]) - 4, roof["label"], "end"))
    for point in chart["points"]:
        colour = "currentColor" if point["node"] < 0 else colours.of(point["node"])
        place = f'cx="{across(point["x"]):.1f}" cy="{up(point["y"]):.1f}" r="{6 if point["node"] < 0 else 4}"'
        parts.append(f'<circle {place} fill="{colour}"><title>{escape(point["text"])}</title></circle>')
    for axis, made in ((across, _below), (up, _beside)):
        parts += (made(axis(value), f"{value:g}") for value in axis.powers())
    parts.append(_text(_LEFT + _WIDTH / 2, _TOP + _PLANE + 30, "operations per byte of DDR", "middle"))
    parts.append(_text(8, _TOP - 5, "operations per cycle"))
    return _drawn(f"{title}, roofline", _TOP + _PLANE + _BELOW, parts, colours)


def phases(texts: Mapping[str, Any], title: str) -> Drawing:
    """Draw the graph of phases with the bytes that flow between them.

    Tx8Error for a program of fewer than two.
    """
    found = drawn(texts)
    if not found:
        raise Tx8Error(f"{title} has fewer than two phases: .node and tx8cc name them")
    return Drawing(found)


class _Colours:
    """A colour for each node that took long; grey for the others."""

    def __init__(self, texts: Mapping[str, Any]) -> None:
        self.names: Sequence[str] = texts["nodes"]
        longest = sorted(texts["node_times"], key=lambda node: -node["cycles"])
        self.shown = [node["node"] for node in longest if node["node"]][:_LEGEND]

    def of(self, node: int) -> str:
        """The colour of a node, by its number."""
        if node not in self.shown:
            return _GREY
        return f"hsl({self.shown.index(node) * 137 % 360},60%,50%)"

    def legend(self, y: float) -> Iterator[str]:
        """Rows of three names."""
        for at, node in enumerate(self.shown):
            x, row = _LEFT + at % 3 * (_WIDTH / 3), y + at // 3 * 16
            yield _box(x, row, 10, 10, self.of(node), 1.0, "")
            yield _text(x + 14, row + 9, self.names[node][:36])


class _Logarithmic:
    """A logarithmic axis between two values, from pixel ``first`` on; a negative length goes upwards."""

    def __init__(self, ends: Sequence[float], first: float, length: float) -> None:
        self._low, self._high = map(math.log10, ends)
        self._first, self._length = first, length

    def __call__(self, value: float) -> float:
        return self._first + self._length * (math.log10(value) - self._low) / (self._high - self._low)

    def powers(self) -> Iterator[float]:
        """The powers of ten on the axis."""
        return (10.0**power for power in range(math.ceil(self._low), math.floor(self._high) + 1))


class _Addresses:
    """An axis of the addresses of buffers, upwards; unused addresses are omitted."""

    def __init__(self, buffers: Iterable[tuple[int, int]]) -> None:
        self._ranges: list[list[int]] = []
        for first, size in sorted(buffers):
            if self._ranges and first <= self._ranges[-1][1]:
                self._ranges[-1][1] = max(self._ranges[-1][1], first + size)
            else:
                self._ranges.append([first, first + size])
        self.scale = _PLANE / (sum(end - first for first, end in self._ranges) or 1)
        """Pixels of a byte."""

    def __call__(self, address: int) -> float:
        below = sum(min(max(address - first, 0), end - first) for first, end in self._ranges)
        return _TOP + _PLANE - below * self.scale

    @property
    def begins(self) -> Iterator[int]:
        """Return first addresses of the ranges, except those too near to the one before."""
        last = math.inf
        for first, _ in self._ranges:
            if last - self(first) >= _APART:
                last = self(first)
                yield first


def _columns(
    busy: npt.NDArray[Any], node: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[Any]]:
    """Reduce bins to at most ``_COLUMNS`` columns: the mean share of each, the node of its busiest bin."""
    rows, bins = busy.shape
    each = max(-(-bins // _COLUMNS), 1)
    room = (0, -bins % each)
    shares = np.pad(busy, ((0, 0), room)).reshape(rows, -1, each)
    nodes = np.pad(node, ((0, 0), room)).reshape(shares.shape)
    longest = shares.argmax(axis=2)[..., None]
    return shares.mean(axis=2) / 255, np.take_along_axis(nodes, longest, axis=2)[..., 0]


def _stretches(
    shares: npt.NDArray[np.float64], nodes: npt.NDArray[Any]
) -> Iterator[tuple[int, int, float, int]]:
    """Merge neighbouring columns of one node: the first, their number, their mean share, the node."""
    marks = np.where(shares > 0, nodes, -1)
    edges = np.flatnonzero(np.diff(marks, prepend=-2, append=-2))
    for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if marks[first] >= 0:
            yield first, end - first, float(shares[first:end].mean()), int(marks[first])


def _drawn(title: str, y: float, parts: Iterable[str], colours: _Colours) -> Drawing:
    legend = list(colours.legend(y + 4))
    height = y + 12 + -(-len(colours.shown) // 3) * 16
    width = _LEFT + _WIDTH + 40
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" width="{width}"'
    name = f"<title>{escape(title)}</title>{_text(_LEFT, 12, title)}"
    body = "\n".join([name, *parts, *legend])
    return Drawing(f'{head} font-family="sans-serif" font-size="11" role="img">\n{body}\n</svg>\n')


def _time_axis(cycles: float, y: float) -> Iterator[str]:
    """Draw five ticks of an axis of cycles below ``y``."""
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        yield _below(_LEFT + part * _WIDTH, f"{part * cycles:,.0f}", y)
    yield _text(_LEFT + _WIDTH / 2, y + 30, "cycles", "middle")


def _below(x: float, text: str, y: float = _TOP + _PLANE) -> str:
    return f'<path d="M{x:.1f} {y:.1f}v4" stroke="currentColor"/>{_text(x, y + 16, text, "middle")}'


def _beside(y: float, text: str) -> str:
    return f'<path d="M{_LEFT} {y:.1f}h-4" stroke="currentColor"/>{_text(_LEFT - 6, y + 4, text, "end")}'


def _frame(height: float) -> str:
    place = f'x="{_LEFT}" y="{_TOP}" width="{_WIDTH}" height="{height:.0f}"'
    return f'<rect {place} fill="none" stroke="currentColor" stroke-opacity="0.3"/>'


def _box(x: float, y: float, width: float, height: float, colour: str, share: float, tip: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{max(height, 0.5):.1f}"'
    title = f"<title>{escape(tip)}</title>" if tip else ""
    return f'<rect {place} fill="{colour}" fill-opacity="{_opacity(share)}">{title}</rect>'


def _opacity(share: float) -> str:
    return f"{0.25 + 0.75 * share:.2f}"


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 11) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
    return f'<text {place} fill="currentColor">{escape(text)}</text>'
