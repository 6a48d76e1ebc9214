"""Files of the command lines: read with one-line errors, written whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tx8isa.errors import Tx8Error


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a file; Tx8Error when it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Tx8Error(f"{path}: cannot be read: {error.strerror}") from None


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file; Tx8Error when it cannot be read or is no text."""
    return as_text(read_bytes(path), str(path))


def as_text(data: bytes, name: str) -> str:
    """UTF-8 bytes with any line ends as text; Tx8Error names the first byte that is not UTF-8."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise Tx8Error(
            f"{name}:{line}:{column}: error: byte {data[error.start]:#04x} is not UTF-8 text"
        ) from None
    return text.replace("\r\n", "\n")


def write_whole(path: str | Path, data: bytes) -> None:
    """Write a file under a temporary name and rename it; Tx8Error when that fails."""
    target = Path(path)
    if target.exists() and not target.is_file():  # a device or pipe cannot be replaced
        _write_through(target, data)
        return
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
        temporary.replace(target)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise Tx8Error(f"{path}: cannot be written: {error.strerror}") from None


def _write_through(target: Path, data: bytes) -> None:
    try:
        target.write_bytes(data)
    except OSError as error:
        raise Tx8Error(f"{target}: cannot be written: {error.strerror}") from None
