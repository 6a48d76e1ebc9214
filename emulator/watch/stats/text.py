"""The statistics of a run as text: a verdict, then tables; at most 110 columns (docs/stats.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from .types import CoreTime, EngineTime, Figure, Loss, NodeTime, Report

WIDTH = 110
_ENGINES = ("CT", "NE", "RDMA", "WDMA", "TDMA", "SCALAR", "DTE")
_NAME = 28
_PLACES = 10


def describe(report: Report) -> Iterator[str]:
    """Yield the lines of ``--stats`` about time; line ends in names do not break them."""
    return (" ".join(line.splitlines()) for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    yield from _verdict(report)
    for title, table in (
        ("least time at peak", _resources),
        ("engines", _engines),
        ("engine waits for", _waits),
        ("kernel core", _cores),
        ("tiles", _tiles),
        ("bytes", _paths),
        ("arithmetic", _arithmetic),
        ("nodes", lambda r: _nodes(r.nodes)),
        ("groups", lambda r: _nodes(r.groups)),
        ("places", _places),
    ):
        lines = list(_made(table, report))
        if lines:
            yield ""
            yield _row(title, lines[0])
            yield from (_row(name, cells) for name, *cells in lines[1:])


def _made(table: Callable[[Report], Iterable[list[str]]], report: Report) -> Iterable[list[str]]:
    return table(report)


def _row(name: str, cells: Sequence[str]) -> str:
    """Return a line of a table; each cell has its width already."""
    return (fit(name, _NAME) + "".join(cells)).rstrip()


def fit(text: str, width: int) -> str:
    """Fit a text to the width of a column; a longer one is truncated."""
    return f"{text:<{width}}" if len(text) < width else f"{text[: width - 4]}... "


def _percent(part: float) -> str:
    return f"{part:>8.1%}"


def _heads(*names: str) -> list[str]:
    return [f"{name:>8}" for name in names]


# -- the verdict -----------------------------------------------------------------------------------


def _verdict(report: Report) -> Iterator[str]:
    clock = f"{report.clock / 1e9:g} GHz"
    stopped = "" if report.complete else ", where the run stopped"
    yield f"time      {int(report.cycles):,} cycles = {_time(report.milliseconds)} at {clock}{stopped}"
    if report.cycles_range is not None:
        ends = f"{int(report.cycles_range.least):,} to {int(report.cycles_range.most):,} cycles"
        yield f"range     {ends}, where figures of the model have the ends of their ranges"
        if (cycles := report.cycles_range.c_runtime) is not None:
            yield f"C runtime {int(cycles):,} cycles, if the vendor's C runtime submits the commands"
    if report.bound is None:
        yield "bound     none: no engine had anything to do"
    else:
        least = next(r.cycles for r in report.resources if r.name == report.bound)
        reached = f"reached {report.reached:.1%} of that"
        yield f"bound     {report.bound}: at its peak {least:,.0f} cycles; {reached}"
    used = f"{report.tiles_used} of {report.tiles} tiles give their engines work"
    yield f"tiles     {used}; tile {report.last_tile} ends last"
    for number, loss in enumerate(report.losses):
        yield from _loss("losses" if number == 0 else "", loss)
    counts = ", ".join(f"{count} {kind}" for kind, count in report.evidence.items())
    yield f"evidence  coefficients behind these times: {counts} (machine {report.machine}, docs/timing.md)"


def _time(milliseconds: float) -> str:
    return f"{milliseconds * 1e3:.3f} us" if milliseconds < 1 else f"{milliseconds:,.3f} ms"


def _loss(head: str, loss: Loss) -> Iterator[str]:
    """Yield a loss, broken into lines between words."""
    line = f"{head:<10}{loss.share:>6.1%}  "
    indent = " " * len(line)
    for word in loss.text.split():
        if len(line) + len(word) > WIDTH:
            yield line.rstrip()
            line = indent
        line += word + " "
    yield line.rstrip()


# -- tables ----------------------------------------------------------------------------------------
# The first line holds the headings; the others a name and the cells.


def _resources(report: Report) -> Iterator[list[str]]:
    figures = {figure.key: figure for figure in report.figures}
    yield [f"{'cycles':>14}", *_heads("of run"), "  peak of one"]
    for resource in sorted(report.resources, key=lambda r: -r.cycles):
        peaks = [_peak(figures[key]) for key in resource.figures]
        yield [resource.name, f"{resource.cycles:>14,.0f}", _percent(resource.share), f"  {peaks[0]}"]
        yield from ([" ", " " * 22, f"  {peak}"] for peak in peaks[1:])


def _peak(figure: Figure) -> str:
    return f"{figure.value:g} {figure.unit} {figure.key} ({figure.evidence})"


def _engines(report: Report) -> Iterator[list[str]]:
    """Yield shares of the run, the mean of the tiles that use an engine."""
    yield [*_heads("busy", "waiting", "bank", "DDR", "NoC", "idle"), f"{'tiles':>7}{'instructions':>16}"]
    for name, rows in _by_engine(report):
        whole = report.cycles * len(rows) or 1
        parts = [(r.busy, sum(r.waiting.values()), r.bank, r.ddr, r.noc, r.idle) for r in rows]
        shares = [_percent(sum(column) / whole) for column in zip(*parts, strict=True)]
        yield [name, *shares, f"{len(rows):>7}{sum(row.instructions for row in rows):>16,}"]


def _by_engine(report: Report) -> list[tuple[str, list[EngineTime]]]:
    """Return the times of each engine that a tile uses, in the order of the tables."""
    rows: dict[str, list[EngineTime]] = {name: [] for name in _ENGINES}
    for row in report.engines:
        rows[row.engine].append(row)
    return [pair for pair in rows.items() if pair[1]]


def _waits(report: Report) -> Iterator[list[str]]:
    """Yield the engines whose older work delays each engine."""
    waited = set().union(*(row.waiting for row in report.engines))
    columns = [name for name in (*_ENGINES, "unknown") if name in waited]
    if not columns:
        return
    yield _heads(*columns)
    for name, rows in _by_engine(report):
        if any(row.waiting for row in rows):
            whole = report.cycles * len(rows)
            parts = [sum(row.waiting.get(column, 0.0) for row in rows) / whole for column in columns]
            yield [name, *map(_percent, parts)]


def _cores(report: Report) -> Iterator[list[str]]:
    """Yield shares of the run: the mean over all tiles, followed by the queues and the engines."""
    yield _heads("executes", "queue", "engines", "DTE", "arrival", "barrier", "program", "ended")
    whole = report.cycles * len(report.cores)
    if whole:
        parts = [_core_parts(core) for core in report.cores]
        yield ["mean", *(_percent(sum(column) / whole) for column in zip(*parts, strict=True))]
        for title, waits in (
            ("queue", [core.queue for core in report.cores]),
            ("engines", [core.engines for core in report.cores]),
        ):
            for name in (*_ENGINES, "unknown"):
                share = sum(wait.get(name, 0.0) for wait in waits) / whole
                if share >= 0.0005:
                    yield [f"  {title}: {name}", _percent(share)]


def _core_parts(core: CoreTime) -> list[float]:
    waits = [sum(core.queue.values()), sum(core.engines.values()), core.dte, core.arrival, core.barrier]
    return [core.executing, *waits, core.program, core.ended]


def _tiles(report: Report) -> Iterator[list[str]]:
    """Yield shares of the run for executing and for busy engines; equal neighbours share a line."""
    names = [name for name in _ENGINES if any(row.engine == name for row in report.engines)]
    yield [*_heads("core", *names), f"{'ends at':>14}"]
    lines: list[tuple[int, list[str]]] = []
    engines = {(row.tile, str(row.engine)): row.busy for row in report.engines}
    for core in report.cores:
        busy = [engines.get((core.tile, name), 0.0) for name in names]
        shares = [_percent(part / (report.cycles or 1)) for part in (core.executing, *busy)]
        lines.append((core.tile, [*shares, f"{report.cycles - core.ended:>14,.0f}"]))
    yield from _merged(lines)


def _merged(lines: Sequence[tuple[int, list[str]]]) -> Iterator[list[str]]:
    first = 0
    for number, (_, cells) in enumerate(lines):
        if number + 1 == len(lines) or lines[number + 1][1] != cells:
            tiles = f"{first}" if first == number else f"{first}..{number}"
            yield [tiles, *cells]
            first = number + 1


def _paths(report: Report) -> Iterator[list[str]]:
    yield [f"{'bytes':>18}{'GB/s':>12}{'peak':>10}{'of peak':>10}"]
    for path in report.paths:
        peak = f"{path.peak / 1e9:>10,.0f}{path.rate / path.peak:>10.1%}" if path.peak else ""
        yield [path.path, f"{path.bytes:>18,}{path.rate / 1e9:>12,.2f}{peak}"]
    for link in report.links[:1]:
        yield [f"  busiest link, {link.source} to {link.target}", f"{link.bytes:>18,}"]


def _arithmetic(report: Report) -> Iterator[list[str]]:
    if report.arithmetic:
        yield [f"{'operations':>18}{'GOP/s':>12}{'peak':>10}{'of peak':>10}"]
    for kind in report.arithmetic:
        rates = f"{kind.rate / 1e9:>12,.2f}{kind.peak / 1e9:>10,.0f}{kind.rate / kind.peak:>10.1%}"
        yield [f"{kind.engine} {kind.format}", f"{kind.operations:>18,}{rates}"]


def _nodes(nodes: Sequence[NodeTime]) -> Iterator[list[str]]:
    """Yield the table of nodes; empty for a program without graph nodes."""
    if not any(node.name for node in nodes):
        return
    yield [
        f"{'cycles':>14}",
        *_heads("of run", "bound", "reached"),
        f"{'DDR bytes':>14}{'operations':>16}",
        "  busiest",
    ]
    for node in nodes:
        engine = max(node.busy, key=lambda name: node.busy[name], default="")
        busiest = f"  {engine} {node.busy[engine] / node.cycles:.0%}" if engine and node.cycles else ""
        share = f"{node.cycles:>14,.0f}{_percent(node.share)}{node.bound or '':>8}"
        counts = f"{node.ddr_bytes:>14,}{node.operations:>16,}"
        reached = f"{'hidden':>8}" if node.reached > 1 else _percent(node.reached)
        yield [node.name or "(no node)", share, reached, counts, busiest]


def _places(report: Report) -> Iterator[list[str]]:
    """Yield cycles of all tiles, by instruction of the text."""
    if report.places:
        yield [f"{'executed':>12}{'busy':>14}{'lost':>14}  instruction, node"]
    for place in report.places[:_PLACES]:
        name = f"{place.file}:{place.line}" if place.file else f"0x{place.address:x}"
        what = ", ".join(part for part in (place.instruction, place.node) if part)
        yield [name, f"{place.count:>12,}{place.busy:>14,.0f}{place.lost:>14,.0f}  {fit(what, 40)}"]
