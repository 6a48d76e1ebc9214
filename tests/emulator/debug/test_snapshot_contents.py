"""The contents of a saved state, and files without one."""

from __future__ import annotations

import random
import struct
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chip_bench import TX81, chip
from dte_harness import EXIT
from emulator.chip.pause import Pause
from emulator.debug.snapshot import file as snapshot_file
from emulator.debug.snapshot import tile as snapshot_tile
from emulator.debug.snapshot.chip import restore, save
from emulator.debug.snapshot.file import VERSION
from emulator.debug.snapshot.types import Snapshot, SnapshotError
from emulator.engines import queues
from emulator.memory import state
from saved_runs import FOUR, RING, Run, build, small, through_file
from tx8isa.numbers.layouts import LINE_BYTES

# --- what is kept ------------------------------------------------------------------------------------------

REMADE = {
    "SINK",
    "LIMIT",
    "DETAIL",
    "TILE",
    "SPM",
    "SPM_BYTES",
    "DDR",
    "DDR_BYTES",
    "SCRATCH",
    "SCRATCH_BYTES",
    "LINES",
    "CODE",
    "CODE_BASE",
    "CODE_WORDS",
    "KERNELS",
    "RECORDS",
    "COUNTS",
    "QUEUE",
    "CORE_SPM",
    "CORE_SPM_STRONG",
    "CORE_DDR",
    "CORE_DDR_UNCACHED",
    "CORE_WINDOW",
    "ENGINE_DDR",
    "ISSUE",
    "DEPTH",
    "TEXT",
    "WRITE_BACK",
    "NUMERIC",
    "WORKERS",
    "WRITE_SPAN",
    "FLOAT_UNIT",
    "NCC",
    "NCC_STRIDE",
    "REGISTERS",
    "REGISTER_MAP",
    "PLAIN",
    "ORDER",
    "TIMING_HOOK",
    "TIMING",
    "SANITIZER_HOOK",
    "SANITIZER",
    "CORE_CHECK",
    "DDR_MARKS",
    "HART",
    "HINT_HOOK",
    "MADE",
    "MADE_SPM",
}
"""Words of the state that a new machine has too, or that mean nothing between two instructions.

A run without data, which alone has the last two, cannot be saved.
"""


def test_every_word_of_the_state_is_kept_or_made_again() -> None:
    names = {name for name in vars(state) if name.isupper()} - {"SIZE", "ROOM"}
    kept = {name for name in names if getattr(state, name) in snapshot_tile.KEPT}
    assert kept | REMADE == names
    assert not kept & REMADE


def test_no_host_address_is_kept() -> None:
    files = []
    for _ in range(2):
        run = Run("ring", timed=True)
        run.system.run(pause=Pause(25))
        files.append(snapshot_file.encode(save(run.system)))
        keep = run  # so that the next machine has other addresses
    assert files[0] == files[1]
    assert keep.system.quanta


def test_a_mostly_empty_machine_is_small() -> None:
    system = build("_start: td.memset.int32 dst=0x100, value=7, n=16\n nop\n" + EXIT, TX81)
    system.run(pause=Pause(2))
    assert len(snapshot_file.encode(save(system))) < 10_000


def test_only_what_differs_from_the_program_is_kept() -> None:
    text = (
        " la t0, out\n li t1, 1\n sd t1, 0(t0)\n nop\n" + EXIT + ".data\n.fill 20000, 1, 0xa5\nout: .quad 0\n"
    )
    system = build("_start:" + text)
    system.run(pause=Pause(5))
    saved = save(system)
    assert len(saved.ddr.data) == 4096
    assert all(not tile.spm.data for tile in saved.tiles)
    other = build("_start:" + text)
    other.ddr[0x30_0000] = 1  # everything outside of the state is gone afterwards
    other.tiles[0].spm.data[5 * LINE_BYTES] = 3
    restore(other, saved)
    assert other.ddr[0x30_0000] == 0
    assert save(other) == saved


def test_restoring_touches_no_page_more(monkeypatch: pytest.MonkeyPatch) -> None:
    from emulator.debug.snapshot.memory import _touched

    system = build(RING, FOUR)
    other = build(RING, FOUR)
    system.run(pause=Pause(30))
    restore(other, through_file(system))
    sizes = [sum(end - first for first, end in _touched(one.ddr)) for one in (system, other)]
    assert sizes[1] <= sizes[0] < 1 << 24


# --- files -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file() -> bytes:
    run = Run("ring")
    run.system.run(pause=Pause(25))
    return snapshot_file.encode(save(run.system))


def test_every_flipped_bit_is_noticed(file: bytes) -> None:
    rng = random.Random(1)
    places = [*range(32), *rng.sample(range(32, len(file)), 300)]
    for place in places:
        damaged = bytearray(file)
        damaged[place] ^= 1 << rng.randrange(8)
        with pytest.raises(SnapshotError, match=r"^state: "):
            snapshot_file.decode(bytes(damaged), "state")


def test_every_truncation_is_noticed(file: bytes) -> None:
    for size in [*range(34), len(file) // 2, len(file) - 1]:
        with pytest.raises(SnapshotError, match=r"truncated|not a saved state"):
            snapshot_file.decode(file[:size], "state")
    with pytest.raises(SnapshotError, match="damaged: it does not match its checksum"):
        snapshot_file.decode(file + b"\0", "state")


def test_another_version_is_refused(file: bytes) -> None:
    for version in (VERSION - 1, VERSION + 1):
        other = file[:8] + struct.pack("<I", version) + file[12:]
        with pytest.raises(
            SnapshotError, match=f"format version {version}: this tool reads version {VERSION}"
        ):
            snapshot_file.decode(other, "state")


@given(st.binary(max_size=60))
def test_any_payload_is_refused_with_one_line(payload: bytes) -> None:
    from zlib import compress, crc32

    for data in (payload, compress(payload)):
        head = struct.pack("<8sIIQQ", b"TX8STATE", VERSION, crc32(data), len(data), len(payload))
        with pytest.raises(SnapshotError, match=r"^state: damaged: [^\n]*$"):
            snapshot_file.decode(head + data, "state")


def changed(file: bytes, **fields: Any) -> Snapshot:
    return msgspec.structs.replace(snapshot_file.decode(file, "state"), **fields)


def changed_tile(file: bytes, **fields: Any) -> Snapshot:
    tiles = snapshot_file.decode(file, "state").tiles
    return changed(file, tiles=[msgspec.structs.replace(tiles[0], **fields), *tiles[1:]])


def test_a_state_of_something_else_is_refused(file: bytes) -> None:
    saved = snapshot_file.decode(file, "state")
    with pytest.raises(SnapshotError, match="while another program ran"):
        restore(build(RING.replace("li s1, 3", "li s1, 4"), FOUR), saved)
    with pytest.raises(SnapshotError, match="on machine tx81, whose description is not that of tx81"):
        restore(build(RING, small(chip(4, 0x8000))), saved)
    with pytest.raises(SnapshotError, match="another version of tx8emu"):
        restore(build(RING, FOUR), changed(file, emulator=saved.emulator ^ 1))
    with pytest.raises(SnapshotError, match="without simulated time"):
        restore(build(RING, FOUR, timed=True), saved)


def test_a_state_that_does_not_fit_is_refused(file: bytes) -> None:
    """Files with a right checksum that no run has written."""
    tile = snapshot_file.decode(file, "state").tiles[0]
    blocks = tile.spm
    far = msgspec.structs.replace(
        blocks, numbers=np.full(len(blocks.numbers) // 8, 1 << 20, np.int64).tobytes()
    )
    worker = tile.workers[0]
    wrong: dict[str, Any] = {
        "words have 8 bytes": {"words": bytes(8)},
        "names worker 7": {"write_back": 7},
        "3 workers|workers, expected": {"workers": []},
        "up to byte": {"spm": far},
        "are not whole": {"spm": msgspec.structs.replace(blocks, data=b"123")},
        "has the status ASLEEP": {"status": "ASLEEP"},
        "bytes of code": {"code": b"1234"},
        "instructions in the queues": {
            "workers": [msgspec.structs.replace(worker, header=np.arange(48).tobytes()), *tile.workers[1:]]
        },
    }
    for message, fields in wrong.items():
        with pytest.raises(SnapshotError, match=message):
            restore(build(RING, FOUR), changed_tile(file, **fields))


@pytest.mark.parametrize("word", [queues.COUNTS, queues.HEADS + 1, queues.TAILS + 4])
def test_queues_that_are_linked_otherwise_are_refused(file: bytes, word: int) -> None:
    """An instruction linked to itself, or a counted one that is missing, would never end."""
    tile = snapshot_file.decode(file, "state").tiles[0]
    worker = tile.workers[0]
    header = np.frombuffer(worker.header, np.int64).copy()
    header[word] += 93
    wrong = msgspec.structs.replace(worker, header=header.tobytes())
    with pytest.raises(SnapshotError, match=r"the queue of .* in a saved state is not linked in its order"):
        restore(build(RING, FOUR), changed_tile(file, workers=[wrong, *tile.workers[1:]]))
