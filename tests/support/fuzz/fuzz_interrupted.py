"""States saved in the middle of runs, with changed numbers and valid checksums.

The programs have filled queues, copies in transit and several workers; most run with simulated time, some
with its range. A loaded state continues with sinks that read every slice.
"""

from __future__ import annotations

import struct
import tempfile
import zlib
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np

import asm
from emulator.chip import system
from emulator.chip.pause import Pause
from emulator.debug.snapshot.chip import restore, save
from emulator.debug.snapshot.file import decode, encode
from emulator.timing.replay import TimeRange
from emulator.timing.slices import Sink
from emulator.watch.report.sink import ReportSink
from emulator.watch.stats.output import lines
from emulator.watch.stats.sink import Statistics
from emulator.watch.trace.sink import Trace
from fuzz_files import judged
from fuzz_instructions import EDGES
from saved_runs import PROGRAMS, build

_HEADER = struct.calcsize("<8sIIQQ")
_NAMES = ("ring", "workers", "stream", "busy")
_TILES, _TIME = 4, 6
"""Positions in ``Snapshot``."""
_QUANTA = (7, 17, system.QUANTUM)
_MOST = 500
"""Instructions of a tile after which a loaded run is stopped."""


@cache
def _length(name: str) -> int:
    """Instructions of the tile that executes most."""
    text, machine = PROGRAMS[name]
    built = build(text, machine)
    built.run(_MOST)
    return max(tile.retired for tile in built.tiles)


@cache
def _state(name: str, place: int, time: str, quantum: int) -> Any:
    """The records of a state, and the header of its file; ``time``: none, plain or with its range.

    With a small quantum the simulation has come far, and much is in progress.
    """
    text, machine = PROGRAMS[name]
    sinks: list[Sink] = [TimeRange()] if time == "range" else []
    built = build(text, machine, timed=time != "none", sinks=sinks)
    with patch.object(system, "QUANTUM", quantum):
        built.run(pause=Pause(place))
        data = encode(save(built))
    return data[:_HEADER], msgspec.msgpack.decode(zlib.decompress(data[_HEADER:]))


def _field(records: Any, rng: Random) -> tuple[Any, Any]:
    """The holder and the key of a field that has a number, numbers or bytes, at any depth."""
    while True:
        holder, key = records, None
        while True:
            key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
            inner = holder[key]
            if not isinstance(inner, list | dict) or not inner or rng.random() < 0.02:
                break
            holder = inner
        if isinstance(inner, int | bytes) or inner:
            return holder, key


def _other(value: Any, rng: Random) -> Any:
    """Another value of the same kind, near it or at an edge; rarely one of another kind."""
    if rng.random() < 0.01:
        return rng.choice((None, -1, 2**64 - 1, b"", b"\0" * 8, [], {}, True, "", 0.5))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = (value + rng.choice((-1, 1, 2, 8, 1000)), value ^ 1 << rng.randrange(63), 0, 1 << 62)
        return max(-(1 << 63), min(rng.choice((*near, rng.choice(EDGES))), (1 << 64) - 1))
    if isinstance(value, bytes) and len(value) >= 8:
        words = np.frombuffer(value[: len(value) // 8 * 8], np.int64).copy()
        used = np.flatnonzero(words) if rng.random() < 0.7 else np.arange(words.size)
        at = int(rng.choice(used)) if used.size else 0
        other = _other(int(words[at]), rng)
        words[at] = np.array(other if isinstance(other, int) else 0).astype(np.uint64).astype(np.int64)
        cut = 8 * rng.randrange(words.size) if rng.random() < 0.05 else len(value)
        return (words.tobytes() + value[words.nbytes :])[:cut]
    if isinstance(value, list) and value:
        return rng.choice((value[:-1], value[::-1], [*value, value[0]]))
    return value


def _changed(records: Any, rng: Random) -> bytes:
    """The records with some values replaced, half of them in simulated time."""
    changed = msgspec.msgpack.decode(msgspec.msgpack.encode(records))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        inside = changed[_TIME] if changed[_TIME] and rng.random() < 0.7 else changed[_TILES]
        holder, key = _field(inside, rng)
        holder[key] = _other(holder[key], rng)
    return msgspec.msgpack.encode(changed)


def example(rng: Random) -> str:
    """Load a state with changed numbers and continue it: refused in one line, or a run that ends."""
    name, time = rng.choice(_NAMES), rng.choice(("none", "plain", "plain", "range"))
    header, records = _state(name, rng.randrange(1, _length(name)), time, rng.choice(_QUANTA))
    content = _changed(records, rng)
    payload = zlib.compress(content, 1)
    sizes = struct.pack("<IQQ", zlib.crc32(payload), len(payload), len(content))
    data = header[:12] + sizes + payload
    with tempfile.TemporaryDirectory() as folder:
        return judged(lambda: _run(name, data, time, rng, Path(folder)))


def _run(name: str, data: bytes, time: str, rng: Random, folder: Path) -> None:
    text, machine = PROGRAMS[name]
    snapshot = decode(data, "state", machine)
    sinks: list[Sink] = []
    image = asm.assemble(text, machine=machine)
    statistics = Statistics(image, machine)
    if time != "none" and rng.random() < 0.7:
        trace = Trace(folder / "trace.json", image, machine)
        sinks = [statistics, trace, ReportSink(image, machine, statistics)]
        sinks += [TimeRange()] * int(rng.random() < 0.7)
    loaded = system.System(image, machine, timed=time != "none", sinks=sinks)
    restore(loaded, snapshot)
    try:
        loaded.run(_MOST)
    finally:
        assert not sinks or list(lines(statistics, loaded.tiles))
