"""Files of the command lines: read with one-line errors, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tx8isa.errors import Tx8Error

_LONGEST_PART = 50
"""Letters of a file's name that are in that of its temporary file; a name has at most 255 bytes."""


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


Content = Sequence[bytes] | Callable[[IO[bytes]], object]
"""What a file shall hold: its bytes in pieces, or a function that writes them to the open file."""


def write_whole(path: str | Path, data: bytes) -> None:
    """Write a file under a temporary name and rename it; Tx8Error when that fails."""
    write_together({Path(path): [data]})


def write_together(files: Mapping[Path, Content]) -> None:
    """Write several files under temporary names and rename them when all are whole.

    Tx8Error for what cannot be written. That and an interrupt leave nothing behind.
    """
    finished: dict[Path, Path] = {}
    try:
        for target, content in files.items():
            if target.exists() and not target.is_file():  # a device or pipe cannot be replaced
                with _failure_named(target), target.open("wb") as file:
                    _fill(file, content)
                continue
            temporary = target.with_name(f".{target.name[:_LONGEST_PART]}.{os.urandom(4).hex()}.tmp")
            with _failure_named(target), temporary.open("xb") as file:
                finished[target] = temporary
                _fill(file, content)
        for target, temporary in finished.items():
            with _failure_named(target):
                temporary.replace(target)
    finally:
        for temporary in finished.values():
            with suppress(OSError):
                temporary.unlink()


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """A folder that is there inside the block; Tx8Error when it cannot be made.

    When the block fails, what was made goes again, unless there is something in it.
    """
    with _failure_named(folder):
        made = [each for each in (folder, *folder.parents) if not each.exists()]
        if not made and not folder.is_dir():
            raise Tx8Error(f"{folder}: cannot be written to: it is no folder")
        folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        for each in made:
            with suppress(OSError):
                each.rmdir()
        raise


@contextmanager
def _failure_named(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Tx8Error(f"{target}: cannot be written: {error.strerror}") from None


def _fill(file: IO[bytes], content: Content) -> None:
    if callable(content):
        content(file)
    else:
        file.writelines(content)
