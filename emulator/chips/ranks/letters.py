"""What ranks tell each other while a program runs: plain data, in the order in which it was sent."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

from ..links import Hop
from ..messages import Receipt
from ..printed import PrintedText

Fact = TypeVar("Fact")


class Sending(NamedTuple):
    """Something that a rank has sent to another one, as a third one has to know it."""

    rank: int
    """The one that it was sent to."""
    chip: int
    """A chip of that rank, which may do something when it comes ..."""
    time: int
    """... but not before this time."""


class Letter(NamedTuple):
    """From one rank to another: all that has changed since the letter before."""

    promises: list[int]
    """Those of the sender's chips, in their order."""
    sendings: list[Sending]
    """To other ranks than the one that the letter is for."""
    received: list[int]
    """How many hops and receipts the sender has received, by the rank that they came from."""
    hops: list[Hop]
    receipts: list[tuple[Receipt, int]]
    printed: list[PrintedText]
    """For rank 0, which shows it."""


class Idle(NamedTuple):
    """To rank 0: the sender has nothing to do after so many letters, by rank."""

    sent: list[int]
    received: list[int]


class Quiet(NamedTuple):
    """From rank 0: no rank has anything to do, and no letter is under way."""


Item = Letter | Idle | Quiet


class Post(Protocol):
    """Brings items to other ranks; those from one rank to another arrive in their order."""

    rank: int
    size: int

    def send(self, rank: int, item: Item) -> None:
        """Send an item; it does not wait until the other rank has it."""

    def receive(self, wait: bool) -> tuple[int, Item] | None:
        """The next item and its sender; None if there is none and ``wait`` is not set."""

    def of_all(self, fact: Fact) -> list[Fact]:
        """The facts of all ranks, by rank; every rank must ask for them."""
