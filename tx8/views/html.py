"""Programs and runs as HTML for the cells of a notebook, legible on light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from asm.image import Buffer
from emulator.memory.buffers import travel_dtype
from emulator.watch.stats.compare import Comparison
from emulator.watch.stats.types import Report

from .stats import ChipsStats, Stats

Array = np.ndarray[Any, np.dtype[Any]]

_MOST_LOSSES = 5
_BAR, _LABEL, _ROW = 420, 80, 18
"""Pixels: the longest bar, the width of its label, the height of a row."""


def program_page(name: str, facts: Sequence[str], inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> str:
    """Return a page of a program's inputs and outputs, after its name and facts such as its machine."""
    head = ", ".join([f"<b>{escape(name)}</b>", *map(escape, facts)])
    rows = [_buffer_row("input", buffer) for buffer in inputs]
    rows += [_buffer_row("output", buffer) for buffer in outputs]
    return f"<div>{head}{_table(('', 'name', 'type', 'shape'), rows)}</div>"


def run_page(
    name: str,
    instructions: int,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    stats: Stats | ChipsStats,
) -> str:
    """Return a page of a run: inputs and outputs with their ranges, the cycles, and how these were spent."""
    rows = [_array_row("input", each, array) for each, array in inputs.items()]
    rows += [_array_row("output", each, array) for each, array in outputs.items()]
    table = _table(("", "name", "type", "shape", "least", "mean", "largest"), rows)
    head = f"<b>{escape(name)}</b>, {instructions:,} instructions"
    return f"<div>{head}{table}{_time(stats.longest)}</div>"


class ComparisonView(Comparison):
    """A comparison of runs that a notebook shows as tables."""

    def _repr_html_(self) -> str:
        heads = ("before", "after", "difference", "")
        return "".join(
            _table((table.title, *heads), ((change.name, *change.cells()) for change in table.changes))
            for table in self.tables
        )


def _buffer_row(kind: str, buffer: Buffer) -> Sequence[str]:
    return kind, buffer.name, str(travel_dtype(buffer)), _shape(buffer.shape)


def _array_row(kind: str, name: str, array: Array) -> Sequence[str]:
    numbers = array.astype(np.float64).ravel()
    figures = (numbers.min(), numbers.mean(), numbers.max()) if numbers.size else ()
    return kind, name, str(array.dtype), _shape(array.shape), *(f"{figure:.4g}" for figure in figures)


def _time(report: Report) -> str:
    """Draw the cycles, a bar for the least time of each resource and for the run, and the largest losses."""
    head = f"{report.cycles:,.0f} cycles, {report.milliseconds:.3g} ms simulated"
    if report.bound:
        head += f"; bound {report.bound}, of which {report.reached:.0%} is reached"
    bars = [("run", 1.0)] + [
        (resource.name, resource.share) for resource in report.resources if resource.cycles
    ]
    losses = [f"<li>{escape(loss.text)}</li>" for loss in report.losses[:_MOST_LOSSES]]
    return f"<p>{escape(head)}</p>{_chart(bars)}<ul>{''.join(losses)}</ul>"


def _chart(bars: Sequence[tuple[str, float]]) -> str:
    """Draw a row for each name: a bar as long as its share of the run, with the share as text."""
    width, height = _LABEL + _BAR + 60, _ROW * len(bars)
    parts = []
    for row, (name, share) in enumerate(bars):
        y, length = row * _ROW, max(1, round(_BAR * min(share, 1.0)))
        color = "#888" if row == 0 else "#3b82f6"
        parts.append(
            f'<text x="{_LABEL - 6}" y="{y + 13}" text-anchor="end" fill="currentColor">{escape(name)}</text>'
            f'<rect x="{_LABEL}" y="{y + 3}" width="{length}" height="{_ROW - 6}" fill="{color}"/>'
            f'<text x="{_LABEL + length + 6}" y="{y + 13}" fill="currentColor">{share:.1%}</text>'
        )
    return f'<svg width="{width}" height="{height}" font-size="11" role="img">{"".join(parts)}</svg>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>"


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"
