"""Lists the caches that the tools keep between runs, with folders and sizes, and empties them."""

from __future__ import annotations

import argparse
import fcntl
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from .cache_folder import cache_folder, folder_lock


class Cache(NamedTuple):
    """One kind of entries."""

    folder: str
    title: str
    most: int | None
    """Limit for all entries together, in bytes; None for no limit."""


KERNELS = Cache("kernels-v2", "machine code of the emulator", None)
PROGRAM_BYTES = 2 << 30
PROGRAMS = Cache("programs-v2", "compiled programs", PROGRAM_BYTES)
CACHES = (KERNELS, PROGRAMS)

_FOLDER = re.compile(r"(kernels|programs)-v\d+")
"""Our folders, including folders of older versions."""
_ENTRY = re.compile(r".*\.(o|program|tmp)|\.secret")
"""Names of our files in them. Nothing else is removed."""
_MEGABYTE = 1 << 20


def cache_info() -> Iterator[str]:
    """Describe the folder of all caches in lines: entries and size by kind, and the limits."""
    root = cache_folder("")
    yield f"folder {root}" + ("" if root.is_dir() else ", not there yet")
    known = {cache.folder: cache for cache in CACHES}
    others = [path.name for path in _folders(root) if path.name not in known]
    for name in (*known, *others):
        sizes = _entries(root / name).values()
        title = known[name].title if name in known else "of an older version, not used"
        most = known[name].most if name in known else None
        limit = f"at most {most / _MEGABYTE:,.0f} MB" if most else "no limit"
        limit = limit if name in known else "removed by --cache-clear"
        size = f"{sum(sizes) / _MEGABYTE:,.1f} MB"
        yield f"{name:12} {len(sizes):6,} files {size:>12}  {title}; {limit}"


def cache_clear() -> str:
    """Remove all entries of all caches; returns one line about them. OSError when that is not possible.

    Other processes may empty the caches or write entries at the same time; each finds a whole entry or none.
    """
    root = cache_folder("")
    count, size = 0, 0
    for folder in _folders(root):
        with suppress(FileNotFoundError), folder_lock(folder, fcntl.LOCK_EX):
            for path, bytes_ in _entries(folder).items():
                with suppress(FileNotFoundError):
                    path.unlink()
                    count, size = count + 1, size + bytes_
            with suppress(OSError):  # not ours
                folder.rmdir()
    return f"{count:,} files, {size / _MEGABYTE:,.1f} MB removed from {root}"


def _folders(root: Path) -> list[Path]:
    """Yield our folders; links are not followed."""
    if not root.is_dir():
        return []
    found = (path for path in root.iterdir() if _FOLDER.fullmatch(path.name))
    return sorted(path for path in found if path.is_dir() and not path.is_symlink())


def _entries(folder: Path) -> dict[Path, int]:
    """Yield our files in a folder, and their sizes."""
    found: dict[Path, int] = {}
    if folder.is_symlink():
        return found
    with suppress(FileNotFoundError, NotADirectoryError):
        for path in folder.iterdir():
            with suppress(FileNotFoundError):  # another process has removed it
                status = path.lstat()
                if _ENTRY.fullmatch(path.name) and stat.S_ISREG(status.st_mode):
                    found[path] = status.st_size
    return found


def add_cache_options(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add the options that show and empty the caches; like ``--help`` they need no other argument."""
    text = "print where compiled kernels and programs are kept, how many, their size and limit, and exit"
    parser.add_argument("--cache-info", action=_Info, nargs=0, help=text)
    parser.add_argument("--cache-clear", action=_Clear, nargs=0, help="remove all that is kept, and exit")


def _print_and_leave(parser: argparse.ArgumentParser, text: Callable[[], str]) -> NoReturn:
    try:
        print(text())
    except OSError as error:
        parser.exit(1, f"{parser.prog}: error: {error.filename}: {error.strerror}\n")
    parser.exit()


class _Info(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        _print_and_leave(parser, lambda: "\n".join(cache_info()))


class _Clear(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        _print_and_leave(parser, cache_clear)
