"""The statistics of a run as a ``types.Report``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from emulator.engines import tables
from emulator.tile.tile import Status, Tile, TileTotals
from emulator.timing.slices import TICKS, Cause, Track
from tx8isa.machine.description import Machine
from tx8isa.machine.figures import Coefficient
from tx8isa.records.record import Engine

from . import roofline
from .losses import losses
from .roofline import Least, Work
from .sink import MOVED, Statistics
from .types import (
    Arithmetic,
    By,
    CoreTime,
    CyclesRange,
    EngineName,
    EngineTime,
    Executed,
    Figure,
    Link,
    NodeTime,
    Path,
    Place,
    Report,
    Resource,
    ResourceName,
)

Ints = npt.NDArray[np.int64]

_MOST_PLACES = 50
UNKNOWN = "unknown"
_NAMES = [*(track.name for track in Track), UNKNOWN]


def cycles(ticks: float) -> float:
    """Return the cycles of a time in ticks."""
    return float(ticks) / TICKS


def make_report(
    statistics: Statistics, tiles: Sequence[Tile | TileTotals], groups: Mapping[str, str] | None = None
) -> Report:
    """Return the report of a finished run. ``groups``: the group of each graph node that has one."""
    machine, total = statistics.machine, statistics.total
    used = max(int((statistics.instructions[:, :, : Track.CORE].sum(axis=(0, 2)) > 0).sum()), 1)
    least = roofline.least(machine, _work(statistics, slice(None)), used)
    bound = _bound(least)
    counts = np.sum([tile.counts for tile in tiles], axis=0)
    nodes = list(_nodes(statistics, used))
    return Report(
        machine=machine.name,
        complete=all(t.status is Status.EXITED for t in tiles),
        clock=machine.engines.clock.value,
        cycles=cycles(total),
        cycles_range=_range(statistics),
        milliseconds=cycles(total) / machine.engines.clock.value * 1e3,
        last_tile=last_tile(statistics),
        tiles=machine.tiles,
        tiles_used=used,
        instructions=sum(tile.retired for tile in tiles),
        engine_instructions=int(counts[:, 0].sum()),
        bound=bound,
        reached=_share(least[bound].ticks, total) if bound else 0.0,
        resources=[
            Resource(name, cycles(need.ticks), _share(need.ticks, total), [peak.key for peak in need.peaks])
            for name, need in least.items()
        ],
        losses=losses(statistics, bound, used),
        engines=list(_engines(statistics)),
        cores=list(_cores(statistics)),
        paths=list(_paths(statistics, used)),
        arithmetic=list(_arithmetic(statistics, used)),
        links=_links(statistics),
        nodes=nodes,
        groups=list(_groups(nodes, groups or {})),
        places=_places(statistics),
        executed=list(_executed(counts)),
        figures=_figures(least),
        evidence=_evidence(statistics),
    )


def _range(statistics: Statistics) -> CyclesRange | None:
    """Return the range of the run's time, if it was asked for and the run is over."""
    ends = statistics.range
    if ends is None or ends.least is None or ends.most is None:
        return None
    return CyclesRange(ends.least, ends.most, ends.c_runtime)


def last_tile(statistics: Statistics) -> int:
    """Return the tile that ends last; of several the lowest."""
    return statistics.ends.index(statistics.total)


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


def _bound(least: Mapping[ResourceName, Least]) -> ResourceName | None:
    order: list[ResourceName] = sorted(least, key=lambda name: -least[name].ticks)
    return order[0] if order else None


def _work(statistics: Statistics, nodes: slice) -> Work:
    parts = (statistics.operations, statistics.moved, statistics.sent)
    return Work(*(part[nodes].sum(axis=0) for part in parts))


# -- time ------------------------------------------------------------------------------------------


def _engines(statistics: Statistics) -> Iterator[EngineTime]:
    instructions = statistics.instructions.sum(axis=0)
    used = np.nonzero(instructions[:, : Track.CORE])  # tile by tile, in the order of the engines
    ticks, held = statistics.times.sum(axis=0)[used], statistics.held[used].tolist()
    idle = np.maximum(statistics.total - ticks.sum(axis=1), 0)
    figures = [ticks[:, cause] for cause in (Cause.NOTHING, Cause.BANK, Cause.DDR, Cause.NOC)]
    columns = [*used, instructions[used], *(column / TICKS for column in (*figures, idle))]
    for row, by in zip(zip(*(column.tolist() for column in columns), strict=True), held, strict=True):
        tile, track, count, busy, bank, ddr, noc, rest = row
        yield EngineTime(tile, cast(EngineName, _NAMES[track]), count, busy, _by(by), bank, ddr, noc, rest)


def _cores(statistics: Statistics) -> Iterator[CoreTime]:
    times = statistics.times[:, :, Track.CORE].sum(axis=0).tolist()
    held, queued = statistics.held[:, Track.CORE].tolist(), statistics.queued.tolist()
    worked = (statistics.instructions.sum(axis=(0, 2)) > 0).tolist()
    every = round(statistics.machine.timing.core.program.value * TICKS)
    for tile, end in enumerate(statistics.ends):
        by = times[tile]
        program = by[Cause.PROGRAM] if worked[tile] else min(end, every)
        waits = sum(by) - by[Cause.PROGRAM] + program
        yield CoreTime(
            tile,
            cycles(max(end - waits, 0)),
            _by(queued[tile]),
            _by(held[tile]),
            cycles(by[Cause.DTE]),
            cycles(by[Cause.ARRIVAL]),
            cycles(by[Cause.BARRIER]),
            cycles(program),
            cycles(statistics.total - end),
        )


def _by(ticks: Sequence[int]) -> By:
    """Return cycles by the name of the track, without zeros."""
    return {name: value / TICKS for name, value in zip(_NAMES, ticks, strict=True) if value}


# -- work ------------------------------------------------------------------------------------------


def _paths(statistics: Statistics, used: int) -> Iterator[Path]:
    """Yield bytes on each path that was used."""
    machine, moved = statistics.machine, statistics.moved.sum(axis=(0, 1))
    for name, size, peak, units in _ways(machine, moved, statistics.sent.sum(axis=0), used):
        if size:
            rate = size / cycles(statistics.total) * machine.engines.clock.value if statistics.total else 0.0
            most = None
            if peak is not None:
                most = units * TICKS / roofline.per_byte(machine, peak.figure) * machine.engines.clock.value
            yield Path(name, size, rate, most, peak.key if peak else None)


def _ways(
    machine: Machine, moved: Ints, sent: Ints, used: int
) -> Iterator[tuple[str, int, roofline.Peak | None, int]]:
    """Yield (path, bytes, peak of one link, number of links)."""
    peaks = {name: peak for name, (_, peak) in roofline.transfer_peaks(machine).items()}
    spm_read, spm_written, ddr_read, ddr_written = range(len(MOVED))
    whole = moved.sum(axis=0)
    ddr = int(whole[ddr_read] + whole[ddr_written])
    yield "DDR to SPM (RDMA)", int(moved[Track.RDMA, ddr_read]), peaks["RDMA"], used
    yield "SPM to DDR (WDMA)", int(moved[Track.WDMA, ddr_written]), peaks["WDMA"], used
    yield "SPM to SPM (TDMA)", int(moved[Track.TDMA, spm_written]), peaks["TDMA"], used
    own = int(np.trace(sent))
    link = roofline.Peak("noc.link_out", machine.noc.link_out)
    yield "tile to tile (DTE)", int(sent.sum()) - own, link, used
    yield "inside a tile (DTE)", own, None, 1
    yield "DDR, all engines", ddr, roofline.Peak("ddr.nominal", machine.ddr.nominal), 1
    for track in (Track.NE, Track.CT):
        yield f"operands of {track.name}", int(moved[track, spm_read]), None, 1
        yield f"results of {track.name}", int(moved[track, spm_written]), None, 1


def _arithmetic(statistics: Statistics, used: int) -> Iterator[Arithmetic]:
    machine, clock = statistics.machine, statistics.machine.engines.clock.value
    for number, count in enumerate(statistics.operations.sum(axis=(0, 1)).tolist()[: roofline.CLASSES - 1]):
        if count:
            peak = used * TICKS / roofline.class_ticks(machine, number) * clock
            key = roofline.class_peak(machine, number).key
            rate = count / cycles(statistics.total) * clock if statistics.total else 0.0
            engine = cast(Literal["NE", "CT"], roofline.class_engine(number).upper())
            yield Arithmetic(engine, key.rpartition(".")[2], count, rate, peak, key)


def _links(statistics: Statistics) -> list[Link]:
    """Return the used links, the busiest first."""
    found = roofline.link_bytes(statistics.machine, statistics.sent.sum(axis=0))
    rows = [Link(source, target, size) for (source, target), size in sorted(found.items())]
    return sorted(rows, key=lambda link: -link.bytes)


def _places(statistics: Statistics) -> list[Place]:
    """Return the instructions of the text that took longest."""
    places, image = statistics.places, statistics.image
    times = statistics.place_times[: len(places.pcs)]
    order = np.lexsort((places.pcs, -times.sum(axis=1)))[:_MOST_PLACES]
    columns = (places.pcs, statistics.place_record, places.node, statistics.place_instructions)
    figures = (times[order, Cause.NOTHING] / TICKS, times[order, 1:].sum(axis=1) / TICKS)
    rows = zip(*(values.tolist() for values in (*(c[order] for c in columns), *figures)), strict=True)
    found = []
    for pc, record, node, count, busy, lost in rows:
        file, line = image.lines.get(pc, (None, None))
        mnemonic = tables.records()[record - 1].mnemonic if record else ""
        found.append(Place(pc, file, line, mnemonic, places.names[node], count, busy, lost))
    return found


def _executed(counts: Ints) -> Iterator[Executed]:
    for number in np.argsort(-counts[:, 0], kind="stable").tolist():
        if counts[number, 0]:
            yield Executed(tables.records()[number].mnemonic, *counts[number, :3].tolist())


# -- nodes -----------------------------------------------------------------------------------------


def _nodes(statistics: Statistics, used: int) -> Iterator[NodeTime]:
    """Yield the nodes in the order in which they first ran, code without a node last."""
    tile, names = last_tile(statistics), statistics.places.names
    finished = statistics.finish.ticks[:, tile].tolist()
    served = statistics.times[:, tile, : Track.CORE, Cause.NOTHING].tolist()
    instructions = statistics.instructions.sum(axis=(1, 2)).tolist()
    ddr = statistics.moved[..., 2:].sum(axis=(1, 2, 3)).tolist()
    operations = statistics.operations.sum(axis=(1, 2)).tolist()
    for number in [*range(1, len(names)), 0]:
        ticks = finished[number]
        if not (ticks or instructions[number]):
            continue
        least = roofline.least(statistics.machine, _work(statistics, slice(number, number + 1)), used)
        bound = _bound(least)
        yield NodeTime(
            names[number],
            cycles(ticks),
            _share(ticks, statistics.total),
            bound,
            _share(least[bound].ticks, ticks) if bound else 0.0,
            {name: cycles(need.ticks) for name, need in least.items()},
            _by([*served[number], 0, 0]),
            instructions[number],
            ddr[number],
            operations[number],
        )


def _groups(nodes: Sequence[NodeTime], groups: Mapping[str, str]) -> Iterator[NodeTime]:
    """Yield the nodes of each group together, without nodes that have no group."""
    for group in dict.fromkeys(groups[node.name] for node in nodes if node.name in groups):
        members = [node for node in nodes if groups.get(node.name) == group]
        resources = cast(dict[ResourceName, float], _sum(node.resources for node in members))
        time = sum(node.cycles for node in members)
        bound = max(resources, key=lambda name: resources[name], default=None)
        yield NodeTime(
            group,
            time,
            sum(node.share for node in members),
            bound,
            _share(resources[bound], time) if bound else 0.0,
            cast(By, resources),
            _sum(node.busy for node in members),
            sum(node.instructions for node in members),
            sum(node.ddr_bytes for node in members),
            sum(node.operations for node in members),
        )


def _sum(parts: Iterator[By]) -> By:
    whole: By = {}
    for part in parts:
        for name, value in part.items():
            whole[name] = whole.get(name, 0.0) + value
    return whole


# -- origin of the figures -------------------------------------------------------------------------


def _figures(least: Mapping[ResourceName, Least]) -> list[Figure]:
    """Return every peak that the report uses."""
    found = {peak.key: peak.figure for need in least.values() for peak in need.peaks}
    return [Figure(key, f.value, f.unit, f.source, f.evidence) for key, f in sorted(found.items())]


def _evidence(statistics: Statistics) -> dict[str, int]:
    """Count, by evidence, the coefficients of the model of time that the run used."""
    timing, instructions = statistics.machine.timing, statistics.instructions.sum(axis=(0, 1))
    groups = [timing.core, timing.issue, timing.spm]
    groups += [getattr(timing, e.name.lower()) for e in Engine if e < Track.CORE and instructions[e]]
    if statistics.times[:, :, Track.CORE, Cause.BARRIER].any():
        groups.append(timing.barrier)
    if instructions[Track.RDMA] or instructions[Track.WDMA]:
        groups.append(timing.ddr)
    counts: dict[str, int] = {}
    for figure in (f for group in groups for f in _coefficients(group)):
        counts[figure.evidence] = counts.get(figure.evidence, 0) + 1
    return {kind: counts[kind] for kind in ("spec", "board", "inferred", "assumed") if kind in counts}


def _coefficients(table: object) -> Iterator[Coefficient]:
    for name in getattr(table, "__struct_fields__", ()):
        value = getattr(table, name)
        if isinstance(value, Coefficient):
            yield value
        else:
            yield from _coefficients(value)
