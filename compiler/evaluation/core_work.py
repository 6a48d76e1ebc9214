"""A message for the user: the nodes of a program that the kernel core computes element by element."""

from __future__ import annotations

import msgspec


class CoreWork(msgspec.Struct, frozen=True):
    """How many phases have elements that the kernel core computes one by one.

    ``share`` is their part of the estimated cycles of all phases; None without estimates.
    """

    phases: int
    share: float | None

    def __str__(self) -> str:
        many = f"{self.phases} phases run" if self.phases > 1 else "1 phase runs"
        share = "" if self.share is None else f", about {self.share:.0%} of the estimated cycles"
        return f"{many} element by element on the kernel core{share}; see --check"
