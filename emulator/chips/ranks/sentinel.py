"""Watches the ranks of a host: when one dies, it prints one line and ends the others.

It runs as a separate program, outside the group of processes that mpiexec ends, and needs only the standard
library. Each argument is a rank, its process, and two open files, such as ``1:4711:5:6``. These are the read
ends of two pipes whose write ends only the rank holds. A pipe has no name in any folder: only processes of
the same user, and root, can open its ends.

On the first pipe a rank writes lines: the shared memory that it has mapped, its present work, why it gives
up, and that it ends regularly together with all others. They are ``maps {PATH: INODE}``, ``does TEXT``,
``failed LINE`` and ``bye``. Nothing is written to the second pipe. It closes before mpiexec can detect the
death. The host reports the end of a process later. By then mpiexec has ended the other ranks, which may seem
to have died first.

Before the run a rank announces the files that it writes: ``writes [TARGET, ...]``. During the run it reports
the temporary name of each file, the complete files that are being renamed, and the renamed ones. All are in
JSON: ``grows [NAME, TARGET]``, ``whole [NAME, ...]`` and ``kept NAME``. When it dies between, announced files
get their names here if they are complete, or are removed. Segments of shared memory that MPI has left are
removed too.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

_GRACE = 2.0
"""Seconds that mpiexec has to end the other ranks; then the sentinel ends them."""
_PIECE = 1 << 16
"""The most bytes of a pipe that are read at a time."""
_SEGMENT = re.compile(r"/dev/shm/(mpich_shm|ucx_shm_posix)_\w+")
"""Names of shared memory of MPICH and its transports."""


class Watched(NamedTuple):
    """A rank, its process, and the read ends of its two pipes."""

    rank: int
    process: int
    messages: int
    life: int


class UnfinishedFiles:
    """The files that ranks write, with their present and their final names."""

    def __init__(self) -> None:
        self._announced: dict[int, list[str]] = {}
        self._growing: dict[str, str] = {}
        self._whole: set[str] = set()

    def note(self, kind: str, rank: int, said: Any) -> None:
        """Take a rank's report about its files; files that it did not announce at first are ignored."""
        if kind == "writes":
            self._announced.setdefault(rank, list(said))
        elif kind == "grows":
            name, target = said
            if target in self._announced.get(rank, ()) and Path(name).parent == Path(target).parent:
                self._growing[name] = target
        elif kind == "whole":
            self._whole.update(said)
        elif kind == "kept":
            self._growing.pop(said, None)

    def tidy(self) -> None:
        """Give complete files their names, and remove the others."""
        for name, target in self._growing.items():
            with suppress(OSError):  # a file that was renamed already, or a folder that no longer exists
                if _is_own_file(Path(name).lstat()):
                    Path(name).replace(target) if name in self._whole else Path(name).unlink()


def mapped_segments(process: int) -> dict[str, int]:
    """Return the inodes, by path, of MPI's named segments that a process has mapped."""
    found: dict[str, int] = {}
    with suppress(OSError):
        for line in Path(f"/proc/{process}/maps").read_text().splitlines():
            *_, inode, path = [*line.split(maxsplit=5), ""][:6]
            if _SEGMENT.fullmatch(path):
                found[path] = int(inode)
    return found


def remove_segments(segments: Mapping[str, int]) -> None:
    """Remove the segments that still exist, unless another file has the name now."""
    for path, inode in segments.items():
        with suppress(OSError):
            status = Path(path).lstat()
            if _SEGMENT.fullmatch(path) and _is_own_file(status) and status.st_ino == inode:
                Path(path).unlink()


class Sentinel:
    """Watches ranks."""

    def __init__(self, ranks: Sequence[Watched]) -> None:
        self._names = {each.rank: f"process {each.process}" for each in ranks}
        self._processes = {each.rank: each.process for each in ranks}
        self._handles: dict[int, int] = {}
        """By rank: a handle of its process, which never becomes another process's."""
        self._messages = {each.rank: each.messages for each in ranks}
        self._lives = {each.rank: each.life for each in ranks}
        """By rank: the ends of its pipes."""
        self._begun = {each.rank: b"" for each in ranks}
        """By rank: the beginning of a line."""
        self._files = UnfinishedFiles()
        self._segments: dict[str, int] = {}
        """Shared memory that ranks have mapped, which nobody else removes when they are killed."""
        self._ready = select.epoll()  # which shows the order of deaths: mpiexec ends the other ranks
        self._left: set[int] = set()
        """Ranks that have finished their work; they exit when all have."""
        self._gone = {each.rank for each in ranks if not self._meet(each)}
        """Ranks that had ended before they were watched, so that their order is not known."""

    def watch(self) -> str | None:
        """Wait until all ranks have left; return the line about one that has not done so in order."""
        while self._left != self._names.keys():
            ready = [handle for handle, _ in self._ready.poll(0 if self._gone else None)]
            line = self._hear()
            if line is not None or self._left == self._names.keys():
                return line
            ranks = {handle: rank for rank, handle in self._watched()}
            dead = [ranks[handle] for handle in ready if handle in ranks]
            if self._gone:
                ended = {rank for rank, handle in self._watched() if has_ended(handle)}
                return self._died(*sorted(self._gone | ended))
            if dead:
                return self._died(dead[0])
        return None

    def _watched(self) -> list[tuple[int, int]]:
        """Return ranks, with the handles that show their ends."""
        return [*self._handles.items(), *self._lives.items()]

    def _hear(self) -> str | None:
        """Read the lines that are there; return the line of the first rank that gives up."""
        failed = []
        for rank in list(self._messages):
            for line in self._lines(rank):
                kind, _, rest = line.partition(" ")
                if kind == "failed":
                    failed.append(rest)
                else:
                    self._note(kind, rank, rest)
        return failed[0] if failed else None

    def _lines(self, rank: int) -> Iterator[str]:
        """Yield the lines that a rank has written since the last call."""
        with suppress(BlockingIOError):
            while data := os.read(self._messages[rank], _PIECE):
                *lines, self._begun[rank] = (self._begun[rank] + data).split(b"\n")
                yield from (line.decode(errors="replace") for line in lines)
            self._close(self._messages.pop(rank))

    def _note(self, kind: str, rank: int, rest: str) -> None:
        if kind == "bye":
            self._left.add(rank)
        elif kind == "does":
            self._names[rank] += f", {rest}"
        elif kind == "maps":
            self._segments |= json.loads(rest)
        else:
            self._files.note(kind, rank, json.loads(rest))

    def _died(self, *ranks: int) -> str:
        """Return the line about a dead rank; if several are dead, mpiexec has ended all but one."""
        names = " or ".join(f"rank {rank} ({self._names[rank]})" for rank in ranks)
        return f"tx8emu: error: {names} has died, and the run with it"

    def _meet(self, each: Watched) -> bool:
        """Watch a rank, even one whose process is not reaped yet; return True if it is still alive."""
        os.set_blocking(each.messages, False)
        for pipe in (each.messages, each.life):
            self._ready.register(pipe, select.EPOLLIN)
        try:
            handle = os.pidfd_open(each.process)
        except ProcessLookupError:
            return False
        self._handles[each.rank] = handle
        self._ready.register(handle, select.EPOLLIN)
        return not (has_ended(handle) or has_ended(each.life))

    def _forget(self, rank: int) -> None:
        if (handle := self._handles.pop(rank, None)) is not None:
            self._close(handle)

    def _close(self, handle: int) -> None:
        self._ready.unregister(handle)
        os.close(handle)

    def end(self) -> None:
        """End the remaining ranks if mpiexec has not done so after a while, then remove their temporary
        files."""
        for rank, handle in self._handles.items():
            if not has_ended(handle):
                self._segments |= mapped_segments(self._processes[rank])
        while self._lives:
            self._close(self._lives.popitem()[1])
        self._await_deaths()
        for handle in self._handles.values():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        self._await_deaths()
        self._hear()
        self._files.tidy()
        remove_segments(self._segments)

    def _await_deaths(self) -> None:
        last = time.monotonic() + _GRACE
        while self._handles and (rest := last - time.monotonic()) > 0:
            ready = {handle for handle, _ in self._ready.poll(rest)}
            self._hear()
            for rank in [rank for rank, handle in self._handles.items() if handle in ready]:
                self._forget(rank)


def has_ended(handle: int) -> bool:
    """Return True if the process of a handle, or the process at the other end of a pipe, has ended."""
    return bool(select.select([handle], [], [], 0)[0])


def _is_own_file(status: os.stat_result) -> bool:
    """Return True for a file, not a link or pipe, that belongs to this user."""
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()


def main(arguments: list[str]) -> int:
    """Watch the ranks in the arguments."""
    sentinel = Sentinel([Watched(*map(int, each.split(":"))) for each in arguments])
    line = sentinel.watch()
    if line:
        print(line, file=sys.stderr, flush=True)
        sentinel.end()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
