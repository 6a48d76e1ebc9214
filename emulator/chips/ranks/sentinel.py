"""Watches the ranks of a host: when one dies, it says so in one line and ends the others.

It runs as a program of its own, outside the group of processes that mpiexec ends, and needs nothing but the
standard library. Its standard input is a socket on which ranks say who they are, what they do, why they give
up, and that they leave in order: ``hello RANK PROCESS``, ``does RANK TEXT``, ``failed RANK LINE`` and
``bye RANK``.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress

MOST_BYTES = 1 << 16
"""Of a message."""
_GRACE = 2.0
"""Seconds in which mpiexec ends the other ranks; then they are ended here."""


class Sentinel:
    """Watches so many ranks."""

    def __init__(self, messages: socket.socket, ranks: int) -> None:
        self._messages, self._awaited = messages, ranks
        self._names: dict[int, str] = {}
        self._handles: dict[int, int] = {}
        """By rank: a handle of its process, which never becomes that of another one."""
        self._poll = select.poll()
        self._poll.register(messages, select.POLLIN)
        messages.setblocking(False)

    def watch(self) -> str | None:
        """Wait until all ranks have left; what is to be said when one has not done so in order."""
        while self._awaited or self._handles:
            ready = {handle for handle, _ in self._poll.poll()}
            line = self._hear()
            dead = [rank for rank, handle in self._handles.items() if handle in ready]
            if line is None and dead:
                line = self._died(dead[0])
            if line is not None:
                return line
        return None

    def _hear(self) -> str | None:
        """Take the messages that are there; the line of the first rank that gives up."""
        with suppress(BlockingIOError):
            while True:
                kind, rank, rest = (*self._messages.recv(MOST_BYTES).decode().split(" ", 2), "")[:3]
                if kind == "failed":
                    return rest
                if kind == "bye":
                    self._forget(int(rank))
                elif kind == "does":
                    self._names[int(rank)] += f", {rest}"
                elif not self._meet(int(rank), rest):
                    return self._died(int(rank))
        return None

    def _died(self, rank: int) -> str:
        return f"tx8emu: error: rank {rank} ({self._names[rank]}) has died, and the run with it"

    def _meet(self, rank: int, process: str) -> bool:
        """A rank says who it is; whether it is still there."""
        self._awaited -= 1
        self._names[rank] = f"process {process}"
        try:
            handle = os.pidfd_open(int(process))
        except ProcessLookupError:
            return False
        self._handles[rank] = handle
        self._poll.register(handle, select.POLLIN)
        return True

    def _forget(self, rank: int) -> None:
        handle = self._handles.pop(rank)
        self._poll.unregister(handle)
        os.close(handle)

    def end(self) -> None:
        """End the ranks that are left when mpiexec has not done so after a while."""
        last = time.monotonic() + _GRACE
        self._poll.unregister(self._messages)
        while self._handles and (rest := last - time.monotonic()) > 0:
            ready = {handle for handle, _ in self._poll.poll(rest * 1e3)}
            for rank in [rank for rank, handle in self._handles.items() if handle in ready]:
                self._forget(rank)
        for handle in self._handles.values():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)


def main(arguments: list[str]) -> int:
    """Watch as many ranks as the argument says."""
    sentinel = Sentinel(socket.socket(fileno=0), int(arguments[0]))
    line = sentinel.watch()
    if line:
        print(line, file=sys.stderr, flush=True)
        sentinel.end()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
