"""Files of the command lines, read with one-line errors and written whole or not at all."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import IO, Protocol

from tx8isa.errors import Tx8Error

from .overwrite import check_outputs, check_replaceable, note_read

_LONGEST_PART = 50
"""Characters of a file's name in its temporary file's name; a name has at most 255 bytes."""

_YOUNG_SECONDS = 60
"""A temporary file of this age is locked if its writer is still running."""
_MOST_LOCKED = 100
"""Sets of more files are not locked: a process may have a thousand files open."""


class Journal(Protocol):
    """Records files in progress, so that no incomplete file is left when this process is killed."""

    def grows(self, name: Path, target: Path) -> None:
        """A file grows under a temporary name, and will get its own."""

    def whole(self, names: Sequence[Path]) -> None:
        """These files are complete, and get their names now."""

    def kept(self, name: Path) -> None:
        """A file has got its name, or was removed."""


journal: Journal | None = None
"""The journal of this process; None for none."""


def read_bytes(path: str | Path) -> bytes:
    """Read the bytes of a file; Tx8Error when it cannot be read."""
    note_read(path)
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Tx8Error(f"{path}: cannot be read: {error.strerror}") from None


def read_text(path: str | Path) -> str:
    """Read the text of a UTF-8 file; Tx8Error when it cannot be read or is not text."""
    return as_text(read_bytes(path), str(path))


def as_text(data: bytes, name: str) -> str:
    """Decode UTF-8 bytes with any line ends; Tx8Error names the first byte that is not UTF-8."""
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
"""Read-only bytes; several objects may share those of large constants."""

Content = Sequence[Bytes] | Callable[[IO[bytes]], object]
"""The content of a file: its bytes in pieces, or a function that writes them to the open file."""


class GrowingFile:
    """A file that grows under a temporary name in its folder, and gets its final name when it is complete.

    The temporary file is always new, and its name is unpredictable. A device, a pipe and an open file such as
    /dev/stdout are written directly. ``mode``: permissions of a new file, less the umask.
    """

    def __init__(self, target: str | Path, mode: int = 0o666) -> None:
        self.target, self._mode = Path(target), mode
        self.temporary: Path | None = None
        """The temporary name; None before and after writing, and for targets that are written directly."""

    def open(self) -> IO[bytes]:
        """Begin the file. Tx8Error for one that the run reads, OSError when it cannot be written."""
        check_replaceable(self.target)
        stream = _stream(self.target)
        if stream is not None:
            return stream
        sweep(self.target.parent, self.target.name)
        self.temporary = self.target.with_name(_temporary_name(self.target.name, os.urandom(8).hex()))
        if journal is not None:
            journal.grows(self.temporary, self.target)
        try:
            return _locked(self.temporary, self._mode)
        except FileExistsError:  # an existing file is not ours, and stays
            self._forget()
            raise

    def keep(self) -> None:
        """Give the file its own name. Tx8Error if the run has read a file of that name meanwhile."""
        if self.temporary is not None:
            check_replaceable(self.target)
            self.temporary.replace(self.target)
            self._forget()

    def drop(self) -> None:
        """Remove the file, unless it has its own name."""
        if self.temporary is not None:
            with suppress(OSError):
                self.temporary.unlink()
            self._forget()

    def _forget(self) -> None:
        if journal is not None and self.temporary is not None:
            journal.kept(self.temporary)
        self.temporary = None


def write_whole(path: str | Path, data: bytes) -> None:
    """Write a file under a temporary name and rename it; Tx8Error when that fails."""
    write_together({Path(path): [data]})


def write_together(files: Mapping[Path, Content], mode: int = 0o666) -> None:
    """Write several files under temporary names and rename them when all are whole.

    Tx8Error for a file that cannot be written or that the run reads. No temporary file is left after an error
    or an interrupt. Files left by a killed process are removed when the same file is written again. ``mode``
    as for ``GrowingFile``.
    """
    check_outputs([(f"'{target}'", target) for target in files], [])
    growing: list[GrowingFile] = []
    with ExitStack() as locks:
        try:
            for target, content in files.items():
                with failure_named(target):
                    growing.append(GrowingFile(target, mode))
                    file = growing[-1].open()
                    locks.push(partial(_close, file, target))
                    _fill(file, content)
                    file.flush()
                    if len(files) > _MOST_LOCKED:
                        locks.close()
            with _uninterrupted():
                if journal is not None:
                    journal.whole([each.temporary for each in growing if each.temporary is not None])
                for each in growing:
                    with failure_named(each.target):
                        each.keep()
        finally:
            for each in growing:
                each.drop()


def _uninterrupted() -> AbstractContextManager[None]:
    """Delay Ctrl-C to the end of the block, so that it does not interrupt the renames of a set."""
    from .command_line import interrupts_held

    return interrupts_held() if threading.current_thread() is threading.main_thread() else nullcontext()


def _stream(target: Path) -> IO[bytes] | None:
    """Open the device, pipe or open file of a name; None for a regular file or an unused name."""
    if not target.exists():
        return None
    descriptor = _descriptor(target)
    if descriptor is not None:
        return os.fdopen(os.dup(descriptor), "wb")
    return None if target.is_file() else target.open("wb")


def _descriptor(name: Path) -> int | None:
    """Return the descriptor of an open file of this process, for a name such as /dev/stdout."""
    while name.is_symlink():
        if name.parent.resolve() == Path(f"/proc/{os.getpid()}/fd"):
            return int(name.name)
        name = name.parent / name.readlink()
    return None


def _locked(temporary: Path, mode: int) -> IO[bytes]:
    """Open a new file with a lock that ends with this process (see ``sweep``)."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.fdopen(os.open(temporary, flags, mode), "wb")
    with suppress(OSError):  # a file system without locks
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def _close(file: IO[bytes], target: Path, failure: type[BaseException] | None, *_: object) -> None:
    """Close a file. After a failure its last bytes may fail again; that is not reported."""
    with suppress(OSError) if failure else failure_named(target):
        file.close()


def _temporary_name(name: str, mark: str) -> str:
    return f".{name[:_LONGEST_PART]}.tx8-{mark}.tmp"


def sweep(folder: Path, name: str | None = None) -> None:
    """Remove temporary files of ``name``, or of all names, whose writers were killed.

    A writer holds a lock on its file, which ends with the process; only a young file may lack it. Files of
    other users are not touched, whatever their names.
    """
    pattern = re.escape(_temporary_name("NAME" if name is None else name, "MARK"))
    pattern = pattern.replace("NAME", ".+") if name is None else pattern
    temporary = re.compile(pattern.replace("MARK", "[0-9a-f]{16}"))
    with suppress(OSError):  # a folder that cannot be listed, or was removed
        for path in folder.iterdir():
            if temporary.fullmatch(path.name):
                with suppress(OSError):
                    _remove_left(path)


def _remove_left(path: Path) -> None:
    """Remove a temporary file if its writer was killed; OSError for a live writer and for other failures."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        if ours and time.time() - status.st_mtime > _YOUNG_SECONDS:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
    finally:
        os.close(handle)


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a folder for the block; Tx8Error when it cannot be made.

    When the block fails, a new folder is removed again, unless it has files.
    """
    with failure_named(folder):
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
def failure_named(target: Path) -> Iterator[None]:
    """Convert an OSError to a Tx8Error that names the file."""
    try:
        yield
    except OSError as error:
        raise Tx8Error(f"{target}: cannot be written: {error.strerror}") from None


def _fill(file: IO[bytes], content: Content) -> None:
    if callable(content):
        content(file)
    else:
        file.writelines(content)
