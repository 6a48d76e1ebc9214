"""Draws the graph of phases with the data that flows between them, as SVG: boxes in layers, lines by bytes.

A phase is below all phases that it reads from. A chain of phases becomes one box.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

_MOST_BOXES = 24
"""With more phases, chains of them are drawn as one box."""
_LONGEST_NAME = 26
_TO = " ... "
_WIDE, _HIGH, _APART, _BETWEEN, _BEND = 184, 40, 22, 46, 16
"""Pixels: width and height of a box, the gaps next to it and below it, the room for a line past a layer."""
_MARGIN = 60
"""Pixels to the left of the boxes for lines that go back."""
_WIDEST = 7.0


@dataclass
class PhaseBox:
    """A phase, or several consecutive ones, or the inputs or outputs of the run (without cycles)."""

    name: str
    numbers: list[int]
    cycles: float | None = None
    constants: int = 0
    """Bytes of constants that it reads."""
    layer: int = 0
    x: float = 0.0


@dataclass
class Flow:
    """The bytes that one box reads of another one's results; ``bends`` are the places where it passes other
    layers."""

    source: PhaseBox
    target: PhaseBox
    bytes: int
    bends: list[PhaseBox] = field(default_factory=list)


def phase_graph(boxes: Sequence[PhaseBox], flows: Mapping[tuple[int, int], int]) -> str:
    """Draw boxes, in the order of the program, and flows by the places of writer and reader.

    A flow to an earlier box, as in a loop, is drawn upwards. Returns an empty text for fewer than two phases.
    """
    if sum(box.cycles is not None for box in boxes) < 2:
        return ""
    found = [Flow(boxes[a], boxes[b], size) for (a, b), size in sorted(flows.items()) if a != b and size]
    order = {id(box): at for at, box in enumerate(boxes)}
    shown = list(boxes)
    if len(shown) > _MOST_BOXES:
        shown, found = _collapsed(shown, found, order)
    for box in shown:  # every box before its readers
        reads = [flow.source.layer + 1 for flow in found if flow.target is box and _down(flow, order)]
        box.layer = max(reads, default=0)
    rows = _rows(shown, found)
    margin = 0 if all(_down(flow, order) for flow in found) else _MARGIN
    width = max(sum(map(_room, row)) for row in rows) + 2 * margin
    for row in rows:
        _place(row, width)
    return _drawn(shown, found, width, len(rows), order)


def _down(flow: Flow, order: Mapping[int, int]) -> bool:
    return order[id(flow.source)] < order[id(flow.target)]


def _collapsed(
    boxes: list[PhaseBox], flows: list[Flow], order: Mapping[int, int]
) -> tuple[list[PhaseBox], list[Flow]]:
    """Join consecutive phases if each is the only reader of the one before, and reads nothing else."""
    merged: dict[int, PhaseBox] = {}
    shown: list[PhaseBox] = []
    for box in boxes:
        before = [flow.source for flow in flows if flow.target is box]
        alone = len(before) == 1 and sum(flow.source is before[0] for flow in flows) == 1
        into = merged.get(id(before[0])) if alone and _down(Flow(before[0], box, 0), order) else None
        if into is None or box.cycles is None or into.cycles is None:
            merged[id(box)] = box
            shown.append(box)
            continue
        merged[id(box)] = into
        into.name = into.name.partition(_TO)[0] + _TO + box.name
        into.numbers = [*into.numbers, *box.numbers]
        into.cycles, into.constants = into.cycles + box.cycles, into.constants + box.constants
    ends = [Flow(merged[id(flow.source)], merged[id(flow.target)], flow.bytes) for flow in flows]
    return shown, [flow for flow in ends if flow.source is not flow.target]


def _rows(boxes: Sequence[PhaseBox], flows: Sequence[Flow]) -> list[list[PhaseBox]]:
    """Order the boxes of each layer, and a bend for each line that passes it, near their sources."""
    rows: list[list[PhaseBox]] = [[] for _ in range(max(box.layer for box in boxes) + 1)]
    for box in boxes:
        rows[box.layer].append(box)
    above: dict[int, list[PhaseBox]] = {id(box): [] for box in boxes}
    for flow in flows:
        last = flow.source
        for layer in range(flow.source.layer + 1, flow.target.layer):
            bend = PhaseBox("", [], layer=layer)
            above[id(bend)], last = [last], bend
            flow.bends.append(bend)
            rows[layer].append(bend)
        above[id(flow.target)].append(last)
    for row in rows:
        known = {id(box): at for at, box in enumerate(row)}
        row.sort(key=lambda box: (_mean([each.x for each in above[id(box)]]), known[id(box)]))
        for at, box in enumerate(row):
            box.x = at / max(len(row) - 1, 1)
    return rows


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _room(box: PhaseBox) -> int:
    return (_WIDE if box.name else _BEND) + _APART


def _place(row: Sequence[PhaseBox], width: int) -> None:
    """Set the x of the middles of a layer's boxes, with the layer centred in the picture."""
    x = (width - sum(map(_room, row))) / 2
    for box in row:
        box.x = x + _room(box) / 2
        x += _room(box)


# --- drawing ------------------------------------------------------------------------------


def _drawn(
    boxes: Sequence[PhaseBox], flows: Sequence[Flow], width: int, layers: int, order: Mapping[int, int]
) -> str:
    height = layers * (_HIGH + _BETWEEN)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
    most = max((flow.bytes for flow in flows), default=1)
    lines = [part for flow in flows for part in _line(flow, most, _down(flow, order))]
    longest = max(box.cycles or 0.0 for box in boxes) or 1.0
    parts = [*lines, *(part for box in boxes for part in _box(box, longest))]
    body = "\n".join(["<title>phases and what flows between them</title>", *parts])
    return f'{head} font-family="sans-serif" font-size="11" role="img">\n{body}\n</svg>\n'


def _top(box: PhaseBox) -> float:
    return box.layer * (_HIGH + _BETWEEN) + _BETWEEN / 4


def _line(flow: Flow, most: int, down: bool) -> Iterator[str]:
    """Draw a line as wide as its bytes, with their number; it is dashed if it goes back to an earlier
    phase."""
    path, x, y = _path(flow) if down else _way_back(flow)
    wide = 1 + (_WIDEST - 1) * math.sqrt(flow.bytes / most)
    dashes = "" if down else ' stroke-dasharray="5 4"'
    tip = escape(f"{flow.source.name} to {flow.target.name}: {flow.bytes:,} bytes")
    look = f'fill="none" stroke="currentColor" stroke-opacity="0.35" stroke-width="{wide:.1f}"{dashes}'
    yield f'<path d="{path}" {look}><title>{tip}</title></path>'
    text = short_bytes(flow.bytes)
    yield f'<text x="{x:.0f}" y="{y:.0f}" fill="currentColor" font-size="10">{text}</text>'


def _path(flow: Flow) -> tuple[str, float, float]:
    """Return the path down through a flow's bends, and the place of its number."""
    x, y = flow.source.x, _top(flow.source) + _HIGH
    path = f"M{x:.0f} {y:.0f}"
    ends = [(bend.x, _top(bend) + _HIGH / 2) for bend in flow.bends] + [(flow.target.x, _top(flow.target))]
    near = (x + ends[0][0]) / 2 + 4
    for end_x, end_y in ends:
        middle = (y + end_y) / 2
        path += f"C{x:.0f} {middle:.0f} {end_x:.0f} {middle:.0f} {end_x:.0f} {end_y:.0f}"
        x, y = end_x, end_y
    return path, near, _top(flow.source) + _HIGH + _BETWEEN / 2 + 4


def _way_back(flow: Flow) -> tuple[str, float, float]:
    """Return the path up from the left side of a box to an earlier box, and the place of its number."""
    (x, y), (end_x, end_y) = (
        (box.x - _WIDE / 2, _top(box) + _HIGH / 2) for box in (flow.source, flow.target)
    )
    return f"M{x:.0f} {y:.0f}C0 {y:.0f} 0 {end_y:.0f} {end_x:.0f} {end_y:.0f}", 2, (y + end_y) / 2


def _box(box: PhaseBox, longest: float) -> Iterator[str]:
    share = 0.0 if box.cycles is None else box.cycles / longest
    facts = [] if box.cycles is None else [f"{box.cycles:,.0f} cycles"]
    facts += [f"{len(box.numbers)} phases"] * (len(box.numbers) > 1)
    facts += [f"constants {short_bytes(box.constants)}"] * bool(box.constants)
    tip = escape(f"{box.name}: {', '.join(facts)}" if facts else box.name)
    number = f' data-node="{box.numbers[0]}"' if len(box.numbers) == 1 and box.cycles is not None else ""
    place = f'x="{box.x - _WIDE / 2:.0f}" y="{_top(box):.0f}" width="{_WIDE}" height="{_HIGH}" rx="5"'
    look = (
        f'fill="#3b82f6" fill-opacity="{0.08 + 0.6 * share:.2f}" stroke="currentColor" stroke-opacity="0.5"'
    )
    yield f"<g{number}><title>{tip}</title><rect {place} {look}/>"
    for text, below, size in (
        (_short_name(box.name), 16 if facts else 24, 12),
        (", ".join(facts[:2]), 32, 10),
    ):
        at = f'x="{box.x:.0f}" y="{_top(box) + below:.0f}" text-anchor="middle" font-size="{size}"'
        yield f'<text {at} fill="currentColor">{escape(text)}</text>'
    yield "</g>"


def _short_name(name: str) -> str:
    """Shorten a name, or the names of the first and the last phase, to the width of a box."""
    parts = name.split(_TO)
    longest = _LONGEST_NAME // len(parts)
    return _TO.join(part if len(part) <= longest else f"{part[: longest - 1]}~" for part in parts)


def short_bytes(size: float) -> str:
    """Write a number of bytes in few letters: ``3.2 MB``."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
