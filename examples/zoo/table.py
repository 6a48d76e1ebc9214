"""The table of the zoo in Markdown, and its place on a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from measure import Measured

BEGIN, END = "<!-- zoo -->", "<!-- end of zoo -->"
HEADINGS = (
    *("network", "format", "metric", "onnxruntime fp32", "other answers", "cosine of outputs"),
    *("cycles", "milliseconds", "of its bound", "compiled", "emulated"),
)
CLOCK = 1e9
"""Cycles of the engines in a second."""

LARGEST_LOSS = 0.002
"""What a metric may lose in fp16 and bf16; nothing in fp32."""


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
    """Metrics with their names; what may be far from 1 in per cent."""
    return ", ".join(
        f"{name} {value:.6f}" if name in ("cosine", "rank correlation") else f"{name} {100 * value:.2f} %"
        for name, value in scores.items()
    )


def lines(rows: Iterable[Measured]) -> list[str]:
    """The table, a line for each row."""
    table = [HEADINGS, ["---"] * len(HEADINGS), *(cells(row) for row in rows)]
    return [f"| {' | '.join(row)} |" for row in table]


def shortcomings(found: Measured) -> list[str]:
    """The metrics that lost more than they may, one sentence each."""
    allowed = 0.0 if found.dtype == "fp32" else LARGEST_LOSS
    return [
        f"{found.task.name} {found.dtype}: {name} {score:.6f}, onnxruntime {found.theirs[name]:.6f}; "
        f"at most {allowed:g} may be lost"
        for name, score in found.scores.items()
        if score < found.theirs[name] - allowed - 5e-7
    ]


def what_runs(rows: Sequence[Measured]) -> list[str]:
    """What one run of each network computes, one line each."""
    tasks = {row.task.name: row.task for row in rows}
    return [f"- {name}: {task.about}" for name, task in tasks.items()]


def updated(page: Path, text: str) -> str:
    """The text of a page with its marked region replaced; SystemExit if it has none."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} has no region {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"
