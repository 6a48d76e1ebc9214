"""The ranks of a run as a team: they begin together, and end together even when one of them dies."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import secrets
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from tx8isa.errors import Tx8Error
from tx8isa.tools import files

from . import sentinel
from .launch import Launched
from .mpi import MpiPost

_HIGH = 512
"""The least number of a file that is to be closed before those of MPI, if the host allows as many."""


class RanksError(Tx8Error):
    """Ranks that cannot work together."""


class Team:
    """All ranks, seen from one of them. RanksError when MPI is not installed.

    A rank calls ``begin`` once, when it is ready to run, or ``give_up`` if it never will be; then all know of
    it. It calls ``leave`` after what the ranks do together, and ``end`` when it exits; the sentinel of its
    host ends all others when a rank exits without that.
    """

    def __init__(self, launched: Launched) -> None:
        self.rank, self.size = launched
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise RanksError(
                f"mpiexec has started {self.size} ranks, and mpi4py cannot be loaded ({error}): install it "
                "with: pip install mpi4py mpich"
            ) from None
        self._mpi: Any = MPI
        self.post = MpiPost(MPI.COMM_WORLD)
        if (self.post.rank, self.post.size) != launched:
            raise RanksError(
                f"mpiexec has started {self.size} ranks, and mpi4py sees {self.post.size}: "
                "mpiexec and mpi4py belong to different MPI libraries"
            )
        self._sentinel = _find_sentinel(MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED), self.rank)
        self._lifeline = _lifeline(self._sentinel, self.rank)
        files.journal = self
        self.begun = self.over = False
        """Whether all ranks were ready to run; whether none needs another one any more."""

    def take_chips(self, ranks: Sequence[int]) -> None:
        """``ranks``: that of each chip."""
        own = ", ".join(str(chip) for chip, rank in enumerate(ranks) if rank == self.rank)
        self._say(f"does {self.rank} chips {own}")

    def begin(self) -> None:
        """All ranks are ready; RanksError when some have given up, with the reason of the first."""
        found = [(rank, text) for rank, text in enumerate(self.post.of_all("")) if text]
        if found:
            self.over = True
            raise RanksError(f"rank {found[0][0]}: {found[0][1]}")
        self.begun = True

    def give_up(self, text: str) -> None:
        """This rank does not run, for a reason that the others get to know."""
        self.post.of_all(text)
        self.over = True

    def fail(self, line: str, status: int) -> NoReturn:
        """End the run of all ranks from within; the first line that a rank gives is printed."""
        self._say(f"failed {self.rank} {line}")
        os._exit(status)

    def leave(self) -> None:
        """The end of what ranks do together: no rank needs another one any more."""
        self.post.meet()
        self.over = True

    def end(self) -> None:
        """This rank exits in order, when all others do: mpiexec would end those that still work if one is
        killed that has nothing left to do."""
        self._say(f"bye {self.rank}")
        self.post.meet()
        self._mpi.Finalize()

    def grows(self, name: Path, target: Path) -> None:
        """A file is written under a name, and will have another one."""
        paths = [str(path.absolute()) for path in (name, target)]
        self._say(f"grows {self.rank} {json.dumps(paths)}")

    def whole(self) -> None:
        """All files that this rank writes are whole, and get their names now."""
        self._say(f"whole {self.rank}")

    def kept(self) -> None:
        """No file has another name than it should any more."""
        self._say(f"kept {self.rank}")

    def _say(self, message: str) -> None:
        self._sentinel.send(message.encode()[: sentinel.MOST_BYTES])


def _find_sentinel(host: Any, rank: int) -> socket.socket:
    """A socket on which the sentinel of this host hears; its first rank starts it."""
    name = host.bcast(f"\0tx8-{secrets.token_hex(16)}")
    processes = host.gather(f"{rank}:{os.getpid()}")
    if processes is not None:
        _start_sentinel(name, processes)
    host.Barrier()
    speaker = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    speaker.connect(name)
    return speaker


def _lifeline(speaker: socket.socket, rank: int) -> int:
    """The end of a pipe that this process holds as long as it lives; the sentinel gets the other one.

    Its number is high: of the files of a process that ends, Linux closes the one with the highest first.
    """
    heard, held = os.pipe()
    socket.send_fds(speaker, [f"lives {rank}".encode()], [heard])
    high = min(_HIGH, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
    lifeline = fcntl.fcntl(held, fcntl.F_DUPFD_CLOEXEC, high)
    os.close(heard)
    os.close(held)
    return lifeline


def _start_sentinel(name: str, processes: Sequence[str]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(name)
        command: Sequence[str] = (sys.executable, "-I", "-S", str(Path(sentinel.__file__)), *processes)
        subprocess.Popen(command, stdin=ear.fileno(), stdout=subprocess.DEVNULL, start_new_session=True)
