"""Compiled kernels on disk: one sealed file per kernel, in a folder of the user's own."""

from __future__ import annotations

import os
from pathlib import Path

from tx8isa.tools.cache_folder import SealedFolder, cache_folder
from tx8isa.tools.caches import KERNELS


def folder() -> Path:
    """Return the folder in which kernels are kept."""
    return cache_folder(KERNELS.folder)


def is_kept() -> bool:
    """Return True if this user may write to the folder of kernels, or to the place where it would be made."""
    place = folder()
    there = next(path for path in (place, *place.parents) if path.exists())
    return there.is_dir() and os.access(there, os.W_OK)


def load(key: str) -> bytes | None:
    """Return the object stored under ``key``; None without one, or without one that can be trusted."""
    return _sealed().read(f"{key}.o")


def save(key: str, kernel: bytes) -> None:
    """Store an object; an unwritable folder is reported to the log, and the run continues."""
    _sealed().write(f"{key}.o", [kernel])


def _sealed() -> SealedFolder:
    return SealedFolder(folder(), "kernel cache")
