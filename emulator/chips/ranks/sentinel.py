"""Watches the ranks of a host: when one dies, it says so in one line and ends the others.

It runs as a program of its own, outside the group of processes that mpiexec ends, and needs nothing but the
standard library. Its arguments are the processes of the ranks, such as ``1:4711``. Its standard input is a
socket on which ranks say what they do, why they give up, and that they leave in order when all do: ``does
RANK TEXT``, ``failed RANK LINE`` and ``bye RANK``. With ``lives RANK`` comes one end of a pipe whose other
end the rank holds. The pipe ends before mpiexec can know of the death, while the host says later that a
process has ended: then the other ranks, which mpiexec ends, may seem to have died first.

A rank that writes files says under which name each of them grows, that all are whole and get their names now,
and that all have them: ``grows RANK [NAME, TARGET]``, ``whole RANK`` and ``kept RANK``. When it dies between,
the files get their names here if they are whole, or are removed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

MOST_BYTES = 1 << 16
"""Of a message."""
_GRACE = 2.0
"""Seconds in which mpiexec ends the other ranks; then they are ended here."""


class Sentinel:
    """Watches ranks, whose processes are given by rank."""

    def __init__(self, messages: socket.socket, processes: dict[int, int]) -> None:
        self._messages = messages
        self._names = {rank: f"process {process}" for rank, process in processes.items()}
        self._handles: dict[int, int] = {}
        """By rank: a handle of its process, which never becomes that of another one."""
        self._pipes: dict[int, int] = {}
        """By rank: the end of a pipe whose other end it holds."""
        self._files: dict[int, list[tuple[str, str]]] = {}
        """By rank: the files that it writes, under the names that they have now and those they will have."""
        self._whole: set[int] = set()
        """Ranks whose files are whole."""
        self._ready = select.epoll()  # which tells of deaths in their order: mpiexec ends the other ranks
        self._ready.register(messages, select.EPOLLIN)
        messages.setblocking(False)
        self._left: set[int] = set()
        """Ranks that have done all they had to do; they exit when all have."""
        self._gone = {rank for rank, process in processes.items() if not self._meet(rank, process)}
        """Ranks that had ended before they were watched, so that their order is not known."""

    def watch(self) -> str | None:
        """Wait until all ranks have left; what is to be said when one has not done so in order."""
        while self._left != self._names.keys():
            ready = [handle for handle, _ in self._ready.poll(0 if self._gone else None)]
            line = self._hear()
            if line is not None or self._left == self._names.keys():
                return line
            ranks = {handle: rank for rank, handle in self._watched()}
            dead = [ranks[handle] for handle in ready if handle in ranks]
            if self._gone:
                ended = {rank for rank, handle in self._watched() if _has_ended(handle)}
                return self._died(*sorted(self._gone | ended))
            if dead:
                return self._died(dead[0])
        return None

    def _watched(self) -> list[tuple[int, int]]:
        """Ranks, and what tells of their ends."""
        return [*self._handles.items(), *self._pipes.items()]

    def _hear(self) -> str | None:
        """Take the messages that are there; the line of the first rank that gives up."""
        with suppress(BlockingIOError):
            while True:
                message, pipes, _, _ = socket.recv_fds(self._messages, MOST_BYTES, 1)
                kind, rank, rest = (*message.decode().split(" ", 2), "")[:3]
                if kind == "failed":
                    return rest
                if kind == "lives":
                    self._hold(int(rank), pipes[0])
                self._note(kind, int(rank), rest)
        return None

    def _note(self, kind: str, rank: int, rest: str) -> None:
        if kind == "bye":
            self._left.add(rank)
        elif kind == "does":
            self._names[rank] += f", {rest}"
        elif kind == "grows":
            self._files.setdefault(rank, []).append(tuple(json.loads(rest)))
        elif kind == "whole":
            self._whole.add(rank)
        elif kind == "kept":
            self._files.pop(rank, None)
            self._whole.discard(rank)

    def _died(self, *ranks: int) -> str:
        """The line about a rank that has died; of several one has, and mpiexec has ended the others."""
        names = " or ".join(f"rank {rank} ({self._names[rank]})" for rank in ranks)
        return f"tx8emu: error: {names} has died, and the run with it"

    def _meet(self, rank: int, process: int) -> bool:
        """Watch a rank, also one whose process is not yet taken away; whether it is still alive."""
        try:
            handle = os.pidfd_open(process)
        except ProcessLookupError:
            return False
        self._handles[rank] = handle
        self._ready.register(handle, select.EPOLLIN)
        return not _has_ended(handle)

    def _hold(self, rank: int, pipe: int) -> None:
        """Watch the pipe of a rank."""
        self._pipes[rank] = pipe
        self._ready.register(pipe, select.EPOLLIN)
        if _has_ended(pipe):
            self._gone.add(rank)

    def _forget(self, rank: int) -> None:
        for found in (self._handles, self._pipes):
            if (handle := found.pop(rank, None)) is not None:
                self._close(handle)

    def _close(self, handle: int) -> None:
        self._ready.unregister(handle)
        os.close(handle)

    def end(self) -> None:
        """End the ranks that are left when mpiexec has not done so after a while; then tidy their files."""
        self._ready.unregister(self._messages)
        while self._pipes:
            self._close(self._pipes.popitem()[1])
        self._await_deaths()
        for handle in self._handles.values():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        self._await_deaths()
        self._hear()
        for rank, files in self._files.items():
            for name, target in files:
                with suppress(OSError):  # a file that has its name already, or a folder that is gone
                    Path(name).replace(target) if rank in self._whole else Path(name).unlink()

    def _await_deaths(self) -> None:
        last = time.monotonic() + _GRACE
        while self._handles and (rest := last - time.monotonic()) > 0:
            ready = {handle for handle, _ in self._ready.poll(rest)}
            for rank in [rank for rank, handle in self._handles.items() if handle in ready]:
                self._forget(rank)


def _has_ended(handle: int) -> bool:
    """Whether the process of a handle has ended, or that which holds the other end of a pipe."""
    return bool(select.select([handle], [], [], 0)[0])


def main(arguments: list[str]) -> int:
    """Watch the ranks that the arguments say."""
    processes = {int(rank): int(process) for rank, process in (each.split(":") for each in arguments)}
    sentinel = Sentinel(socket.socket(fileno=0), processes)
    line = sentinel.watch()
    if line:
        print(line, file=sys.stderr, flush=True)
        sentinel.end()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
