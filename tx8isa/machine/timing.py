"""The coefficients of the model of time, as tables ``[timing.*]`` of the machine description.

docs/timing.md explains how they work together. ``tx8isa/cost`` computes the costs of engine instructions from
them; the others (core, DTE, barrier, banks) are used by the simulation. A cycle is one of ``engines.clock``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from .figures import (
    BytesPerCycle,
    Cycles,
    Efficiency,
    ElementsPerCycle,
    Record,
    Share,
    Slowness,
    StepsPerCycle,
)


class CtTimingRates(Record, frozen=True):
    """Arithmetic of the vector engine by element format; ``bool`` is packed bits."""

    int8: ElementsPerCycle
    int16: ElementsPerCycle
    fp16: ElementsPerCycle
    bf16: ElementsPerCycle
    int32: ElementsPerCycle
    fp32: ElementsPerCycle
    tf32: ElementsPerCycle
    bool: ElementsPerCycle


class CtTimingWork(Record, frozen=True):
    """Other work of the vector engine: its time as a multiple of arithmetic on the same data."""

    division: Annotated[Slowness, Meta(description="div, recip, sqrt, rsqrt.")]
    exponential: Annotated[Slowness, Meta(description="exp, the accurate form.")]
    exponential_lp: Annotated[Slowness, Meta(description="exp_lp, the fast form.")]
    transcendental: Annotated[Slowness, Meta(description="All functions that are not arithmetic.")]
    conversion: Annotated[Slowness, Meta(description="Between formats, and from bits.")]
    lookup: Annotated[Slowness, Meta(description="Tables, gathers and masked moves.")]
    reduction: Annotated[Slowness, Meta(description="Reductions, counts and extremes, by bytes read.")]
    window: Annotated[Slowness, Meta(description="Pooling: results times places of the window.")]
    interpolation: Annotated[Slowness, Meta(description="Bilinear resize, by the bytes that it writes.")]
    random: Annotated[Slowness, Meta(description="Random numbers and drop-out.")]


class CtTiming(Record, frozen=True):
    """The vector engine: fixed + whole lines of data (+ misaligned)."""

    fixed: Annotated[Cycles, Meta(description="One command, whatever its size.")]
    misaligned: Annotated[Cycles, Meta(description="More when a base is off a line of spm.engine_rate.")]
    rates: CtTimingRates
    work: CtTimingWork


class NeTiming(Record, frozen=True):
    """The matrix engine: fixed + the time of blocks of weights, in whole steps of engines.ne_array.

    ``steps`` arrays share a block of weights, so rows are rounded up to the rows of all arrays together.
    """

    fixed: Annotated[Cycles, Meta(description="One command, whatever its size.")]
    steps: Annotated[StepsPerCycle, Meta(description="Steps at once, FP16; others by their peaks.")]
    weights: Annotated[BytesPerCycle, Meta(description="The most bytes of weights that reach the arrays.")]
    efficiency: Annotated[
        Efficiency, Meta(description="The part of the steps that is reached, sums of up to 16 bits.")
    ]
    efficiency_wide: Annotated[Efficiency, Meta(description="The same where sums are kept in 32 bits.")]


class DmaTiming(Record, frozen=True):
    """RDMA or WDMA: fixed + bytes at the rate + ``run`` for each contiguous run but the first."""

    fixed: Annotated[Cycles, Meta(description="One command, the latency of DDR included.")]
    rate: Annotated[BytesPerCycle, Meta(description="One tile, contiguous.")]
    run: Annotated[Cycles, Meta(description="Of the tile, more for each run of DDR but the first.")]


class DdrTiming(Record, frozen=True):
    """DDR, which all tiles share: bytes take ddr.nominal, and each contiguous run adds ``run``."""

    run: Annotated[Cycles, Meta(description="Of the card, each contiguous run, whatever its length.")]


class TdmaTiming(Record, frozen=True):
    """TDMA: moves are fixed + rows + transfers, fills fixed + whole lines of data."""

    fixed: Annotated[Cycles, Meta(description="One move, whatever its size.")]
    row: Annotated[Cycles, Meta(description="Each step of the loops outside the innermost one.")]
    transfer: Annotated[Cycles, Meta(description="One block of the innermost loop at least.")]
    rate: Annotated[BytesPerCycle, Meta(description="Long blocks.")]
    fill_fixed: Annotated[Cycles, Meta(description="One fill, whatever its size.")]
    fill_rate: Annotated[BytesPerCycle, Meta(description="A fill.")]


class ScalarTiming(Record, frozen=True):
    """The scalar function unit."""

    fixed: Annotated[Cycles, Meta(description="From issue to the result.")]


class SpmTiming(Record, frozen=True):
    """Delays that engines cause each other at the scratchpad."""

    collision: Annotated[
        Share, Meta(description="Of a data phase, lost to another engine on the same bank at the same time.")
    ]


class DteTiming(Record, frozen=True):
    """Copies between tiles; bytes move at noc.link_out and noc.link_in."""

    issue: Annotated[Cycles, Meta(description="Of the core, to prepare and start a copy.")]
    fixed: Annotated[Cycles, Meta(description="From there to the completion, without the bytes.")]
    first: Annotated[Cycles, Meta(description="More for the first copy of a tile.")]
    hop: Annotated[Cycles, Meta(description="Each link on the way.")]


Flow = Literal["text", "c-runtime"]
"""The maker of instruction packets: the program's text, or the vendor's C runtime (docs/crt.md)."""


class IssueTiming(Record, frozen=True):
    """Cycles of the core to submit an engine instruction."""

    flow: Annotated[Flow, Meta(description="Who makes the packets.")]
    ct: Annotated[Cycles, Meta(description="To the vector engine, the packet ready.")]
    ne: Annotated[Cycles, Meta(description="To the matrix engine, the packet ready.")]
    rdma: Annotated[Cycles, Meta(description="A load, the packet ready.")]
    wdma: Annotated[Cycles, Meta(description="A store, the packet ready.")]
    tdma: Annotated[Cycles, Meta(description="A move or fill, the packet ready.")]
    scalar: Annotated[Cycles, Meta(description="To the scalar unit, the packet ready.")]
    c_runtime: Annotated[Cycles, Meta(description="Any of them, by the C runtime, which builds the packet.")]
    kind: Annotated[Cycles, Meta(description="More for a tile's first command of each kind.")]

    def of(self, engine: str) -> Cycles:
        """Return the figure for a command of an engine, by its key here."""
        found: Cycles = self.c_runtime if self.flow == "c-runtime" else getattr(self, engine)
        return found


class CoreTiming(Record, frozen=True):
    """The kernel core of a tile."""

    instruction: Annotated[Cycles, Meta(description="An instruction of its own.")]
    load: Annotated[Cycles, Meta(description="A load through the cache.")]
    uncached_load: Annotated[Cycles, Meta(description="A load past the cache, of a scratchpad or DDR.")]
    divide: Annotated[Cycles, Meta(description="A division or remainder of integers.")]
    cache_line: Annotated[Cycles, Meta(description="Maintenance of a line of the data cache.")]
    cache: Annotated[Cycles, Meta(description="Maintenance of all of the data cache.")]
    line: Annotated[Cycles, Meta(description="More for each 64 bytes of code that a tile executes first.")]
    register_read: Annotated[Cycles, Meta(description="A read of a unit's register, uncached.")]
    csr_read: Annotated[Cycles, Meta(description="A read of a control and status register.")]
    join: Annotated[Cycles, Meta(description="A wait for workers that are done.")]
    join_worker: Annotated[Cycles, Meta(description="More for each worker of the wait.")]
    program: Annotated[Cycles, Meta(description="A program on a tile, whatever it does: entry, final join.")]


class BarrierTiming(Record, frozen=True):
    """The barrier of a set of tiles."""

    fixed: Annotated[Cycles, Meta(description="From the arrival of the last tile to the going on of all.")]


class Timing(Record, frozen=True):
    """All coefficients of the model of time."""

    ct: CtTiming
    ne: NeTiming
    rdma: DmaTiming
    wdma: DmaTiming
    ddr: DdrTiming
    tdma: TdmaTiming
    scalar: ScalarTiming
    spm: SpmTiming
    dte: DteTiming
    issue: IssueTiming
    core: CoreTiming
    barrier: BarrierTiming
