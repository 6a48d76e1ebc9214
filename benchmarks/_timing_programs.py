"""Build programs that measure simulated time: commands, the frame around them, and the results of a run.

A program runs on tile 0 unless its row says otherwise. It leaves readings of the clock in the registers s0,
s1 and so on, which the frame (``program``) stores at the end. The frame runs it twice, and the second time
counts: the probes of the chip had executed their code before. A ``cold`` row runs once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

from emulator.timing.slices import TICKS, Track

MARKS = 9
"""Readings of the clock that a program can leave."""
ENGINES = (Track.CT, Track.NE, Track.RDMA, Track.WDMA, Track.TDMA)


@dataclass(frozen=True)
class Run:
    """The slices and the clock readings of a run."""

    slices: npt.NDArray[np.void]
    marks: npt.NDArray[np.int64]
    """[tile, mark]: readings of the clock, in cycles."""
    turns: int = 1
    """Runs of the program; the last one counts."""

    def of(self, *tracks: Track) -> npt.NDArray[np.void]:
        """The slices of tile 0 on some tracks."""
        mine = self.slices[self.slices["tile"] == 0]
        parts = [np.sort(mine[mine["track"] == track], order="started") for track in tracks]
        return np.concatenate([part[part.size - part.size // self.turns :] for part in parts])

    def lengths(self, *tracks: Track) -> npt.NDArray[np.float64]:
        """Cycles of each of these slices."""
        rows = self.of(*tracks)
        return np.asarray((rows["ended"] - rows["started"]) / TICKS)

    def busy(self, *tracks: Track) -> float:
        """The sum of the cycles in which engines of tile 0 were busy."""
        return float(self.lengths(*tracks).sum())

    def union(self) -> float:
        """Cycles in which any engine of tile 0 was busy."""
        rows = np.sort(self.of(*ENGINES), order="started")
        total, reached = 0, 0
        for start, end in zip(rows["started"].tolist(), rows["ended"].tolist(), strict=True):
            total += max(end - max(start, reached), 0)
            reached = max(reached, end)
        return total / TICKS

    def between(self, first: int, second: int, tile: int = 0) -> float:
        """Cycles between two marks."""
        return float(self.marks[tile, second] - self.marks[tile, first])


Figure = Callable[[Run], float]


FITTED = frozenset(
    {
        "empty pair of clock readings",
        "4,096 turns of a loop of 5 instructions",
        "21 register reads",
        *(f"submission {i} of 7 in a row" for i in (1, 5, 6, 7)),
        "join, 1 idle worker",
        "add, 128 elements",
        "add, 128 elements, base 64 mod 256",
        "add, 2,048 elements, worker 1",
        "add, 2,048 elements, worker 2",
        "six adds of 2,048",
        "seven adds of 2,048",
        "three workers, one add of 2,048 each",
        "sub and exp of 65,536 FP32 (one sample)",
        "six products of 1 x 16 x 16",
        "RDMA 256 B",
        "six RDMA of 4 KiB",
        "six WDMA of 4 KiB",
        "gatherscatter, 4 B, 64 x 16",
        "gatherscatter, 4 B, 64 x 64",
        "gatherscatter, 1,024 B, 256 x 1",
        "four fills of 4 KiB",
        "fill, 16 KiB (inferred)",
        "fill, 64 KiB",
        "copy of 2 KiB, start to end of wait",
        "copy of 8 KiB, start to end of wait",
        "first copy of a launch (medians by tile)",
        "wait for a copy of 2 KiB",
        "rows of 128 B, 16 tiles: each",
    }
)
"""Rows that coefficients of the model were fitted to; that the model reproduces them proves little."""


@dataclass(frozen=True)
class Row:
    """One measurement. ``samples`` are in ``unit``; if there are several, the median counts."""

    topic: str
    what: str
    samples: tuple[float, ...]
    text: str
    """The program, without its frame."""
    figure: Figure
    """The cycles that a run gives for this row."""
    unit: str = "cycles"
    lower_bound: bool = False
    """True if the published figure is only a lower bound."""
    reason: str = ""
    """Why the model is more than 15 % off, in rows where it is."""
    tiles: int = 1
    cold: bool = False
    """True if the time of a first use is measured."""

    @property
    def fitted(self) -> bool:
        return self.what in FITTED

    @property
    def measured(self) -> float:
        return float(median(self.samples))

    @property
    def turns(self) -> int:
        """The number of times that the program runs."""
        return 1 if self.cold else 2

    @property
    def scale(self) -> float:
        """Cycles per unit."""
        return 1000.0 if self.unit == "us" else 1.0


@dataclass(frozen=True)
class Gap:
    """A published figure that no program here reproduces, and why."""

    topic: str
    what: str
    why: str


def program(row: Row) -> str:
    """The complete program: the other tiles exit at once, and the marks are stored at the end."""
    stores = "\n".join(f" sd s{i}, {8 * i}(t1)" for i in range(MARKS))
    clear = "\n".join(f" li s{i}, 0" for i in range(MARKS))
    return f"""
 .output marks, int32, 16x{2 * MARKS}
 .text
 .globl _start
_start:
 csrr t0, mhartid
 li t1, {row.tiles}
 bgeu t0, t1, 9f
{clear}
 li s11, {row.turns}
8:
{row.text}
 addi s11, s11, -1
 bnez s11, 8b
 csrr t0, mhartid
 li t1, {8 * MARKS}
 mul t0, t0, t1
 la t1, %core(marks)
 add t1, t1, t0
{stores}
9: li a7, 93
 li a0, 0
 ecall
"""


# --- commands -------------------------------------------------------------------------------


def ct(n: int, buffer: int = 0, base: int = 0, worker: int = 0, name: str = "add.vv.fp16") -> str:
    at = 0x10000 + 0x60000 * buffer + base
    return f" ct.{name} dst={at + 0x40000}, src0={at}, src1={at + 0x20000}, n={n}, worker={worker}"


def ne(m: int, k: int, n: int, buffer: int = 0) -> str:
    at = 0xE0000 + 0x20000 * buffer
    return f" ne.gemm.fp16 a={at}, b={at + 0x8000}, out={at + 0x10000}, m={m}, k={k}, n={n}"


def rdma(size: int, buffer: int = 0, worker: int = 0) -> str:
    at = 0x140000 + 0x20000 * buffer
    return f" rdma.fp16 dst={at}, src={0x280400000 + size * buffer}, n={size // 2}, worker={worker}"


def wdma(size: int, buffer: int = 0, worker: int = 0) -> str:
    at = 0x180000 + 0x20000 * buffer
    return f" wdma.fp16 dst={0x280800000 + size * buffer}, src={at}, n={size // 2}, worker={worker}"


def fill(size: int, buffer: int = 0) -> str:
    return f" td.memset.fp16 dst={0x1C0000 + 0x20000 * buffer}, value=0, n={size // 2}"


def scatter(n: int, inner: int, rows: int, source: int = 0) -> str:
    """A gatherscatter whose target is contiguous; ``source`` is the stride of its reads."""
    trips = f"src_iter0={inner}, src_iter1={rows}, dst_iter0={inner}, dst_iter1={rows}"
    strides = f"src_stride0={source}, dst_stride0={n}, dst_stride1={n * inner}"
    return f" td.gatherscatter dst=0x200000, src0=0x1C0000, n={n}, {trips}, {strides}"


def mark(place: int) -> str:
    return f" csrr s{place}, cycle"


def lines(*commands: str) -> str:
    return "\n".join(commands)


WAIT = " ncc.wait"


def wait(worker: int) -> str:
    return f" ncc.wait worker={worker}"


WARM = lines(" ct.add.vv.fp16 dst=0, src0=0, src1=0, n=64", WAIT)
"""The first submission of a tile takes longer; a row that does not measure this begins with one."""


def busy(*tracks: Track) -> Figure:
    return lambda run: run.busy(*tracks)


def between(first: int, second: int) -> Figure:
    return lambda run: run.between(first, second)


def middle(first: int, second: int) -> Figure:
    """The median of all tiles."""
    return lambda run: float(median(run.between(first, second, tile) for tile in range(16)))


def excess(*tracks: Track) -> Figure:
    """Cycles in which both engines were busy, computed as in the source."""
    return lambda run: run.busy(*tracks) - run.union()
