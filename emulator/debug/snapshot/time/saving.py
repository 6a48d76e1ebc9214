"""Writes simulated time as records: only the parts in use that do not follow from other parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from emulator.engines import queues
from emulator.tile.moment import Moment
from emulator.timing import layout
from emulator.timing.chip import tile_places
from emulator.timing.saved import SimulationState, TimeState

from ..types import (
    SavedCore,
    SavedFlow,
    SavedInstruction,
    SavedMessage,
    SavedMoment,
    SavedStart,
    SavedTime,
    SavedTransfer,
    SavedUnit,
    SimulatedChip,
    SimulatedTile,
    TileTime,
)

Words = npt.NDArray[np.int64]


def saved_time(state: TimeState) -> SavedTime:
    """Return the records of a state of simulated time."""
    numbers = range(len(state.logs))
    return SavedTime(
        _chip(state.run),
        [_tile_time(state, number) for number in numbers],
        [_chip(replay) for replay in state.replays],
    )


def _tile_time(state: TimeState, number: int) -> TileTime:
    log = state.logs[number]
    return TileTime(
        skipped=log.skipped,
        dropped=log.dropped,
        progress=log.progress,
        efforts=log.efforts,
        came_from=log.came_from,
        before=log.before,
        library=log.library,
        kinds=log.kinds,
        lines=log.lines,
        polled_at=log.polled_at,
        polls=log.polls,
        sent=int(state.sent[number]),
        carried=int(state.carried[number]),
        arrived=state.arrived[number].tolist(),
        seen=state.seen[number].tolist(),
        moment=_moment(state.moments[number]),
        coming=state.coming[number],
    )


def _moment(moment: Moment | None) -> SavedMoment | None:
    if moment is None:
        return None
    return SavedMoment(moment.clock, moment.busy.tolist(), moment.blocked.tolist())


def _chip(state: SimulationState) -> SimulatedChip:
    chip = state.chip
    places = tile_places(chip).tolist()
    size, at = int(chip[layout.H_TILE_WORDS]), int(chip[layout.H_FLOW_AT])
    flows = chip[at:][: int(chip[layout.H_FLOWS]) * layout.FLOW_WORDS].reshape(-1, layout.FLOW_WORDS)
    return SimulatedChip(
        now=int(chip[layout.H_NOW]),
        virtual=int(chip[layout.H_VIRTUAL]),
        since=int(chip[layout.H_SINCE]),
        over=bool(chip[layout.H_OVER]),
        links=chip[int(chip[layout.H_LINKS]) : at].tolist(),
        flows=[SavedFlow(places.index(place), *rest) for place, *rest in flows.tolist()],
        tiles=[
            _tile(chip[place : place + size], place, int(chip[layout.H_WORKERS]), rows)
            for place, rows in zip(places, state.rows, strict=True)
        ],
    )


def _tile(words: Words, place: int, workers: int, rows: Words) -> SimulatedTile:
    engines = words[layout.P_ENGINES : layout.P_ARRIVED].reshape(-1, layout.ENGINE_WORDS)
    begun = {position - place for position in engines[:, layout.E_SLOT].tolist() if position}
    blocks = words[layout.P_QUEUES :].reshape(workers, layout.WORKER_WORDS)
    messages = words[layout.P_COPIES : layout.P_SCALAR].reshape(-1, layout.MESSAGE_WORDS)
    used = np.flatnonzero(messages[:, layout.M_PHASE] != layout.FREE).tolist()
    return SimulatedTile(
        core=_core(words),
        sent=int(words[layout.P_SENT]),
        sent_done=int(words[layout.P_SENT_DONE]),
        path_free=int(words[layout.P_PATH_FREE]),
        path_holder=int(words[layout.P_PATH_HOLDER]),
        union_since=int(words[layout.P_UNION_SINCE]),
        last_end=int(words[layout.P_LAST_END]),
        busy=words[layout.P_BUSY :][: layout.UNITS].tolist(),
        blocked=blocks[:, layout.W_BLOCKED : layout.W_SLOTS].tolist(),
        arrived=words[layout.P_ARRIVED : layout.P_COPIES].tolist(),
        units=[_unit(engine) for engine in engines.tolist()],
        workers=[
            _instructions(block, layout.P_QUEUES + worker * layout.WORKER_WORDS + layout.W_SLOTS, begun)
            for worker, block in enumerate(blocks)
        ],
        messages=[_message(number, messages[number]) for number in used],
        rows=rows.tobytes(),
    )


def _core(words: Words) -> SavedCore:
    """Return the core of a tile; the first row of its log says which unit it waits for."""
    doing, clock, due = words[[layout.P_CORE, layout.P_CLOCK, layout.P_DUE]].tolist()
    waits = doing not in (layout.RUNNING, layout.STARVED, layout.EXITED)
    return SavedCore(
        doing=doing,
        clock=clock,
        due=due,
        holds=bool(words[layout.P_HOLD] != layout.HUGE),
        retired=int(words[layout.P_RETIRED]),
        number=int(words[layout.P_NUMBER]),
        since=int(words[layout.P_SINCE]) if waits else 0,
        freed=int(words[layout.P_FREED]) if waits else -1,
    )


def _unit(engine: Sequence[int]) -> SavedUnit:
    event = layout.HUGE if engine[layout.E_SLOT] else engine[layout.E_EVENT]
    return SavedUnit(event, engine[layout.E_FREE], engine[layout.E_SERVED])


def _instructions(block: Words, first: int, begun: set[int]) -> list[SavedInstruction]:
    """Return the instructions of a worker, in order; ``first`` is the position of its slots in the tile."""
    live = int(block[layout.W_LIVE])
    slots = block[layout.W_SLOTS :].reshape(-1, layout.SLOT_WORDS)
    numbers = [number for number in range(layout.SLOTS) if live >> number & 1]
    numbers.sort(key=lambda number: int(slots[number, layout.S_NUMBER]))
    found = []
    for number in numbers:
        slot = slots[number]
        depends = int(slot[layout.S_DEPENDS])
        found.append(
            SavedInstruction(
                words=_logged(slot).tobytes(),
                number=int(slot[layout.S_NUMBER]),
                issued=int(slot[layout.S_ISSUED]),
                depends=sum(1 << at for at, other in enumerate(numbers) if depends >> other & 1),
                released=int(slot[layout.S_RELEASED]),
                begun=_start(slot) if first + number * layout.SLOT_WORDS in begun else None,
            )
        )
    return found


def _logged(slot: Words) -> Words:
    """Return the words of a slot that come from the log."""
    payload = int(slot[layout.S_RANGES]) * queues.RANGE_WORDS + int(slot[layout.S_FIELDS])
    return np.concatenate([slot[: layout.S_FIELDS + 1], slot[layout.S_PAYLOAD :][:payload]])


def _start(slot: Words) -> SavedStart:
    at = [layout.S_STARTED, layout.S_BLOCKED, layout.S_CAUSE, layout.S_BLOCKER]
    return SavedStart(*slot[at].tolist())


def _message(place: int, message: Words) -> SavedMessage:
    is_copy = message[layout.M_KIND] == layout.COPY
    return SavedMessage(
        place=place,
        phase=int(message[layout.M_PHASE]),
        number=int(message[layout.M_NUMBER]),
        pc=int(message[layout.M_PC]),
        target=int(message[layout.M_TARGET]),
        stream=int(message[layout.M_STREAM]),
        issued=int(message[layout.M_ISSUED]),
        end=int(message[layout.M_END if is_copy else layout.M_EVENT]),
        blocked=int(message[layout.M_BLOCKED]),
        cause=int(message[layout.M_CAUSE]),
        transfer=_transfer(message) if is_copy else None,
    )


def _transfer(message: Words) -> SavedTransfer:
    payload = int(message[layout.M_RANGES]) * queues.RANGE_WORDS + int(message[layout.M_FIELDS])
    return SavedTransfer(
        record=int(message[layout.M_RECORD]),
        size=int(message[layout.M_BYTES]),
        sides=int(message[layout.M_DDR]),
        runs=int(message[layout.M_RUNS]),
        begin=int(message[layout.M_BEGIN]),
        payload=message[layout.M_PAYLOAD :][:payload].tobytes(),
    )
