"""Compute the busy times of engines in published programs whose commands are known, from counts and shapes
alone.

No program runs here. A row says which commands a tile of the published program gave to an engine, and how
many. The model's figure is the sum of their prices (``tx8isa/cost``). The published figures are those of
counters on a card, from the records of PJLAB-CHIP/vibe_compiler that a row names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from _published_commands import (
    BLOCK,
    BLOCKS,
    Figure,
    attention_engines,
    attention_passes,
    commands,
    fewer,
    gemm_engines,
    load,
    product,
    runtime_call,
    submission,
    transfers,
)
from tx8isa.machine.description import Machine
from tx8isa.machine.ends import End, at_end


@dataclass(frozen=True)
class Published:
    """A figure of a published program, from ``low`` to ``high`` cycles, and the model's for the same work.

    ``limit`` is how far the model may be from the nearest published figure. It is None if the work may not be
    the same; ``note`` says why.
    """

    program: str
    engine: str
    work: str
    low: float
    high: float
    figure: Figure
    source: str
    limit: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Replayed:
    """A row with the model's figure, and the figures at both ends of the ranges."""

    row: Published
    model: float
    least: float
    most: float

    @property
    def error(self) -> float:
        """The relative distance to the nearest published figure; 0 between two of them."""
        nearest = min(max(self.model, self.row.low), self.row.high)
        return self.model / nearest - 1

    @property
    def beyond(self) -> bool:
        """True if the model is further off than the row allows."""
        return self.row.limit is not None and abs(self.error) > self.row.limit

    def cells(self) -> tuple[str, ...]:
        row = self.row
        board = _cycles(row.low) if row.low == row.high else f"{_cycles(row.low)} to {_cycles(row.high)}"
        limit = f"{row.limit:.0%}" if row.limit is not None else row.note
        error = f"{self.error:+.1%}"
        return row.engine, f"{row.program}: {row.work}", board, _cycles(self.model), error, limit, row.source


def _cycles(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


# --- the rows -------------------------------------------------------------------------------


def _matrix() -> list[Published]:
    """These sizes have the published count and bytes of the products of 1 and 16 rows."""
    one = commands((324, product(1, 512, 1024)), (124, product(1, 512, 512)))
    sixteen = commands((40, product(16, 512, 512)), (1, product(16, 256, 512)), (31, product(16, 256, 256)))
    step = commands((9, product(1, 512, 1024)))
    wide = product(256, 512, 512, "fp32")
    scores, values = product(256, 128, 256, "fp32"), product(256, 256, 128, "fp32")
    prefill, native = "2026-09-09", "llama-native-reduce-20260909.json"
    return [
        Published("Llama, decode", "NE", "448 products of 1 row", 1.872e6, 1.872e6, one, prefill, 0.05),
        Published("Llama, 16 tokens", "NE", "72 products of 16 rows", 120656, 120656, sixteen, native, 0.05),
        Published(
            "Llama, a step",
            "NE",
            "9.44 MB of weights, 1 row",
            43300,
            43300,
            step,
            "decode-mask-receive",
            0.05,
        ),
        Published(
            "products",
            "NE",
            "128 x 128 x 128",
            622.5,
            622.5,
            commands((1, product(128, 128, 128))),
            "2026-09-12",
            0.05,
        ),
        Published(
            "attention",
            "NE",
            "256 x 256 x 128, FP32 sums",
            2524,
            2524,
            commands((1, values)),
            "2026-09-22",
            0.05,
        ),
        Published(
            "attention",
            "NE",
            "256 x 128 x 256, FP32 sums",
            2524,
            2524,
            commands((1, scores)),
            "2026-09-22",
            0.05,
        ),
        Published(
            "GEMM 4096",
            "NE",
            "256 x 512 x 512, FP32 sums",
            18539,
            18539,
            commands((1, wide)),
            "2026-09-22",
            0.05,
        ),
        Published(
            "GEMM 4096", "NE", "all 64 products", 1.19e6, 1.19e6, commands((64, wide)), "whole programs", 0.05
        ),
        Published(
            "attention",
            "NE",
            "72 blocks, 2 products each",
            0.36e6,
            0.36e6,
            commands((BLOCKS, scores), (BLOCKS, values)),
            "whole programs",
            0.05,
        ),
    ]


def _memory() -> list[Published]:
    row, rows, stride = 1024, 2048, 8192
    regression = "gemm4096-regression-20260922.json"
    shared = "16 rows in 49 cycles are 334 GB/s, more than DDR has: tiles read the same rows, see below"
    masks = "loads of masks are not known"
    short = load(128, 4096, 256)
    blocks = [(64, load(row, 256, stride)), (64, load(row, 512, stride))]
    return [
        Published(
            "GEMM 4096",
            "RDMA",
            "a row of 1 KiB, 8 KiB apart",
            49.0,
            49.8,
            commands((1, load(row, rows, stride)), per=rows),
            regression,
            0.1,
        ),
        Published(
            "GEMM 4096",
            "RDMA",
            "the same, 16 tiles at once",
            49.0,
            49.8,
            commands((1, load(row, rows, stride)), tiles=16, per=rows),
            regression,
            note=shared,
        ),
        Published(
            "GEMM 4096",
            "RDMA",
            "16 tiles at once, rows that 4 of them read counted once",
            49.0,
            49.8,
            commands((1, load(row, rows, stride)), tiles=4, per=rows),
            regression,
            0.1,
        ),
        Published(
            "GEMM 4096",
            "RDMA",
            "64 blocks of 256 and of 512 rows of 1 KiB",
            2.45e6,
            2.68e6,
            commands(*blocks),
            regression,
            0.1,
        ),
        Published(
            "Llama, a block",
            "RDMA",
            "a row of 128 B, 16 tiles",
            74,
            128,
            commands((1, short), tiles=16, per=4096),
            "2026-09-23",
            0.1,
        ),
        Published(
            "two programs",
            "RDMA",
            "a row of 128 B, 16 tiles",
            105,
            128,
            commands((1, short), tiles=16, per=4096),
            "2026-09-23",
            0.1,
        ),
        Published(
            "two programs",
            "RDMA",
            "a row of 128 B, 14 tiles",
            105,
            128,
            commands((1, short), tiles=14, per=4096),
            "2026-09-23",
            note="which program had 14 tiles is not said",
        ),
        Published(
            "attention",
            "RDMA",
            "keys and values of 72 blocks, 14 queries",
            0.39e6,
            0.39e6,
            commands((2 * BLOCKS + 14, load(65536))),
            "whole programs",
            note=masks,
        ),
        Published(
            "GEMM 4096",
            "WDMA",
            "2 MiB in rows of 1 KiB, 8 KiB apart",
            62800,
            62800,
            commands((1, load(row, rows, stride, store=True))),
            regression,
            0.05,
        ),
        Published(
            "attention",
            "WDMA",
            "14 results of 64 KiB",
            0.03e6,
            0.03e6,
            commands((14, load(65536, store=True))),
            "whole programs",
            0.05,
        ),
    ]


def _vectors() -> list[Published]:
    scores = BLOCKS * BLOCK
    exact, fast = (f"ct.{name}.v.fp32 dst=0x100000, src0=0, n={BLOCK}" for name in ("exp", "exp_lp"))
    saved = fewer(scores // BLOCK, exact, fast)
    return [
        Published(
            "attention",
            "CT",
            "six passes and a half over 72 blocks, 16 masks",
            1.1273e6,
            1.1273e6,
            attention_passes(),
            "2026-09-23",
            0.05,
        ),
        Published(
            "attention", "CT", "exp_lp instead of exp, less", 1.70e6, 1.70e6, saved, "2026-09-22", 0.05
        ),
        Published(
            "attention",
            "TDMA",
            "7,602,176 transfers of 4 B",
            14.53e6,
            14.53e6,
            transfers(7602176),
            "2026-09-21",
            0.05,
        ),
    ]


def _submissions() -> list[Published]:
    traced = "2026-09-21"
    figures = (("rdma", 118, 118), ("tdma", 182, 182), ("wdma", 185, 185), ("ct", 213, 287))
    rows = [
        Published(
            "traced", "core", f"submission to {engine.upper()}", low, high, submission(engine), traced, 0.1
        )
        for engine, low, high in figures
    ]
    call = Published("Llama", "core", "a call of the C runtime", 900, 1200, runtime_call, "2026-09-09", 0.1)
    return [*rows, call]


def published() -> list[Published]:
    """Every row."""
    return [*_matrix(), *_memory(), *_vectors(), *_submissions(), *_programs()]


def _programs() -> list[Published]:
    """Whole programs as if no two engines worked at the same time, submissions and waits left out."""
    work = "all engines, one after another"
    rest = "submissions, waits and first uses are not in the sum"
    return [
        Published("attention", "all", work, 2.68e6, 2.68e6, attention_engines(), "whole programs", 0.1),
        Published("GEMM 4096", "all", work, 6.0e6, 6.01e6, gemm_engines(), "whole programs", note=rest),
    ]


MISSING = (
    "the cache: 7,510 cycles to invalidate and 1,065 to clean, of how many lines is not said",
    "TDMA in GEMM 4096, 1.21 ms, and in attention, 0.89 ms: its commands are not published",
    "CT in GEMM 4096, 0.07 ms: a conversion of the result is half of it, the rest is not published",
)
"""Published figures that no row has, and why."""


def replayed(machine: Machine) -> list[Replayed]:
    """All rows on a machine."""
    ends = [at_end(machine, end) for end in (End.LEAST, End.MOST)]
    found = []
    for row in published():
        least, most = (row.figure(end) for end in ends)
        found.append(Replayed(row, row.figure(machine), least, most))
    return found


def replay_text(found: Sequence[Replayed]) -> str:
    """The table in Markdown."""
    limited = [row for row in found if row.row.limit is not None]
    good = sum(not row.beyond for row in limited)
    return "\n".join(
        [
            f"Within their limits: {good} of {len(limited)}. Cycles.",
            "",
            "| engine | published program and work | board | model | error | limit, or why none | source |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            *(f"| {' | '.join(row.cells())} |" for row in found),
            "",
            "Published, without a row:",
            "",
            *(f"- {line}." for line in MISSING),
        ]
    )
