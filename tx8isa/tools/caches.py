"""What the tools keep between runs: which folders there are, how large they are, and how they are emptied."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .cache_folder import cache_folder


class Cache(NamedTuple):
    """One kind of entries."""

    folder: str
    title: str
    most: int | None
    """Limit for all entries together, in bytes; None: there is none."""


KERNELS = Cache("kernels-v2", "machine code of the emulator", None)
PROGRAM_BYTES = 2 << 30
PROGRAMS = Cache("programs-v2", "compiled programs", PROGRAM_BYTES)
CACHES = (KERNELS, PROGRAMS)

_FOLDER = re.compile(r"(kernels|programs)-v\d+")
"""Our folders, those of older versions included."""
_ENTRY = re.compile(r".*\.(o|program|tmp)|\.secret")
"""Our files in them. Nothing else is removed."""
_MEGABYTE = 1 << 20


def cache_info() -> Iterator[str]:
    """Lines about the folder of all caches: entries and size by kind, and the limits."""
    root = cache_folder("")
    yield f"folder {root}" + ("" if root.is_dir() else ", not there yet")
    known = {cache.folder: cache for cache in CACHES}
    others = [path.name for path in _folders(root) if path.name not in known]
    for name in (*known, *others):
        sizes = [path.stat().st_size for path in _entries(root / name)]
        title = known[name].title if name in known else "of an older version, not used"
        most = known[name].most if name in known else None
        limit = f"at most {most / _MEGABYTE:,.0f} MB" if most else "no limit"
        limit = limit if name in known else "removed by --cache-clear"
        size = f"{sum(sizes) / _MEGABYTE:,.1f} MB"
        yield f"{name:12} {len(sizes):6,} files {size:>12}  {title}; {limit}"


def cache_clear() -> str:
    """Remove all entries of all caches; what was removed, in one line."""
    root = cache_folder("")
    count, size = 0, 0
    for folder in _folders(root):
        for path in _entries(folder):
            size += path.stat().st_size
            path.unlink(missing_ok=True)
            count += 1
        if not any(folder.iterdir()):
            folder.rmdir()
    return f"{count:,} files, {size / _MEGABYTE:,.1f} MB removed from {root}"


def _folders(root: Path) -> list[Path]:
    """Our folders; links are not followed."""
    if not root.is_dir():
        return []
    found = (path for path in root.iterdir() if _FOLDER.fullmatch(path.name))
    return sorted(path for path in found if path.is_dir() and not path.is_symlink())


def _entries(folder: Path) -> list[Path]:
    if not folder.is_dir() or folder.is_symlink():
        return []
    return [path for path in folder.iterdir() if _ENTRY.fullmatch(path.name) and path.is_file()]


def add_cache_options(parser: argparse.ArgumentParser) -> None:
    """The options that show and empty the caches; like ``--help`` they need nothing else."""
    text = "print where compiled kernels and programs are kept, how many, their size and limit, and exit"
    parser.add_argument("--cache-info", action=_Info, nargs=0, help=text)
    parser.add_argument("--cache-clear", action=_Clear, nargs=0, help="remove all that is kept, and exit")


class _Info(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print("\n".join(cache_info()))
        parser.exit()


class _Clear(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(cache_clear())
        parser.exit()
