"""The rates of a machine, for rough prices that select the alternatives worth an exact price."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tx8isa.cost.instructions import rows_at_once
from tx8isa.cost.rates import ddr_rate, link_rate
from tx8isa.machine.description import Machine
from tx8isa.numbers.division import ceil_div
from tx8isa.numbers.formats import Format

from .precision import PRODUCTS, engine_format, part_count

CONTENTION = 2.25
"""The time of all copies when all tiles send to their teams at once, in times of one copy on a free link.

Copies wait for each other because each occupies all links on its way: 2.0 in teams of 4 tiles, 2.5 in a team
of 16 (simulated).
"""
CONTENTION_OF_FEW = 2.6
"""Contention if all tiles send to the same few, over the mean time of one tile's sends and one's receives.

Simulated: 16 tiles that send to the first 7 or 13.
"""


_ENGINE_FORMATS = (Format.INT8, Format.FP16, Format.BF16, Format.TF32)


@dataclass(frozen=True)
class Rates:
    """Rates of a chip, in cycles and bytes."""

    issue: float  # core cycles to issue an instruction
    ddr: float  # bytes a cycle of DDR, for all tiles together
    load: float  # bytes a cycle of a tile's loads
    store: float  # bytes a cycle of a tile's stores
    transfer: float  # cycles of a load in addition to its bytes and runs
    run: float  # cycles of a tile's loads for each run of DDR
    ddr_run: float  # cycles of DDR for each run, for all tiles together
    product: float  # cycles of a product in addition to its steps
    weights: float  # bytes of weights that come to the matrix engine in a cycle
    steps: float  # steps a cycle of the matrix engine, each for all rows that it takes at once
    wide_steps: float  # the same for sums of 32 bits
    vector: float  # FP32 elements a cycle of the vector engine
    move: float  # cycles of a transfer of the TDMA
    link: float  # bytes a cycle between two tiles
    barrier: float  # cycles of a barrier
    send: float  # core cycles to start a copy to other tiles
    copy: float  # cycles from there to the end of the copy, without those of its bytes
    first_copy: float  # extra cycles of the first copy of a program
    array: tuple[int, int, int]  # rows of a step, and k and n of a block of weights
    peaks: tuple[tuple[Format, float], ...]  # speed of the matrix engine, relative to FP16

    @property
    def meeting(self) -> float:
        """Cycles of the two barriers around an exchange of loaded data between tiles."""
        return 2 * self.barrier

    @property
    def shared_link(self) -> float:
        """Bytes a cycle between two tiles while all tiles send to their teams."""
        return self.link / CONTENTION

    def products(self, fmt: Format, rows: int, inner: int, columns: int, wide: bool = False) -> float:
        """Cycles of a product on the matrix engine; ``wide``: of sums that it writes in 32 bits.

        FP32 is multiplied in parts.
        """
        (m, k, n), own = self.array, engine_format(fmt)
        parts = len(PRODUCTS) if part_count(fmt) > 1 else 1
        rate = (self.wide_steps if wide else self.steps) * dict(self.peaks)[own]
        block = max(ceil_div(rows, m) / rate, k * n * own.bits / 8 / self.weights)
        return parts * ceil_div(inner, k) * ceil_div(columns, n) * block


@lru_cache(maxsize=16)
def rates_of(machine: Machine) -> Rates:
    """The rates of a machine."""
    timing, array, peaks = machine.timing, machine.engines.ne_array, machine.engines.ne
    return Rates(
        timing.issue.of("ne").value,
        ddr_rate(machine),
        timing.rdma.rate.value,
        timing.wdma.rate.value,
        timing.rdma.fixed.value,
        timing.rdma.run.value,
        timing.ddr.run.value,
        timing.ne.fixed.value,
        timing.ne.weights.value,
        timing.ne.efficiency.value,
        timing.ne.efficiency_wide.value,
        timing.ct.rates.fp32.value,
        timing.tdma.transfer.value,
        link_rate(machine),
        timing.barrier.fixed.value,
        timing.dte.issue.value,
        timing.dte.fixed.value,
        timing.dte.first.value,
        (rows_at_once(machine), array.k, array.n),
        tuple((fmt, getattr(peaks, fmt.token).value / peaks.fp16.value) for fmt in _ENGINE_FORMATS),
    )
