"""Simulated time in saved states with impossible numbers: it is refused in one line, or the run ends."""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dte_harness import EXIT
from emulator.chip import system as rounds
from emulator.chip.pause import Pause
from emulator.chip.system import System
from emulator.debug.snapshot.chip import restore
from emulator.debug.snapshot.types import SavedMoment, Snapshot, SnapshotError
from emulator.memory import state as state_words
from emulator.tile.fault import Fault
from emulator.tile.tile import Status
from emulator.timing import layout
from emulator.timing.replay import TimeRange
from emulator.timing.simulator import StandstillError
from saved_runs import FOUR, PROGRAMS, build, through_file
from tx8isa.errors import Tx8Error

# --- numbers that no run has reached -----------------------------------------------------------------------


@cache
def state() -> Snapshot:
    """Flowing transfers, instructions that wait for them, copies in transit, rows, and the range."""
    text, machine = PROGRAMS["busy"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "QUANTUM", 5)
        system = build(text, machine, timed=True, sinks=[TimeRange()])
        assert system.run(pause=Pause(88))
        return through_file(system)


@pytest.fixture
def saved() -> Snapshot:
    """All tests share this state, which none changes."""
    return state()


def with_value(record: Any, path: str, value: Any) -> Any:
    """A record with one value replaced: ``run.tiles.0.rows.@3`` is the fourth word of those rows."""
    key, _, rest = path.partition(".")
    if key.startswith("@"):
        words = np.frombuffer(record, np.int64).copy()
        words[int(key[1:])] = value
        return words.tobytes()
    if isinstance(record, list):
        inner = with_value(record[int(key)], rest, value) if rest else value
        return [*record[: int(key)], inner, *record[int(key) + 1 :]]
    inner = with_value(getattr(record, key), rest, value) if rest else value
    return msgspec.structs.replace(record, **{key: inner})


def loaded(snapshot: Snapshot, sinks: bool = True) -> System:
    text, machine = PROGRAMS["busy"]
    system = build(text, machine, timed=True, sinks=[TimeRange()] if sinks else [])
    restore(system, snapshot)
    return system


def forged(saved: Snapshot, path: str, value: Any) -> Snapshot:
    return msgspec.structs.replace(saved, simulated=with_value(saved.simulated, path, value))


def refused(snapshot: Snapshot, message: str) -> None:
    with pytest.raises(SnapshotError, match=rf"^the saved state: [^\n]*{message}[^\n]*$"):
        loaded(snapshot)


FAR, NEVER = (1 << 60) + 1, layout.HUGE
CHIP = [
    ("run.now", -1, "simulated time, ticks: found -1, expected 0"),
    ("run.now", FAR, f"simulated time, ticks: found {FAR}"),
    ("run.now", 1 << 63, "simulated time, ticks: found 9223372036854775808"),
    ("run.virtual", 4917001, "virtual time of DDR: found 4917001, expected 0..4917000"),
    ("run.since", 4917001, "last change of what flows: found 4917001, expected 0..4917000"),
    ("run.since", 0, "a flow of DDR, end: found"),
    ("run.links", [0] * 23, "number of links: found 23, expected 24..24"),
    ("run.links.3", FAR, "end of a link's work: found"),
    ("run.tiles", [], "number of tiles: found 0, expected 4..4"),
    ("run.flows", [], r"begin of a transfer of engine [23]: found [0-9]+, expected 4917000"),
    ("run.flows.0.tile", 4, r"of tile 0, begin of a transfer of engine 3"),
    ("run.flows.0.tile", 1, r"of tile 0, begin of a transfer of engine 3"),
    ("run.flows.0.who", 5, r"of tile 0, begin of a transfer of engine 3"),
    ("run.flows.0.end", -1, "a flow of DDR, virtual end: found -1"),
    ("run.flows.0.end", 1 << 59, "a flow of DDR, virtual end: found 576460752303423488"),
    ("run.flows.0.demand", 100_001, "share of DDR: found 100001, expected 0..100000"),
    ("run.flows.0.demand", -1, "share of DDR: found -1"),
    ("tiles", [], "number of tiles: found 0, expected 4..4"),
    ("replays.1.now", -1, "simulated time, ticks: found -1"),
    ("replays.0.tiles.2.rows.@0", 255, "kind of a row: found 255, expected 0..12"),
]
TILE = [
    ("core.doing", 11, "its core, what it does: found 11, expected 0..10"),
    ("core.doing", layout.RUNNING, "its core, next event: found 4611686018427387904, expected 4917000"),
    ("core.doing", layout.EXITED, "its core, whether it holds back others: found True, expected 0..0"),
    ("core.doing", layout.FOR_WORKER, "its core, whether it holds back others: found True"),
    ("core.due", 0, "its core, next event: found 0, expected 4611686018427387904..4611686018427387904"),
    ("core.clock", -1, "its core, clock: found -1"),
    ("core.clock", NEVER, "its core, clock: found 4611686018427387904"),
    ("core.retired", 100, "its core, instructions executed: found 100, expected 0..8"),
    ("core.number", -1, "its number of instructions: found -1"),
    ("core.number", 18, "an instruction, number: found 18, expected 18..17"),
    ("core.since", 4917001, "waiting since: found 4917001"),
    ("core.freed", 19, "instruction that ended last: found 19, expected -1..18"),
    ("sent", 1, "number of copies on their way: found 2, expected 1..1"),
    ("sent_done", 3, "copies that have arrived: found 3, expected 0..2"),
    ("path_free", FAR, "path of CT and TDMA taken until"),
    ("path_holder", 19, "instruction that had the path last: found 19"),
    ("union_since", 4917001, "at work since: found 4917001"),
    ("last_end", FAR, "end of its last work"),
    ("busy", [0] * 6, "number of units with a time of work: found 6, expected 7..7"),
    ("busy.2", FAR, "time of work of a unit"),
    ("blocked", [], "number of workers with blocked times: found 0, expected 3..3"),
    ("blocked.1", [0], "number of blocked times: found 1, expected 6..6"),
    ("arrived", [0] * 65, "number of streams: found 65, expected 64..64"),
    ("arrived.5", -1, "arrivals of a stream: found -1"),
    ("units", [], "number of engines: found 0, expected 5..5"),
    ("units.0.event", 1, "an engine, next event: found 1, expected 4917000"),
    ("units.0.free", 4917001, "an engine, free since"),
    ("units.0.served", 3, "an engine, worker served last: found 3, expected 0..2"),
    ("workers", [[]], "number of workers: found 1, expected 3..3"),
    ("messages", [], "number of copies on their way: found 0, expected 2..2"),
]
INSTRUCTION = [
    ("0.words", b"", "an instruction of 0 bytes"),
    ("0.words.@0", -1, "program counter of an instruction: found -1"),
    ("0.words.@1", 3, "worker of an instruction: found 3, expected 0..2"),
    ("0.words.@2", 1 << 20, "record of an instruction: found 1048576"),
    ("0.words.@2", -1, "record of an instruction: found -1"),
    ("0.words.@3", 2, "engine of an instruction: found 2, expected 3..3"),
    ("0.words.@4", 0, "wdma has other costs than its operands"),
    ("0.words.@5", 1 << 50, "wdma has other costs than its operands"),
    ("1.words.@5", 1134433, "rdma has other costs than its operands"),
    ("0.words.@6", 1, "wdma has other costs than its operands"),
    ("0.words.@7", 1 << 40, "wdma has other costs than its operands"),
    ("0.words.@8", -1, "wdma has other costs than its operands"),
    ("0.words.@9", 1, "wdma has other costs than its operands"),
    ("0.words.@10", 2, "serial mode of an instruction: found 2"),
    ("0.words.@11", 256, "priority of an instruction: found 256"),
    ("0.words.@12", 9, "ranges of an instruction: found 9, expected 0..8"),
    ("0.words.@12", 1, "wdma in simulated time has format = 0x1000, which it cannot have"),
    ("0.words.@13", 11, "operands of an instruction: found 11, expected 10..10"),
    ("0.words.@16", 2, "wdma has byte ranges that are not those of its operands"),
    ("0.words.@14", 1 << 40, "wdma in simulated time has operands that are refused"),
    ("0.number", 7, "number: found 7, expected 8..18"),
    ("0.issued", 4917001, "issued: found 4917001"),
    ("0.depends", 1, "older ones it waits for: found 1, expected 0..0"),
    ("1.depends", 2, "older ones it waits for: found 2, expected 0..1"),
    ("2.depends", -1, "older ones it waits for: found -1"),
    ("1.released", 19, "the one that it waited for last: found 19, expected -1..18"),
    ("0.begun.started", 550999, "begun: found 550999, expected 551000"),
    ("0.begun.blocked", -1, "time lost: found -1"),
    ("0.begun.cause", 10, "cause of lost time: found 10, expected 0..9"),
    ("0.begun.blocker", 19, "the one that has blocked it: found 19"),
]
MESSAGE = [
    ("place", 64, "place: found 64, expected 0..63"),
    ("phase", 0, "phase: found 0, expected 1..3"),
    ("phase", layout.FLOWING, r"what flows from or to DDR is not what moves data: .*\(0, 5\)"),
    ("number", 20, "number: found 20, expected 0..19"),
    ("pc", -1, "program counter: found -1"),
    ("target", 4, "target: found 4, expected 0..3"),
    ("stream", 64, "stream: found 64, expected -1..63"),
    ("issued", 4917001, "issued: found 4917001"),
    ("end", FAR, "end: found"),
    ("blocked", -1, "time lost: found -1"),
    ("cause", -1, "cause of lost time: found -1"),
    ("transfer", None, "phase: found 1, expected 3..3"),
    ("transfer.record", 1 << 20, "record of a copy: found 1048576"),
    ("transfer.record", 0, "a copy by "),
    ("transfer.size", 0, "bytes of a copy: found 0, expected 1..4294967296"),
    ("transfer.size", 1 << 33, "bytes of a copy: found 8589934592"),
    ("transfer.sides", 4, "sides of a copy in DDR: found 4, expected 0..3"),
    ("transfer.sides", 0, "first byte of a copy: found"),
    ("transfer.runs", 2049, "runs of a copy in DDR: found 2049, expected 0..2048"),
    ("transfer.begin", 0, "begin: found 0, expected 4917000"),
    ("transfer.payload", b"", "ranges and operands of a copy: found 0"),
    ("transfer.payload", b"\0", "a copy with 1 bytes of ranges and operands"),
    ("transfer.payload.@2", 1, "whether a copy writes: found 1, expected 0..0"),
    ("transfer.payload.@3", 7, "bytes of a side of a copy: found 7, expected 1024..1024"),
    ("transfer.payload.@4", 1 << 14, "first byte of a copy: found 16384, expected 0..16383"),
    ("transfer.payload.@8", -(1 << 62), "which it cannot have"),
]
ROWS = [
    ("@0", 255, "kind of a row: found 255, expected 0..12"),
    ("@0", -1, "kind of a row: found 255"),
    ("@0", 1 << 62, "words of a row: found 18014398509481984"),
    ("@0", 8 << 8, "words of a row: found 8, expected 16"),
    ("@0", 7 << 8 | layout.PROGRESS, "words of a row: found 7, expected 8"),
    ("@0", 29 << 8, "words of a row: found 29, expected 30..30"),
    ("@0", 8 << 8 | layout.WAIT, "a row of kind 1 takes the ticks at 192"),
    ("@0", 8 << 8 | layout.AWAIT, "a row of kind 6 takes the ticks at 192"),
    ("@0", 8 << 8 | layout.UPDATE, "target of an update: found 4, expected 0..3"),
    (
        "@0",
        8 << 8 | layout.BARRIER,
        "a barrier of the tiles 0x4, expected a set with its bit 0x1, inside 0xf",
    ),
    ("@1", 89, "instructions before a row: found 89, expected 0..88"),
    ("@2", -1, "program counter of a row: found -1"),
    ("@3", -1, "worker of a row: found -1"),
    ("@4", 1, "engine of an instruction: found 4, expected"),
    ("@5", 5, "engine of an instruction: found 5, expected 4..4"),
    ("@7", 1 << 61, "td.memset has other costs than its operands"),
    ("@18", 5, "td.memset has byte ranges that are not those of its operands"),
    ("@34", 0, "a row of kind 4 takes the ticks at 0"),
    ("@34", 1 << 40, "a row of kind 4 takes the ticks at 1099511627776"),
    ("@35", 4, "target of a copy: found 4, expected 0..3"),
    ("@36", -2, "stream of a copy: found -2, expected -1..63"),
    ("@37", 0, "bytes of a copy: found 0"),
    ("@38", 7, "sides of a copy in DDR: found 7"),
    ("@39", 2, "whether a target is the last: found 2"),
    ("@42", 3, "ranges of a copy: found 3, expected 2..2"),
]
KNOWN = [
    ("skipped", 89, "instructions without time: found 89, expected 0..88"),
    ("dropped", -1, "words worked off: found -1"),
    ("progress", 1 << 40, "words of progress: found 1099511627776"),
    ("polled_at", -2, "words before the last poll: found -2"),
    ("polls", {-1: 0}, "a poll, address: found -1"),
    ("polls", {0: 89}, "a poll, instructions before: found 89, expected 0..88"),
    ("sent", -1, "copies sent: found -1"),
    ("carried", 4, "copies carried out: found 4, expected 0..3"),
    ("arrived", [], "number of streams that have arrived: found 0, expected 64..64"),
    ("arrived.0", -1, "arrivals: found -1"),
    ("seen.0", 1, "arrivals seen: found 1, expected 0..0"),
    ("coming", [(4, 0)], "what it has sent, target: found 4, expected 0..3"),
    ("coming", [(0, 64)], "what it has sent, stream: found 64, expected 0..63"),
    ("moment", SavedMoment(-1, [0] * 7, [[0] * 6] * 3), "a time that its program reads: found -1"),
    ("moment", SavedMoment(0, [0] * 6, [[0] * 6] * 3), "number of units of a moment: found 6"),
    ("moment", SavedMoment(0, [0] * 7, [[0] * 6]), "number of workers of a moment: found 1, expected 3..3"),
    ("moment", SavedMoment(0, [0] * 7, [[0]] * 3), "number of blocked times of a moment: found 1"),
]
FORGED = [
    *CHIP,
    *((f"run.tiles.0.{path}", value, f"of tile 0, (.*, )?{text}") for path, value, text in TILE),
    *((f"run.tiles.0.workers.0.{path}", value, text) for path, value, text in INSTRUCTION),
    *((f"run.tiles.0.messages.0.{path}", value, text) for path, value, text in MESSAGE),
    *((f"run.tiles.0.rows.{path}", value, text) for path, value, text in ROWS),
    *((f"tiles.0.{path}", value, f"of tile 0, (.*, )?{text}") for path, value, text in KNOWN),
]


@pytest.mark.parametrize(("path", "value", "message"), FORGED)
def test_numbers_that_no_run_has_reached(saved: Snapshot, path: str, value: Any, message: str) -> None:
    refused(forged(saved, path, value), message)


def test_one_end_of_the_figures_is_not_enough(saved: Snapshot) -> None:
    assert saved.simulated is not None
    refused(forged(saved, "replays", saved.simulated.replays[:1]), "found 1, expected 0 or 3")


def test_a_second_instruction_at_an_engine(saved: Snapshot) -> None:
    """Two workers have begun one instruction each, but an engine executes one at a time."""
    assert saved.simulated is not None
    (first, *_), (second, *_), _ = saved.simulated.run.tiles[0].workers
    changed = forged(saved, "run.tiles.0.workers.1.0", msgspec.structs.replace(first, number=second.number))
    refused(changed, "instructions that engine 3 executes: found 2, expected 0..1")


def test_more_instructions_than_a_worker_has_room_for(saved: Snapshot) -> None:
    assert saved.simulated is not None
    one = saved.simulated.run.tiles[0].workers[1][1]
    many = [msgspec.structs.replace(one, number=number, depends=0) for number in range(63)]
    refused(forged(saved, "run.tiles.0.workers.1", many), "how many a worker has: found 63, expected 0..62")


def test_a_log_of_half_words(saved: Snapshot) -> None:
    assert saved.simulated is not None
    rows = saved.simulated.run.tiles[1].rows
    refused(
        forged(saved, "run.tiles.1.rows", rows[:-1]), f"its log has {len(rows) - 1} bytes, expected whole"
    )


def test_a_log_that_has_no_room_for_another_row(saved: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    text, machine = PROGRAMS["busy"]
    system = build(text, machine, timed=True)
    assert saved.simulated is not None
    words = max(len(tile.rows) for tile in saved.simulated.run.tiles) // 8
    monkeypatch.setattr(layout, "LOG_MARGIN", layout.LOG_WORDS - words)
    restore(system, saved)
    monkeypatch.setattr(layout, "LOG_MARGIN", layout.LOG_WORDS - words + 1)
    with pytest.raises(SnapshotError, match=f"words of its log: found {words}, expected 0..{words - 1}$"):
        restore(system, saved)


def test_time_that_stands_still_is_said(saved: Snapshot) -> None:
    """A tile reads time after a barrier at which no other tile is; no order of events leads there."""
    assert saved.simulated is not None
    row = np.zeros(layout.SHORT_ROW, np.int64)
    row[layout.L_KIND] = layout.BARRIER | layout.SHORT_ROW << layout.LENGTH_SHIFT
    row[layout.L_FIRST] = 0b0011
    rows = row.tobytes() + saved.simulated.run.tiles[0].rows
    system = loaded(forged(saved, "run.tiles.0.rows", rows))
    with pytest.raises(StandstillError, match=r"^simulated time of tile 0 stands still after \d+ cycles: "):
        system.run(1000)


NUMBERS = sorted({path for path, value, _ in FORGED if isinstance(value, int)})


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(path=st.sampled_from(NUMBERS), value=st.integers(-(1 << 63), (1 << 63) - 1))
def test_any_number_is_refused_or_ends(path: str, value: int) -> None:
    try:
        system = loaded(forged(state(), path, value))
    except SnapshotError:
        return
    with contextlib.suppress(Tx8Error, Fault):
        system.run(1000)


NOPS = " nop\n" * 30


def test_a_tile_that_waits_for_time_reads_what_is_there_without_it() -> None:
    """The first tile waits for the time while the others continue in the round; no event would answer it."""
    text = f"_start: csrr s0, mhartid\n bnez s0, 1f\n csrr s3, cycle\n1:\n{NOPS}{EXIT}"
    system = build(text, FOUR, timed=True)
    assert system.run(pause=Pause(20))
    snapshot = through_file(system)
    assert [tile.status for tile in snapshot.tiles] == ["TIMING", *["RUNNING"] * 3]
    for timed in (True, False):
        other = build(text, FOUR, timed=timed)
        restore(other, snapshot)
        other.run(1000)
        assert all(tile.status is Status.EXITED for tile in other.tiles)
        assert other.tiles[0].words[state_words.X + 19] > 0


def test_a_run_without_time_takes_what_is_there(saved: Snapshot) -> None:
    text, machine = PROGRAMS["busy"]
    system = build(text, machine, timed=False)
    restore(system, forged(saved, "run.now", -1))
    system.run(1000)
    assert all(tile.status is Status.EXITED for tile in system.tiles)
