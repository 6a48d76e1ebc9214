"""When the weights of a stack's stages are loaded: in groups, each while the one before is computed.

A tile can wait for all loads of a worker and not for some of them. So the stages of a group wait for their
weights together, and those of the next group begin to be loaded then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tx8isa.machine.description import Machine

_FIRST, _OTHERS = 6, 3
"""Parts of the scratchpad that the weights of the first group and of others may fill."""


def load_groups(sizes: Sequence[int], capacity: int) -> list[list[int]]:
    """The stages in groups, by the bytes of their weights, for a scratchpad of ``capacity`` bytes.

    Where the weights are few, or a stage has as many as fill a group, each stage is a group: the
    first stages begin sooner.
    """
    if sum(sizes) < capacity // _OTHERS or max(sizes) > capacity // _OTHERS:
        return [[number] for number in range(len(sizes))]
    groups: list[list[int]] = [[]]
    filled = 0
    for number, size in enumerate(sizes):
        most = capacity // (_FIRST if len(groups) == 1 else _OTHERS)
        if groups[-1] and filled + size > most:
            groups.append([])
            filled = 0
        groups[-1].append(number)
        filled += size
    return groups


_STAGE_CYCLES = 8000
"""Least cycles of a stage of bytes, mostly for instructions of the core and for exchanges."""


def growing_groups(sizes: Sequence[int], machine: Machine, tiles: int) -> list[list[int]]:
    """The stages in groups of as many bytes of weights as all tiles load while the group before is computed.

    The first group is one stage, so that the first stage begins soon; groups then become larger and larger.
    """
    each = _STAGE_CYCLES * machine.ddr.nominal.value / machine.engines.clock.value / tiles
    most = min(machine.spm.reserved, machine.spm.bytes) // _OTHERS
    groups: list[list[int]] = [[0]]
    filled, room = 0, 0.0
    for number, size in enumerate(sizes[1:], 1):
        if len(groups) == 1 or filled + size > room:
            room = min(len(groups[-1]) * each, most)
            groups.append([])
            filled = 0
        groups[-1].append(number)
        filled += size
    return groups


@dataclass(frozen=True)
class Ahead:
    """The groups; stages are numbered."""

    groups: list[list[int]]

    def awaits_at(self, number: int) -> bool:
        """Whether a stage is the first of a group that is loaded ahead."""
        return any(group[0] == number for group in self.groups[1:])

    def loads_at(self, number: int) -> list[int]:
        """The stages of the next group whose weights begin to be loaded with a stage."""
        at = next(index for index, group in enumerate(self.groups) if number in group)
        if at + 1 == len(self.groups):
            return []
        here, following = self.groups[at], self.groups[at + 1]
        place = here.index(number)
        each = -(-len(following) // len(here))
        return following[place * each : (place + 1) * each]
