"""The post between ranks over MPI."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # so that a rank can identify itself before it loads the rest
    from .letters import Item

Fact = TypeVar("Fact")

_TAG = 1
_TRIES, _SHORT, _LONG = 200, 20e-6, 1e-3
"""Polls for an item before a rank sleeps; seconds of the shortest and the longest sleep."""


def _wait(ready: Callable[[], bool]) -> None:
    """Wait and yield the processor to other processes, such as the awaited ranks; MPI would not yield."""
    tries, pause = 0, _SHORT
    while not ready():
        tries += 1
        if tries <= _TRIES:
            os.sched_yield()
        else:
            time.sleep(pause)
            pause = min(2 * pause, _LONG)


class MpiPost:
    """A ``Post`` for the ranks of a communicator of mpi4py."""

    def __init__(self, communicator: Any) -> None:
        self._communicator = communicator
        self.rank, self.size = communicator.Get_rank(), communicator.Get_size()
        self._leaving: list[Any] = []
        """Requests of items that may not have left."""

    def send(self, rank: int, item: Item) -> None:
        """See ``Post``."""
        self._leaving = [request for request in self._leaving if not request.Test()]
        self._leaving.append(self._communicator.isend(item, rank, _TAG))

    def receive(self, wait: bool) -> tuple[int, Item] | None:
        """See ``Post``."""
        from mpi4py import MPI

        status = MPI.Status()
        found = self._communicator.iprobe(MPI.ANY_SOURCE, _TAG, status)
        if not found and not wait:
            return None
        if not found:
            _wait(lambda: self._communicator.iprobe(MPI.ANY_SOURCE, _TAG, status))
        sender = status.Get_source()
        item: Item = self._communicator.recv(source=sender, tag=_TAG)
        return sender, item

    def of_all(self, fact: Fact) -> list[Fact]:
        """See ``Post``."""
        self.meet()
        facts: list[Fact] = self._communicator.allgather(fact)
        return facts

    def to_first(self, fact: Fact) -> list[Fact]:
        """Return the facts of all ranks, by rank, in rank 0; an empty list elsewhere. Every rank must call
        it."""
        self.meet()
        return self._communicator.gather(fact) or []

    def meet(self) -> None:
        """Wait until all ranks do."""
        _wait(self._communicator.Ibarrier().Test)

    def pour(self, pieces: Iterable[str]) -> None:
        """Send text to rank 0, in pieces; it calls ``poured``."""
        for piece in pieces:
            self._communicator.send(piece, 0, _TAG)
        self._communicator.send("", 0, _TAG)

    def poured(self, sender: int) -> Iterator[str]:
        """In rank 0: yield the pieces that a rank sends."""
        while piece := self._communicator.recv(source=sender, tag=_TAG):
            yield piece
