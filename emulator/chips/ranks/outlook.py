"""A rank's lookahead for the chips of all ranks: times before which no message comes from them.

A rank knows the promises of other ranks from their last letters. A promise holds unless a message is sent to
the chip. So it counts a message in flight until its receiver has reported it. Then the receiver's promises
include it. Thus, whichever letters are in transit, no message of a chip arrives before the earliest of these
times plus the latency of the links.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from .letters import Sending


class _Way:
    """The messages in flight from one rank to another, from reports to this rank."""

    def __init__(self) -> None:
        self._sendings: deque[Sending] = deque()
        self._first = self._received = 0
        """The number sent before the first of these, and the number received."""

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
    """The outlook of a rank. ``ranks``: the rank of each chip."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self._promised = np.zeros(len(ranks), dtype=np.int64)
        self._chips = {rank: np.flatnonzero(np.array(ranks) == rank) for rank in ranks}
        self._ways = {(a, b): _Way() for a in self._chips for b in self._chips if a != b}

    def promised(self, rank: int, promises: Sequence[int]) -> None:
        """Record the promises of a rank's chips, in their order."""
        self._promised[self._chips[rank]] = promises

    def sent(self, rank: int, sending: Sending) -> None:
        """Record a message of a rank."""
        self._ways[rank, sending.rank].add(sending)

    def received(self, rank: int, counts: Sequence[int]) -> None:
        """Record the numbers of messages that a rank has received, by sender."""
        for sender, count in enumerate(counts):
            if sender != rank:
                self._ways[sender, rank].receive(count)

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """Return, by chip, the time before which it does nothing unless a new message is sent to it."""
        times = self._promised.copy()
        for way in self._ways.values():
            for sending in way:
                times[sending.chip] = min(times[sending.chip], sending.time)
        return times
