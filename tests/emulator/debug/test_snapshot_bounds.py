"""Saved states with numbers that no run has reached, under a valid checksum, are refused in one line.

If they were accepted, most of them would let a run continue without end, whatever its limit.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dte_harness import EXIT
from emulator.chip.pause import Pause
from emulator.debug.snapshot.chip import restore
from emulator.debug.snapshot.tile import KEPT
from emulator.debug.snapshot.types import (
    SavedCopy,
    SavedEntry,
    SavedSide,
    SavedTarget,
    SavedUpdate,
    Snapshot,
    SnapshotError,
    Worker,
)
from emulator.engines import queues, tables
from emulator.memory import state
from emulator.tile.fault import Fault
from emulator.tile.tile import Status
from saved_runs import FOUR, RING, WORKERS, Run, build, through_file

QUEUED = f"""_start: td.memset.int32 dst=0x100, value=1, n=64
        td.memset.int32 dst=0x200, value=2, n=64
        rdma.int32 dst=0x300, src=0x280300000, n=16
        nop
        nop
        {EXIT}
"""
"""Three instructions wait in the queues of two engines when the first nop executes."""


@pytest.fixture(scope="module")
def ring() -> Snapshot:
    run = Run("ring")
    assert run.system.run(pause=Pause(25))
    return through_file(run.system)


@pytest.fixture(scope="module")
def queued() -> Snapshot:
    system = build(QUEUED)
    assert system.run(pause=Pause(4))
    return through_file(system)


def with_tile(saved: Snapshot, **fields: Any) -> Snapshot:
    """A state with some fields of tile 0 replaced."""
    first, *rest = saved.tiles
    return msgspec.structs.replace(saved, tiles=[msgspec.structs.replace(first, **fields), *rest])


def replaced(data: bytes, at: int, value: int) -> bytes:
    """Words with one of them replaced."""
    words = np.frombuffer(data, np.int64).copy()
    words[at] = value
    return words.tobytes()


def with_word(saved: Snapshot, word: int, value: int) -> Snapshot:
    return with_tile(saved, words=replaced(saved.tiles[0].words, KEPT.index(word), value))


# --- words of a tile ---------------------------------------------------------------------------------------

FAR = 115 << 56
WORDS = [
    (state.RETIRED, FAR, "instructions executed: found 8286623314361712640, expected 0..2305843009213693952"),
    (state.RETIRED, (1 << 61) + 1, "instructions executed: found .*, expected 0.."),
    (state.RETIRED, -1, "instructions executed: found -1, expected 0.."),
    (state.TRAPPED, 27, "instructions executed before its last trap, plus one: found 27, expected 0..26"),
    (state.TRAPPED, -1, "before its last trap, plus one: found -1"),
    (state.X, 1, "register x0: found 1, expected 0..0"),
    (state.SEVERAL, 2, "whether several workers were used: found 2, expected 0..1"),
    (state.WORKER, 3, "worker of its last instruction: found 3, expected 0..2"),
    (state.WORKER, -1, "worker of its last instruction: found -1"),
    (state.TURN, 5, "engine served last: found 5, expected 0..4"),
    (state.TURN, -7, "engine served last: found -7"),
    (state.SERVED, 3, "worker that engine 0 served last: found 3, expected 0..2"),
    (state.SERVED + 4, -1, "worker that engine 4 served last: found -1"),
    (state.FCSR, 256, "register fcsr: found 256, expected 0..255"),
    (state.FIRST_EXCEPTION, 8, "worker of the first exception, as a bit: found 8, expected 0..4"),
    (state.STOP_ON_EXCEPTION, 2, "whether exceptions stop it: found 2, expected 0..1"),
]


@pytest.mark.parametrize(("word", "value", "message"), WORDS)
def test_words_that_no_run_leaves(ring: Snapshot, word: int, value: int, message: str) -> None:
    with pytest.raises(SnapshotError, match=rf"^the saved state: tile 0, [^\n]*{message}[^\n]*$"):
        restore(build(RING, FOUR), with_word(ring, word, value))


@pytest.mark.parametrize("retired", [0, 499, 500, 1 << 61])
def test_a_limit_holds_for_every_count_that_is_taken(retired: int) -> None:
    """The run ends at the limit, at once for a tile that is beyond it."""
    endless = "_start: j _start"
    system, other = build(endless), build(endless)
    assert system.run(pause=Pause(3))
    restore(other, with_word(with_tile(through_file(system), quantum_end=None), state.RETIRED, retired))
    with pytest.raises(Fault, match=f"stopped after {max(retired, 500)} instructions, the limit given"):
        other.run(500)


@pytest.mark.parametrize(
    ("word", "value"),
    [(state.TRAPPED, 26), (state.SEVERAL, 1), (state.WORKER, 2), (state.TURN, 4), (state.SERVED + 4, 2)],
)
def test_the_largest_values_are_taken(ring: Snapshot, word: int, value: int) -> None:
    system = build(RING, FOUR)
    restore(system, with_word(ring, word, value))
    system.run(1000)
    assert all(tile.status is Status.EXITED for tile in system.tiles)


# --- rounds ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [-1, 0, 25, 26 + (1 << 20), 1 << 62])
def test_quanta_that_end_where_none_does(ring: Snapshot, end: int) -> None:
    wrong = with_tile(ring, quantum_end=end)
    text = f"tile 0, instructions after which its quantum ends: found {end}, expected 26..1048601"
    with pytest.raises(SnapshotError, match=f"^the saved state: {text}$"):
        restore(build(RING, FOUR), wrong)


def test_a_tile_that_waits_has_no_quantum(ring: Snapshot) -> None:
    wrong = with_tile(ring, quantum_end=26, status="BARRIER", group=15)
    text = "tile 0 is waiting at a barrier and has a quantum that ends after 26 instructions, expected none"
    with pytest.raises(SnapshotError, match=f"^the saved state: {text}$"):
        restore(build(RING, FOUR), wrong)


@pytest.mark.parametrize("group", [0, 2, 16, 31, -1, 1 << 63])
def test_barriers_that_a_tile_cannot_wait_at(ring: Snapshot, group: int) -> None:
    """Every tile of an empty set waits; such a barrier would be complete in every round."""
    wrong = with_tile(ring, quantum_end=None, status="BARRIER", group=group)
    text = f"tile 0 waits at the barrier of the tiles {group:#x}, expected a set with its bit 0x1, inside 0xf"
    with pytest.raises(SnapshotError, match=f"^the saved state: {text}$"):
        restore(build(RING, FOUR), wrong)


# --- queues ------------------------------------------------------------------------------------------------


def queue(saved: Snapshot) -> Worker:
    return saved.tiles[0].workers[0]


def with_queue(saved: Snapshot, header: dict[int, int], entries: list[SavedEntry] | None = None) -> Snapshot:
    """A state with words of the first queue replaced, and perhaps its instructions."""
    first, *rest = saved.tiles[0].workers
    words = first.header
    for at, value in header.items():
        words = replaced(words, at, value)
    worker = msgspec.structs.replace(first, header=words, entries=entries or first.entries)
    return with_tile(saved, workers=[worker, *rest])


def with_head(saved: Snapshot, at: int, value: int) -> Snapshot:
    """A state with a word of the oldest instruction replaced."""
    first, *rest = queue(saved).entries
    return with_queue(
        saved, {}, [msgspec.structs.replace(first, head=replaced(first.head, at, value)), *rest]
    )


def test_instructions_that_are_numbered_otherwise(queued: Snapshot) -> None:
    """A tile would wait without end for a pending instruction that is missing."""
    entries = queue(queued).entries
    assert [entry.number for entry in entries] == [0, 1, 2]
    twice = [entries[0], entries[0], entries[2]]
    for saved, message in (
        (with_queue(queued, {queues.NEXT: (1 << 61) + 1}), "3 instructions in the queues"),
        (with_queue(queued, {queues.OLDEST: -1}), "number of the oldest .* queue: found -1, expected 0..0"),
        (with_queue(queued, {}, twice), r"do not ascend: \[0, 0, 2\]"),
        (with_queue(queued, {}, entries[::-1]), r"do not ascend: \[2, 1, 0\]"),
    ):
        with pytest.raises(SnapshotError, match=message):
            restore(build(QUEUED), saved)


@pytest.mark.parametrize(("oldest", "following"), [(0, 9), (-1, -1), ((1 << 61) + 1, (1 << 61) + 1)])
def test_empty_queues_that_are_numbered_otherwise(oldest: int, following: int) -> None:
    """If the oldest instruction were not the next one, making room would execute missing instructions."""
    system = build(WORKERS)
    assert system.run(pause=Pause(1))
    wrong = with_queue(through_file(system), {queues.OLDEST: oldest, queues.NEXT: following})
    with pytest.raises(SnapshotError, match=r"^the saved state: number of the (oldest|next) instruction"):
        restore(build(WORKERS), wrong)


def test_a_queue_may_begin_anywhere() -> None:
    system = build(WORKERS)
    assert system.run(pause=Pause(1))
    other = build(WORKERS)
    restore(other, with_queue(through_file(system), {queues.OLDEST: 1 << 40, queues.NEXT: 1 << 40}))
    other.run(1000)
    assert other.tiles[0].status is Status.EXITED


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (queues.E_LIVE, 0, "whether an instruction in a queue waits: found 0, expected 1..1"),
        (queues.E_SLOT, 1 << 40, "kernel of an instruction in a queue: found 1099511627776"),
        (queues.E_SLOT, -1, "kernel of an instruction in a queue: found -1"),
        (
            queues.E_FIRST_RANGE,
            -256,
            "first byte of an instruction in a queue: found -256, expected 0..16383",
        ),
        (queues.E_FIRST_RANGE, 1 << 46, "first byte of an instruction in a queue: found 70368744177664"),
        (queues.E_FIRST_RANGE + 1, 1 << 50, "last byte of .*: found 1125899906842624, expected 256..16383"),
        (queues.E_FIRST_RANGE + 1, 0, "last byte of an instruction in a queue: found 0, expected 256..16383"),
        (queues.E_FIRST_RANGE + 2, 7, "whether an instruction in a queue writes: found 7, expected 0..1"),
        (queues.E_FIRST_RANGE + 3, 1 << 40, "bytes of .* queue: found 1099511627776, expected 1..256"),
    ],
)
def test_instructions_in_a_queue_that_are_none(queued: Snapshot, at: int, value: int, message: str) -> None:
    with pytest.raises(SnapshotError, match=rf"^the saved state: {message}[^\n]*$"):
        restore(build(QUEUED), with_head(queued, at, value))


def with_operand(saved: Snapshot, number: int, name: str, value: int) -> Snapshot:
    """The state with one operand of an instruction in a queue of tile 0 replaced."""
    first, *others = saved.tiles[0].workers
    entries = list(first.entries)
    record = tables.records()[int(np.frombuffer(entries[number].head, np.int64)[queues.E_RECORD])]
    fields = replaced(entries[number].fields, record.index(name), value)
    entries[number] = msgspec.structs.replace(entries[number], fields=fields)
    return with_tile(saved, workers=[msgspec.structs.replace(first, entries=entries), *others])


OPERANDS = [
    (0, "dst", 0x140, "td.memset in the queue of TDMA has byte ranges or a kernel"),
    (0, "dst", 1 << 30, "td.memset in the queue of TDMA has dst = 0x40000000, which it cannot have"),
    (0, "dst", -8, "td.memset in the queue of TDMA has dst = -0x8, which it cannot have"),
    (0, "n", 1 << 20, "td.memset in the queue of TDMA has operands that are refused"),
    (0, "n", 63, "td.memset in the queue of TDMA has byte ranges or a kernel"),
    (0, "format", 13, "td.memset in the queue of TDMA has format = 0xd, which it cannot have"),
    (2, "format", 15, "rdma in the queue of RDMA has format = 0xf, which it cannot have"),
    (2, "n", 1 << 18, "rdma in the queue of RDMA has operands that are refused"),
    (2, "src", 1 << 45, "rdma in the queue of RDMA has "),
    (2, "src", 0x80, "rdma in the queue of RDMA has "),
]


@pytest.mark.parametrize(("number", "name", "value", "message"), OPERANDS)
def test_operands_that_were_not_issued(
    queued: Snapshot, number: int, name: str, value: int, message: str
) -> None:
    """Kernels do not check the addresses of their operands."""
    with pytest.raises(SnapshotError, match=rf"^the saved state: tile 0, an instruction {message}[^\n]*$"):
        restore(build(QUEUED), with_operand(queued, number, name, value))


@given(
    number=st.integers(0, 2),
    at=st.integers(0, 30),
    value=st.integers(0, 16) | st.integers(-(1 << 63), (1 << 63) - 1),
)
@settings(max_examples=60, deadline=None)
def test_any_operand_is_refused_or_can_be_executed(
    queued: Snapshot, number: int, at: int, value: int
) -> None:
    operands = queued.tiles[0].workers[0].entries[number].fields
    record = tables.records()[
        int(np.frombuffer(queued.tiles[0].workers[0].entries[number].head, np.int64)[queues.E_RECORD])
    ]
    name = record.operands[at % (len(operands) // 8)].name
    system = build(QUEUED)
    try:
        restore(system, with_operand(queued, number, name, value))
    except SnapshotError:
        return
    system.run(1000)
    assert system.tiles[0].status is Status.EXITED


# --- copies and updates ------------------------------------------------------------------------------------


def copy(
    trips: tuple[int, int, int] = (1, 1, 1), sources: int = 1, targets: int = 1, block: int | None = None
) -> SavedCopy:
    """A copy of pieces of 256 bytes, all read and written at one place."""
    side = SavedSide(False, 0, (0, 0, 0))
    return SavedCopy(256, trips, [side] * sources, [SavedTarget(1, side, 0)] * targets, block)


def test_copies_and_updates_that_nothing_starts(ring: Snapshot) -> None:
    for work, message in (
        (copy(trips=(1 << 30, 1 << 30, 1)), "bytes of a copy: found .*, expected 1..4294967296"),
        (copy(trips=(1 << 24, 1, 2)), "bytes of a copy: found 8589934592, expected 1..4294967296"),
        (copy(sources=2, targets=3), "a copy from 2 sources to 3 targets"),
        (copy(sources=0), "a copy from 0 sources to 1 targets"),
        (copy(targets=0), "a copy from 1 sources to 0 targets"),
        (copy(block=4), "DTE block of a copy: found 4, expected 0..3"),
        (copy(block=-1), "DTE block of a copy: found -1"),
        (SavedUpdate(1, 3, 32, ""), "an update for packet 32 of stream 3 of tile 1"),
        (SavedUpdate(1, 3, -1, ""), "an update for packet -1 of stream 3 of tile 1"),
        (SavedUpdate(1, 64, 1, ""), "an update for packet 1 of stream 64 of tile 1"),
        (SavedUpdate(4, 3, 1, ""), "an update for packet 1 of stream 3 of tile 4"),
    ):
        with pytest.raises(SnapshotError, match=message):
            restore(build(RING, FOUR), with_tile(ring, started=[work]))


def test_copies_that_something_starts(ring: Snapshot) -> None:
    for work in (copy(), copy(trips=(16, 16, 4)), copy(targets=3), copy(sources=3, targets=3), copy(block=3)):
        system = build(RING, FOUR)
        restore(system, with_tile(ring, started=[work]))
        system.run(1000)
        assert all(tile.status is Status.EXITED for tile in system.tiles)
