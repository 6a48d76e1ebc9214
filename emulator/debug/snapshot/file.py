"""Snapshots as files: a header, and the records of ``types`` in MessagePack, compressed.

The header has the magic, the version of the format, CRC-32 and length of the rest, and the length of the
records before compression. They are checked before anything else in a file is used. No memory is allocated
for lengths that the machine or this host cannot have.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

import msgspec

from tx8isa.machine.description import Machine, load_machine
from tx8isa.tools.files import write_whole

from .types import Snapshot, SnapshotError

VERSION = 7
_MAGIC = b"TX8STATE"
_HEADER = struct.Struct("<8sIIQQ")
_FASTEST = 1
"""Level of zlib: the data are mostly zeros, for which higher levels gain little."""
_BESIDE_MEMORIES = 256 << 20
"""The most bytes of a state besides the memories: queues, registers, changed program texts, output."""
_CHUNK = 1 << 20
"""Bytes of a file that are read at a time."""


def write(path: str | Path, snapshot: Snapshot) -> int:
    """Write a snapshot, whole or not at all; return its bytes. Tx8Error when that is not possible."""
    data = encode(snapshot)
    write_whole(path, data)
    return len(data)


def read(path: str | Path, machine: Machine | None = None) -> Snapshot:
    """Read the snapshot in a file; by default it is one of the TX81.

    SnapshotError if the file holds no complete snapshot, or one larger than any run on the machine; OSError
    if it cannot be read. No more is read of a file than its header promises.
    """
    with Path(path).open("rb") as file:
        header = _up_to(file, _HEADER.size)
        _, _, size, _ = _checked(header, str(path), machine)
        return decode(header + _up_to(file, size + 1), str(path), machine)


def _up_to(file: BinaryIO, size: int) -> bytes:
    """Return the next bytes of a file, fewer at its end."""
    parts: list[bytes] = []
    while size > 0 and (part := file.read(min(size, _CHUNK))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def most_bytes(machine: Machine) -> int:
    """Return the most bytes of a state: all memories, numbers of their pieces, and ``_BESIDE_MEMORIES``."""
    memories = machine.ddr.bytes + machine.tiles * machine.spm.bytes
    return memories + memories // 8 + _BESIDE_MEMORIES


def encode(snapshot: Snapshot) -> bytes:
    """Return the bytes of a file; the same for the same state."""
    records = msgspec.msgpack.encode(snapshot)
    payload = zlib.compress(records, _FASTEST)
    return _HEADER.pack(_MAGIC, VERSION, zlib.crc32(payload), len(payload), len(records)) + payload


def decode(data: bytes, name: str, machine: Machine | None = None) -> Snapshot:
    """Decode the bytes of ``encode``; ``name`` is the file's in messages. SnapshotError as ``read``."""
    _, checksum, size, unpacked = _checked(data, name, machine)
    payload = data[_HEADER.size :]
    if len(payload) < size:
        raise SnapshotError(f"{name}: truncated: {len(payload)} of {size} bytes are there")
    if len(payload) != size or zlib.crc32(payload) != checksum:
        raise SnapshotError(f"{name}: damaged: it does not match its checksum")
    try:
        return msgspec.msgpack.decode(_records(payload, unpacked, name), type=Snapshot)
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(f"{name}: damaged: {error}") from None
    except MemoryError:
        raise SnapshotError(f"{name}: no memory is left for its {unpacked} bytes of state") from None


def _records(payload: bytes, size: int, name: str) -> bytes:
    """Unpack the records, and never a byte more than the header promises."""
    unpacker = zlib.decompressobj()
    found = unpacker.decompress(payload, size + 1)
    if len(found) != size or not unpacker.eof or unpacker.unused_data:
        held = f"more than {size}" if len(found) > size else str(len(found))
        raise SnapshotError(f"{name}: damaged: {held} bytes of state are packed, its header says {size}")
    return found


def _checked(data: bytes, name: str, machine: Machine | None) -> tuple[int, int, int, int]:
    """Return version, checksum, and the lengths packed and unpacked, from a plausible header."""
    if not data.startswith(_MAGIC):
        found = data[: len(_MAGIC)].hex(" ") or "nothing"
        raise SnapshotError(f"{name}: not a saved state: it starts with {found}, expected {_MAGIC.hex(' ')}")
    if len(data) < _HEADER.size:
        raise SnapshotError(f"{name}: truncated: {len(data)} bytes, the header has {_HEADER.size}")
    _, version, checksum, size, unpacked = _HEADER.unpack_from(data)
    if version != VERSION:
        raise SnapshotError(
            f"{name}: saved state of format version {version}: this tool reads version {VERSION}"
        )
    machine = machine if machine is not None else load_machine(None)
    _check_size(unpacked, f"{name}: its header promises {unpacked} bytes of state", machine)
    _check_size(size, f"{name}: its header promises {size} packed bytes", machine)
    return version, checksum, size, unpacked


def _check_size(size: int, promise: str, machine: Machine) -> None:
    """Raise SnapshotError for more bytes than a state of the machine has, or than this host has memory."""
    if size > most_bytes(machine):
        raise SnapshotError(f"{promise}; one of machine {machine.name} has at most {most_bytes(machine)}")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size > memory:
        raise SnapshotError(f"{promise}; this host has {memory} bytes of memory, load it on a larger one")
