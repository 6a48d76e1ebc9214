"""Messages between ranks while a program runs: plain data, in the order in which it was sent."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

from ..links import Hop
from ..messages import Receipt
from ..printed import PrintedText

Fact = TypeVar("Fact")


class Sending(NamedTuple):
    """A message from one rank to another, reported to the other ranks."""

    rank: int
    """The rank that it was sent to."""
    chip: int
    """A chip of that rank, which may react to it ..."""
    time: int
    """... but not before this time."""


class Letter(NamedTuple):
    """A letter from one rank to another: all changes since its last letter."""

    promises: list[int]
    """Promises of the sender's chips, in their order."""
    sendings: list[Sending]
    """Messages to other ranks than the letter's receiver."""
    received: list[int]
    """Numbers of hops and receipts that the sender has received, by the rank that they came from."""
    hops: list[Hop]
    receipts: list[tuple[Receipt, int]]
    printed: list[PrintedText]
    """For rank 0, which shows it."""


class Idle(NamedTuple):
    """A letter to rank 0: the sender is idle after this number of letters from each rank."""

    sent: list[int]
    received: list[int]


class Quiet(NamedTuple):
    """A letter from rank 0: all ranks are idle, and no letter is in transit."""


Item = Letter | Idle | Quiet


class Post(Protocol):
    """Delivers items to other ranks; items from one rank to another arrive in their order."""

    rank: int
    size: int

    def send(self, rank: int, item: Item) -> None:
        """Send an item, without waiting until the other rank has it."""

    def receive(self, wait: bool) -> tuple[int, Item] | None:
        """Return the next item and its sender; None if there is none and ``wait`` is not set."""

    def of_all(self, fact: Fact) -> list[Fact]:
        """Return the facts of all ranks, by rank; every rank must ask for them."""
