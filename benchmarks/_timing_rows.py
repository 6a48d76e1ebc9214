"""The published microbenchmarks of the chip's time: a program for each, and the figures it is compared with.

The sources are calibration and performance, as in tx8isa/machine/machines/tx81.toml.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from _timing_ddr_rows import ddr_rows
from _timing_programs import (
    ENGINES,
    WAIT,
    WARM,
    Gap,
    Row,
    Run,
    between,
    busy,
    ct,
    excess,
    fill,
    lines,
    mark,
    middle,
    ne,
    rdma,
    scatter,
    wait,
    wdma,
)
from emulator.timing.slices import TICKS, Track

# --- rows -----------------------------------------------------------------------------------


_SETTLED = 4
"""Submissions in a row after which the code of the probe had been executed."""


def core_rows() -> list[Row]:
    """Issue, registers, joins."""
    packets = lines(*(lines(mark(i), ct(128, i % 2)) for i in range(7)), mark(7), WAIT)
    samples = (3558, 322, 561, 365, 236, 237, 218)
    settling = "which submission reaches a new line of code depends on the probe; their sum is the row below"
    issues = [
        Row(
            "core",
            f"submission {i + 1} of 7 in a row",
            (float(sample),),
            packets,
            between(i, i + 1),
            reason=settling if i in (1, 2, 3) else "",
            cold=i < _SETTLED,
        )
        for i, sample in enumerate(samples)
    ]
    issues.append(
        Row(
            "core",
            "submissions 2 to 7 together",
            (float(sum(samples[1:])),),
            packets,
            between(1, 7),
            cold=True,
        )
    )
    loop = lines(
        " li t0, 4096",
        mark(0),
        "1: addi t1, t1, 1",
        " xor t2, t2, t1",
        " add t3, t3, t2",
        " addi t0, t0, -1",
        " bnez t0, 1b",
        mark(1),
    )
    reads = [f" lw t1, {0x13C + 4 * (i % 14)}(t0)" for i in range(21)]
    registers = lines(" li t0, 0x590000", mark(0), *reads, mark(1))
    joins = [lines(WARM, mark(0), *map(wait, range(count)), mark(1)) for count in (1, 2, 3)]
    own = [wdma(8192, worker, worker) for worker in range(2)]
    split = lines(WARM, *own, mark(0), WAIT, wait(1), mark(1))
    together = lines(" ncc.barrier", mark(0), "{}", WAIT, mark(1))
    tail = "one rate of DDR for reads and writes, and the chip has a long tail (P90 is 3 times the median)"
    joined = "the model adds all of a join to the end of the work; a part of it may pass before"
    return [
        Row("core", "empty pair of clock readings", (7,), lines(mark(0), mark(1)), between(0, 1)),
        *issues,
        Row("core", "4,096 turns of a loop of 5 instructions", (41067, 41294), loop, between(0, 1)),
        Row("core", "21 register reads", (687,), registers, between(0, 1)),
        Row("core", "join, 1 idle worker", (0.182,), joins[0], between(0, 1), "us"),
        Row("core", "2 separate joins", (0.365,), joins[1], between(0, 1), "us"),
        Row("core", "3 separate joins", (0.560,), joins[2], between(0, 1), "us"),
        Row(
            "core",
            "8 KiB RDMA then join, 16 tiles",
            (1.73, 1.85),
            WARM + "\n" + together.format(rdma(8192)),
            middle(0, 1),
            "us",
            reason=tail,
            tiles=16,
        ),
        Row(
            "core",
            "8 KiB WDMA then join, 16 tiles",
            (1.00, 1.09),
            WARM + "\n" + together.format(wdma(8192)),
            middle(0, 1),
            "us",
            reason=tail,
            tiles=16,
        ),
        Row(
            "core",
            "8 KiB WDMA each of 2 workers, split join",
            (0.625,),
            split,
            between(0, 1),
            "us",
            reason=joined,
        ),
        Row("core", "the same, 3 workers, work drained", (0.561,), joins[2], between(0, 1), "us"),
    ]


def ct_rows() -> list[Row]:
    """The vector engine."""
    every = busy(Track.CT)
    pair = lines(
        " ct.sub.vv.fp32 dst=0x10000, src0=0x10000, src1=0x60000, n=65536",
        " ct.exp.v.fp32 dst=0x10000, src0=0x10000, n=65536",
        WAIT,
    )
    return [
        Row("CT", "add, 128 elements", (47,), lines(ct(128), WAIT), every),
        Row("CT", "add, 128 elements, base 128 mod 256", (47,), lines(ct(128, base=128), WAIT), every),
        Row("CT", "add, 128 elements, base 64 mod 256", (50,), lines(ct(128, base=64), WAIT), every),
        Row("CT", "add, 128 elements, base 192 mod 256", (50,), lines(ct(128, base=192), WAIT), every),
        Row("CT", "add, 2,048 elements, worker 1", (78,), lines(ct(2048, worker=1), wait(1)), every),
        Row("CT", "add, 2,048 elements, worker 2", (79,), lines(ct(2048, worker=2), wait(2)), every),
        Row("CT", "six adds of 2,048", (473,), lines(*(ct(2048, i % 2) for i in range(6)), WAIT), every),
        Row("CT", "seven adds of 2,048", (553,), lines(*(ct(2048, i % 2) for i in range(7)), WAIT), every),
        Row(
            "CT",
            "three workers, one add of 2,048 each",
            (238,),
            lines(*(ct(2048, i, worker=i) for i in range(3)), *map(wait, range(3))),
            every,
        ),
        Row("CT", "add, 8,192 elements (inferred)", (176, 181), lines(ct(8192), WAIT), every),
        Row("CT", "sub and exp of 65,536 FP32 (one sample)", (27334,), pair, every),
    ]


def ne_rows() -> list[Row]:
    """The matrix engine."""
    every = busy(Track.NE)
    return [
        Row(
            "NE",
            "six products of 1 x 16 x 16",
            (492,),
            lines(*(ne(1, 16, 16, i % 2) for i in range(6)), WAIT),
            every,
        ),
        Row(
            "NE",
            "a product of 64 x 128 x 128",
            (382,),
            lines(ne(64, 128, 128), WAIT),
            every,
            lower_bound=True,
            reason="from overlaps; 622 cycles for twice the rows, from a counter, leave less for these",
        ),
    ]


def dma_rows() -> list[Row]:
    """Loads and stores."""
    load, store = busy(Track.RDMA), busy(Track.WDMA)
    use = " ct.add.vv.fp16 dst=0x180000, src0=0x140000, src1=0x140000, n=128"
    return [
        Row("DMA", "RDMA 256 B", (233, 234, 235), lines(rdma(256), WAIT), load),
        Row("DMA", "six RDMA of 4 KiB", (2101,), lines(*(rdma(4096, i % 2) for i in range(6)), WAIT), load),
        Row("DMA", "six WDMA of 4 KiB", (1578,), lines(*(wdma(4096, i % 2) for i in range(6)), WAIT), store),
        Row(
            "DMA",
            "WDMA 2 MiB, first layout (window)",
            (63455,),
            " wdma.fp16 dst=0x280800000, src=0x10000, n=1048576\n" + WAIT,
            store,
        ),
        Row(
            "DMA",
            "WDMA 2 MiB, second layout (window)",
            (68208,),
            " wdma.fp16 dst=0x280800000, src=0x10000, n=1048576\n" + WAIT,
            store,
        ),
        Row("DMA", "RDMA 64 KiB", (1935,), lines(rdma(65536), WAIT), load, lower_bound=True),
        Row("DMA", "WDMA 64 KiB", (1935,), lines(wdma(65536), WAIT), store, lower_bound=True),
        Row(
            "DMA", "RDMA 256 B and the add that needs it", (280, 282), lines(rdma(256), use, WAIT), Run.union
        ),
    ]


def tdma_rows() -> list[Row]:
    """Moves and fills."""
    every = busy(Track.TDMA)
    rows = " td.memset.fp16 dst=0x1C0000, value=0, n={}, stride0=512, iter0={}"
    behind = lines(
        " ct.sub.vv.fp32 dst=0x10000, src0=0x10000, src1=0x60000, n=65536",
        " ct.exp.v.fp32 dst=0x10000, src0=0x10000, n=65536",
        scatter(256, 4, 1, 256),
        WAIT,
    )
    return [
        Row("TDMA", "gatherscatter, 4 B, 64 x 16", (2125,), lines(scatter(4, 64, 16), WAIT), every),
        Row("TDMA", "gatherscatter, 4 B, 64 x 64", (8365,), lines(scatter(4, 64, 64), WAIT), every),
        Row("TDMA", "sixteen of them", (133840,), lines(*([scatter(4, 64, 64)] * 16), WAIT), every),
        Row("TDMA", "gatherscatter, 4 B, 64 x 256", (33358,), lines(scatter(4, 64, 256), WAIT), every),
        Row("TDMA", "four of them", (133428,), lines(*([scatter(4, 64, 256)] * 4), WAIT), every),
        Row(
            "TDMA",
            "four gatherscatters, 4 B, 256 x 64",
            (131752,),
            lines(*([scatter(4, 256, 64)] * 4), WAIT),
            every,
        ),
        Row("TDMA", "gatherscatter, 1,024 B, 256 x 1", (3445,), lines(scatter(1024, 256, 1), WAIT), every),
        Row("TDMA", "gatherscatter, 256 B, 4 x 1", (57,), lines(scatter(256, 4, 1, 256), WAIT), every),
        Row("TDMA", "the same after two CT commands: busy", (57,), behind, every),
        Row(
            "TDMA",
            "the same after two CT commands: blocked",
            (19133,),
            behind,
            lambda run: float(run.of(Track.TDMA)["blocked"].sum()) / TICKS,
            reason="neither the meaning of the counter of blocked time is known, "
            "nor the commands before on the chip",
        ),
        Row(
            "TDMA", "four fills of 4 KiB", (292,), lines(*(fill(4096, i % 2) for i in range(4)), WAIT), every
        ),
        Row("TDMA", "fill, 16 KiB (inferred)", (202,), lines(fill(16384), WAIT), every),
        Row("TDMA", "fill, 16 KiB", (151,), lines(fill(16384), WAIT), every, lower_bound=True),
        Row("TDMA", "fill, 64 KiB", (703,), lines(fill(65536), WAIT), every, lower_bound=True),
        Row(
            "TDMA",
            "fill, 64 rows of 64 B: more than 32 of 128 B",
            (0,),
            lines(rows.format(32, 64), rows.format(64, 32), WAIT),
            lambda run: float(-np.diff(run.lengths(Track.TDMA))[0]),
            lower_bound=True,
        ),
    ]


def dte_rows() -> list[Row]:
    """Copies to a neighbour."""

    def copies(size: int) -> str:
        one = f" dte.unicast dst=0x20000, src=0x10000, tile=1, n={size}"
        return lines(mark(0), one, " dte.wait", mark(1), mark(2), one, mark(3), " dte.wait", mark(4))

    small, large = copies(2048), copies(8192)
    return [
        Row("DTE", "copy of 2 KiB, start to end of wait", (1.44, 1.44), small, between(2, 4), "us"),
        Row("DTE", "copy of 8 KiB, start to end of wait", (1.49, 1.47), large, between(2, 4), "us"),
        Row(
            "DTE", "first copy of a launch (medians by tile)", (8, 13), small, between(0, 1), "us", cold=True
        ),
        Row("DTE", "wait for a copy of 2 KiB", (0.77,), small, between(3, 4), "us"),
        Row("DTE", "wait for a copy of 8 KiB", (0.84,), large, between(3, 4), "us"),
    ]


_LONG = {
    "CT": lambda buffer: ct(8192, buffer),
    "NE": lambda buffer: ne(64, 128, 128, buffer),
    "RDMA": lambda buffer: rdma(16384, buffer),
    "WDMA": lambda buffer: wdma(16384, buffer),
    "TDMA": lambda buffer: fill(16384, buffer),
}
_SHORT = {
    "CT": lambda buffer: ct(2048, buffer),
    "NE": lambda buffer: ne(1, 16, 16, buffer),
    "RDMA": lambda buffer: rdma(4096, buffer),
    "WDMA": lambda buffer: wdma(4096, buffer),
    "TDMA": lambda buffer: fill(4096, buffer),
}


def alternating(first: Callable[[int], str], second: Callable[[int], str]) -> str:
    """Four rounds of two commands, each with two buffers."""
    return lines(*(lines(first(i % 2), second(i % 2)) for i in range(4)), WAIT)


def overlap_rows() -> list[Row]:
    """Cycles in which two engines work at the same time."""
    path = "submission takes longer than either command, so nothing overlaps; on the chip 14 cycles a round"
    short = "on the chip these were submitted more than 350 cycles apart; that does not fit the long ones"
    shorter = "the product is shorter in the model than the bound above, so less of it overlaps"
    clear = ("CT with TDMA", "CT with NE", "NE with TDMA")
    measured = [
        ("CT", "NE", (382, 534, 537), shorter),
        ("CT", "RDMA", (533, 532, 527), ""),
        ("CT", "WDMA", (540, 536, 544), ""),
        ("CT", "TDMA", (59, 61, 45), path),
        ("NE", "RDMA", (1296, 1529, 1495), ""),
        ("NE", "WDMA", (1321, 1246, 1300), ""),
        ("NE", "TDMA", (603, 605, 605), ""),
    ]
    rows = [
        Row(
            "overlap",
            f"{a} with {b}, 16 KiB",
            tuple(map(float, samples)),
            alternating(_LONG[a], _LONG[b]),
            excess(Track[a], Track[b]),
            reason=reason,
        )
        for a, b, samples, reason in measured
    ]
    workers = lines(
        *(lines(ct(8192, i % 2), rdma(16384, i % 2, worker=1)) for i in range(4)), WAIT, " ncc.wait worker=1"
    )
    rows.append(
        Row(
            "overlap",
            "CT with RDMA on two workers, 16 KiB",
            (534, 531, 537),
            workers,
            excess(Track.CT, Track.RDMA),
        )
    )
    big = {
        "RDMA": lambda buffer: rdma(65536, buffer),
        "WDMA": lambda buffer: wdma(65536, buffer),
        "TDMA": lambda buffer: fill(65536, buffer),
    }
    rows += [
        Row(
            "overlap",
            f"{a} with {b}, 64 KiB",
            tuple(map(float, samples)),
            alternating(big[a], big[b]),
            excess(Track[a], Track[b]),
            reason=reason,
        )
        for a, b, samples, reason in (
            ("RDMA", "WDMA", (7740, 7471, 6981), ""),
            ("RDMA", "TDMA", (2782, 2812, 2799), ""),
            ("WDMA", "TDMA", (2669, 2679, 2680), ""),
        )
    ]
    rows += [
        Row(
            "overlap",
            f"{a.name} with {b.name}, short commands",
            (0,),
            alternating(_SHORT[a.name], _SHORT[b.name]),
            excess(a, b),
            reason="" if f"{a.name} with {b.name}" in clear else short,
        )
        for i, a in enumerate(ENGINES)
        for b in ENGINES[i + 1 :]
    ]
    return rows


def all_rows() -> list[Row]:
    """Every row, topic by topic."""
    engines = [*ct_rows(), *ne_rows(), *dma_rows(), *ddr_rows(), *tdma_rows(), *dte_rows()]
    return [*core_rows(), *engines, *overlap_rows()]


GAPS = (
    Gap("core", "wrapper that builds a packet: thousands of cycles", "an upper bound of vendor software"),
    Gap(
        "core",
        "a poll with a status snapshot, 854 to 877",
        "the instructions around its 21 register reads are not published",
    ),
    Gap(
        "core",
        "join in one call of 2 and 3 workers, idle 0.227 and 0.274 us, with work 0.585 and 0.282 us",
        "no instruction waits for several workers; timing.core.join is fitted to the idle ones",
    ),
    Gap("core", "P90 of 16 tiles with DMA and join, 3.5 to 5.05 us", "the model has no spread"),
    Gap("core", "waiting after every command is slower", "no figure; in the model it costs a join each time"),
    Gap("NE", "64 x 128 x 128, at least 312 to 374 hidden", "weaker bounds than the 382 above"),
    Gap(
        "DMA",
        "RDMA of 256 B at SPM offset 6,144, 26 to 132 cycles more",
        "unexplained in the source, which says to leave it out",
    ),
    Gap("DMA", "serial against windowed pairs at DDR offsets of 0 to 32 KiB", "no rule in the figures"),
    Gap(
        "TDMA", "watchdog seen at 65,863 and 16,597 cycles", "a limit and no duration: LSU_TIMEOUT of the PMU"
    ),
    Gap("DTE", "wait of a receiver, 0.65 us", "depends on who is early; timing.barrier is set from it"),
    Gap("DTE", "2 KiB to 8 KiB, 0.03 to 0.05 us more", "the difference of two rows above"),
    Gap(
        "DTE",
        "one transfer by stream or mailbox, 1.6 us",
        "the round of a vendor's sample, whose steps are not published",
    ),
    Gap(
        "launch",
        "launch of a nearly empty kernel, 0.89 to 1.02 ms",
        "outside the chip; time begins at the program's entry",
    ),
)
