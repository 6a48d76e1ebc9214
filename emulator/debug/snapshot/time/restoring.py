"""Restores simulated time from records: the words of the simulation, and everything that follows from the
records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from emulator.engines import queues
from emulator.tile.moment import Moment
from emulator.timing import layout
from emulator.timing.chip import make_chip, tile_places
from emulator.timing.flows import find_next
from emulator.timing.saved import LogState, SimulationState, TimeState
from tx8isa.machine.description import Machine
from tx8isa.records.record import Engine

from ..types import (
    SavedCore,
    SavedInstruction,
    SavedMessage,
    SavedMoment,
    SavedTime,
    SavedUnit,
    SimulatedChip,
    SimulatedTile,
)

Words = npt.NDArray[np.int64]

TRANSFERS = (Engine.RDMA, Engine.WDMA)
"""Engines whose data flow from or to DDR."""


def engine_of(saved: SavedInstruction) -> int:
    """Return the engine of an instruction."""
    return int(np.frombuffer(saved.words, np.int64)[layout.S_ENGINE])


def planned(saved: SavedInstruction, started: int) -> tuple[int, int]:
    """Return the beginning of a started instruction's data phase, and its end on an idle chip."""
    words = np.frombuffer(saved.words, np.int64)
    ready = started + int(words[layout.S_FIXED])
    return ready, ready + int(words[layout.S_DATA])


def restored_time(saved: SavedTime, machine: Machine) -> TimeState:
    """Return the simulated time that records describe, which a run left or ``bounds`` has checked."""
    tiles = saved.tiles
    return TimeState(
        run=_simulation(saved.run, machine),
        logs=[
            LogState(
                t.skipped,
                t.dropped,
                t.progress,
                t.efforts,
                t.came_from,
                t.before,
                t.library,
                t.kinds,
                t.lines,
                t.polled_at,
                t.polls,
            )
            for t in tiles
        ],
        sent=np.array([tile.sent for tile in tiles], np.int64),
        carried=np.array([tile.carried for tile in tiles], np.int64),
        arrived=np.array([tile.arrived for tile in tiles], np.int64),
        seen=np.array([tile.seen for tile in tiles], np.int64),
        moments=[None if tile.moment is None else _moment(tile.moment) for tile in tiles],
        coming=[tile.coming for tile in tiles],
        replays=[_simulation(replay, machine) for replay in saved.replays],
    )


def _moment(saved: SavedMoment) -> Moment:
    return Moment(saved.clock, np.array(saved.busy, np.int64), np.array(saved.blocked, np.int64))


def _simulation(saved: SimulatedChip, machine: Machine) -> SimulationState:
    chip = make_chip(machine)
    places, size = tile_places(chip).tolist(), int(chip[layout.H_TILE_WORDS])
    chip[[layout.H_NOW, layout.H_VIRTUAL, layout.H_SINCE]] = saved.now, saved.virtual, saved.since
    chip[layout.H_OVER] = saved.over
    chip[int(chip[layout.H_LINKS]) : int(chip[layout.H_FLOW_AT])] = saved.links
    _put_flows(chip, saved, places)
    for number, tile in enumerate(saved.tiles):
        flowing = {flow.who for flow in saved.flows if flow.tile == number}
        _put_tile(chip[places[number] :][:size], places[number], tile, flowing)
    rows = [np.frombuffer(tile.rows, np.int64).copy() for tile in saved.tiles]
    return SimulationState(chip, rows)


def _put_flows(chip: Words, saved: SimulatedChip, places: Sequence[int]) -> None:
    """Restore the flows, and the end of the first, which was found when they last changed."""
    at = int(chip[layout.H_FLOW_AT])
    for flow in saved.flows:
        chip[at : at + layout.FLOW_WORDS] = places[flow.tile], flow.who, flow.end, flow.demand
        at += layout.FLOW_WORDS
    chip[layout.H_FLOWS] = len(saved.flows)
    chip[layout.H_DEMAND] = sum(flow.demand for flow in saved.flows)
    chip[layout.H_NOW] = saved.since
    find_next(chip.ctypes.data)
    chip[layout.H_NOW] = saved.now


def _put_tile(words: Words, place: int, saved: SimulatedTile, flowing: set[int]) -> None:
    row = np.frombuffer(saved.rows, np.int64)
    _put_core(words, saved.core, row)
    words[[layout.P_SENT, layout.P_SENT_DONE]] = saved.sent, saved.sent_done
    words[[layout.P_PATH_FREE, layout.P_PATH_HOLDER]] = saved.path_free, saved.path_holder
    words[[layout.P_UNION_SINCE, layout.P_LAST_END]] = saved.union_since, saved.last_end
    words[layout.P_BUSY : layout.P_BUSY + layout.UNITS] = saved.busy
    words[layout.P_ARRIVED : layout.P_COPIES] = saved.arrived
    for engine, unit in enumerate(saved.units):
        _put_unit(words, engine, unit)
    for worker, instructions in enumerate(saved.workers):
        _put_worker(words, place, worker, instructions, flowing)
        at = layout.P_QUEUES + worker * layout.WORKER_WORDS + layout.W_BLOCKED
        words[at : at + layout.BLOCKED_UNITS] = saved.blocked[worker]
    for message in saved.messages:
        _put_message(words, message)
    words[layout.P_MESSAGES] = len(saved.messages)
    events = words[layout.P_COPIES : layout.P_SCALAR].reshape(-1, layout.MESSAGE_WORDS)[:, layout.M_EVENT]
    words[layout.P_MESSAGE_NEXT] = events.min()
    engines = words[layout.P_ENGINES : layout.P_ARRIVED].reshape(-1, layout.ENGINE_WORDS)
    words[layout.P_NEXT] = min(saved.core.due, engines[:, layout.E_EVENT].min(), events.min())


def _put_core(words: Words, saved: SavedCore, row: Words) -> None:
    for at, value in (
        (layout.P_CORE, saved.doing),
        (layout.P_CLOCK, saved.clock),
        (layout.P_DUE, saved.due),
        (layout.P_HOLD, saved.clock if saved.holds else layout.HUGE),
        (layout.P_RETIRED, saved.retired),
        (layout.P_NUMBER, saved.number),
        (layout.P_SINCE, saved.since),
        (layout.P_FREED, saved.freed),
    ):
        words[at] = value
    words[[layout.P_FOR, layout.P_COUNT]] = _waits_for(saved.doing, row)


def _waits_for(doing: int, row: Words) -> tuple[int, int]:
    """Return the object that a core waits for, and the amount, from its row."""
    if doing == layout.FOR_ROOM:
        return row[layout.L_WORKER], row[layout.L_ENGINE]
    if doing in (layout.FOR_WORKER, layout.FOR_RESULT):
        return row[layout.L_WORKER], 0
    if doing == layout.FOR_COPIES:
        return 0, row[layout.L_FIRST]
    if doing == layout.FOR_ARRIVAL:
        return row[layout.L_FIRST], row[layout.L_SECOND]
    return (row[layout.L_FIRST], 0) if doing == layout.AT_BARRIER else (0, 0)


def _put_unit(words: Words, engine: int, saved: SavedUnit) -> None:
    at = layout.P_ENGINES + engine * layout.ENGINE_WORDS
    words[at + layout.E_EVENT], words[at + layout.E_FREE] = saved.event, saved.free
    words[at + layout.E_SERVED] = saved.served


def _put_worker(
    words: Words, place: int, worker: int, instructions: list[SavedInstruction], flowing: set[int]
) -> None:
    """Restore the slots of a worker, and its engines' queues, in the order of the instructions."""
    queue = layout.P_QUEUES + worker * layout.WORKER_WORDS
    words[queue + layout.W_LIVE] = (1 << len(instructions)) - 1
    words[queue + layout.W_COUNT] = len(instructions)
    waiting: dict[int, list[int]] = {}
    for number, one in enumerate(instructions):
        slot = queue + layout.W_SLOTS + number * layout.SLOT_WORDS
        _put_slot(words[slot : slot + layout.SLOT_WORDS], one)
        engine = engine_of(one)
        if one.begun is None:
            waiting.setdefault(engine, []).append(place + slot)
        else:
            _begin(words, place + slot, worker, engine, planned(one, one.begun.started), engine in flowing)
    for engine, slots in waiting.items():
        words[queue + layout.W_HEADS + engine], words[queue + layout.W_TAILS + engine] = slots[0], slots[-1]
        words[queue + layout.W_PENDING + engine] = len(slots)
        words[layout.P_PENDING] += len(slots)
        for slot, follower in pairwise(slots):
            words[slot - place + layout.S_FOLLOWER] = follower


def _put_slot(slot: Words, saved: SavedInstruction) -> None:
    found = np.frombuffer(saved.words, np.int64)
    slot[: layout.S_FIELDS + 1] = found[: layout.S_FIELDS + 1]
    slot[layout.S_PAYLOAD :][: found.size - layout.S_FIELDS - 1] = found[layout.S_FIELDS + 1 :]
    slot[[layout.S_NUMBER, layout.S_ISSUED]] = saved.number, saved.issued
    slot[[layout.S_DEPENDS, layout.S_RELEASED]] = saved.depends, saved.released
    if saved.begun is not None:
        slot[[layout.S_STARTED, layout.S_BLOCKED]] = saved.begun.started, saved.begun.blocked
        slot[[layout.S_CAUSE, layout.S_BLOCKER]] = saved.begun.cause, saved.begun.blocker


def _begin(words: Words, slot: int, worker: int, engine: int, times: tuple[int, int], flows: bool) -> None:
    """Mark the instruction in the slot at a position of the chip as begun by an engine."""
    at = layout.P_ENGINES + engine * layout.ENGINE_WORDS
    phase, event = layout.AT_WORK, times[1]
    if engine in TRANSFERS:
        phase, event = (layout.FLOWING, layout.HUGE) if flows else (layout.BEFORE_FLOW, times[0])
    words[at + layout.E_SLOT], words[at + layout.E_WORKER] = slot, worker
    words[at + layout.E_PHASE], words[at + layout.E_EVENT] = phase, event
    words[at + layout.E_FLOWING] = times[0]
    words[layout.P_RUNNING] += 1


def _put_message(words: Words, saved: SavedMessage) -> None:
    at = layout.P_COPIES + saved.place * layout.MESSAGE_WORDS
    message = words[at : at + layout.MESSAGE_WORDS]
    for word, value in _message_words(saved):
        message[word] = value
    if saved.transfer is not None:
        payload = np.frombuffer(saved.transfer.payload, np.int64)
        message[layout.M_PAYLOAD : layout.M_PAYLOAD + payload.size] = payload


def _message_words(saved: SavedMessage) -> Iterator[tuple[int, int]]:
    transfer = saved.transfer
    yield layout.M_KIND, layout.UPDATE if transfer is None else layout.COPY
    yield layout.M_PHASE, saved.phase
    yield layout.M_NUMBER, saved.number
    yield layout.M_PC, saved.pc
    yield layout.M_TARGET, saved.target
    yield layout.M_STREAM, saved.stream
    yield layout.M_ISSUED, saved.issued
    yield layout.M_BLOCKED, saved.blocked
    yield layout.M_CAUSE, saved.cause
    yield layout.M_END, saved.end
    yield layout.M_EVENT, _message_event(saved)
    if transfer is not None:
        yield layout.M_RECORD, transfer.record
        yield layout.M_BYTES, transfer.size
        yield layout.M_DDR, transfer.sides
        yield layout.M_RUNS, transfer.runs
        yield layout.M_BEGIN, transfer.begin
        yield layout.M_RANGES, RANGES_OF_A_COPY
        yield layout.M_FIELDS, len(transfer.payload) // 8 - RANGES_OF_A_COPY * queues.RANGE_WORDS


RANGES_OF_A_COPY = 2
"""One range that a copy reads and one that it writes."""


def _message_event(saved: SavedMessage) -> int:
    """Return the time at which a message needs attention next; a message that flows depends on DDR."""
    if saved.phase == layout.FLOWING:
        return layout.HUGE
    if saved.phase == layout.BEFORE_FLOW and saved.transfer is not None:
        return saved.transfer.begin
    return saved.end
