"""Prevents a tool from overwriting a file that it reads, or a second file that it writes in the same run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tx8isa.errors import Tx8Error

Role = tuple[str, str | Path | None]
"""A file's role in the run, in the words of a message, and its path; None or ``-`` for no file."""

_read: dict[object, str] | None = None
"""The files that the run of a tool reads, by identity; None outside of a run."""


@contextmanager
def run_of_tool() -> Iterator[None]:
    """Mark a block as one run of a tool, during which ``note_read`` records the files read."""
    global _read
    before, _read = _read, {}
    try:
        yield
    finally:
        _read = before


def note_read(path: str | Path | None, what: str = "a file that the run reads") -> None:
    """Keep a file from being replaced in this run of a tool."""
    if _read is not None and (found := identity(path)) is not None:
        _read.setdefault(found, what)


def check_replaceable(path: Path) -> None:
    """Raise Tx8Error for a file that this run of a tool reads, and for a name that no file can have."""
    check_name(path)
    what = (_read or {}).get(identity(path))
    if what is not None:
        raise Tx8Error(f"{path}: to write it would replace {what}; name another file")


def check_outputs(outputs: Iterable[Role], inputs: Iterable[Role]) -> None:
    """Raise Tx8Error when an output is the same file as an input or another output, under any name.

    Devices and pipes may be written to twice. The inputs are noted as read.
    """
    seen: dict[object, str] = {}
    for what, path in inputs:
        note_read(path, what)
        if (found := identity(path)) is not None:
            seen.setdefault(found, what)
    written: dict[object, str] = {}
    for what, path in outputs:
        check_name(path)
        found = identity(path)
        if found is None:
            continue
        if found in seen:
            raise Tx8Error(f"{path}: {what} would replace {seen[found]}; name another file")
        if found in written:
            raise Tx8Error(f"{path}: {written[found]} and {what} name the same file; name two files")
        written[found] = what


def identity(path: str | Path | None) -> object | None:
    """Identify a file: equal for all names and links of it; None if the name has no file to replace."""
    if path is None or str(path) == "-" or not _is_possible(path):
        return None
    path = Path(path)
    try:
        status = path.stat()
    except OSError:  # a new file, or a name that is too long
        return Path(path.parent.absolute().resolve(), path.name)
    return (status.st_dev, status.st_ino) if path.is_file() else None


def check_name(path: str | Path | None) -> None:
    """Raise Tx8Error for a name that no file of the host can have; scripts and models may contain such
    names."""
    if path is not None and not _is_possible(path):
        allowed = "expected no NUL and no half of a surrogate pair"
        raise Tx8Error(f"{str(path)!r}: no file can have this name: {allowed}")


def _is_possible(path: str | Path) -> bool:
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False
