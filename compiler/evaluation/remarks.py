"""Remarks on a program for its user: work of the kernel core, values that stay in FP32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

_MOST_NAMES = 4


class CoreWork(msgspec.Struct, frozen=True):
    """The work that the kernel core does element by element: the number of phases with such nodes.

    ``share`` is the part of their cycles in the estimate of all phases; None without estimates.
    """

    phases: int
    share: float | None

    def __str__(self) -> str:
        many = f"{self.phases} phases run" if self.phases > 1 else "1 phase runs"
        share = "" if self.share is None else f", about {self.share:.0%} of the estimated cycles"
        return f"{many} element by element on the kernel core{share}; see --check"


@dataclass(frozen=True)
class WideValues:
    """Values by name, with their largest magnitude, which FP16 cannot hold."""

    values: Mapping[str, float]

    def joined(self, other: WideValues | None) -> WideValues:
        """These values and others."""
        return self if other is None else WideValues({**self.values, **other.values})

    def __str__(self) -> str:
        names = [f"'{name}' (up to {size:.3g})" for name, size in self.values.items()]
        rest = len(names) - _MOST_NAMES
        listed = ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
        return f"FP16 ends at 65504, so these stay in FP32: {listed}"


def wide_or_none(values: Mapping[str, float]) -> WideValues | None:
    """The message; None if there is nothing to say."""
    return WideValues(dict(values)) if values else None
