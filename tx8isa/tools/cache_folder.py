"""Folders that cache kernels and programs on disk, sealed against foreign or damaged entries.

An entry is executed, so this user must have written it under this name. Each begins with a seal, a keyed
digest of its name and content. The key is a random secret in a file of the folder that only its owner may
read. So an entry that was renamed, damaged or copied from another folder is detected before it is used.
Folder, secret and entries must belong to the user, and nobody else may write to them.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import hmac
import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tx8isa.errors import Tx8Error

from .files import write_together

if TYPE_CHECKING:
    from logging import Logger


SECRET = ".secret"
"""The file of a folder that holds the key of its seals."""

SEAL_BYTES = 32
"""Size of the seal at the beginning of an entry."""

_SECRET_BYTES = 32
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_PATIENCE_SECONDS, _PAUSE_SECONDS = 2.0, 0.01
"""Seconds that a process waits for the lock of a folder, and between two attempts."""


def _log() -> Logger:
    """The logger of this module."""
    import logging  # the import takes a third of the time of ``tx8emu --help``, and most runs log nothing

    return logging.getLogger(__name__)


def cache_folder(kind: str) -> Path:
    """Return the folder named ``kind`` in ``$TX8_CACHE_DIR`` or, by default, in the user's cache folder.

    The folder may not exist yet.
    """
    from platformdirs import user_cache_dir  # most programs are assembled without it

    return Path(os.environ.get("TX8_CACHE_DIR") or user_cache_dir("tx8")) / kind


class SealedFolder:
    """Entries by name in a folder of this user. ``title`` begins the messages: "kernel cache".

    Nothing here raises. Entries that cannot be read, trusted or written are logged, and the caller computes.
    """

    def __init__(self, path: Path, title: str) -> None:
        self.path, self.title = path, title

    def read(self, name: str) -> bytes | None:
        """Return the content of an entry; None if it is missing or not trusted."""
        secret = self._secret() if self._usable() else None
        if secret is None:
            return None
        data = self._owned_file(name, _OTHERS_WRITE)
        if data is None:
            return None
        content = data[SEAL_BYTES:]
        if not hmac.compare_digest(data[:SEAL_BYTES], _seal(secret, name, [content])):
            if self._secret() != secret:  # another process has emptied the folder and filled it again
                return None
            path = self.path / name
            _log().warning("%s: %s is damaged, or another program wrote it; computed again", self.title, path)
            return None
        return content

    def write(self, name: str, parts: Sequence[bytes | memoryview]) -> bool:
        """Store an entry; False when that is not possible."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.path.mkdir(exist_ok=True, mode=0o700)
            if not self._usable():
                return False
            self._make_secret()
            with folder_lock(self.path, fcntl.LOCK_SH):  # the folder is not emptied between secret and entry
                if (secret := self._secret()) is None:
                    return False
                sealed = [_seal(secret, name, parts), *parts]
                write_together({self.path / name: sealed}, mode=0o600)
        except (OSError, Tx8Error) as error:
            _log().info("%s: cannot write to %s (%s)", self.title, self.path, _reason(error))
            return False
        return True

    def _usable(self) -> bool:
        """Return True if the folder exists and is private to this user; otherwise warns once, with the
        reason."""
        try:
            status = self.path.lstat()
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                _log().info("%s: cannot read %s (%s)", self.title, self.path, error.strerror)
            return False
        fault = "is not a folder" if not stat.S_ISDIR(status.st_mode) else _distrust(status, _OTHERS_WRITE)
        if fault:
            _say_once(self.title, f"{self.path} {fault}")
        return not fault

    def _secret(self) -> bytes | None:
        secret = self._owned_file(SECRET, _OTHERS)
        if secret is not None and len(secret) != _SECRET_BYTES:
            _say_once(self.title, f"{self.path / SECRET} is damaged")
            return None
        return secret

    def _make_secret(self) -> None:
        """Make the secret, unless one exists, trusted or not."""
        path = self.path / SECRET
        if not os.path.lexists(path):
            with folder_lock(self.path, fcntl.LOCK_EX):
                if not os.path.lexists(path):  # unless another process has just made it
                    write_together({path: [os.urandom(_SECRET_BYTES)]}, mode=0o600)

    def _owned_file(self, name: str, forbidden: int) -> bytes | None:
        """Read a file that belongs to this user and has none of the permissions ``forbidden``."""
        path = self.path / name
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as file:
                status = os.fstat(handle)
                regular = stat.S_ISREG(status.st_mode)
                fault = _distrust(status, forbidden) if regular else "is not a file"
                if not fault:
                    return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            _log().info("%s: cannot read %s (%s); computed instead", self.title, path, error.strerror)
            return None
        _say_once(self.title, f"{path} {fault}")
        return None


@contextmanager
def folder_lock(folder: Path, kind: int) -> Iterator[None]:
    """Hold a lock of a folder during the block: shared for writing there, exclusive for emptying it.

    OSError when the folder is missing or was replaced. After a while the block continues without the lock, as
    on a file system without locks. An entry may then be lost, and is computed again.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        last = time.monotonic() + _PATIENCE_SECONDS
        with suppress(OSError):
            while not _taken(handle, kind) and time.monotonic() < last:
                time.sleep(_PAUSE_SECONDS)
        if not os.path.samestat(os.fstat(handle), folder.lstat()):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
        yield
    finally:
        os.close(handle)


def _taken(handle: int, kind: int) -> bool:
    """Return True if a lock could be taken at once; OSError where the system has no locks."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _distrust(status: os.stat_result, forbidden: int) -> str:
    """Explain why others can access a file or folder; empty when it is private to this user."""
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}, not to {os.geteuid()}"
    mode = stat.S_IMODE(status.st_mode)
    return f"is open to other users (mode {mode:04o})" if mode & forbidden else ""


@cache
def _say_once(title: str, fault: str) -> None:
    _log().warning(
        "%s: %s; it is not used. Remove it, or name a folder of your own in TX8_CACHE_DIR", title, fault
    )


def _seal(secret: bytes, name: str, parts: Iterable[bytes | memoryview]) -> bytes:
    digest = hashlib.blake2b(name.encode() + b"\0", key=secret, digest_size=SEAL_BYTES)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _reason(error: Exception) -> str:
    return error.strerror or "" if isinstance(error, OSError) else str(error)
