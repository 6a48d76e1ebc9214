"""Makes the page: one HTML file that contains everything and fetches nothing."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bokeh.resources import Resources

from emulator.tile.tile import Tile
from emulator.watch.stats.types import Report
from emulator.watch.strict.hazards import Hazard

from .data import content, packed
from .figures import figures
from .flows import drawn
from .sink import ReportSink
from .summary import ddr_rate

_ASSETS = Path(__file__).parent / "assets"
_SCRIPTS = ("data.js", "view.js", "charts.js", "main.js")


def make_page(
    report: ReportSink,
    tiles: Sequence[Tile],
    title: str,
    *,
    fault: str = "",
    hazards: Sequence[Hazard] | None = None,
    against: Report | None = None,
) -> bytes:
    """Return the page of a finished run of ``tiles``.

    ``fault``: the fault that stopped the run, if any. ``hazards``: None if the run did not look for them.
    ``against``: the statistics of an earlier run, None without one.
    """
    machine = report.machine
    texts, arrays = content(report, tiles, fault, hazards, against)
    charts = figures(report.cycles, ddr_rate(machine), machine.grid.x, machine.grid.y)
    parts = {
        "title": html.escape(title),
        "style": _asset("page.css"),
        "graph": _graph(texts),
        "library": "\n".join(Resources(mode="inline", components=["bokeh"]).js_raw),
        "figures": _in_script(json.dumps(charts)),
        "data": packed(texts, arrays),
        "script": "\n".join(_asset(name) for name in _SCRIPTS),
    }
    page = re.sub(r"\{(\w+)\}", lambda match: parts[match[1]], _asset("page.html"))
    return page.encode()


def _graph(texts: Mapping[str, Any]) -> str:
    """Return the panel of the graph of phases; nothing for a program without one."""
    picture = drawn(texts)
    return _asset("graph.html").replace("{picture}", picture) if picture else ""


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _in_script(text: str) -> str:
    """Return JSON that cannot end the script element that holds it."""
    return text.replace("<", "\\u003c")
