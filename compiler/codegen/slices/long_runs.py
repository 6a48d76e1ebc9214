"""Moves slices of compact tensors in long runs of DDR and reorders them in the scratchpad, if that pays.

Every contiguous run costs time of the DDR that all tiles share (docs/timing.md, Short runs). A slice in
planes of 64 channels that is copied directly has a run for each plane of each position. A row of positions is
copied in runs that hold all channels; the TDMA then moves the channels to their planes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel, Target
from compiler.evaluation.sizes import here
from tx8isa.cost.rates import ddr_rate
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import tail_width
from tx8isa.numbers.limits import LARGEST_CHANNELS, LARGEST_EXTENT, MOST_MOVES

from .tensors import BLOCK

_WORTHWHILE = 2.0
"""Least savings of a reordering, in multiples of its cost, which includes that later commands are delayed."""


@dataclass(frozen=True)
class CompactSlice:
    """At most ``rows`` rows of ``width`` positions, each of ``channels`` elements of ``each`` bytes.

    ``together``: number of positions that follow each other in DDR without a gap.
    """

    rows: int
    width: int
    channels: int
    each: int
    together: int

    @property
    def positions(self) -> int:
        return self.rows * self.width

    @property
    def bytes(self) -> int:
        """Size of the slice in DDR."""
        return self.positions * self.channels * self.each

    @property
    def planes(self) -> int:
        return ceil_div(self.channels, BLOCK)

    @property
    def long_runs(self) -> int:
        """Number of runs of DDR with all channels of a position together."""
        return ceil_div(self.positions, self.together)

    @property
    def short_runs(self) -> int:
        """Number of runs of DDR plane by plane."""
        return self.positions * self.planes if self.planes > 1 else self.long_runs

    def commands(self, loading: bool, reordered: bool) -> int:
        """Instructions of the DMA and the TDMA that copy it; two moves bring a tail out of its plane."""
        planes, rest = divmod(here(self.channels), BLOCK)
        if reordered:
            return 1 + (1 if loading else (planes > 0) + (rest > 0))
        return (planes > 0) + (rest > 0) + (rest not in (0, stored_width(rest)))


def stored_width(channels: int) -> int:
    """Channels of each position in the last plane of a tensor with ``channels`` channels."""
    return tail_width(channels, BLOCK) or BLOCK


def reorders(kernel: Kernel, piece: CompactSlice, loading: bool) -> bool:
    """True if a slice is copied in long runs and reordered, because that takes less time than short runs.

    The comparison assumes that all tiles copy such slices at once, and that no other work hides the
    reordering. So reordering must save ``_WORTHWHILE`` times its cost.
    """
    target, timing = kernel.target, kernel.target.machine.timing
    fits = max(piece.rows, piece.width) <= LARGEST_EXTENT and piece.channels <= LARGEST_CHANNELS
    if not (kernel.reordering and fits and piece.planes > 1 and piece.positions * piece.planes <= MOST_MOVES):
        return False
    issue = (piece.commands(loading, True) - piece.commands(loading, False)) * timing.issue.of("rdma").value
    saved = ddr_cycles(target, piece.bytes, piece.short_runs) - ddr_cycles(
        target, piece.bytes, piece.long_runs
    )
    if saved <= _WORTHWHILE * (issue + _reordering_cycles(target, piece)):
        return False
    kernel.reordered = True
    return True


def ddr_cycles(target: Target, size: int, runs: int) -> float:
    """Cycles of a copy of ``size`` bytes in ``runs`` runs, which all tiles make at the same time."""
    machine, timing = target.machine, target.machine.timing
    rate = ddr_rate(machine)
    size, runs = here(size), here(runs)
    own = size / timing.rdma.rate.value + runs * timing.rdma.run.value
    return max(own, target.tiles * (size / rate + runs * timing.ddr.run.value))


def _reordering_cycles(target: Target, piece: CompactSlice) -> float:
    """Cycles of the TDMA for the blocks of a slice, a block for each plane of each position."""
    timing = target.machine.timing.tdma
    channels, planes = here(piece.channels), here(piece.planes)
    block = max(timing.transfer.value, min(channels, BLOCK) * piece.each / timing.rate.value)
    return timing.fixed.value + planes * timing.row.value + here(piece.positions) * planes * block


def into_planes(
    kernel: Kernel, fmt: Format, target: Value, source: Value, extents: tuple[Value, Value], channels: int
) -> None:
    """Move the positions of an image, height and width, with all their channels together, to planes.

    It uses the same command as the inverse, so that a program needs no further kind of command. Another
    command clears the lanes that fill the last plane.
    """
    if channels % BLOCK and (fmt.bits > 8 or channels < BLOCK):
        shape: list[Value] = [1, *extents, channels]
        kernel.emit(f"td.channelnorm.{fmt.token}", dst=target, src0=source, shape=shape, dst_shape=shape)
        return
    positions = extents[0] * extents[1]
    for compact, in_planes, planes in _copies(source, target, fmt.bits // 8, positions, channels):
        _move(kernel, compact, in_planes, positions, planes)


def out_of_planes(
    kernel: Kernel,
    fmt: Format,
    source: Value,
    target: Value,
    positions: Value,
    channels: int,
    pitch: Value | None = None,
) -> None:
    """Move the channels of each position together, one position after the other.

    ``pitch``: positions of a plane, if it has more than are moved.
    """
    pitch = positions if pitch is None else pitch
    for compact, in_planes, planes in _copies(target, source, fmt.bits // 8, pitch, channels):
        _move(kernel, in_planes, compact, positions, planes)


class _Side(NamedTuple):
    """Blocks of ``size`` bytes of one side of a move: from position to position, and from plane to plane."""

    first: Value
    size: int
    step: int
    plane: Value


def _copies(
    compact: Value, planes: Value, each: int, pitch: Value, channels: int
) -> Iterator[tuple[_Side, _Side, int]]:
    """The whole planes, then the rest of the channels: both sides, and the number of planes."""
    whole, rest = divmod(channels, BLOCK)
    line, plane = BLOCK * each, pitch * (BLOCK * each)
    parts = [(0, whole, BLOCK, BLOCK)] if whole else []
    parts += [(whole, 1, rest, stored_width(rest))] if rest else []
    for first, count, width, stored in parts:
        size = width * each
        one = _Side(compact + first * line, size, channels * each, line)
        yield one, _Side(planes + plane * first, size, stored * each, plane), count


def _move(kernel: Kernel, source: _Side, target: _Side, positions: Value, planes: int) -> None:
    """Copy the blocks of all positions of some planes."""
    loops: dict[str, Argument] = {}
    if planes > 1:
        loops = {"src_stride1": source.plane, "src_iter1": planes}
        loops |= {"dst_stride1": target.plane, "dst_iter1": planes}
    kernel.emit(
        "td.gatherscatter",
        dst=target.first,
        src0=source.first,
        n=source.size,
        src_stride0=source.step,
        src_iter0=positions,
        dst_stride0=target.step,
        dst_iter0=positions,
        **loops,
    )
