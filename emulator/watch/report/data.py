"""Data embedded in the page: a JSON text and arrays, packed (``assets/data.js`` unpacks them)."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from asm.image import LIVE_ROLES
from emulator.tile.tile import Tile
from emulator.timing.slices import TICKS, Track
from emulator.watch.bins import summed
from emulator.watch.stats.result import make_report
from emulator.watch.stats.types import Report
from emulator.watch.strict.hazards import Hazard
from emulator.watch.trace.texts import CAUSES

from .lines import Line, positions
from .lives import NEVER
from .residence import COLUMNS
from .sink import ReportSink
from .summary import changes, facts, losses, nodes, origin, roofline

Parts = tuple[dict[str, Any], dict[str, Any]]
"""The JSON part, and the arrays by name."""
_MOST_HAZARDS = 500
_TRAFFIC_COLUMNS = 512
_ALIGNMENT = 8
_HEAVIEST_PACKING = 9


def packed(content: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """Return base64 of gzip of: length of the JSON text in four bytes, the text, the arrays."""
    table: dict[str, dict[str, Any]] = {}
    text = b""
    for _ in range(2):  # the text holds the positions, so its length is known the second time
        at = _aligned(4 + len(text))
        for name, array in arrays.items():
            table[name] = {"type": array.dtype.str[1:], "at": f"{at:>12}", "count": array.size}
            at = _aligned(at + array.nbytes)
        text = json.dumps({**content, "arrays": table}, ensure_ascii=False).encode()
    parts = [len(text).to_bytes(4, "little") + text, *(_little(array) for array in arrays.values())]
    data = b"".join(part.ljust(_aligned(len(part)), b"\0") for part in parts)
    return base64.b64encode(gzip.compress(data, _HEAVIEST_PACKING, mtime=0)).decode()


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _little(array: npt.NDArray[Any]) -> bytes:
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


def content(
    report: ReportSink,
    tiles: Sequence[Tile],
    fault: str,
    hazards: Sequence[Hazard] | None,
    against: Report | None = None,
) -> Parts:
    """Return the JSON part and the arrays. Times are in cycles."""
    found, machine = make_report(report.statistics, tiles), report.machine
    numbers = {name: number for number, name in enumerate(report.kinds.nodes.names)}
    rows = np.argwhere(report.activity.busy.any(axis=2))
    active = np.unique(rows[:, 0]).tolist() or [0]
    lines, lines_left_out = _lines(report)
    texts = {
        "fault": fault,
        **{"facts": facts(found), "losses": losses(found), "origin": origin(found)},
        "against": [] if against is None else changes(against, found),
        "cycles": report.cycles,
        "tracks": [track.name for track in Track],
        "causes": CAUSES,
        "rows": rows.tolist(),
        "active_tiles": active,
        "tile_xy": [machine.tile_xy(tile) for tile in range(machine.tiles)],
        "links": report.links.ends,
        "nodes": report.kinds.nodes.names,
        "node_times": nodes(found, numbers),
        "flows": [(*pair, moved) for pair, moved in sorted(report.flows.final().items())],
        "kinds": report.kinds.described(),
        "lines": [line.in_cycles() for line in lines],
        "lines_left_out": lines_left_out,
        **_hazards(hazards),
        "roofline": roofline(found, machine, numbers),
    }
    return _together(
        (texts, {}),
        _activity(report, rows),
        _slices(report, rows, lines),
        _scratchpads(report, active),
        _lives(report, active),
        _traffic(report, active),
    )


def _together(*parts: Parts) -> Parts:
    texts, arrays = dict[str, Any](), dict[str, Any]()
    for more_texts, more_arrays in parts:
        texts |= more_texts
        arrays |= more_arrays
    return texts, arrays


def _lines(report: ReportSink) -> tuple[list[Line], int]:
    """Return the lines of the assembly that took longest, and the number of the others."""
    statistics = report.statistics
    return report.lines.final(statistics, report.kinds.nodes.of(statistics.places.pcs))


def _hazards(hazards: Sequence[Hazard] | None) -> dict[str, Any]:
    shown = None if hazards is None else [_hazard(hazard) for hazard in hazards[:_MOST_HAZARDS]]
    return {"hazards": shown, "hazards_left_out": max(len(hazards or ()) - _MOST_HAZARDS, 0)}


def _hazard(hazard: Hazard) -> dict[str, Any]:
    return {
        "kind": hazard.kind,
        "category": hazard.category,
        "at": hazard.at.text,
        "pc": hazard.at.pc,
        "times": hazard.count,
        "what": hazard.what,
        "fix": hazard.fix,
    }


def _activity(report: ReportSink, rows: npt.NDArray[Any]) -> Parts:
    """Return the busy share 0..255 of each bin, rounded up so that nothing disappears, and the kinds."""
    used = report.axis.used(report.end)
    tile, track = rows.T
    busy = report.activity.busy[tile, track, :used]
    share = np.minimum(-(-busy * 255 // report.axis.width), 255)  # copies to many targets count several times
    arrays = {"busy": share.astype("u1"), "busy_kind": report.activity.kind[tile, track, :used].astype("u2")}
    return {"bins": used, "bin_cycles": report.axis.width / TICKS}, arrays


def _slices(report: ReportSink, rows: npt.NDArray[Any], lines: list[Any]) -> Parts:
    kept = report.longest.final()
    number = np.zeros(report.activity.busy.shape[:2], dtype=np.int64)
    number[tuple(rows.T)] = np.arange(len(rows))
    columns = {
        "row": number[kept["tile"], kept["track"]].astype("u2"),
        "kind": kept["kind"],
        "cause": kept["cause"],
        "line": positions(lines, kept["pc"]).astype("i2"),
        "start": kept["started"] / TICKS,
        "length": ((kept["ended"] - kept["started"]) / TICKS).astype("f4"),
        "blocked": (kept["blocked"] / TICKS).astype("f4"),
    }
    left_out = report.longest.seen - len(kept)
    return {"slices_left_out": left_out}, {f"slice_{name}": array for name, array in columns.items()}


def _scratchpads(report: ReportSink, active: list[int]) -> Parts:
    places = report.residence
    columns = min(-(-report.end // places.column_width), COLUMNS) or 1
    shown = places.map[active, :, :columns]
    used = np.flatnonzero(shown.any(axis=(0, 2)))
    first, end = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 1)
    about = {
        "first_block": first,
        "blocks": end - first,
        "columns": columns,
        "block_bytes": places.space.width,
        "column_cycles": places.column_width / TICKS,
    }
    return {"spm": about}, {"spm_kind": np.ascontiguousarray(shown[:, first:end])}


def _lives(report: ReportSink, active: list[int]) -> Parts:
    """Return the declared buffers, and the cycles of first and last use by tile and buffer."""
    lives, numbers = report.lives, report.kinds.nodes
    begins = np.array([live.begin for live in lives.ranges], dtype=np.int64)
    peak, where = lives.peak()
    (at,) = numbers.of(np.array([where])).tolist()
    about = {
        "name": [live.name for live in lives.ranges],
        "role": [LIVE_ROLES.index(live.role) for live in lives.ranges],
        "node": [live.node for live in lives.ranges],
        "phase": numbers.of(begins).tolist(),
        "first": [live.address for live in lives.ranges],
        "bytes": [live.size for live in lives.ranges],
        "roles": LIVE_ROLES,
        "peak": peak,
        "peak_phase": at,
        "left_out": lives.left_out,
        "spm_bytes": report.machine.spm.bytes,
    }
    times = {"start": lives.start, "end": lives.end}
    never = times["end"] == NEVER
    arrays = {
        f"live_{name}": np.where(never, NEVER, ticks / TICKS)[:, active].T.astype("f4")
        for name, ticks in times.items()
    }
    return {"lives": about}, arrays


def _traffic(report: ReportSink, active: list[int]) -> Parts:
    used = report.axis.used(report.end)
    factor = -(-used // _TRAFFIC_COLUMNS)
    ddr = summed(report.traffic.ddr[active, :, :used], factor)
    link = summed(report.traffic.link[:, :used], factor)
    about = {"columns": ddr.shape[-1], "column_cycles": report.axis.width * factor / TICKS}
    return {"traffic": about}, {"ddr_bytes": ddr.astype("f4"), "link_bytes": link.astype("f4")}
