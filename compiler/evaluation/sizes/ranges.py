"""The ranges of sizes that one program runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from asm.image import Dimension
from compiler.graph import Array, GraphError
from tx8isa.tools.suggestions import hint

from .formulas import Point
from .sums import SUM, sum_of

MOST_POINTS = 1 << 16
"""Combinations of sizes that a program may run."""
_SAMPLES = 3
"""Points inside the range from which formulas are found."""


def ranges_of(given: Mapping[str, Sequence[int] | str | int], states: bool = False) -> Ranges:
    """The ranges of dimensions by name: least, usual and most size, or a sum of others as ``"past+new"``.

    With two sizes, the usual one is the most. One size, or a range of one size, is a constant. GraphError for
    anything else. ``states``: the program has states, whose length may be 0 at first.
    """
    found: dict[str, Sequence[int]] = {}
    sums: dict[str, str] = {}
    for name, sizes in given.items():
        if SUM in name:
            raise GraphError([f"dimension {name}: a sum has no range of its own; give those of its parts"])
        if isinstance(sizes, str):
            sums[name] = SUM.join(part.strip() for part in sizes.split("+"))
        elif isinstance(sizes, int):
            found[name] = (sizes,) * 3
        elif len(sizes) not in (1, 2, 3) or not all(isinstance(size, int) for size in sizes):
            wanted = "one size, least and most, or least, usual and most"
            raise GraphError([f"dimension {name}: {list(sizes)}; expected {wanted}"])
        else:
            found[name] = (sizes[0], sizes[len(sizes) // 2], sizes[-1])
    for name, text in sums.items():
        for part in text.split(SUM):
            if part not in found and not part.isdigit():
                known = f"{', '.join(found) or 'none'}{hint(part, found)}"
                raise GraphError([f"dimension {name}: '{part}' has no range; those with one: {known}"])
    constants = {name: sizes[0] for name, sizes in found.items() if sizes[0] == sizes[1] == sizes[2] > 0}
    for name, text in sums.items():
        parts = [str(constants.get(part, part)) for part in text.split(SUM)]
        sums[name] = SUM.join(parts)
        if all(part.isdigit() for part in parts):
            constants[name] = sum(map(int, parts))
    sums = {name: text for name, text in sums.items() if name not in constants}
    dimensions = tuple(Dimension(name, *sizes) for name, sizes in found.items() if name not in constants)
    growing = frozenset(each.name for each in dimensions if states and each.least == 0)
    return Ranges(dimensions, growing, aliases=tuple(sums.items()), constants=tuple(constants.items()))


@dataclass(frozen=True)
class Ranges:
    """The dimensions of a program; GraphError for an invalid range or for ranges with too many sizes.

    ``growing``: lengths of states, which may be 0. ``sums``: sums of dimensions that are factors of extents,
    such as ``past + new``. ``aliases``: the model's names of sums. ``constants``: dimensions of the model
    with one size.
    """

    dimensions: tuple[Dimension, ...]
    growing: frozenset[str] = frozenset()
    sums: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    constants: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        for each in self.dimensions:
            least = 0 if each.name in self.growing else 1
            if not least <= each.least <= each.usual <= each.most or each.usual == 0:
                found = f"{each.least}:{each.usual}:{each.most}"
                what = "from 1 on" if least else "from 0 on, the usual size from 1 on"
                raise GraphError([f"dimension {each.name}: {found}; expected least, usual, most, {what}"])
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
        """Number of combinations of sizes."""
        return int(np.prod([each.most - each.least + 1 for each in self.dimensions], dtype=object))

    @property
    def usual(self) -> dict[str, int]:
        """The point for which the program is made first."""
        return self._with_sums({each.name: each.usual for each in self.dimensions})

    @property
    def least(self) -> dict[str, int]:
        """The point with the smallest sizes."""
        return self._with_sums({each.name: each.least for each in self.dimensions})

    @property
    def most(self) -> dict[str, int]:
        """The point with the largest sizes."""
        return self._with_sums({each.name: each.most for each in self.dimensions})

    @property
    def odd(self) -> dict[str, int]:
        """A point with odd sizes between the smallest and the usual ones, if there is any."""
        return self._with_sums(
            {each.name: min((each.least + each.usual) // 2 | 1, each.most) for each in self.dimensions}
        )

    def point_of(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The point with these sizes and the usual ones elsewhere; GraphError for a size that no run can
        have."""
        ranges = {each.name: each for each in self.dimensions}
        for name, size in sizes.items():
            if name not in ranges and name not in self.sums:
                known = f"{', '.join(ranges)}{hint(name, ranges)}"
                raise GraphError([f"no dimension '{name}'; those with a range: {known}"])
            if name in ranges and not ranges[name].least <= size <= ranges[name].most:
                allowed = f"allowed are {ranges[name].least} to {ranges[name].most}"
                raise GraphError([f"{name} is {size}; {allowed}"])
        usual = {each.name: each.usual for each in self.dimensions}
        return self._with_sums(usual | {name: sizes[name] for name in ranges if name in sizes})

    def all_rows(self, before: str, new: str) -> dict[str, int]:
        """The sizes of a step that adds all rows that a state can have to an empty state."""
        sizes = {each.name: each.most for each in self.dimensions}
        return self._with_sums({**sizes, before: 0, new: sizes[before] + sizes[new]})

    @cached_property
    def points(self) -> dict[str, Array]:
        """The sizes at all points, by dimension and sum; the last dimension changes fastest."""
        axes = [np.arange(each.least, each.most + 1, dtype=np.int64) for each in self.dimensions]
        grid = np.meshgrid(*axes, indexing="ij")
        return self._with_sums(dict(zip(self.names, (each.reshape(-1) for each in grid), strict=True)))

    def _with_sums(self, sizes: dict[str, Any]) -> dict[str, Any]:
        return sizes | {text: sum_of(text, sizes) for text in self.sums}

    def model_sizes(self, point: Point) -> dict[str, int]:
        """The sizes at a point by the model's names."""
        sizes = {**dict(self.constants), **{name: point[name] for name in self.names}}
        return sizes | {name: sum_of(text, point) for name, text in self.aliases}

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
        """Points that distinguish formulas: the usual and the largest one, and some in between."""
        yield self.usual
        taken: set[int] = set()
        for number in range(_SAMPLES + len(self.dimensions) - 1):
            point = {}
            for at, each in enumerate(self.dimensions):
                point[each.name] = _generic(each, number + 2 * at, taken)
                taken.add(point[each.name])
            yield self._with_sums(point)
        yield self.most


def _generic(dimension: Dimension, number: int, taken: set[int]) -> int:
    """Return a typical size near the middle of a range, neither special nor taken, if there is one."""
    least, most = max(dimension.least, 1), dimension.most
    middle = least + (most - least) * (number % 4 + 1) // 5
    near = sorted(
        range(max(least, middle - 40), min(most, middle + 40) + 1), key=lambda s: (abs(s - middle), s)
    )
    fresh = [size for size in near if size not in taken and size > 2]
    return next((size for size in fresh if _is_prime(size)), fresh[0] if fresh else near[0])


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % factor for factor in range(2, int(number**0.5) + 1))
