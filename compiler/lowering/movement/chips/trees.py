"""Groups of chips as trees: on each level siblings exchange the remaining part of the tensor, or all of it.

Members are counted in the order of their chips' numbers (the order of the mesh, not of the ring). The level
whose siblings are nearest comes first, because it sends the largest messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from tx8isa.machine.chips import Chips

Groups = tuple[tuple[int, ...], ...]
"""Groups of chips, each in the order of its ring."""


class Level(NamedTuple):
    """A member has ``fan`` - 1 siblings, ``stride`` members apart; each has a block of ``block`` chunks."""

    stride: int
    fan: int
    block: int

    def turned(self, member: int, by: int) -> int:
        """The sibling ``by`` places after a member, in a circle."""
        place = member // self.stride % self.fan
        return member + ((place + by) % self.fan - place) * self.stride


class Tree(NamedTuple):
    """The levels of all groups; chunks have positions such that the blocks of siblings follow each other."""

    levels: tuple[Level, ...]

    def position(self, member: int) -> int:
        """The position of a member's chunk."""
        return sum(member // level.stride % level.fan * level.block for level in self.levels)

    def block(self, member: int, level: Level) -> int:
        """The position at which the block of a member begins on a level."""
        return self.position(member) // level.block * level.block

    def after(self, member: int, number: int) -> int:
        """The member that is, on every level, as many places after ``member`` among its siblings as position
        ``number`` is after position 0.

        On a level, the numbers from ``by`` * ``block`` on therefore name the block of the sibling that is
        ``by`` places after ``member``, whichever member that is.
        """
        for level in self.levels:
            member = level.turned(member, number // level.block)
        return member


@lru_cache(maxsize=256)
def tree_of(chips: Chips, groups: Groups) -> Tree:
    """The tree of all groups, which have the same number of members."""
    members = [sorted(group) for group in groups]

    def reach(strided: tuple[int, int]) -> int:
        """Links on the longest route between siblings."""
        level = Level(*strided, 0)
        return max(
            chips.distance(chip, group[level.turned(number, by)])
            for group in members
            for number, chip in enumerate(group)
            for by in range(1, level.fan)
        )

    strides, stride = [], 1
    for fan in _fans(chips, groups):
        strides.append((stride, fan))
        stride *= fan
    levels, block = [], stride
    for stride, fan in sorted(strides, key=reach):
        block //= fan
        levels.append(Level(stride, fan, block))
    return Tree(tuple(levels))


def is_composite(members: int) -> bool:
    """True if a tree of ``members`` has several levels; with one level it is a direct exchange."""
    return len(list(_prime_factors(members))) > 1


def _fans(chips: Chips, groups: Groups) -> Iterator[int]:
    """Prime factors of the number of members; if all groups are equal rectangles, those of the columns come
    first."""
    shapes = {tuple(len({chips.xy(chip)[axis] for chip in group}) for axis in (1, 0)) for group in groups}
    (shape, *others), members = shapes, len(groups[0])
    for extent in (members,) if others or shape[0] * shape[1] != members else shape:
        yield from _prime_factors(extent)


def _prime_factors(number: int) -> Iterator[int]:
    factor = 2
    while number > 1:
        if number % factor:
            factor += 1
        else:
            yield factor
            number //= factor
