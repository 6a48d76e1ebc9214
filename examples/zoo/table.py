"""The table of the zoo in Markdown, and its place on a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from measure import BYTES, Measured

BEGIN, END = "<!-- zoo -->", "<!-- end of zoo -->"
HEADINGS = (
    *("network", "format", "metric", "onnxruntime fp32", "other answers", "cosine of outputs"),
    *("cycles", "milliseconds", "of its bound", "compiled", "emulated"),
)
CLOCK = 1e9
"""Cycles of the engines in a second."""


def cells(found: Measured) -> list[str]:
    """The cells of a row."""
    changed = "-" if found.changed is None else "{} of {}".format(*found.changed)
    return [
        found.task.name,
        found.dtype,
        shown(found.scores),
        shown(found.theirs),
        changed,
        f"{found.alike:.6f}",
        f"{found.cycles:,.0f}",
        f"{1e3 * found.cycles / CLOCK:.3f}",
        f"{found.share:.0%}",
        f"{found.compiling:.1f} s",
        f"{found.running:.2f} s",
    ]


def shown(scores: Mapping[str, float]) -> str:
    """Metrics with their names, and the values far from 1 in per cent."""
    return ", ".join(
        f"{name} {value:.6f}" if name in ("cosine", "rank correlation") else f"{name} {100 * value:.2f} %"
        for name, value in scores.items()
    )


def lines(rows: Iterable[Measured]) -> list[str]:
    """The table, a line for each row."""
    table = [HEADINGS, ["---"] * len(HEADINGS), *(cells(row) for row in rows)]
    return [f"| {' | '.join(row)} |" for row in table]


def shortcomings(found: Measured) -> list[str]:
    """The metrics that lost more than allowed, one sentence each; bytes alone may lose more, because mixed
    formats follow."""
    if found.dtype == BYTES:
        return []
    return [
        f"{found.task.name} {found.dtype}: {name} {found.scores[name]:.6f}, onnxruntime "
        f"{found.theirs[name]:.6f}; at most {allowed:g} may be lost"
        for name, allowed in found.losses.items()
    ]


def what_runs(rows: Sequence[Measured]) -> list[str]:
    """The computation of one run of each network, one line each."""
    tasks = {row.task.name: row.task for row in rows}
    kept = [f"- {row.task.name}, {row.dtype}: {row.kept}" for row in rows if row.kept]
    about = [f"- {name}: {task.about}" for name, task in tasks.items()]
    return [*about, "", *kept] if kept else about


def updated(page: Path, text: str) -> str:
    """The text of a page with its marked region replaced; SystemExit if it has none."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} has no region {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"
