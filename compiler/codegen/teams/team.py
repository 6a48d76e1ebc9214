"""Teams: tiles that need the same data. Each reads a part of it from DDR, and the DTE sends it to the others.

The tiles form a grid with one axis for each divided axis of the work; tiles that differ only along some axes
of the grid are a *team*. The hardware orders copies of the DTE with nothing else. Therefore:

- before a part is sent, its sender waits for the engines that write it (``ncc.wait``);
- before the target of a copy is used again, every tile of the team waits for its engines that read it, and
  for a barrier (``Kernel.synchronize``, or :func:`meet`);
- before a part is read, its sender waits for the copy, and all tiles for a barrier (:func:`meet`).

So a pipeline with two buffers needs one ``meet`` in each step. The DTE copies parts from the scratchpad,
because a broadcast from DDR would read them once for each target.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from compiler.codegen.expr import Value, highest
from compiler.codegen.kernel import Kernel
from compiler.codegen.slices.tensors import unravel


@dataclass(frozen=True)
class Team:
    """``size`` tiles that need the same data; this tile is number ``member`` of them.

    ``tiles`` is the set of them as an operand of DTE and barrier, with bit t for tile t.
    """

    size: int
    member: Value
    tiles: Value


@dataclass(frozen=True)
class TileGrid:
    """The first tiles of the chip as a grid of ``parts``; the last axis is the innermost.

    ``position``: the index of this tile along each axis.
    """

    parts: tuple[int, ...]
    position: tuple[Value, ...]

    def team(self, kernel: Kernel, *axes: int) -> Team:
        """The tiles that differ from this one only along ``axes``."""
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
        return Team(size, member, kernel.let(power_of_two(first) * pattern))


def sending_to(team: Team, count: int) -> Team:
    """Return ``team`` with copies to the first ``count`` tiles of the chip only, because the others have no
    work."""
    return replace(team, tiles=(1 << count) - 1)


def tiles_from(kernel: Kernel, first: Value, count: int) -> Value:
    """The set of ``count`` tiles from ``first``, as an operand of DTE and barrier."""
    return kernel.let(power_of_two(first) * ((1 << count) - 1))


@contextmanager
def tile_grid(kernel: Kernel, parts: Sequence[int]) -> Iterator[TileGrid]:
    """Code for the tiles of a grid; the other tiles skip it.

    ``parts``: tiles along each axis; their product is at most the number of tiles.
    """
    tiles = math.prod(parts)
    if tiles > kernel.target.tiles:
        raise ValueError(f"a grid of {tiles} tiles, there are {kernel.target.tiles}")
    number = kernel.tile % tiles
    with kernel.if_zero(kernel.tile // tiles):
        yield TileGrid(tuple(parts), tuple(unravel(number, tuple(parts))))


def power_of_two(exponent: Value) -> Value:
    """2 ** exponent, computed from the bits of the exponent: expressions have no shift by a register."""
    power: Value = 1
    for bit in range(highest(exponent).bit_length()):
        lane = exponent // (1 << bit) % 2
        power = power * (lane * ((1 << (1 << bit)) - 1) + 1)
    return power


@contextmanager
def own_parts(kernel: Kernel, team: Team, count: int) -> Iterator[Value]:
    """Code for each part that this tile loads, of ``count`` parts that are divided among the team."""
    if count == team.size:
        yield team.member
        return
    with kernel.loop(count, team.member if team.size > 1 else 0, team.size) as part:
        yield part


def send(kernel: Kernel, team: Team, source: Value, target: Value, size: Value) -> None:
    """Start a copy of ``size`` bytes from this tile's ``source`` to ``target`` of all tiles of the team."""
    kernel.emit("dte.broadcast", dst=target, src=source, tiles=team.tiles, n=size)


def meet(kernel: Kernel, team: Team) -> None:
    """Wait for the copies and engines of this tile, and then for the other tiles of the team."""
    kernel.emit("dte.wait")
    kernel.emit("ncc.wait")
    if team.size > 1:
        kernel.emit("ncc.barrier", tiles=team.tiles)
