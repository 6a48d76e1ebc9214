"""Describes the losses beyond the bound: on the tile that ends last, the largest losses first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from emulator.timing.slices import TICKS, Cause, Track

from . import roofline
from .roofline import Work
from .sink import ENGINES, Statistics
from .types import Loss, ResourceName


class _Loss(NamedTuple):
    """A loss in ticks, its cause, and what to try."""

    ticks: float
    text: str
    fix: str


_LEAST_SHARE = 0.01
"""Smaller losses are not reported."""
_MOST = 5
_STRETCHED = {
    Cause.BANK: (
        "takes longer because scratchpad banks or their path are taken",
        "use other banks, or let NE and the DMA engines work meanwhile",
    ),
    Cause.DDR: (
        "takes longer because other tiles use the DDR",
        "keep intermediate results in the scratchpad, and send shared operands from tile to tile",
    ),
    Cause.NOC: ("takes longer because links of the mesh are taken", "copy to neighbours, or at other times"),
}
_LARGER = "use fewer and larger instructions"
_SECOND_BUFFER = "load the next piece into a second buffer while this one is computed"
_CORE_BUSY = "let the core issue fewer and larger instructions, and wait later"
_EVEN = "divide the work evenly among the tiles"
_THE_BOUND: dict[ResourceName, Cause] = {"DDR": Cause.DDR, "NoC": Cause.NOC}
"""Contention for these resources is not a loss when they are the bound."""
_WAITS = {
    Cause.QUEUE: "for room in a queue",
    Cause.DEPENDENCY: "until engines are done",
    Cause.DTE: "for its copies",
    Cause.ARRIVAL: "for what other tiles send",
    Cause.BARRIER: "at barriers",
    Cause.PROGRAM: "for what every program takes",
}
_BELOW_PEAK = {
    Track.CT: "fixed cost of each, functions slower than arithmetic, lines that are not full",
    Track.NE: "fixed cost of each, shapes that do not fill the array",
    Track.RDMA: "fixed cost of each, short runs of DDR",
    Track.WDMA: "fixed cost of each, short runs of DDR",
    Track.TDMA: "fixed cost of each, small blocks",
    Track.DTE: "fixed cost of each copy",
}


def losses(statistics: Statistics, bound: ResourceName | None, used: int) -> list[Loss]:
    """Return at most five losses of one percent or more.

    They overlap, because each is the gain of removing only that loss.
    """
    if bound is None or not statistics.total:
        return []
    tile = statistics.ends.index(statistics.total)
    track = _engine_of(statistics, bound, tile)
    busiest = max(ENGINES, key=lambda engine: int(_times(statistics, tile, engine)[Cause.NOTHING]))
    found = [_below_peak(statistics, tile, engine) for engine in dict.fromkeys((track, busiest))]
    found += [*_held_up(statistics, tile, track, bound), *_uneven(statistics, bound, used)]
    found = [loss for loss in found if loss.ticks >= _LEAST_SHARE * statistics.total]
    found.sort(key=lambda loss: -loss.ticks)
    return [
        Loss(loss.text, float(loss.ticks) / TICKS, float(loss.ticks / statistics.total), loss.fix)
        for loss in found[:_MOST]
    ]


def _times(statistics: Statistics, tile: int, track: Track) -> roofline.Ints:
    """Return ticks by cause."""
    by: roofline.Ints = statistics.times[:, tile, track].sum(axis=0)
    return by


def _engine_of(statistics: Statistics, bound: ResourceName, tile: int) -> Track:
    """Return the engine that uses the resource; for the DDR, the engine that moves most bytes."""
    if bound in Track.__members__:
        return Track[bound]
    if bound == "NoC":
        return Track.DTE
    moved = statistics.moved[:, tile, :, 2:].sum(axis=(0, 2))
    return max(ENGINES, key=lambda track: int(moved[track]))


def _below_peak(statistics: Statistics, tile: int, track: Track) -> _Loss:
    """Return the service time beyond the work's time at peak."""
    served = float(_times(statistics, tile, track)[Cause.NOTHING])
    count = int(statistics.instructions[:, tile, track].sum())
    if track not in _BELOW_PEAK or not count:
        return _Loss(0.0, "", "")
    needed = _needed(statistics, tile, track)
    each = (
        f"{served / count / TICKS:,.0f} cycles for each of {count:,}, {needed / count / TICKS:,.0f} at peak"
    )
    text = f"{track.name} on tile {tile} is slower than its peak ({each}): {_BELOW_PEAK[track]}"
    return _Loss(served - needed, text, _LARGER)


def _needed(statistics: Statistics, tile: int, track: Track) -> float:
    """Return the ticks of an engine's work at peak."""
    machine = statistics.machine
    if track is Track.DTE:
        sent = int(statistics.sent[:, tile].sum()) - int(statistics.sent[:, tile, tile].sum())
        return sent * roofline.per_byte(machine, machine.noc.link_out)
    found = roofline.least(machine, _own_work(statistics, tile), 1)
    return next((need.ticks for name, need in found.items() if name == track.name), 0.0)


def _held_up(statistics: Statistics, tile: int, track: Track, bound: ResourceName) -> Iterator[_Loss]:
    """Yield losses that keep the bound's engine from working."""
    who = f"{track.name} on tile {tile}"
    times = _times(statistics, tile, track)
    for holder in ENGINES:
        held = float(statistics.held[tile, track, holder])
        yield _Loss(held, f"{who} has work that waits for older work of {holder.name}", _SECOND_BUFFER)
    for cause, (text, fix) in _STRETCHED.items():
        if cause is not _THE_BOUND.get(bound):
            yield _Loss(float(times[cause]), f"{who} {text}", fix)
    idle = float(statistics.total - int(times.sum()))
    yield _Loss(idle, f"{who} has nothing to do; its core {_core(statistics, tile)}", _CORE_BUSY)


def _core(statistics: Statistics, tile: int) -> str:
    """Return the three waits, at most, on which the core of a tile spends most of the run."""
    times, total = _times(statistics, tile, Track.CORE), statistics.total
    parts = [(int(times[cause]), f"waits {text}") for cause, text in _WAITS.items()]
    parts.append((statistics.ends[tile] - int(times.sum()), "executes and issues"))
    parts = [part for part in sorted(parts, key=lambda part: -part[0]) if part[0] >= _LEAST_SHARE * total]
    return ", ".join(f"{text} {ticks / total:.0%}" for ticks, text in parts[:3])


def _uneven(statistics: Statistics, bound: ResourceName, used: int) -> Iterator[_Loss]:
    """Yield losses by uneven work: the tile with most work, compared with the mean."""
    if bound in _THE_BOUND:
        return
    machine = statistics.machine
    works = [_own_work(statistics, tile) for tile in range(machine.tiles)]
    needs = [roofline.least(machine, work, 1).get(bound) for work in works]
    ticks = [need.ticks if need else 0.0 for need in needs]
    text = f"tile {ticks.index(max(ticks))} has more work for {bound} than the mean of {used} tiles"
    yield _Loss(max(ticks) - sum(ticks) / used, text, _EVEN)


def _own_work(statistics: Statistics, tile: int) -> Work:
    one, nothing = slice(tile, tile + 1), np.zeros((0, 0), dtype=np.int64)
    return Work(statistics.operations[:, one].sum(axis=0), statistics.moved[:, one].sum(axis=0), nothing)
