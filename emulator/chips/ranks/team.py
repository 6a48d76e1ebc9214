"""The ranks of a run as a team: they begin together and end together, even if one of them dies."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NoReturn

from tx8isa.errors import Tx8Error
from tx8isa.tools import files

from . import sentinel
from .launch import Launched
from .mpi import MpiPost
from .sentinel import Watched

_HIGH = 512
"""The least number of an open file that is closed before MPI's files, if the host allows as many."""


class RanksError(Tx8Error):
    """The ranks cannot work together."""


class Team:
    """All ranks, as one of them sees them. RanksError when MPI is not installed.

    A rank calls ``begin`` once, when it is ready to run, or ``give_up`` if it will never be ready; then all
    ranks know it. It calls ``leave`` after the common work, and ``end`` when it exits. If a rank exits
    without ``end``, the sentinel of its host ends all others.
    """

    def __init__(self, launched: Launched) -> None:
        self.rank, self.size = launched
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:  # mpi4py, or the library of MPI
            why = str(error).partition("\n")[0]
            raise RanksError(
                f"mpiexec has started {self.size} ranks, and mpi4py cannot be loaded ({why}): install it "
                "with: pip install mpi4py mpich"
            ) from None
        self._mpi: Any = MPI
        self.post = MpiPost(MPI.COMM_WORLD)
        if (self.post.rank, self.post.size) != launched:
            raise RanksError(
                f"mpiexec has started {self.size} ranks, and mpi4py sees {self.post.size}: "
                "mpiexec and mpi4py belong to different MPI libraries"
            )
        host = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
        self._sentinel, self._lifeline = _find_sentinel(host, self.rank)
        files.journal = self
        self.begun = self.over = False
        """``begun``: all ranks were ready to run. ``over``: none needs another one any more."""

    def take_chips(self, ranks: Sequence[int], written: Sequence[Path]) -> None:
        """Set ``ranks``, the rank of each chip, and ``written``, all files that the run writes."""
        own = ", ".join(str(chip) for chip, rank in enumerate(ranks) if rank == self.rank)
        self._say(f"does chips {own}")
        self._say(f"writes {_names(written)}")

    def begin(self) -> None:
        """Wait until all ranks are ready.

        RanksError if some ranks have given up, with the reason of the first.
        """
        found = [(rank, text) for rank, text in enumerate(self.post.of_all("")) if text]
        if found:
            self.over = True
            raise RanksError(f"rank {found[0][0]}: {found[0][1]}")
        self.begun = True

    def give_up(self, text: str) -> None:
        """Tell the others that this rank will not run, and the reason."""
        self.post.of_all(text)
        self.over = True

    def fail(self, line: str, status: int) -> NoReturn:
        """End the run of all ranks from within; the first line that a rank gives is printed."""
        self._say(f"failed {line}")
        os._exit(status)

    def leave(self) -> None:
        """End the common work: no rank needs another one any more."""
        self.post.meet()
        self.over = True

    def end(self) -> None:
        """Exit in order, when all other ranks do.

        When a rank that has finished is killed, mpiexec would end the ranks that still work. So ranks exit
        together.
        """
        self._say("bye")
        self.post.meet()
        self._mpi.Finalize()

    def grows(self, name: Path, target: Path) -> None:
        """Report that a file is written under a temporary name for its target."""
        self._say(f"grows {_names([name, target])}")

    def whole(self, names: Sequence[Path]) -> None:
        """Report that these growing files are complete, and get their names now."""
        self._say(f"whole {_names(names)}")

    def kept(self, name: Path) -> None:
        """Report that a growing file has its name, or is removed."""
        self._say(f"kept {json.dumps(str(name.absolute()))}")

    def _say(self, line: str) -> None:
        with suppress(BrokenPipeError):  # without a sentinel only mpiexec names a dead rank
            _write(self._sentinel, line)


def _write(pipe: int, line: str) -> None:
    data = f"{line}\n".encode(errors="backslashreplace")
    while data:
        data = data[os.write(pipe, data) :]


def _names(paths: Sequence[Path]) -> str:
    """Return paths for the sentinel, which works in another folder."""
    return json.dumps([str(path.absolute()) for path in paths])


def _find_sentinel(host: Any, rank: int) -> tuple[int, int]:
    """Return the ends of two pipes to the sentinel of this host, which its first rank starts.

    A pipe has no name. The first rank opens the other ends through the processes that made them, which the
    host allows to the owner of these processes and to root. The second pipe is held as long as this process
    lives. RanksError when the first rank cannot open them.
    """
    (messages, says), (life, lives) = os.pipe(), os.pipe()
    _write(says, f"maps {json.dumps(sentinel.mapped_segments(os.getpid()))}")
    ranks = host.gather(Watched(rank, os.getpid(), messages, life))
    problem = host.bcast(None if ranks is None else _start_sentinel(ranks))
    os.close(messages)
    os.close(life)
    if problem:
        raise RanksError(problem)
    return says, _with_high_number(lives)


def _with_high_number(handle: int) -> int:
    """Move an open file to a high number.

    Of the files of a process that ends, Linux closes the highest first.
    """
    high = min(_HIGH, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
    moved = fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, high)
    os.close(handle)
    return moved


def _start_sentinel(ranks: Sequence[Watched]) -> str:
    """Start the sentinel of these ranks; return the reason when it cannot hear one of them."""
    with ExitStack() as opened:
        arguments, pipes = [], []
        for each in ranks:
            try:
                ends = [_opened(each.process, pipe) for pipe in (each.messages, each.life)]
            except OSError as error:
                return f"rank {each.rank}: its pipe to the sentinel cannot be opened: {error}"
            for end in ends:
                opened.callback(os.close, end)
            pipes += ends
            arguments.append(":".join(map(str, (each.rank, each.process, *ends))))
        command: Sequence[str] = (sys.executable, "-I", "-S", str(Path(sentinel.__file__)), *arguments)
        nothing = subprocess.DEVNULL
        subprocess.Popen(command, stdin=nothing, stdout=nothing, pass_fds=pipes, start_new_session=True)
    return ""


def _opened(process: int, pipe: int) -> int:
    """Open the read end of a process's pipe; an ended pipe when the process has ended. OSError."""
    try:
        return os.open(f"/proc/{process}/fd/{pipe}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        if _lives(process):
            raise
    end, other = os.pipe()
    os.close(other)
    return end


def _lives(process: int) -> bool:
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return False
    try:
        return not sentinel.has_ended(handle)
    finally:
        os.close(handle)
