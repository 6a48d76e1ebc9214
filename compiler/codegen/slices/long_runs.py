"""When a slice of a compact tensor is moved in long runs of DDR and reordered in the scratchpad.

Every contiguous run takes the DDR that all tiles share a time of its own (docs/timing.md, Short runs). A
slice in planes of 64 channels that is copied directly has a run for each plane of each position. Copied
whole, its positions are runs of all channels, or one run together; the TDMA then moves the channels to their
planes.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel, Target
from compiler.evaluation.sizes import here
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import tail_width
from tx8isa.numbers.limits import LARGEST_CHANNELS, LARGEST_EXTENT, MOST_MOVES

from .tensors import BLOCK

_WORTHWHILE = 2.0
"""Tiles seldom load all at once, and what comes after the reordering is issued later."""


@dataclass(frozen=True)
class CompactSlice:
    """At most ``rows`` rows of ``width`` positions, each of ``channels`` elements of ``each`` bytes.

    ``together``: how many positions follow each other in DDR without a gap.
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
        """Size of the slice as it is in DDR."""
        return self.positions * self.channels * self.each

    @property
    def planes(self) -> int:
        return ceil_div(self.channels, BLOCK)

    @property
    def long_runs(self) -> int:
        """Runs of DDR with all channels of a position together."""
        return ceil_div(self.positions, self.together)

    @property
    def short_runs(self) -> int:
        """Runs of DDR plane by plane."""
        return self.positions * self.planes if self.planes > 1 else self.long_runs

    def commands(self, loading: bool, reordered: bool) -> int:
        """Instructions of the DMA and the TDMA that copy it; two moves bring a tail out of its plane."""
        planes, rest = self.channels // BLOCK, self.channels % BLOCK
        if reordered:
            return 1 + (1 if loading else (planes > 0) + (rest > 0))
        return (planes > 0) + (rest > 0) + (rest not in (0, stored_width(rest)))


def stored_width(channels: int) -> int:
    """Channels of each position in the last plane of a tensor with ``channels`` channels."""
    return tail_width(channels, BLOCK) or BLOCK


def reorders(kernel: Kernel, piece: CompactSlice, loading: bool) -> bool:
    """Whether a slice is copied in long runs and reordered, because that takes less time than short runs.

    All tiles are taken to copy such slices at once, and no other work to hide the reordering; so it has to
    save ``_WORTHWHILE`` times what it costs.
    """
    target, timing = kernel.target, kernel.target.machine.timing
    fits = max(piece.rows, piece.width) <= LARGEST_EXTENT and piece.channels <= LARGEST_CHANNELS
    if not (kernel.reordering and fits and piece.planes > 1 and piece.positions * piece.planes <= MOST_MOVES):
        return False
    issue = (piece.commands(loading, True) - piece.commands(loading, False)) * timing.core.issue.value
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
    rate = machine.ddr.nominal.value / machine.engines.clock.value
    size, runs = here(size), here(runs)
    own = max(size / timing.rdma.rate.value, runs * timing.rdma.run.value)
    return max(own, target.tiles * (size / rate + runs * timing.ddr.run.value))


def _reordering_cycles(target: Target, piece: CompactSlice) -> float:
    """Cycles of the TDMA for the blocks of a slice, a block for each plane of each position."""
    timing = target.machine.timing.tdma
    block = max(timing.transfer.value, min(piece.channels, BLOCK) * piece.each / timing.rate.value)
    rows = piece.planes * timing.row.value
    return timing.fixed.value + rows + here(piece.positions) * piece.planes * block


def into_planes(
    kernel: Kernel, fmt: Format, target: Value, source: Value, extents: tuple[Value, Value], channels: int
) -> None:
    """Move the positions of an image, height and width, with all their channels together, to planes."""
    if fmt.bits == 8 and channels > BLOCK:  # the instruction would make planes of 128 bytes
        _bytes_into_planes(kernel, target, source, extents[0] * extents[1], channels)
        return
    shape: list[Value] = [1, *extents, channels]
    kernel.emit(f"td.channelnorm.{fmt.token}", dst=target, src0=source, shape=shape, dst_shape=shape)


def _bytes_into_planes(kernel: Kernel, target: Value, source: Value, positions: Value, channels: int) -> None:
    """Move whole planes, then the rest of the channels, plane by plane."""
    planes, rest = divmod(channels, BLOCK)
    parts = [(0, planes, BLOCK, BLOCK)] if planes else []
    parts += [(planes, 1, rest, stored_width(rest))] if rest else []
    for first, count, width, stored in parts:
        loops: dict[str, Argument] = {}
        if count > 1:
            loops = {"src_stride1": BLOCK, "src_iter1": count}
            loops |= {"dst_stride1": positions * BLOCK, "dst_iter1": count}
        kernel.emit(
            "td.gatherscatter",
            dst=target + positions * (first * BLOCK),
            src0=source + first * BLOCK,
            n=width,
            src_stride0=channels,
            src_iter0=positions,
            dst_stride0=stored,
            dst_iter0=positions,
            **loops,
        )


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
    each, (planes, rest) = fmt.bits // 8, divmod(channels, BLOCK)
    plane = (positions if pitch is None else pitch) * (BLOCK * each)
    parts = [(0, planes, BLOCK, BLOCK)] if planes else []
    parts += [(planes, 1, rest, stored_width(rest))] if rest else []
    for first, count, width, stored in parts:
        loops: dict[str, Argument] = {}
        if count > 1:
            loops = {"src_stride1": plane, "src_iter1": count}
            loops |= {"dst_stride1": BLOCK * each, "dst_iter1": count}
        kernel.emit(
            "td.gatherscatter",
            dst=target + first * BLOCK * each,
            src0=source + plane * first,
            n=width * each,
            src_stride0=stored * each,
            src_iter0=positions,
            dst_stride0=channels * each,
            dst_iter0=positions,
            **loops,
        )
