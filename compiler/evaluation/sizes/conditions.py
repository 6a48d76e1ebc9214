"""Decisions that depend on sizes that a declared range leaves open (``size.py``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from compiler.graph import Array

_SAMPLES = 7
"""Points of a domain that represent all of them where sizes have no known bounds."""


@dataclass(eq=False)
class Domain:
    """The points of a range for which the generated code is right.

    ``symbols`` has the values of each dimension at all points. ``anchor`` is the point for which decisions
    are made, ``alive`` says for which points they are right.
    """

    symbols: Mapping[str, Array]
    anchor: int
    alive: Array
    loads: dict[str, Any] = field(default_factory=dict)
    """The sizes that the text of the code loads, by their text."""
    complete: bool = False
    """True once the code has been generated."""
    estimated: bool = False
    """True while the complete code is priced at ``anchor``; decisions then concern only that point."""
    known: dict[bytes, Any] = field(default_factory=dict)
    """The sizes so far by their values at all points."""
    first: Array = field(init=False)
    """The points at first."""

    def __post_init__(self) -> None:
        self.first = self.alive

    def size(self, values: Array, make: Callable[[Array], Any]) -> Any:
        """A size by its values: an integer if these are equal at all points left."""
        first = values[self.anchor]
        if (values[self.alive] == first).all():
            return int(first)
        key = values.tobytes()
        if key not in self.known:
            self.known[key] = make(values)
        return self.known[key]

    def require(self, holds: Array) -> None:
        """Keep only the points for which ``holds`` is true, as it is for the anchor.

        RuntimeError once the code is complete, because its points are then final.
        """
        if self.estimated:
            return
        left = self.alive & holds
        if self.complete and left.sum() < self.alive.sum():
            raise RuntimeError("a decision about complete code depends on the sizes of a run")
        self.alive = left

    def samples(self) -> list[int]:
        """The numbers of the point for which decisions are made, and of some other remaining points."""
        left = np.flatnonzero(self.alive)
        places = np.linspace(0, len(left) - 1, _SAMPLES).astype(np.int64)
        return list(dict.fromkeys([self.anchor, *left[places].tolist()]))

    @property
    def count(self) -> int:
        """Number of points left."""
        return int(self.alive.sum())


class Condition:
    """A truth value for every point of a range.

    Used as a bool, it has the value at the point for which code is generated; points with the other value
    leave the domain.
    """

    __slots__ = ("compared", "domain", "holds")

    def __init__(self, domain: Domain, holds: Array, compared: tuple[str, Any, Any]) -> None:
        self.domain, self.holds, self.compared = domain, holds, compared

    def __bool__(self) -> bool:
        outcome = bool(self.holds[self.domain.anchor])
        self.domain.require(self.holds == outcome)
        return outcome


def always(holds: Any) -> bool:
    """True if a condition holds for all remaining points; no point leaves the domain."""
    if isinstance(holds, Condition):
        return bool(holds.holds[holds.domain.alive].all())
    return bool(holds)


def ever(holds: Any) -> bool:
    """True if a condition holds for any remaining point; no point leaves the domain."""
    if isinstance(holds, Condition):
        return bool(holds.holds[holds.domain.alive].any())
    return bool(holds)
