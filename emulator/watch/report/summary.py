"""The findings of ``--stats`` for the page: figures, losses, nodes, and the roofline chart."""

from __future__ import annotations

from typing import Any

from emulator.watch.stats.compare import compare
from emulator.watch.stats.types import NodeTime, Report
from tx8isa.machine.description import Machine

_MOST_POINTS = 500


def facts(found: Report) -> list[tuple[str, str]]:
    """Return terms and figures for the head of the page."""
    bound = [("bound", found.bound), ("of the bound reached", f"{found.reached:.1%}")] if found.bound else []
    return [
        ("cycles", f"{found.cycles:,.0f}"),
        ("time", f"{found.milliseconds:,.3f} ms"),
        *bound,
        ("tiles used", f"{found.tiles_used} of {found.tiles}"),
        ("instructions", f"{found.instructions:,}"),
        ("engine instructions", f"{found.engine_instructions:,}"),
        ("DDR traffic", f"{sum(node.ddr_bytes for node in found.nodes):,} B"),
    ]


def losses(found: Report) -> list[dict[str, Any]]:
    """Return the losses: time that the bound does not need."""
    return [{"text": loss.text, "cycles": loss.cycles, "share": loss.share} for loss in found.losses]


def changes(before: Report, found: Report) -> list[dict[str, Any]]:
    """Return the tables of ``--against``, each figure as four texts after its name."""
    return [
        {
            "title": table.title,
            "rows": [[change.name, *change.cells()] for change in table.changes],
            "left_out": table.left_out,
        }
        for table in compare(before, found).tables
    ]


def nodes(found: Report, numbers: dict[str, int]) -> list[dict[str, Any]]:
    """Return the rows of the nodes' table; ``numbers``: of the nodes on the page, by name."""
    return [
        {
            "node": numbers[node.name],
            "cycles": node.cycles,
            "share": node.share,
            "bound": node.bound or "",
            "reached": node.reached,
            "times": node.instructions,
        }
        for node in found.nodes
    ]


def origin(found: Report) -> str:
    """Return the origin of the times."""
    evidence = ", ".join(f"{count} {kind}" for kind, count in found.evidence.items())
    used = f"; coefficients of the model that this run used, by evidence: {evidence}" if evidence else ""
    return f"Simulated time of machine {found.machine}{used}."


def ddr_rate(machine: Machine) -> float:
    """Return the most bytes per cycle that DDR gives all tiles together."""
    return machine.ddr.nominal.value / machine.engines.clock.value


def roofline(found: Report, machine: Machine, numbers: dict[str, int]) -> dict[str, Any]:
    """Return ``points``: the run, and its nodes. ``roofs``: a line for each used peak of arithmetic.

    ``x`` and ``y`` are the least extents of the axes.
    """
    points = _points(found, numbers)
    intensities = [point["x"] for point in points] or [1.0]
    low, high = min(intensities) / 10, max(intensities) * 10
    rate, peaks = ddr_rate(machine), _peaks(found)
    roofs = [_roof(peak, rate, ", ".join(names), low, high) for peak, names in peaks.items()]
    rates = [point["y"] for point in points] + list(peaks) or [1.0]
    return {"points": points, "roofs": roofs, "x": [low, high], "y": [min(rates) / 3, max(rates) * 3]}


def _peaks(found: Report) -> dict[float, list[str]]:
    """Return the kinds of arithmetic with a peak, by the operations per cycle."""
    peaks: dict[float, list[str]] = {}
    for kind in found.arithmetic:
        peaks.setdefault(kind.peak / found.clock, []).append(f"{kind.engine} {kind.format}")
    return peaks


def _roof(peak: float, rate: float, label: str, low: float, high: float) -> dict[str, Any]:
    at = [low, min(max(peak / rate, low), high), high]
    name = f"{label}: {peak:,.0f} operations per cycle; DDR: {rate:,.0f} bytes per cycle"
    return {"x": at, "y": [min(x * rate, peak) for x in at], "name": name, "label": label}


def _points(found: Report, numbers: dict[str, int]) -> list[dict[str, Any]]:
    """Return the run, followed by the nodes that took longest."""
    shown = [node for node in found.nodes if node.operations and node.ddr_bytes and node.cycles]
    if not shown:
        return []
    shown = sorted(shown, key=lambda node: -node.cycles)[:_MOST_POINTS]
    operations = sum(node.operations for node in found.nodes)
    moved = sum(node.ddr_bytes for node in found.nodes)
    whole = _point(-1, "the whole run", operations, moved, found.cycles)
    return [whole, *(_node_point(node, numbers[node.name]) for node in shown)]


def _node_point(node: NodeTime, number: int) -> dict[str, Any]:
    return _point(number, node.name or "(no node)", node.operations, node.ddr_bytes, node.cycles)


def _point(number: int, name: str, operations: int, moved: int, cycles: float) -> dict[str, Any]:
    intensity, rate = operations / moved, operations / cycles
    text = f"{name}: {intensity:.3g} operations per byte, {rate:,.1f} operations per cycle"
    return {"node": number, "x": intensity, "y": rate, "text": text}
