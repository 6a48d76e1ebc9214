"""Compiled kernels on disk: one file per kernel, checked before use, written atomically."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tx8isa.tools.cache_folder import cache_folder

log = logging.getLogger(__name__)

_MAGIC = b"tx8 kernel 1\n"
_DIGEST = 32


@dataclass(frozen=True)
class Compiled:
    """Relocatable machine code of one kernel."""

    entry: str
    """Symbol of the C function."""
    runtime: tuple[str, ...]
    """Undefined symbols of Numba's run time: two for allocation, the others only reached by raising."""
    code: bytes
    """The ELF object."""

    def to_bytes(self) -> bytes:
        header = json.dumps({"entry": self.entry, "runtime": self.runtime}).encode()
        payload = header + b"\n" + self.code
        return _MAGIC + hashlib.sha256(payload).digest() + payload

    @classmethod
    def from_bytes(cls, data: bytes) -> Compiled | None:
        """The kernel in a cache file, or None when the file is damaged."""
        start = len(_MAGIC) + _DIGEST
        payload = data[start:]
        if not data.startswith(_MAGIC) or hashlib.sha256(payload).digest() != data[len(_MAGIC) : start]:
            return None
        header, _, code = payload.partition(b"\n")
        fields = json.loads(header)
        return cls(fields["entry"], tuple(fields["runtime"]), code)


def folder() -> Path:
    """Where kernels are kept."""
    return cache_folder("kernels-v1")


def load(key: str) -> Compiled | None:
    """The kernel stored under ``key``; None when there is none, or none that can be trusted."""
    path = folder() / f"{key}.o"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        log.info("kernel cache: cannot read %s (%s); compiling instead", path, error.strerror)
        return None
    found = Compiled.from_bytes(data)
    if found is None:
        log.warning("kernel cache: %s is damaged; compiling the kernel again", path)
    return found


def save(key: str, kernel: Compiled) -> None:
    """Store a kernel; a folder that cannot be written is reported to the log, and the run goes on."""
    place = folder()
    try:
        place.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=place, prefix=f"{key}.", suffix=".tmp")
    except OSError as error:
        log.info("kernel cache: cannot write to %s (%s); every run compiles", place, error.strerror)
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(kernel.to_bytes())
        Path(temporary).replace(place / f"{key}.o")
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        log.info("kernel cache: cannot write to %s (%s)", place, error.strerror)
