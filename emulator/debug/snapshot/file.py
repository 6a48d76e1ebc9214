"""Snapshots as files: a header, and the records of ``types`` in MessagePack, compressed.

The header is the magic, the version of the format, and CRC-32 and length of what follows. They are
checked before anything else of a file is used.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import msgspec

from tx8isa.tools.files import write_whole

from .types import Snapshot, SnapshotError

VERSION = 2
_MAGIC = b"TX8STATE"
_HEADER = struct.Struct("<8sIIQ")
_FASTEST = 1
"""Level of zlib: the data are mostly zeros, for which higher levels gain little."""


def write(path: str | Path, snapshot: Snapshot) -> int:
    """Write a snapshot, whole or not at all; its bytes. Tx8Error when that is not possible."""
    data = encode(snapshot)
    write_whole(path, data)
    return len(data)


def read(path: str | Path) -> Snapshot:
    """The snapshot in a file; SnapshotError when it holds no whole one, OSError when it cannot be read."""
    return decode(Path(path).read_bytes(), str(path))


def encode(snapshot: Snapshot) -> bytes:
    """The bytes of a file; the same for the same state."""
    payload = zlib.compress(msgspec.msgpack.encode(snapshot), _FASTEST)
    return _HEADER.pack(_MAGIC, VERSION, zlib.crc32(payload), len(payload)) + payload


def decode(data: bytes, name: str) -> Snapshot:
    """The contrary of ``encode``; ``name`` stands for the file in messages."""
    if not data.startswith(_MAGIC):
        found = data[: len(_MAGIC)].hex(" ") or "nothing"
        raise SnapshotError(f"{name}: not a saved state: it starts with {found}, expected {_MAGIC.hex(' ')}")
    if len(data) < _HEADER.size:
        raise SnapshotError(f"{name}: truncated: {len(data)} bytes, the header has {_HEADER.size}")
    _, version, checksum, size = _HEADER.unpack_from(data)
    if version != VERSION:
        raise SnapshotError(
            f"{name}: saved state of format version {version}: this tool reads version {VERSION}"
        )
    payload = data[_HEADER.size :]
    if len(payload) < size:
        raise SnapshotError(f"{name}: truncated: {len(payload)} of {size} bytes are there")
    if len(payload) != size or zlib.crc32(payload) != checksum:
        raise SnapshotError(f"{name}: damaged: it does not match its checksum")
    try:
        return msgspec.msgpack.decode(zlib.decompress(payload), type=Snapshot)
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(f"{name}: damaged: {error}") from None
