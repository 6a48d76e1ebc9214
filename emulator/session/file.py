"""States of a session as a file: a header with a checksum, and a MessagePack object."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tx8isa.errors import Tx8Error
from tx8isa.tools.files import write_whole

VERSION = 1
_MAGIC = b"TX8STEPS"
_HEADER = struct.Struct("<8sIIQ")
"""Magic, version, CRC-32 and bytes of the rest."""
_BESIDE = 1 << 20
"""The most bytes of a file besides the states."""


class StateFileError(Tx8Error):
    """A file without states of a session, or with those of another program."""


class SavedStates(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The states of a session: the program's digest, complete steps, and the bytes of each state by name.

    ``lengths`` are the lengths of growing states, by the names of their dimensions.
    """

    program: str
    steps: int
    states: dict[str, bytes]
    lengths: dict[str, int] = {}


def write(path: str | Path, saved: SavedStates) -> int:
    """Write states, whole or not at all; return the bytes of the file. Tx8Error when that is not possible."""
    payload = msgspec.msgpack.encode(saved)
    data = _HEADER.pack(_MAGIC, VERSION, zlib.crc32(payload), len(payload)) + payload
    write_whole(path, data)
    return len(data)


def read(path: str | Path, program: str, sizes: Mapping[str, int], most: Mapping[str, int]) -> SavedStates:
    """Read the states in a file, of the program with this digest and of these sizes in bytes.

    ``most`` are the largest lengths of growing states. StateFileError for a file without states, or with
    others; OSError when it cannot be read.
    """
    room = sum(sizes.values()) + _BESIDE
    with Path(path).open("rb") as file:
        payload = _payload(file.read(_HEADER.size), file.read(room + 1), str(path), room)
    try:
        saved: SavedStates = msgspec.msgpack.decode(payload, type=SavedStates)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StateFileError(f"{path}: damaged: {error}") from None
    if saved.program != program:
        raise StateFileError(f"{path}: the states were saved by a session of another program")
    found = {name: len(data) for name, data in saved.states.items()}
    if found != dict(sizes):
        raise StateFileError(f"{path}: damaged: states {found}, expected {dict(sizes)}")
    if {*saved.lengths} != {*most} or any(not 0 <= saved.lengths[name] <= most[name] for name in most):
        raise StateFileError(f"{path}: damaged: lengths {saved.lengths}, expected at most {dict(most)}")
    return saved


def _payload(header: bytes, payload: bytes, name: str, most: int) -> bytes:
    """Return the bytes after the header; StateFileError for another file, or a damaged one."""
    if not header.startswith(_MAGIC):
        found = header[: len(_MAGIC)].hex(" ") or "nothing"
        raise StateFileError(
            f"{name}: no states of a session: it starts with {found}, expected {_MAGIC.hex(' ')}"
        )
    if len(header) < _HEADER.size:
        raise StateFileError(f"{name}: truncated: {len(header)} bytes, the header has {_HEADER.size}")
    _, version, checksum, size = _HEADER.unpack(header)
    if version != VERSION:
        raise StateFileError(f"{name}: states of format version {version}: this tool reads version {VERSION}")
    if size > most:
        raise StateFileError(
            f"{name}: its header promises {size} bytes, those of this program are at most {most}"
        )
    if len(payload) < size:
        raise StateFileError(f"{name}: truncated: {len(payload)} of {size} bytes are there")
    if len(payload) != size or zlib.crc32(payload) != checksum:
        raise StateFileError(f"{name}: damaged: it does not match its checksum")
    return payload
