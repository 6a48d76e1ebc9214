"""Snapshots: the state of a chip in the middle of a run.

``save`` and ``restore`` work in memory, ``write`` and ``read`` with files. A restored system continues
exactly as the saved one: memories, registers, counts, output and simulated time are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sized
from typing import TypeVar
from zlib import crc32

import msgspec
import numpy as np

from asm.image import Image
from emulator.chip.registers.dte import DteWindow
from emulator.chip.system import System
from emulator.core.code import Code, fetch_again
from emulator.engines import queues, tables
from emulator.memory import state
from emulator.memory.areas import Bytes
from emulator.tile.tile import Status, Tile
from tx8isa.machine.description import Machine

from . import memory as saved_memory
from . import tile as saved_tile
from . import traffic as saved_traffic
from .bounds import check_barrier, check_quantum
from .file import read, write
from .instructions import check_instructions
from .types import Options, SavedTime, Snapshot, SnapshotError, TileState

_S = TypeVar("_S", bound=Sized)

__all__ = ["Snapshot", "SnapshotError", "program_digest", "put_back", "read", "restore", "save", "write"]


def save(system: System, earlier: Snapshot | None = None) -> Snapshot:
    """Save the state of a system that does not run at the moment: loaded, interrupted by a pause, or ended.

    ``earlier`` is a snapshot of the same system, whose digests of program and machine are reused.
    HostMemoryError when the host does not say which pages of DDR were touched.
    """
    return Snapshot(
        program=earlier.program if earlier else program_digest(system.image),
        machine=earlier.machine if earlier else _machine(system.machine),
        emulator=earlier.emulator if earlier else _emulator(),
        options=_options(system),
        tiles=[_save_tile(system, tile) for tile in system.tiles],
        ddr=saved_memory.save_ddr(system),
        simulated=_save_time(system),
    )


def restore(system: System, snapshot: Snapshot) -> None:
    """Put a system into a saved state; SnapshotError for a state of another program, machine or emulator.

    The previous state of the system is lost. After an error it must not be used.
    """
    check(snapshot, system.image, system.machine)
    if snapshot.options != _options(system):
        raise SnapshotError(f"the state was saved with {snapshot.options}, this run has {_options(system)}")
    _put_back_tiles(system, snapshot)
    for tile, saved in zip(system.tiles, snapshot.tiles, strict=True):
        check_quantum(tile, saved.quantum_end)
        check_instructions(tile)
    if system.simulator is not None and snapshot.simulated is not None:
        from .time.checks import check_time

        check_time(snapshot.simulated, system.tiles, system.machine)
    _restore_time(system, snapshot)


def put_back(system: System, snapshot: Snapshot) -> None:
    """Put a system into a state that was saved from the same system."""
    _put_back_tiles(system, snapshot)
    _restore_time(system, snapshot)


def _put_back_tiles(system: System, snapshot: Snapshot) -> None:
    """Put back everything but simulated time."""
    saved_memory.restore_ddr(system, snapshot.ddr)
    codes: dict[bytes, Code] = {}
    for tile, saved in zip(system.tiles, snapshot.tiles, strict=True):
        _restore_code(system, tile, saved.code, codes)
        _restore_tile(system, tile, saved)
    system.quanta = {
        tile.number: saved.quantum_end
        for tile, saved in zip(system.tiles, snapshot.tiles, strict=True)
        if saved.quantum_end is not None
    }


def check(snapshot: Snapshot, image: Image, machine: Machine) -> None:
    """Raise SnapshotError unless a snapshot is of this program on this machine, from this emulator."""
    if snapshot.emulator != _emulator():
        raise SnapshotError(
            "the state was saved by another version of tx8emu, which knows other instructions"
        )
    if snapshot.machine != _machine(machine):
        name = snapshot.machine.rpartition(" ")[0]
        raise SnapshotError(
            f"the state was saved on machine {name}, whose description is not that of {machine.name}"
        )
    if snapshot.program != program_digest(image):
        raise SnapshotError("the state was saved while another program ran")
    if len(snapshot.tiles) != machine.tiles:
        raise SnapshotError(f"the saved state has {len(snapshot.tiles)} tiles, the machine {machine.tiles}")


# -- identities --------------------------------------------------------------------------------------------


def program_digest(image: Image) -> str:
    """Return a digest that is equal for images of the same program."""
    digest = hashlib.sha256(repr((image.entry, sorted(image.tile_entries.items()))).encode())
    for segment in image.segments:
        digest.update(repr((segment.address, segment.size, segment.flags, len(segment.data))).encode())
        digest.update(segment.data)
    return digest.hexdigest()


def _machine(machine: Machine) -> str:
    return f"{machine.name} {hashlib.sha256(msgspec.json.encode(machine)).hexdigest()}"


def _emulator() -> int:
    """Return a checksum of the meaning of a snapshot's numbers: records, words of state and queues."""
    words = repr(
        [(name, value) for of in (state, queues) for name, value in vars(of).items() if name.isupper()]
    )
    records = repr([record.mnemonic for record in tables.records()])
    return crc32(tables.table().tobytes(), crc32((words + records).encode()))


def _options(system: System) -> Options:
    hostile = int(system.tiles[0].words[state.WRITE_SPAN]) == queues.HOSTILE
    return Options(
        on_exception=system.on_exception,
        write_span="hostile" if hostile else "exact",
        ne_post="proposed" if system.slots.ne_post else "ignore",
    )


# -- simulated time ----------------------------------------------------------------------------------------


def _save_time(system: System) -> SavedTime | None:
    if system.simulator is None:
        return None
    from .time.saving import saved_time

    return saved_time(system.simulator.save())


def _restore_time(system: System, snapshot: Snapshot) -> None:
    """Restore simulated time; a run without simulated time may continue from a snapshot that has it."""
    if system.simulator is None:
        return
    if snapshot.simulated is None:
        raise SnapshotError(
            "the state was saved without simulated time, which this run needs: save it with --timed"
        )
    from .time.restoring import restored_time

    system.simulator.restore(restored_time(snapshot.simulated, system.machine))


# -- tiles -------------------------------------------------------------------------------------------------


def _save_tile(system: System, tile: Tile) -> TileState:
    number, traffic = tile.number, system.traffic
    words, write_back = saved_tile.save_words(tile)
    checked, streams = saved_traffic.save_streams(traffic.dte.streams[number])
    counters = system.pmu.counters(tile)
    code = system.codes[number]
    return TileState(
        words=words,
        write_back=write_back,
        workers=[saved_tile.save_worker(tile, worker) for worker in range(tile.workers)],
        counts=tile.counts.tobytes(),
        lines=tile.spm.lines.tobytes(),
        spm=saved_memory.save_spm(tile.spm, system.machine.spm.reset_byte),
        status=tile.status.name,
        group=tile.group,
        exit_code=tile.exit_code,
        pmu=dict(tile.pmu),
        counted=counters.counted.tobytes(),
        begun=counters.begun.tobytes(),
        csrs=dict(tile.csrs),
        output=list(tile.output),
        code=None if np.array_equal(code.text, system.code.text) else code.text.tobytes(),
        poll=traffic.polls[number],
        quantum_end=system.quanta.get(number),
        checked=checked,
        streams=streams,
        channels=saved_traffic.save_channels(_dte_window(system), number),
        dte=saved_traffic.save_counters(traffic.dte.counters[number]),
        started=saved_traffic.save_started(traffic, number),
    )


def _restore_tile(system: System, tile: Tile, saved: TileState) -> None:
    number, traffic, window = tile.number, system.traffic, _dte_window(system)
    saved_tile.restore_words(tile, saved.words, saved.write_back)
    for worker, one in enumerate(_as_many(saved.workers, tile.workers, "workers")):
        saved_tile.restore_worker(tile, worker, one)
    tile.counts[:] = saved_tile.array(saved.counts, tile.counts.size, "counts").reshape(tile.counts.shape)
    tile.spm.lines[:] = np.frombuffer(_as_many(saved.lines, tile.spm.lines.size, "SPM lines"), np.uint8)
    saved_memory.restore_spm(tile.spm, system.machine.spm.reset_byte, saved.spm)
    if saved.status not in Status.__members__:
        raise SnapshotError(f"tile {number} has the status {saved.status}")
    tile.status, tile.group, tile.exit_code = Status[saved.status], saved.group, saved.exit_code
    if tile.status is Status.TIMING and system.simulator is None:
        tile.status = Status.RUNNING  # it reads time again, which needs no simulation
    check_barrier(tile, len(system.tiles))
    tile.moment = None
    tile.pmu, tile.csrs, tile.output = dict(saved.pmu), dict(saved.csrs), list(saved.output)
    counters = system.pmu.counters(tile)
    shape = counters.counted.shape
    size = counters.counted.size
    counters.counted = saved_tile.array(saved.counted, size, "counters").reshape(shape).copy()
    counters.begun = saved_tile.array(saved.begun, size, "counters").reshape(shape).copy()
    traffic.polls[number] = saved.poll
    saved_traffic.restore_streams(traffic.dte.streams[number], saved.checked, saved.streams)
    saved_traffic.restore_counters(traffic.dte.counters[number], saved.dte)
    saved_traffic.restore_channels(window, number, saved.channels)
    saved_traffic.restore_started(traffic, window, tile, saved.started)


def _restore_code(system: System, tile: Tile, text: bytes | None, codes: dict[bytes, Code]) -> None:
    """Give a tile the program text that it had; tiles with the same text share it."""
    code = system.code
    if text is not None:
        _as_many(text, code.text.size, "bytes of code")
        if text not in codes:
            codes[text] = fetch_again(code, lambda at, size: _part(text, at - code.base, size))
        code = codes[text]
    system.codes[tile.number] = code
    code.install(tile.words)


def _part(text: bytes, at: int, size: int) -> Bytes:
    return np.frombuffer(text, np.uint8)[at : at + size]


def _dte_window(system: System) -> DteWindow:
    return next(device for device in system.devices if isinstance(device, DteWindow))


def _as_many(found: _S, count: int, what: str) -> _S:
    if len(found) != count:
        raise SnapshotError(f"the saved state has {len(found)} {what}, expected {count}")
    return found
