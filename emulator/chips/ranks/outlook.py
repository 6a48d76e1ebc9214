"""What a rank knows of the chips of all ranks: before which time nothing comes from them.

A rank knows the promises of other ranks as they were when these wrote their last letters. A promise holds
unless something is sent to the chip, so what a rank has sent counts as well until its receiver has said that
it is there: then it is part of the receiver's promises. So at every moment, whichever letters are still under
way, a chip does nothing before the earliest of these times and the latency of the links between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from .letters import Sending


class _Way:
    """What is on the way from one rank to another, as far as a third one knows."""

    def __init__(self) -> None:
        self._sendings: deque[Sending] = deque()
        self._first = self._received = 0
        """How many were sent before the first of these, and how many were received."""

    def add(self, sending: Sending) -> None:
        self._sendings.append(sending)
        self.receive(self._received)

    def receive(self, count: int) -> None:
        self._received = count
        while self._sendings and self._first < count:
            self._sendings.popleft()
            self._first += 1

    def __iter__(self) -> Iterator[Sending]:
        return iter(self._sendings)


class Outlook:
    """``ranks``: that of each chip."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self._promised = np.zeros(len(ranks), dtype=np.int64)
        self._chips = {rank: np.flatnonzero(np.array(ranks) == rank) for rank in ranks}
        self._ways = {(a, b): _Way() for a in self._chips for b in self._chips if a != b}

    def promised(self, rank: int, promises: Sequence[int]) -> None:
        """The chips of a rank promise these times, in their order."""
        self._promised[self._chips[rank]] = promises

    def sent(self, rank: int, sending: Sending) -> None:
        """A rank has sent something."""
        self._ways[rank, sending.rank].add(sending)

    def received(self, rank: int, counts: Sequence[int]) -> None:
        """A rank has received so much, by sender."""
        for sender, count in enumerate(counts):
            if sender != rank:
                self._ways[sender, rank].receive(count)

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """By chip: before this time it does nothing, unless something is sent to it that was not sent yet."""
        times = self._promised.copy()
        for way in self._ways.values():
            for sending in way:
                times[sending.chip] = min(times[sending.chip], sending.time)
        return times
