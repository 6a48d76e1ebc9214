"""Detects that chips stand still for ever, and reports it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from emulator.tile.fault import Fault, FaultKind

from .linked_chip import Failure, LinkedChip

_MOST_SHOWN = 8
"""The most tiles and links that the message about a deadlock names."""


class Stillness(NamedTuple):
    """Some of the chips when nothing is under way."""

    over: bool
    """All their tiles have exited."""
    polls: bool
    """Some tile polls again and again."""
    moved: bool
    """Something has happened since they last stood still."""
    now: int
    """The latest of their times."""
    failures: list[Failure]

    @classmethod
    def of(cls, chips: Sequence[LinkedChip], moved: bool) -> Stillness:
        """Return the stillness of these chips."""
        return cls(
            all(chip.over for chip in chips),
            any(chip.polls for chip in chips),
            moved,
            max(chip.time.now for chip in chips),
            [chip.failure for chip in chips if chip.failure],
        )


class StandingChips:
    """The state in which some chips stand still, which shows if they do so for ever."""

    def __init__(self) -> None:
        self._registers: list[bytes] = []
        self._memory: list[bytes] = []

    def again(self, chips: Sequence[LinkedChip]) -> bool:
        """Return True if the chips were in their present state before.

        Memory is compared if registers agree.
        """
        registers = [chip.registers() for chip in chips]
        agrees, self._registers = registers == self._registers, registers
        memory = [chip.memory() for chip in chips] if agrees else []
        agrees, self._memory = agrees and memory == self._memory, memory
        return agrees


class Hindrance(NamedTuple):
    """The reasons why the tiles of a chip wait, and the traffic of its links."""

    chip: int
    waits: list[str]
    links: list[str]

    @classmethod
    def of(cls, chip: LinkedChip) -> Hindrance:
        """Return the hindrance of a chip."""
        waits = [f"chip {chip.number}: {text}" for text in chip.traffic.standstill()]
        links = [
            f"{chip.number} -> {to} has carried {link.messages}"
            for to, link in chip.links.links.items()
            if link.messages
        ]
        return cls(chip.number, waits, links)


def deadlock(hindrances: Iterable[Hindrance]) -> Fault:
    """Return the fault of a program that hangs for ever; ``hindrances`` are those of all chips."""
    ordered = sorted(hindrances)
    waits = [text for one in ordered for text in one.waits]
    links = [text for one in ordered for text in one.links]
    carried = _some(links) if links else "none has carried anything"
    text = f"the program can never go on: {_some(waits)}; no link has anything to carry ({carried})"
    return Fault(text, FaultKind.DEADLOCK)


def _some(texts: Sequence[str]) -> str:
    """Return the first of many texts."""
    more = len(texts) - _MOST_SHOWN
    return "; ".join(texts[:_MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")
