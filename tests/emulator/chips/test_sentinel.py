"""The sentinel of ranks: whom it names, whom it ends, and the files of a rank that dies while it writes."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.chips.ranks import sentinel as module
from emulator.chips.ranks.sentinel import Sentinel

Ranks = list[subprocess.Popen[bytes]]
Sockets = tuple[socket.socket, socket.socket]


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ranks]:
    """Two processes that do nothing."""
    monkeypatch.setattr(module, "_GRACE", 0.2)
    started = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    yield started
    for each in started:
        each.kill()
        each.wait()


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    """The one on which a sentinel hears, and the one on which ranks speak."""
    ear, speaker = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ear, speaker:
        yield ear, speaker


@pytest.fixture(params=[False, True], ids=["processes alone", "pipes too"])
def pipes(request: pytest.FixtureRequest, sockets: Sockets) -> Iterator[None]:
    """Ranks that say that they live, or do not."""
    ends = [os.pipe() for _ in range(2)] if request.param else []
    for rank, (heard, _) in enumerate(ends):
        socket.send_fds(sockets[1], [f"lives {rank}".encode()], [heard])
        os.close(heard)
    yield
    for _, held in ends:
        os.close(held)


def watching(ranks: Ranks, sockets: Sockets) -> Sentinel:
    return Sentinel(sockets[0], {rank: each.pid for rank, each in enumerate(ranks)})


@pytest.mark.parametrize("victim", [0, 1])
def test_the_rank_that_died_first_is_named(victim: int, ranks: Ranks, sockets: Sockets) -> None:
    """As mpiexec does, another process ends the other rank before the sentinel looks."""
    found, speaker = watching(ranks, sockets), sockets[1]
    speaker.send(f"does {victim} chips {victim}".encode())
    for each in (ranks[victim], ranks[1 - victim]):
        each.kill()
        os.waitid(os.P_PID, each.pid, os.WEXITED | os.WNOWAIT)
    name = f"rank {victim} (process {ranks[victim].pid}, chips {victim})"
    assert found.watch() == f"tx8emu: error: {name} has died, and the run with it"


def test_the_rank_whose_pipe_has_ended_first_is_named(ranks: Ranks, sockets: Sockets) -> None:
    """What the host says of processes may come later, and in another order."""
    found, pipes = watching(ranks, sockets), [os.pipe() for _ in ranks]
    for rank, (heard, _) in enumerate(pipes):
        socket.send_fds(sockets[1], [f"lives {rank}".encode()], [heard])
    assert found._hear() is None
    os.close(pipes[1][1])
    for each in ranks:
        each.kill()
        os.waitid(os.P_PID, each.pid, os.WEXITED | os.WNOWAIT)
    assert found.watch() == f"tx8emu: error: rank 1 (process {ranks[1].pid}) has died, and the run with it"
    for end in (pipes[0][0], pipes[0][1], pipes[1][0]):
        os.close(end)


def test_a_pipe_that_has_ended_before_it_is_watched_names_all_that_have(
    ranks: Ranks, sockets: Sockets
) -> None:
    found, (heard, held) = watching(ranks, sockets), os.pipe()
    socket.send_fds(sockets[1], [b"lives 1"], [heard])
    os.close(heard)
    os.close(held)
    ranks[0].kill()
    os.waitid(os.P_PID, ranks[0].pid, os.WEXITED | os.WNOWAIT)
    names = " or ".join(f"rank {rank} (process {each.pid})" for rank, each in enumerate(ranks))
    assert found.watch() == f"tx8emu: error: {names} has died, and the run with it"


def test_the_host_closes_the_last_file_of_a_process_first() -> None:
    """That is what the pipes of ranks rely on."""
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


def test_ranks_that_have_died_before_are_both_named(ranks: Ranks, sockets: Sockets) -> None:
    for each in ranks:
        each.kill()
        each.wait()
    found = watching(ranks, sockets)
    names = " or ".join(f"rank {rank} (process {each.pid})" for rank, each in enumerate(ranks))
    assert found.watch() == f"tx8emu: error: {names} has died, and the run with it"


@pytest.mark.parametrize("taken_away", [0, 1])
def test_ranks_that_have_died_before_are_both_named_when_one_is_still_there(
    taken_away: int, ranks: Ranks, sockets: Sockets
) -> None:
    """mpiexec may take the process that it has ended itself away before that of the rank that died."""
    for each in ranks:
        each.kill()
        os.waitid(os.P_PID, each.pid, os.WEXITED | os.WNOWAIT)
    ranks[taken_away].wait()
    found = watching(ranks, sockets)
    names = " or ".join(f"rank {rank} (process {each.pid})" for rank, each in enumerate(ranks))
    assert found.watch() == f"tx8emu: error: {names} has died, and the run with it"


def test_a_rank_that_dies_while_it_waits_for_others_to_leave_is_named(ranks: Ranks, sockets: Sockets) -> None:
    found = watching(ranks, sockets)
    sockets[1].send(b"bye 1")
    for each in (ranks[1], ranks[0]):
        each.kill()
        os.waitid(os.P_PID, each.pid, os.WEXITED | os.WNOWAIT)
    assert found.watch() == f"tx8emu: error: rank 1 (process {ranks[1].pid}) has died, and the run with it"


def test_a_rank_that_has_left_in_order_before_is_not_missed(ranks: Ranks, sockets: Sockets) -> None:
    for each in ranks:
        each.kill()
        each.wait()
    for rank in (0, 1):
        sockets[1].send(f"bye {rank}".encode())
    assert watching(ranks, sockets).watch() is None


@pytest.mark.usefixtures("pipes")
def test_the_other_rank_is_ended(ranks: Ranks, sockets: Sockets) -> None:
    found = watching(ranks, sockets)
    ranks[1].kill()
    assert found.watch() is not None
    found.end()
    assert ranks[0].wait(timeout=10) == -signal.SIGKILL


@pytest.mark.usefixtures("pipes")
def test_ranks_that_leave_in_order(ranks: Ranks, sockets: Sockets) -> None:
    found, speaker = watching(ranks, sockets), sockets[1]
    for rank in (0, 1):
        speaker.send(f"bye {rank}".encode())
    assert found.watch() is None


@pytest.mark.usefixtures("pipes")
@pytest.mark.parametrize("said", [["grows"], ["grows", "whole"], ["grows", "whole", "kept"]])
def test_files_of_a_rank_that_dies_get_their_names_or_go(
    said: list[str], ranks: Ranks, sockets: Sockets, tmp_path: Path
) -> None:
    """Two files, of which the rank has renamed one if they were whole."""
    names = [(tmp_path / f".{at}.tmp", tmp_path / f"{at}.npy") for at in range(2)]
    found, speaker = watching(ranks, sockets), sockets[1]
    for name, target in names:
        name.write_text(target.name)
        speaker.send(f"grows 0 {json.dumps([str(name), str(target)])}".encode())
    for kind in said[1:]:
        speaker.send(f"{kind} 0".encode())
    if "whole" in said:
        names[0][0].replace(names[0][1])
    ranks[0].kill()
    assert found.watch() is not None
    found.end()
    there = {path.name: path.read_text() for path in tmp_path.iterdir()}
    wanted = {0: {}, 1: {"0.npy": "0.npy", "1.npy": "1.npy"}, 2: {"0.npy": "0.npy", ".1.tmp": "1.npy"}}
    assert there == wanted[len(said) - 1]
