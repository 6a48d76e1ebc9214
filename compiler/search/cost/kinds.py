"""Shares of phases in the cost of the first command of each kind, which a tile pays once in a program.

The groups of a program that use a kind pay equal shares, so that the shares of all add up to the price. In a
sequence they pay the sum of their separate shares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

Shares = Mapping[str, float]
"""Shares in the price of each kind."""

NOTHING: Shares = MappingProxyType({})
"""The shares of a phase that is not priced as a part of a program."""


@dataclass(frozen=True)
class KindUse:
    """Counts the groups of a program that use each kind of command; empty before they were counted."""

    users: Counter[str] = field(default_factory=Counter)

    def count(self, kinds: Iterable[str], groups: int) -> None:
        """Add ``groups`` equal groups."""
        for kind in set(kinds):
            self.users[kind] += groups

    def shares(self, kinds: Iterable[str], alone: Shares = NOTHING) -> Shares:
        """The shares of a phase in the ``kinds`` that it uses.

        ``alone`` is the sum of the shares of the groups that the phase joins. If none of them uses a kind,
        the phase has the share of one group.
        """
        return {kind: alone.get(kind) or 1 / max(self.users[kind], 1) for kind in kinds}


def added(shares: Iterable[Shares]) -> Shares:
    """The shares of several groups together."""
    total: dict[str, float] = {}
    for each in shares:
        for kind, share in each.items():
            total[kind] = total.get(kind, 0.0) + share
    return total
