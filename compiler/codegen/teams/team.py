"""Data that several tiles need: each of them reads a part from DDR, and the DTE gives it to all.

The tiles are a grid, one axis for each way in which the work is dealt; those that differ only along some
axes are a *team* there. A copy of the DTE is not ordered with anything by the hardware, so:

- before a part is sent the engines that made it are waited for (``ncc.wait``);
- before the bytes it goes to are used again, every tile of the team has waited for those that read them,
  and has come to a barrier (``Kernel.synchronize``, or :func:`meet`);
- before it is read the sender has waited for the copy, and all have come to a barrier: :func:`meet`.

So a pipeline with two buffers needs one ``meet`` for each step. The DTE takes parts from the scratchpad: a
broadcast from DDR would read them once for each target.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from compiler.codegen.expr import Value, highest
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import unravel

CONTENTION = 2.25
"""How much longer copies take than one tile's bytes on one link when all tiles send to their teams at once.

They share links, and a copy has all links of its way for itself: 2.0 in teams of 4 tiles, 2.5 in one of 16,
simulated.
"""


@dataclass(frozen=True)
class Team:
    """Tiles that need the same data: ``size`` of them, of which this one has the number ``member``.

    ``tiles``: the set of them as DTE and barrier take it, bit t for tile t.
    """

    size: int
    member: Value
    tiles: Value


@dataclass(frozen=True)
class TileGrid:
    """The first tiles of the chip as a grid of ``parts``; the last axis is the innermost.

    ``position``: this tile's place on each axis; it must be one of the grid.
    """

    parts: tuple[int, ...]
    position: tuple[Value, ...]

    def team(self, kernel: Kernel, *axes: int) -> Team:
        """The tiles that differ from this one along ``axes`` alone."""
        first: Value = 0
        member: Value = 0
        pattern = 1
        for axis, (parts, place) in enumerate(zip(self.parts, self.position, strict=True)):
            step = math.prod(self.parts[axis + 1 :])
            if axis in axes:
                member = member * parts + place
                pattern = sum(pattern << (other * step) for other in range(parts))
            else:
                first = first + place * step
        size = math.prod(self.parts[axis] for axis in axes)
        return Team(size, member, kernel.let(_power_of_two(first) * pattern))


def tiles_from(kernel: Kernel, first: Value, count: int) -> Value:
    """The set of ``count`` tiles from ``first`` on, as DTE and barrier take it."""
    return kernel.let(_power_of_two(first) * ((1 << count) - 1))


@contextmanager
def tile_grid(kernel: Kernel, parts: Sequence[int]) -> Iterator[TileGrid]:
    """Code for the tiles of a grid; the others pass it by.

    ``parts``: tiles along each axis; their product is at most the number of tiles.
    """
    tiles = math.prod(parts)
    if tiles > kernel.target.tiles:
        raise ValueError(f"a grid of {tiles} tiles, there are {kernel.target.tiles}")
    number = kernel.tile % tiles
    with kernel.if_zero(kernel.tile // tiles):
        yield TileGrid(tuple(parts), tuple(unravel(number, tuple(parts))))


def _power_of_two(exponent: Value) -> Value:
    """2 ** exponent, by the bits of the exponent: the core's shifts by a register are no expression."""
    power: Value = 1
    for bit in range(highest(exponent).bit_length()):
        lane = exponent // (1 << bit) % 2
        power = power * (lane * ((1 << (1 << bit)) - 1) + 1)
    return power


@contextmanager
def own_parts(kernel: Kernel, team: Team, count: int) -> Iterator[Value]:
    """The parts that this tile brings, of ``count`` that are dealt to the team."""
    if count == team.size:
        yield team.member
        return
    with kernel.loop(count, team.member if team.size > 1 else 0, team.size) as part:
        yield part


def send(kernel: Kernel, team: Team, source: Value, target: Value, size: Value) -> None:
    """Start a copy of ``size`` bytes from this tile's ``source`` to ``target`` of all tiles of the team."""
    kernel.emit("dte.broadcast", dst=target, src=source, tiles=team.tiles, n=size)


def meet(kernel: Kernel, team: Team) -> None:
    """Wait for this tile's copies and engines, and for the rest of the team to have come here."""
    kernel.emit("dte.wait")
    kernel.emit("ncc.wait")
    if team.size > 1:
        kernel.emit("ncc.barrier", tiles=team.tiles)
