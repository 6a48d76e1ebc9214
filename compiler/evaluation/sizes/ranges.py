"""The ranges of sizes that a program is made for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from asm.image import Dimension
from compiler.graph import Array, GraphError

from .formulas import Point

MOST_POINTS = 1 << 16
"""Combinations of sizes that a program may run."""
_SAMPLES = 3
"""Points in the midst of the range from which formulas are found."""


def dimensions_of(given: Mapping[str, Sequence[int]]) -> tuple[Dimension, ...]:
    """Dimensions from least, usual and most size by name; GraphError unless there are three of each."""
    for name, sizes in given.items():
        if len(sizes) != 3 or not all(isinstance(size, int) for size in sizes):
            raise GraphError([f"dimension {name}: {list(sizes)}; expected three numbers: least, usual, most"])
    return tuple(Dimension(name, *sizes) for name, sizes in given.items())


@dataclass(frozen=True)
class Ranges:
    """The dimensions of a program; GraphError for a range that is none or has too many sizes."""

    dimensions: tuple[Dimension, ...]

    def __post_init__(self) -> None:
        for each in self.dimensions:
            if not 1 <= each.least <= each.usual <= each.most:
                found = f"{each.least}:{each.usual}:{each.most}"
                raise GraphError([f"dimension {each.name}: {found}; expected least, usual, most, from 1 on"])
        names = [each.name for each in self.dimensions]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise GraphError([f"dimension {twice} is given twice"])
        if self.count > MOST_POINTS:
            found = f"the ranges have {self.count:,} combinations of sizes"
            raise GraphError([f"{found}; at most {MOST_POINTS:,} are possible"])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.dimensions)

    @property
    def count(self) -> int:
        """Combinations of sizes."""
        return int(np.prod([each.most - each.least + 1 for each in self.dimensions], dtype=object))

    @property
    def usual(self) -> dict[str, int]:
        """The point that the program is made for first."""
        return {each.name: each.usual for each in self.dimensions}

    @property
    def least(self) -> dict[str, int]:
        """The point with the smallest sizes."""
        return {each.name: each.least for each in self.dimensions}

    @property
    def most(self) -> dict[str, int]:
        """The point with the largest sizes."""
        return {each.name: each.most for each in self.dimensions}

    @cached_property
    def points(self) -> dict[str, Array]:
        """The sizes at all points, by dimension; the last dimension changes fastest."""
        axes = [np.arange(each.least, each.most + 1, dtype=np.int64) for each in self.dimensions]
        grid = np.meshgrid(*axes, indexing="ij")
        return {name: values.reshape(-1) for name, values in zip(self.names, grid, strict=True)}

    def number(self, point: Point) -> int:
        """The number of a point."""
        found = 0
        for each in self.dimensions:
            found = found * (each.most - each.least + 1) + point[each.name] - each.least
        return found

    def point(self, number: int) -> dict[str, int]:
        """The sizes at the point with a number."""
        return {name: int(values[number]) for name, values in self.points.items()}

    def samples(self) -> Iterator[dict[str, int]]:
        """Points that tell formulas apart: the usual and the largest one, and some in between."""
        yield self.usual
        taken: set[int] = set()
        for number in range(_SAMPLES + len(self.dimensions) - 1):
            point = {}
            for at, each in enumerate(self.dimensions):
                point[each.name] = _generic(each, number + 2 * at, taken)
                taken.add(point[each.name])
            yield point
        yield self.most


def _generic(dimension: Dimension, number: int, taken: set[int]) -> int:
    """A size in the midst of a range that is neither special nor taken, if there is one."""
    least, most = dimension.least, dimension.most
    middle = least + (most - least) * (number % 4 + 1) // 5
    near = sorted(
        range(max(least, middle - 40), min(most, middle + 40) + 1), key=lambda s: (abs(s - middle), s)
    )
    fresh = [size for size in near if size not in taken and size > 2]
    return next((size for size in fresh if _is_prime(size)), fresh[0] if fresh else near[0])


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % factor for factor in range(2, int(number**0.5) + 1))
