"""Compiled kernels on disk: one sealed file per kernel, in a folder of the user's own."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from tx8isa.tools.cache_folder import SealedFolder, cache_folder
from tx8isa.tools.caches import KERNELS


@dataclass(frozen=True)
class Compiled:
    """Relocatable machine code of one kernel."""

    entry: str
    """Symbol of the C function."""
    runtime: tuple[str, ...]
    """Undefined symbols of Numba's run time: two for allocation; the others are only reached by raising."""
    code: bytes
    """The ELF object."""

    def to_bytes(self) -> bytes:
        return json.dumps({"entry": self.entry, "runtime": self.runtime}).encode() + b"\n" + self.code

    @classmethod
    def from_bytes(cls, data: bytes) -> Compiled:
        """Return the kernel of ``to_bytes``."""
        header, _, code = data.partition(b"\n")
        fields = json.loads(header)
        return cls(fields["entry"], tuple(fields["runtime"]), code)


def folder() -> Path:
    """Return the folder in which kernels are kept."""
    return cache_folder(KERNELS.folder)


def is_kept() -> bool:
    """Return True if this user may write to the folder of kernels, or to the place where it would be made."""
    place = folder()
    there = next(path for path in (place, *place.parents) if path.exists())
    return there.is_dir() and os.access(there, os.W_OK)


def load(key: str) -> Compiled | None:
    """Return the kernel stored under ``key``; None without one, or without one that can be trusted."""
    data = _sealed().read(f"{key}.o")
    return None if data is None else Compiled.from_bytes(data)


def save(key: str, kernel: Compiled) -> None:
    """Store a kernel; an unwritable folder is reported to the log, and the run continues."""
    _sealed().write(f"{key}.o", [kernel.to_bytes()])


def _sealed() -> SealedFolder:
    return SealedFolder(folder(), "kernel cache")
