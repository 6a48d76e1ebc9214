"""Decisions that depend on sizes which a declared range leaves open (``codegen/sizes.py``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from compiler.graph import Array

_SAMPLES = 7
"""Points of a domain that stand for all of them where nothing can be said about sizes."""


@dataclass(eq=False)
class Domain:
    """The points of a range for which the code that is being generated is right.

    ``symbols`` has the values of each dimension at all points. ``anchor`` is the point for which decisions
    are made, ``alive`` says which points they are right for.
    """

    symbols: Mapping[str, Array]
    anchor: int
    alive: Array
    loads: dict[str, Any] = field(default_factory=dict)
    """The sizes that the text of the code loads, by their text."""
    complete: bool = False
    """Whether the code has been generated."""
    estimated: bool = False
    """Whether the complete code is being priced at ``anchor``; decisions are about that point alone."""
    known: dict[bytes, Any] = field(default_factory=dict)
    """The sizes so far by their values at all points."""
    first: Array = field(init=False)
    """The points at first."""

    def __post_init__(self) -> None:
        self.first = self.alive

    def size(self, values: Array, make: Callable[[Array], Any]) -> Any:
        """A size by its values: an integer where these are equal at all points that are left."""
        first = values[self.anchor]
        if (values[self.alive] == first).all():
            return int(first)
        key = values.tobytes()
        if key not in self.known:
            self.known[key] = make(values)
        return self.known[key]

    def require(self, holds: Array) -> None:
        """Let only points remain for which ``holds`` is true; it is for the anchor.

        RuntimeError once the code is complete: then it is said already which points it is for.
        """
        if self.estimated:
            return
        left = self.alive & holds
        if self.complete and left.sum() < self.alive.sum():
            raise RuntimeError("a decision about complete code depends on the sizes of a run")
        self.alive = left

    def samples(self) -> list[int]:
        """The point for which decisions are made, and some others of those that are left, by number."""
        left = np.flatnonzero(self.alive)
        places = np.linspace(0, len(left) - 1, _SAMPLES).astype(np.int64)
        return list(dict.fromkeys([self.anchor, *left[places].tolist()]))

    @property
    def count(self) -> int:
        """How many points are left."""
        return int(self.alive.sum())


class Condition:
    """Whether something holds, for every point of a range.

    As a truth value it is what it is for the point for which code is generated; points for which it is not
    so leave the domain.
    """

    __slots__ = ("compared", "domain", "holds")

    def __init__(self, domain: Domain, holds: Array, compared: tuple[str, Any, Any]) -> None:
        self.domain, self.holds, self.compared = domain, holds, compared

    def __bool__(self) -> bool:
        outcome = bool(self.holds[self.domain.anchor])
        self.domain.require(self.holds == outcome)
        return outcome


def always(holds: Any) -> bool:
    """Whether a condition holds for all points that are left; none leaves the domain for that."""
    if isinstance(holds, Condition):
        return bool(holds.holds[holds.domain.alive].all())
    return bool(holds)


def ever(holds: Any) -> bool:
    """Whether a condition holds for any of the points that are left; none leaves the domain for that."""
    if isinstance(holds, Condition):
        return bool(holds.holds[holds.domain.alive].any())
    return bool(holds)
