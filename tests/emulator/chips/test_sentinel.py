"""The sentinel of ranks: the ranks it names and ends, the files it removes, and access to it."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from emulator.chips.ranks import sentinel as module
from emulator.chips.ranks import team
from emulator.chips.ranks.sentinel import Sentinel, Watched, mapped_segments
from other_user import as_other_user


class Rank(NamedTuple):
    """A process that does nothing, and the ends of the pipes that a rank holds."""

    process: subprocess.Popen[bytes]
    watched: Watched
    says: int
    lives: int

    def say(self, *lines: str) -> None:
        os.write(self.says, "".join(f"{line}\n" for line in lines).encode())

    def die(self) -> None:
        """The process is killed but not reaped; its pipes end."""
        os.close(self.lives)
        os.close(self.says)
        self.end_process()

    def end_process(self) -> None:
        self.process.kill()
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)


Ranks = list[Rank]


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ranks]:
    """Two ranks."""
    monkeypatch.setattr(module, "_GRACE", 0.2)
    started = []
    for rank in range(2):
        (messages, says), (life, lives) = os.pipe(), os.pipe()
        process = subprocess.Popen(["sleep", "600"])
        started.append(Rank(process, Watched(rank, process.pid, messages, life), says, lives))
    yield started
    for each in started:
        each.process.kill()
        each.process.wait()


def watching(ranks: Ranks) -> Sentinel:
    return Sentinel([each.watched for each in ranks])


def both(ranks: Ranks) -> str:
    return " or ".join(f"rank {rank} (process {each.process.pid})" for rank, each in enumerate(ranks))


@pytest.mark.parametrize("victim", [0, 1])
def test_the_rank_that_died_first_is_named(victim: int, ranks: Ranks) -> None:
    """Like mpiexec, another process ends the other rank before the sentinel looks."""
    found = watching(ranks)
    ranks[victim].say(f"does chips {victim}")
    for each in (ranks[victim], ranks[1 - victim]):
        each.die()
    name = f"rank {victim} (process {ranks[victim].process.pid}, chips {victim})"
    assert found.watch() == f"tx8emu: error: {name} has died, and the run with it"


@pytest.mark.parametrize("victim", [0, 1])
def test_the_rank_whose_process_has_ended_first_is_named(victim: int, ranks: Ranks) -> None:
    """Its pipes stay open, because another process holds them."""
    found = watching(ranks)
    for each in (ranks[victim], ranks[1 - victim]):
        each.end_process()
    name = f"rank {victim} (process {ranks[victim].process.pid})"
    assert found.watch() == f"tx8emu: error: {name} has died, and the run with it"


def test_the_rank_whose_pipe_has_ended_first_is_named(ranks: Ranks) -> None:
    """The host may report ends of processes later, and in another order."""
    found = watching(ranks)
    os.close(ranks[1].lives)
    for each in ranks:
        each.end_process()
    name = f"rank 1 (process {ranks[1].process.pid})"
    assert found.watch() == f"tx8emu: error: {name} has died, and the run with it"


def test_a_pipe_that_has_ended_before_it_is_watched_names_all_that_have(ranks: Ranks) -> None:
    os.close(ranks[1].lives)
    found = watching(ranks)
    ranks[0].end_process()
    assert found.watch() == f"tx8emu: error: {both(ranks)} has died, and the run with it"


def test_the_host_closes_the_last_file_of_a_process_first() -> None:
    """The pipes of ranks rely on this."""
    ends = {"low": os.pipe(), "high": os.pipe()}
    process = os.fork()
    if not process:
        os.dup2(ends["high"][1], 600)
        os.close(ends["high"][1])
        signal.pause()
    for _, held in ends.values():
        os.close(held)
    ready = select.epoll()
    for heard, _ in ends.values():
        ready.register(heard, select.EPOLLIN)
    os.kill(process, signal.SIGKILL)
    os.waitid(os.P_PID, process, os.WEXITED)
    assert [each for each, _ in ready.poll()] == [ends["high"][0], ends["low"][0]]
    for heard, _ in ends.values():
        os.close(heard)


def test_ranks_that_have_died_before_are_both_named(ranks: Ranks) -> None:
    for each in ranks:
        each.die()
        each.process.wait()
    assert watching(ranks).watch() == f"tx8emu: error: {both(ranks)} has died, and the run with it"


@pytest.mark.parametrize("taken_away", [0, 1])
def test_ranks_that_have_died_before_are_both_named_when_one_is_still_there(
    taken_away: int, ranks: Ranks
) -> None:
    """mpiexec may reap the process that it has ended itself before the rank that died."""
    for each in ranks:
        each.die()
    ranks[taken_away].process.wait()
    assert watching(ranks).watch() == f"tx8emu: error: {both(ranks)} has died, and the run with it"


def test_a_rank_that_dies_while_it_waits_for_others_to_leave_is_named(ranks: Ranks) -> None:
    found = watching(ranks)
    ranks[1].say("bye")
    for each in (ranks[1], ranks[0]):
        each.die()
    name = f"rank 1 (process {ranks[1].process.pid})"
    assert found.watch() == f"tx8emu: error: {name} has died, and the run with it"


def test_a_rank_that_has_left_in_order_before_is_not_missed(ranks: Ranks) -> None:
    for each in ranks:
        each.say("bye")
        each.die()
        each.process.wait()
    assert watching(ranks).watch() is None


def test_the_line_of_a_rank_that_gives_up_is_told(ranks: Ranks) -> None:
    found = watching(ranks)
    ranks[0].say("does chips 0", "failed tx8emu: error: a reason with spaces")
    ranks[0].die()
    assert found.watch() == "tx8emu: error: a reason with spaces"


def test_the_other_rank_is_ended(ranks: Ranks) -> None:
    found = watching(ranks)
    ranks[1].die()
    assert found.watch() is not None
    found.end()
    assert ranks[0].process.wait(timeout=10) == -signal.SIGKILL


def test_ranks_that_leave_in_order(ranks: Ranks) -> None:
    found = watching(ranks)
    for each in ranks:
        each.say("bye")
    assert found.watch() is None


# --- files of a rank that dies -----------------------------------------------------------------------------


def said(kind: str, *paths: Path) -> str:
    return f"{kind} {json.dumps([str(path) for path in paths])}"


def after_its_death(rank: Rank, ranks: Ranks, *lines: str) -> None:
    """A rank reports something and dies; the sentinel tidies up."""
    found = watching(ranks)
    rank.say(*lines)
    rank.die()
    assert found.watch() is not None
    found.end()


@pytest.mark.parametrize("so_far", ["grows", "whole", "kept"])
def test_files_of_a_rank_that_dies_get_their_names_or_go(so_far: str, ranks: Ranks, tmp_path: Path) -> None:
    """Two files; the rank has renamed one of them if they were complete."""
    names = [(tmp_path / f".{at}.tmp", tmp_path / f"{at}.npy") for at in range(2)]
    lines = [said("writes", *(target for _, target in names))]
    for name, target in names:
        name.write_text(target.name)
        lines.append(said("grows", name, target))
    if so_far != "grows":
        lines.append(said("whole", *(name for name, _ in names)))
        names[0][0].replace(names[0][1])
    if so_far == "kept":
        names[1][0].replace(names[1][1])
        names[0][0].write_text("of another writer")
        lines += [f"kept {json.dumps(str(name))}" for name, _ in names]
    after_its_death(ranks[0], ranks, *lines)
    there = {path.name: path.read_text() for path in tmp_path.iterdir()}
    whole = {"0.npy": "0.npy", "1.npy": "1.npy"}
    assert there == {"grows": {}, "whole": whole, "kept": {**whole, ".0.tmp": "of another writer"}}[so_far]


def test_a_file_that_grows_after_a_set_was_kept_is_not_whole(ranks: Ranks, tmp_path: Path) -> None:
    first, second, target = tmp_path / ".1.tmp", tmp_path / ".2.tmp", tmp_path / "y.npy"
    target.write_text("the first")
    second.write_text("half of the sec")
    lines = [said("writes", target), said("grows", first, target), said("whole", first)]
    lines += [f"kept {json.dumps(str(first))}", said("grows", second, target)]
    after_its_death(ranks[1], ranks, *lines)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"y.npy": "the first"}


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("case", ["not announced", "of another rank", "announced later", "elsewhere"])
def test_files_that_were_not_announced_stay(case: str, whole: bool, ranks: Ranks, tmp_path: Path) -> None:
    """They are neither removed nor renamed, whatever a rank reports."""
    name, target, other = tmp_path / "precious", tmp_path / "y.npy", tmp_path / "sub" / "y.npy"
    name.write_text("bytes")
    other.parent.mkdir()
    announced = {
        "not announced": [said("writes", other)],
        "of another rank": [],
        "announced later": [said("writes"), said("writes", target)],
        "elsewhere": [said("writes", other)],
    }[case]
    ranks[0].say(said("writes", target))
    goal = other if case == "elsewhere" else target
    lines = [*announced, said("grows", name, goal), *([said("whole", name)] if whole else [])]
    after_its_death(ranks[1], ranks, *lines)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [name]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_stays(kind: str, ranks: Ranks, tmp_path: Path) -> None:
    name, target = tmp_path / ".y.tmp", tmp_path / "y.npy"
    (tmp_path / "other").write_text("bytes")
    {
        "link": lambda: name.symlink_to(tmp_path / "other"),
        "pipe": lambda: os.mkfifo(name),
        "folder": lambda: name.mkdir(),
    }[kind]()
    lines = [said("writes", target), said("grows", name, target), said("whole", name)]
    after_its_death(ranks[0], ranks, *lines)
    assert os.path.lexists(name) and not target.exists()
    assert (tmp_path / "other").read_text() == "bytes"


# --- shared memory that MPI leaves -------------------------------------------------------------------------

MAP = """
import mmap, sys
files = [open(name, "r+b") for name in sys.argv[1:]]
maps = [mmap.mmap(file.fileno(), 4096) for file in files]
print("mapped", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def segments() -> Iterator[list[Path]]:
    """Files in the memory of the host: three that are named as those of MPI, and another one."""
    mark = f"tx8test{os.getpid()}"
    names = [f"mpich_shm_{mark}_0", f"ucx_shm_posix_{mark}", f"mpich_shm_{mark}_1", f"array_{mark}"]
    paths = [Path("/dev/shm") / name for name in names]
    for path in paths:
        path.write_bytes(bytes(4096))
    yield paths
    for path in paths:
        path.unlink(missing_ok=True)


@contextmanager
def mapping(paths: list[Path]) -> Iterator[int]:
    """A process that has mapped files."""
    command = [sys.executable, "-c", MAP, *map(str, paths)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"mapped\n"
        yield process.pid
        process.kill()


def test_segments_of_mpi_that_a_process_has_mapped(segments: list[Path]) -> None:
    """A segment without a name is ignored."""
    with mapping([*segments[:2], segments[3]]) as process:
        segments[1].unlink()
        assert mapped_segments(process) == {str(segments[0]): segments[0].stat().st_ino}
    assert mapped_segments(process) == {}


def test_segments_that_a_rank_has_mapped_are_removed_after_its_death(
    ranks: Ranks, segments: list[Path]
) -> None:
    """Files that are not segments of MPI, or were made later, are kept whatever the rank has reported."""
    inodes = {str(path): path.stat().st_ino for path in segments}
    inodes[str(segments[2])] += 1
    after_its_death(ranks[0], ranks, f"maps {json.dumps(inodes)}")
    assert [path for path in segments if path.exists()] == segments[2:]


def test_segments_that_a_rank_has_mapped_later_are_removed(ranks: Ranks, segments: list[Path]) -> None:
    with mapping(segments[:1]) as process:
        living = ranks[1]._replace(watched=ranks[1].watched._replace(process=process))
        after_its_death(ranks[0], [ranks[0], living])
    assert [path for path in segments if path.exists()] == segments[1:]


# --- who can reach it --------------------------------------------------------------------------------------


class OneRank:
    """A communicator of MPI that contains only this process."""

    def gather(self, fact: object) -> list[object]:
        return [fact]

    def bcast(self, fact: object) -> object:
        return fact


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, subprocess.Popen[bytes], int]]:
    """A real sentinel, of this process: the pipe on which it hears, its process, and the second pipe."""
    made: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def popen(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        made.append(real(*arguments, **options))  # type: ignore[call-overload]
        return made[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)
    says, lives = team._find_sentinel(OneRank(), 0)
    yield says, made[0], lives
    os.write(says, b"bye\n")
    assert made[0].wait(timeout=30) == 0
    os.close(says)
    os.close(lives)


def unix_sockets() -> set[str]:
    """The Unix sockets of this host that have a name."""
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    return {fields[7] for line in lines if len(fields := line.split()) > 7}


PIDFD_GETFD = 438
"""The system call that takes an open file of another process."""


def reached(processes: list[int]) -> list[tuple[int, object]]:
    """Return the files of other processes that a process can open from public facts."""
    libc, found = ctypes.CDLL(None), list[tuple[int, object]]()
    for process in processes:
        handle = os.pidfd_open(process)
        for number in [*range(64), *range(512, 520)]:
            for flags in (os.O_WRONLY, os.O_RDONLY):
                with suppress(OSError):
                    os.close(os.open(f"/proc/{process}/fd/{number}", flags | os.O_NONBLOCK))
                    found.append((process, number))
            if (taken := libc.syscall(PIDFD_GETFD, handle, number, 0)) >= 0:
                os.close(taken)
                found.append((process, f"taken {number}"))
        with suppress(PermissionError):
            os.kill(process, 0)
            found.append((process, "signalled"))
        os.close(handle)
    return found


def test_no_other_user_reaches_the_sentinel(started: tuple[int, subprocess.Popen[bytes], int]) -> None:
    """Not with all that anybody can know: the processes, and the numbers of their open files."""
    _, process, _ = started
    assert not [name for name in unix_sockets() if "tx8" in name]
    for each in (process.pid, os.getpid()):
        folder = Path(f"/proc/{each}/fd").stat()
        assert (folder.st_uid, folder.st_mode & 0o077) == (os.geteuid(), 0)
    processes = [process.pid, os.getpid()]
    assert len(reached(processes[:1])) > 3  # this user can, so the test can fail
    assert as_other_user(lambda: reached(processes)) == "[]"


def test_the_sentinel_has_no_file_with_a_name(started: tuple[int, subprocess.Popen[bytes], int]) -> None:
    """It has only pipes and devices, so no file exists that others could open, or that could be left."""
    end, kinds = time.monotonic() + 10, {"not looked yet"}
    while not kinds <= {"pipe", "anon_inode"} and time.monotonic() < end:  # it reads files while it starts
        targets = {link for each in Path(f"/proc/{started[1].pid}/fd").iterdir() if (link := _target(each))}
        targets -= {"/dev/null", str(Path("/proc/self/fd/2").readlink())}
        kinds = {each.partition(":")[0] for each in targets}
    assert kinds <= {"pipe", "anon_inode"}


def _target(link: Path) -> str:
    """Return the target of a link of a running process; empty if it is gone."""
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""


def test_a_rank_that_is_gone_before_its_sentinel_starts() -> None:
    """Its pipes are closed; those of a living rank must be opened."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    end = team._opened(gone.pid, 3)
    assert os.read(end, 1) == b""
    os.close(end)
    with pytest.raises(OSError):
        team._opened(os.getpid(), 9999)


def test_a_pipe_that_cannot_be_opened_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(process: int, pipe: int) -> int:
        raise PermissionError(13, "Permission denied", f"/proc/{process}/fd/{pipe}")

    monkeypatch.setattr(team, "_opened", refused)
    with pytest.raises(team.RanksError, match=r"rank 0: its pipe to the sentinel cannot be opened: .*denied"):
        team._find_sentinel(OneRank(), 0)


def test_a_rank_whose_sentinel_has_gone_goes_on() -> None:
    heard, says = os.pipe()
    os.close(heard)
    rank = team.Team.__new__(team.Team)
    rank._sentinel, rank.rank = says, 0
    rank.take_chips([0], [Path("y.npy")])
    os.close(says)
