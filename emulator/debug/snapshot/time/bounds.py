"""Checks that the numbers of simulated time in a saved state can result from a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized

import numpy as np

from emulator.engines import queues, tables
from emulator.tile.tile import Tile
from emulator.timing import layout
from emulator.timing.efforts import lines_of_code
from emulator.timing.slices import Cause

from ..bounds import MOST, expect
from ..types import (
    SavedInstruction,
    SavedMessage,
    SavedMoment,
    SimulatedChip,
    SimulatedTile,
    SnapshotError,
    TileTime,
)
from .restoring import TRANSFERS, engine_of, planned

MOST_TICKS = 1 << 60
"""A time that no run has reached, because it would take decades; another run may last as long."""
_CAUSES = max(Cause)
Expected = tuple[str, int, int, int]
"""Name, value found, smallest and largest value."""


def count(what: str, found: Sized, expected: int, where: str = "") -> None:
    """Raise SnapshotError unless a list of simulated time is as long as expected."""
    expect_all(where, [(f"number of {what}", len(found), expected, expected)])


def expect_all(where: str, found: Iterable[Expected]) -> None:
    """Raise SnapshotError for the first number that is outside its bounds."""
    for what, value, low, high in found:
        expect(f"simulated time{where}, {what}", value, low, high)


# -- the chip ----------------------------------------------------------------------------------------------


def check_chip(saved: SimulatedChip, tiles: int) -> None:
    """Raise SnapshotError for shared state of the tiles of one simulation that no run has reached."""
    count("tiles", saved.tiles, tiles)
    count("links", saved.links, tiles * layout.LINKS)
    expect_all("", [("ticks", saved.now, 0, MOST_TICKS)])
    expect_all(
        "",
        [
            ("virtual time of DDR", saved.virtual, 0, saved.now),
            ("last change of what flows", saved.since, 0, saved.now),
            *(("end of a link's work", end, 0, MOST_TICKS) for end in saved.links),
        ],
    )


def check_flows(saved: SimulatedChip) -> None:
    """Raise SnapshotError unless the flows belong to data moves, and end in a finite time.

    The tiles have been checked before.
    """
    where = ", a flow of DDR"
    for flow in saved.flows:
        expect_all(where, [("share of DDR", flow.demand, 0, layout.WHOLE)])
    demand = max(sum(flow.demand for flow in saved.flows), layout.WHOLE)
    latest = saved.virtual + layout.HUGE // demand
    expect_all(where, [("virtual end", flow.end, 0, latest) for flow in saved.flows])
    if saved.flows:
        left = max(min(flow.end for flow in saved.flows) - saved.virtual, 0)
        end = saved.since - (-left * demand // layout.WHOLE)
        expect_all(where, [("end", end, saved.now, MOST_TICKS)])
    found = [(flow.tile, flow.who) for flow in saved.flows]
    messages, transfers = set(_messages_that_flow(saved)), dict(_transfers(saved))
    for tile, engine in transfers.keys() - found:
        begin = [(f"begin of a transfer of engine {engine}", transfers[tile, engine], saved.now, MOST_TICKS)]
        expect_all(f" of tile {tile}", begin)
    wrong = messages ^ set(found) - transfers.keys()
    if wrong or len(set(found)) != len(found):
        raise SnapshotError(
            "the saved state: simulated time, what flows from or to DDR is not what moves data: (tile, "
            f"engine or message) {sorted(wrong or found)[:4]}"
        )


def _messages_that_flow(saved: SimulatedChip) -> Iterator[tuple[int, int]]:
    for number, tile in enumerate(saved.tiles):
        for one in tile.messages:
            if one.phase == layout.FLOWING:
                yield number, queues.ENGINES + one.place


def _transfers(saved: SimulatedChip) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield engines that move data and have begun an instruction, and the beginning of its data flow."""
    for number, tile in enumerate(saved.tiles):
        for one in (one for worker in tile.workers for one in worker):
            if one.begun is not None and engine_of(one) in TRANSFERS:
                yield (number, engine_of(one)), planned(one, one.begun.started)[0]


# -- a tile ------------------------------------------------------------------------------------------------


def check_tile(saved: SimulatedTile, tile: Tile, chip: SimulatedChip) -> None:
    """Raise SnapshotError for the state of a tile that no run has reached; its rows come first."""
    where, now, tiles = f" of tile {tile.number}", chip.now, len(chip.tiles)
    _check_core(saved, tile, now)
    expect_all(where, _of_tile(saved, now))
    for what, found, many in (
        ("units with a time of work", saved.busy, layout.UNITS),
        ("workers with blocked times", saved.blocked, tile.workers),
        ("streams", saved.arrived, layout.STREAMS),
        ("engines", saved.units, queues.ENGINES),
        ("workers", saved.workers, tile.workers),
    ):
        count(what, found, many, where)
    for row in saved.blocked:
        count("blocked times", row, layout.BLOCKED_UNITS, where)
    times = [*saved.busy, *(ticks for row in saved.blocked for ticks in row)]
    expect_all(where, [("time of work of a unit", ticks, 0, MOST_TICKS) for ticks in times])
    expect_all(where, [("arrivals of a stream", number, 0, MOST) for number in saved.arrived])
    for unit in saved.units:
        low = now if unit.event != layout.HUGE else layout.HUGE
        expect_all(
            f"{where}, an engine",
            [
                ("next event", unit.event, low, max(low, MOST_TICKS)),
                ("free since", unit.free, 0, now),
                ("worker served last", unit.served, 0, tile.workers - 1),
            ],
        )
    for worker in saved.workers:
        _check_worker(worker, saved, where, now)
    _check_engines(saved, where)
    _check_messages(saved, where, now, tiles)


def _of_tile(saved: SimulatedTile, now: int) -> Iterator[Expected]:
    yield "copies sent", saved.sent, 0, MOST
    yield "copies that have arrived", saved.sent_done, 0, saved.sent
    yield "path of CT and TDMA taken until", saved.path_free, 0, MOST_TICKS
    yield "instruction that had the path last", saved.path_holder, -1, saved.core.number - 1
    yield "at work since", saved.union_since, 0, now
    yield "end of its last work", saved.last_end, 0, now


_AT = {
    layout.FOR_ROOM: (layout.ENGINE,),
    layout.FOR_WORKER: (layout.WAIT, layout.SEEN),
    layout.FOR_RESULT: (layout.RESULT,),
    layout.FOR_COPIES: (layout.AWAIT,),
    layout.FOR_MESSAGE: (layout.COPY, layout.UPDATE),
    layout.FOR_ARRIVAL: (layout.ARRIVAL,),
    layout.AT_BARRIER: (layout.BARRIER,),
    layout.LEAVING: (layout.EXIT,),
    layout.RUNNING: tuple(kind for kind in range(layout.EXIT + 1) if kind != layout.PROGRESS),
}
"""The kinds of rows at which a core does something. A core without a row is starved or has exited."""


def _check_core(saved: SimulatedTile, tile: Tile, now: int) -> None:
    core, where = saved.core, f" of tile {tile.number}, its core"
    expect_all(where, [("what it does", core.doing, 0, layout.EXITED)])
    timed = core.doing in (layout.RUNNING, layout.LEAVING)
    due = (now, MOST_TICKS) if timed else (layout.HUGE, layout.HUGE)
    expect_all(
        where,
        [
            ("its number of instructions", core.number, 0, MOST),
            ("clock", core.clock, 0, MOST_TICKS),
            ("next event", core.due, *due),
            ("whether it holds back others", core.holds, 0, int(core.doing == layout.STARVED)),
            ("instructions executed", core.retired, 0, tile.retired + 1),
            ("waiting since", core.since, 0, now),
            ("instruction that ended last", core.freed, -1, core.number - 1),
        ],
    )
    kind = int(np.frombuffer(saved.rows, np.int64)[layout.L_KIND]) & 255 if saved.rows else None
    if core.doing in _AT and kind not in _AT[core.doing]:
        raise SnapshotError(
            f"the saved state: simulated time{where}: it does {core.doing} at "
            f"{'no row' if kind is None else f'a row of kind {kind}'} of its log, expected one of "
            f"{', '.join(map(str, _AT[core.doing]))}"
        )


def _check_worker(worker: list[SavedInstruction], saved: SimulatedTile, where: str, now: int) -> None:
    """Check the instructions of a worker: they are in order, and none waits for a younger one."""
    newest, where = saved.core.number - 1, f"{where}, an instruction"
    expect_all(where, [("how many a worker has", len(worker), 0, layout.SLOTS)])
    before = -1
    for at, one in enumerate(worker):
        expect_all(
            where,
            [
                ("number", one.number, before + 1, newest),
                ("issued", one.issued, 0, now),
                ("older ones it waits for", one.depends, 0, 0 if one.begun else (1 << at) - 1),
                ("the one that it waited for last", one.released, -1, newest),
            ],
        )
        before = one.number
        if one.begun is None:
            continue
        expect_all(where, [("begun", one.begun.started, one.issued, now)])
        end = planned(one, one.begun.started)[1]
        transfer = engine_of(one) in TRANSFERS
        expect_all(
            where,
            [
                ("its end", end, 0 if transfer else now, MOST_TICKS),
                ("time lost", one.begun.blocked, 0, MOST_TICKS),
                ("cause of lost time", one.begun.cause, 0, _CAUSES),
                ("the one that has blocked it", one.begun.blocker, -1, newest),
            ],
        )


def _check_engines(saved: SimulatedTile, where: str) -> None:
    """Check that an engine executes one instruction at a time."""
    begun = [engine_of(one) for worker in saved.workers for one in worker if one.begun is not None]
    for engine in range(queues.ENGINES):
        expect_all(where, [(f"instructions that engine {engine} executes", begun.count(engine), 0, 1)])


def _check_messages(saved: SimulatedTile, where: str, now: int, tiles: int) -> None:
    before, where_all, where = -1, where, f"{where}, a copy on its way"
    for one in saved.messages:
        expect_all(where, [("place", one.place, before + 1, layout.MOST_MESSAGES - 1)])
        before = one.place
        expect_all(where, _of_message(one, saved.core.number, now, tiles))
    copies = sum(one.transfer is not None for one in saved.messages)
    on_way = saved.sent - saved.sent_done
    expect_all(where_all, [("number of copies on their way", copies, on_way, on_way)])


def _of_message(one: SavedMessage, newest: int, now: int, tiles: int) -> Iterator[Expected]:
    is_copy = one.transfer is not None
    moves = one.transfer is not None and one.transfer.sides != 0
    yield "phase", one.phase, layout.BEFORE_FLOW if moves else layout.AT_WORK, layout.AT_WORK
    yield "number", one.number, 0, newest
    yield "program counter", one.pc, 0, MOST
    yield "target", one.target, 0, tiles - 1
    yield "stream", one.stream, -1 if is_copy else 0, layout.STREAMS - 1
    yield "issued", one.issued, 0, now
    yield "end", one.end, now if one.phase == layout.AT_WORK else 0, MOST_TICKS
    yield "time lost", one.blocked, 0, MOST_TICKS
    yield "cause of lost time", one.cause, 0, _CAUSES
    if one.transfer is not None:
        waits = one.phase == layout.BEFORE_FLOW
        yield "begin", one.transfer.begin, now if waits else 0, MOST_TICKS


# -- besides the simulation --------------------------------------------------------------------------------


def check_tile_time(saved: TileTime, tile: Tile, tiles: int, words: int) -> None:
    """Raise SnapshotError for a record of a tile that no run makes; ``words`` are those of its log."""
    where = f" of tile {tile.number}"
    count("streams that have arrived", saved.arrived, layout.STREAMS, where)
    count("streams that were seen", saved.seen, layout.STREAMS, where)
    count("kinds of commands", saved.kinds, len(tables.records()), where)
    count("lines of code", saved.lines, lines_of_code(tile), where)
    expect_all(where, _of_log(saved, tile.retired, words))
    for at, executed in saved.polls.items():
        expect_all(
            f"{where}, a poll", [("address", at, 0, MOST), ("instructions before", executed, 0, tile.retired)]
        )
    for seen, arrived in zip(saved.seen, saved.arrived, strict=True):
        expect_all(where, [("arrivals", arrived, 0, MOST), ("arrivals seen", seen, 0, arrived)])
    for target, stream in saved.coming:
        expect_all(
            f"{where}, what it has sent",
            [("target", target, 0, tiles - 1), ("stream", stream, 0, layout.STREAMS - 1)],
        )
    if saved.moment is not None:
        _check_moment(saved.moment, tile.workers, where)


def _of_log(saved: TileTime, retired: int, words: int) -> Iterator[Expected]:
    yield "words of its log", words, 0, layout.LOG_WORDS - layout.LOG_MARGIN
    yield "instructions without time", saved.skipped, 0, retired
    yield "words worked off", saved.dropped, 0, MOST
    yield "words of progress", saved.progress, 0, saved.dropped + words
    yield "words of efforts", saved.efforts, 0, saved.dropped + words
    yield "program counter at its last row", saved.came_from, 0, MOST
    yield "instructions before its last row", saved.before, 0, retired
    yield "instructions up to its place in the library", saved.library, -1, retired
    yield "words before the last poll", saved.polled_at, -1, MOST
    yield "copies sent", saved.sent, 0, MOST
    yield "copies carried out", saved.carried, 0, saved.sent


def _check_moment(saved: SavedMoment, workers: int, where: str) -> None:
    count("units of a moment", saved.busy, layout.UNITS, where)
    count("workers of a moment", saved.blocked, workers, where)
    for row in saved.blocked:
        count("blocked times of a moment", row, layout.BLOCKED_UNITS, where)
    times = [saved.clock, *saved.busy, *(ticks for row in saved.blocked for ticks in row)]
    expect_all(where, [("a time that its program reads", ticks, 0, MOST_TICKS) for ticks in times])
