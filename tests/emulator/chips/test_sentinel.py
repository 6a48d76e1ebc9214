"""The sentinel of ranks: whom it names, whom it ends, and the files of a rank that dies while it writes."""

from __future__ import annotations

import json
import os
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


def test_a_rank_that_has_left_in_order_before_is_not_missed(ranks: Ranks, sockets: Sockets) -> None:
    for each in ranks:
        each.kill()
        each.wait()
    for rank in (0, 1):
        sockets[1].send(f"bye {rank}".encode())
    assert watching(ranks, sockets).watch() is None


def test_the_other_rank_is_ended(ranks: Ranks, sockets: Sockets) -> None:
    found = watching(ranks, sockets)
    ranks[1].kill()
    assert found.watch() is not None
    found.end()
    assert ranks[0].wait(timeout=10) == -signal.SIGKILL


def test_ranks_that_leave_in_order(ranks: Ranks, sockets: Sockets) -> None:
    found, speaker = watching(ranks, sockets), sockets[1]
    for rank in (0, 1):
        speaker.send(f"bye {rank}".encode())
    assert found.watch() is None


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
