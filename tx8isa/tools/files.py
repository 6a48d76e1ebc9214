"""Files of the command lines: read with one-line errors, written whole or not at all."""

from __future__ import annotations

import fcntl
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import IO, Protocol

from tx8isa.errors import Tx8Error

_LONGEST_PART = 50
"""Letters of a file's name that are in that of its temporary file; a name has at most 255 bytes."""

_YOUNG_SECONDS = 60
"""A temporary file of this age has been locked by its writer, if that is still there."""
_MOST_LOCKED = 100
"""Sets of more files are not locked: a process may have a thousand files open."""


class Journal(Protocol):
    """Is told of files that are written, so that nothing half is left when this process is killed."""

    def grows(self, name: Path, target: Path) -> None:
        """A file is written under a name, and will have another one."""

    def whole(self) -> None:
        """All files that grow are whole, and get their names now."""

    def kept(self) -> None:
        """No file grows any more: all have their names, or are removed."""


journal: Journal | None = None
"""Of this process; None if nobody is to be told."""


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a file; Tx8Error when it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Tx8Error(f"{path}: cannot be read: {error.strerror}") from None


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file; Tx8Error when it cannot be read or is not text."""
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


Bytes = bytes | memoryview
"""Bytes that are read: of large constants several objects see the same ones."""

Content = Sequence[Bytes] | Callable[[IO[bytes]], object]
"""The content of a file: its bytes in pieces, or a function that writes them to the open file."""


def write_whole(path: str | Path, data: bytes) -> None:
    """Write a file under a temporary name and rename it; Tx8Error when that fails."""
    write_together({Path(path): [data]})


def write_together(files: Mapping[Path, Content], mode: int = 0o666) -> None:
    """Write several files under temporary names and rename them when all are whole.

    Tx8Error for what cannot be written. After that, or after an interrupt, no temporary file is left; what a
    process left that was killed goes when the same file is written again. ``mode``: permissions of new files,
    less the umask.
    """
    finished: dict[Path, Path] = {}
    with ExitStack() as locks:
        try:
            for target, content in files.items():
                if target.exists() and not target.is_file():  # a device or pipe cannot be replaced
                    with _failure_named(target), target.open("wb") as device:
                        _fill(device, content)
                    continue
                with _failure_named(target):
                    _sweep(target)
                    temporary = target.with_name(_temporary_name(target, os.urandom(4).hex()))
                    if journal is not None:
                        journal.grows(temporary, target)
                    file = _locked(temporary, mode)
                    locks.push(partial(_close, file, target))
                    finished[target] = temporary
                    _fill(file, content)
                    file.flush()
                    if len(files) > _MOST_LOCKED:
                        locks.close()
            with _uninterrupted():
                if journal is not None:
                    journal.whole()
                for target, temporary in finished.items():
                    with _failure_named(target):
                        temporary.replace(target)
        finally:
            for temporary in finished.values():
                with suppress(OSError):
                    temporary.unlink()
            if journal is not None:
                journal.kept()


def _uninterrupted() -> AbstractContextManager[None]:
    """Ctrl-C waits for the end of the block: it must not come between the renames of a set."""
    from .command_line import interrupts_held

    return interrupts_held() if threading.current_thread() is threading.main_thread() else nullcontext()


def _locked(temporary: Path, mode: int) -> IO[bytes]:
    """A new file with a lock that ends with this process: see ``_sweep``."""
    file = os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb")
    with suppress(OSError):  # a file system without locks
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def _close(file: IO[bytes], target: Path, failure: type[BaseException] | None, *_: object) -> None:
    """Close a file. After a failure its last bytes may fail once more, of which nothing is to be told."""
    with suppress(OSError) if failure else _failure_named(target):
        file.close()


def _temporary_name(target: Path, mark: str) -> str:
    return f".{target.name[:_LONGEST_PART]}.{mark}.tmp"


def _sweep(target: Path) -> None:
    """Remove temporary files of ``target`` whose writers were killed.

    A writer holds a lock on its file, which ends with the process; only a young file may lack it.
    """
    pattern = re.compile(re.escape(_temporary_name(target, "MARK")).replace("MARK", "[0-9a-f]{8}"))
    for path in target.parent.iterdir():
        if not pattern.fullmatch(path.name):
            continue
        with suppress(OSError), path.open("rb") as file:
            if time.time() - os.fstat(file.fileno()).st_mtime > _YOUNG_SECONDS:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """A folder that is there inside the block; Tx8Error when it cannot be made.

    When the block fails, what was made goes again, unless there is something in it.
    """
    with _failure_named(folder):
        made = [each for each in (folder, *folder.parents) if not each.exists()]
        if not made and not folder.is_dir():
            raise Tx8Error(f"{folder}: cannot be written to: it is not a folder")
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
