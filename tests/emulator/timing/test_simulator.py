"""Simulated time of several tiles, which changes no results: DDR, copies, barriers, logs, threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asm
from emulator.chip.system import System
from emulator.tile.fault import Fault
from emulator.tile.tile import Status
from emulator.timing import layout
from emulator.timing.slices import Cause, Track
from stream_programs import CONFIG as STREAM_CONFIG
from stream_programs import FSM, READY, SPM_STREAM, config, fsm, pair, send, user_id
from time_bench import CORE, EXIT, FOUR, ONE, SIXTEEN, Keep, issue, run

TIMING = FOUR.timing
RUN = TIMING.ddr.run.value
LINK = FOUR.noc.link_out.value / 1e9
DDR = 0x2_8020_0000
STEP, ISSUE = CORE.instruction.value, issue("ct")


def on(tile: int, text: str) -> str:
    """A program that one tile executes; numeric label 9 is the exit."""
    return f"csrr s0, mhartid\n li t2, {tile}\n bne s0, t2, 9f\n{text}"


# -- barriers ----------------------------------------------------------------------------------------------


def test_a_barrier_ends_for_all_when_the_last_is_there() -> None:
    loop = "1: addi t1, t1, -1\n bnez t1, 1b\n"
    _, sink = run(f"csrr t1, mhartid\n slli t1, t1, 7\n addi t1, t1, 1\n{loop} ncc.barrier", FOUR)
    last = STEP * (3 + 2 * (3 * 128 + 1))
    for tile in range(3):
        (wait,) = sink.of(tile, Track.CORE)
        assert (wait["cause"], wait["ended"]) == (Cause.BARRIER, last)
        assert wait["started"] == STEP * (3 + 2 * (tile * 128 + 1))
    assert sink.of(3, Track.CORE) == []
    ends = [end / 1000 for end in sink.ends]
    assert ends == [last + TIMING.barrier.fixed.value + 3 * STEP] * 4


def test_barriers_of_pairs_do_not_wait_for_each_other() -> None:
    text = """csrr s0, mhartid
        andi t0, s0, 2
        li t1, 100
        beqz t0, 2f
        li t1, 1
    2:  addi t1, t1, -1
        bnez t1, 2b
        li t2, 3
        sll t3, t2, t0
        ncc.barrier tiles=t3"""
    _, sink = run(text, FOUR)
    assert sink.ends[0] == sink.ends[1]
    assert sink.ends[2] == sink.ends[3]
    assert sink.ends[0] - sink.ends[2] == (2 * 99 - 1) * STEP * 1000


# -- DDR ---------------------------------------------------------------------------------------------------


def transfer(tiles: int, n: int, loops: str = "") -> list[float]:
    """Cycles of one RDMA of blocks of n fp16 elements on this many tiles at once."""
    load = f"rdma.fp16 dst=0, src={DDR}, n={n}{loops}\n ncc.wait"
    text = f"csrr s0, mhartid\n li t2, {tiles}\n bge s0, t2, 9f\n {load}"
    _, sink = run(text, SIXTEEN)
    rows = [sink.of(tile)[0] for tile in range(tiles)]
    assert all(row["cause"] == (Cause.DDR if row["blocked"] else Cause.NOTHING) for row in rows)
    return [row["ended"] - row["started"] for row in rows]


@pytest.mark.parametrize("tiles", [1, 2, 4, 5, 8, 16])
def test_tiles_share_the_card_rate(tiles: int) -> None:
    n = 65536
    rate, card = SIXTEEN.timing.rdma.rate.value, SIXTEEN.ddr.nominal.value / 1e9
    data = max(2 * n / rate, tiles * (2 * n / card + RUN))
    for cycles in transfer(tiles, n):
        assert cycles == pytest.approx(SIXTEEN.timing.rdma.fixed.value + data, rel=1e-3)


@pytest.mark.parametrize("tiles", [1, 2, 16])
def test_short_rows_cost_the_tile_alone_and_the_card_together(tiles: int) -> None:
    """512 rows of 16 bytes at distances of 128: each costs a run besides its bytes, or for all tiles one of
    the card."""
    timing, card = SIXTEEN.timing.rdma, SIXTEEN.ddr.nominal.value / 1e9
    alone = 512 * 16 / timing.rate.value + 511 * timing.run.value
    data = max(alone, tiles * 512 * (16 / card + RUN))
    for cycles in transfer(tiles, 8, ", stride0=64, iter0=512"):
        assert cycles == pytest.approx(timing.fixed.value + data, rel=1e-3)
    assert (data > alone) == (tiles == 16)


@pytest.mark.parametrize(
    ("size", "rows", "least", "most"), [(128, 1024, 74, 128), (4096, 32, 16 * 4096 / 142, 16 * 4096 / 100)]
)
def test_rows_take_what_was_measured_with_16_tiles(size: int, rows: int, least: int, most: int) -> None:
    """Rows of 128 bytes took 74 to 128 cycles, long rows 100 to 142 GB/s of the card."""
    for cycles in transfer(16, size // 2, f", stride0={size}, iter0={rows}"):
        assert least < (cycles - SIXTEEN.timing.rdma.fixed.value) / rows < most


def test_long_rows_share_the_card_rate() -> None:
    """64 rows of 2 KiB, 4 KiB apart: the card has to move 128 KiB for each tile, in 64 runs."""
    card = SIXTEEN.ddr.nominal.value / 1e9
    for cycles in transfer(16, 1024, ", stride0=2048, iter0=64"):
        data = 16 * (131072 / card + 64 * RUN)
        assert cycles == pytest.approx(SIXTEEN.timing.rdma.fixed.value + data, rel=1e-3)


def test_a_short_transfer_leaves_the_rate_to_the_long_ones() -> None:
    """Fluid flow by hand: ten tiles, one moves a quarter."""
    text = f"""csrr s0, mhartid
        li t2, 10
        bge s0, t2, 9f
        li t3, 65536
        bnez s0, 1f
        li t3, 16384
    1:  rdma.fp16 dst=0, src={DDR}, n=t3
        ncc.wait"""
    _, sink = run(text, SIXTEEN)
    timing, card = SIXTEEN.timing.rdma, SIXTEEN.ddr.nominal.value / 1e9
    brief, full = 32768 / card + RUN, 131072 / card + RUN
    demands = [brief / (32768 / timing.rate.value), full / (131072 / timing.rate.value)]
    slower = demands[0] + 9 * demands[1]
    short = 32768 / timing.rate.value * slower
    long = short + (131072 - 32768) / timing.rate.value * max(9 * demands[1], 1)
    skew = STEP  # tile 0 executes one instruction more
    first = sink.of(0)[0]
    assert first["ended"] - first["started"] == pytest.approx(timing.fixed.value + short, abs=4 * skew)
    other = sink.of(5)[0]
    assert other["ended"] - other["started"] == pytest.approx(timing.fixed.value + long, abs=4 * skew)
    assert (other["cause"], other["blocker"]) == (Cause.DDR, -1)


# -- copies ------------------------------------------------------------------------------------------------


def copies(text: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """DTE slices of tile 0 of four, and the waits of its core."""
    _, sink = run(on(0, text), FOUR)
    return sink.of(0, Track.DTE), sink.of(0, Track.CORE)


def test_a_copy_takes_its_latency_and_its_bytes() -> None:
    size, dte = 0x4000, TIMING.dte
    (first, second), waits = copies(
        f"dte.unicast dst=0x8000, src=0, n={size}, tile=2\n dte.wait\n"
        f" dte.unicast dst=0x8000, src=0, n={size}, tile=1\n dte.wait"
    )
    usual = dte.fixed.value + size / LINK
    assert first["ended"] - first["started"] == usual + dte.first.value + 2 * dte.hop.value
    assert second["ended"] - second["started"] == usual + dte.hop.value
    assert [wait["ended"] for wait in waits] == [first["ended"], second["ended"]]
    assert {wait["cause"] for wait in waits} == {Cause.DTE}
    assert (first["target"], first["spm_read"], first["spm_written"]) == (2, size, size)
    assert second["issued"] == first["ended"] + 2 * STEP - STEP + dte.issue.value


def test_copies_to_two_tiles_share_the_sender() -> None:
    size, dte = 0x20000, TIMING.dte
    first = "dte.unicast dst=0, src=0, n=16, tile=1\n dte.wait\n"
    both = "".join(f" dte.unicast dst=0x8000, src=0, n={size}, tile={tile}\n" for tile in (1, 2))
    rows, _ = copies(f"{first}{both} dte.wait")
    _, second, third = rows
    data = size / LINK
    assert third["ended"] == pytest.approx(second["ended"] - dte.hop.value + data + 2 * dte.hop.value)
    assert third["cause"] == Cause.NOC
    assert third["blocked"] == pytest.approx(third["ended"] - third["started"] - dte.fixed.value - data - 2)


def test_ways_that_cross_share_a_link_and_others_do_not() -> None:
    """In a column of four: 0 -> 3 and 1 -> 2 share the link from 1 to 2, 0 -> 1 and 2 -> 3 share none."""
    size = 0x10000

    def slowest(pairs: dict[int, int]) -> float:
        text = "csrr s0, mhartid\n" + "".join(
            f" li t2, {tile}\n bne s0, t2, 1f\n"
            f" dte.unicast dst=0x10000, src=0, n={size}, tile={to}\n dte.wait\n1:\n"
            for tile, to in pairs.items()
        )
        _, sink = run(text, FOUR)
        return max(row["ended"] - row["started"] for tile in pairs for row in sink.of(tile, Track.DTE))

    alone = slowest({0: 1, 2: 3})
    assert alone == TIMING.dte.fixed.value + TIMING.dte.first.value + size / LINK + TIMING.dte.hop.value
    assert slowest({0: 3, 1: 2}) > alone + size / LINK - 100


def test_a_scatter_is_one_instruction_with_a_slice_for_each_target() -> None:
    (row, *others), _ = copies("dte.scatter dst=0x8000, src=0, n=1024, tiles=0xe\n dte.wait")
    assert [row["target"], *(other["target"] for other in others)] == [1, 2, 3]
    assert {other["number"] for other in others} == {row["number"]}
    ends = [row["ended"], *(other["ended"] for other in others)]
    assert ends == sorted(ends)


def test_a_copy_from_ddr_flows_with_the_others() -> None:
    size = 0x20000
    load = f"dte.rdma dst=0, src={DDR}, tile=t3, n={size}, src_stride0={size}, src_iter0=1\n dte.wait"
    _, sink = run(f"csrr s0, mhartid\n mv t3, s0\n{load}", FOUR)
    card = FOUR.ddr.nominal.value / 1e9
    shared = 4 * (size / card + RUN)
    for tile in range(4):
        (row,) = sink.of(tile, Track.DTE)
        fixed = TIMING.dte.fixed.value + TIMING.dte.first.value
        assert row["ended"] - row["started"] == pytest.approx(fixed + shared, rel=1e-3)
        assert (row["cause"], row["ddr_read"], row["spm_written"]) == (Cause.DDR, size, size)


# -- streams -----------------------------------------------------------------------------------------------

SIZE = 0x800


def stream_program(before: str = "") -> str:
    """Tile 0 sends a packet, tile 1 polls for it."""
    ready = fsm({STREAM_CONFIG + 4 * SPM_STREAM: config(SIZE)})
    at = FSM + READY + 4 * SPM_STREAM
    receive = f" li t0, {at:#x}\n4: lw t1, 0(t0)\n andi t1, t1, 1\n beqz t1, 4b\n nop\n"
    return pair(f"{before}{send(1, 0x2000, SIZE, user_id(SPM_STREAM))}", receive, ready)


@pytest.mark.parametrize("turns", [1, 1000, 2_000_000])
def test_an_arrival_is_seen_when_the_copy_has_ended(turns: int) -> None:
    """However many polls of the receiver have failed."""
    spin = f"li t3, {turns}\n5: addi t3, t3, -1\n bnez t3, 5b\n"
    sink = Keep()
    System(asm.assemble(stream_program(spin)), FOUR, sinks=[sink]).run()
    (copy,) = sink.of(0, Track.DTE)
    wait = next(row for row in sink.of(1, Track.CORE) if row["cause"] == Cause.ARRIVAL)
    assert wait["ended"] == copy["ended"]
    after = CORE.register_read.value + 7 * STEP
    assert sink.ends[1] / 1000 == pytest.approx(copy["ended"] + after, abs=2 * STEP)
    assert copy["started"] > 2 * turns * STEP


# -- the run is the same -----------------------------------------------------------------------------------

MIXED = f"""csrr s0, mhartid
    slli s1, s0, 14
    li s2, {DDR}
    add s2, s2, s1
    li t1, 200
1:  rdma.fp16 dst=0x1000, src=s2, n=512
    rdma.fp16 dst=0x2000, src=s2, n=512, worker=1
    ct.add.vv.fp16 dst=0x3000, src0=0x1000, src1=0x1000, n=512
    ne.gemm.fp16 a=0x4000, b=0x5000, out=0x6000, m=8, k=16, n=16
    wdma.fp16 dst=s2, src=0x3000, n=512
    td.memset.fp16 dst=0x7000, value=0, n=512
    addi t1, t1, -1
    bnez t1, 1b
    ncc.wait
    ncc.wait worker=1
    addi t2, s0, 1
    andi t2, t2, 3
    dte.unicast dst=0x9000, src=0x3000, n=1024, tile=t2
    dte.wait
    ncc.barrier
    sc.recip.fp32 src=2.0"""


def same(one: System, other: System) -> None:
    for a, b in zip(one.tiles, other.tiles, strict=True):
        assert np.array_equal(a.spm.data, b.spm.data)
        assert np.array_equal(a.counts, b.counts)
        assert np.array_equal(a.words[:33], b.words[:33])
        assert (a.pc, a.retired, a.status) == (b.pc, b.retired, b.status)


def concatenated(sink: Keep) -> bytes:
    return sink.slices.tobytes() + sink.ranges.tobytes() + sink.fields.tobytes()


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_and_time_change_nothing(threads: int) -> None:
    text = MIXED
    timed, sink = run(text, FOUR, threads=threads)
    plain = System(asm.assemble(f"_start: {text}{EXIT}"), FOUR)
    plain.run()
    same(timed, plain)
    assert concatenated(sink) == concatenated(run(text, FOUR)[1])


def test_slices_of_an_engine_follow_each_other() -> None:
    _, sink = run(MIXED, FOUR)
    rows = sink.slices
    assert (rows["ended"] >= rows["started"]).all()
    assert (rows["started"] >= rows["issued"]).all()
    for tile in range(4):
        for track in (Track.CT, Track.NE, Track.RDMA, Track.WDMA, Track.TDMA, Track.CORE):
            found = rows[(rows["tile"] == tile) & (rows["track"] == track)]
            assert (found["started"][1:] >= found["ended"][:-1]).all()
            assert len(found) or track is Track.CORE


def test_a_full_log_interrupts_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, before = run(MIXED, FOUR)
    monkeypatch.setattr(layout, "LOG_WORDS", layout.LOG_MARGIN + 4096)
    system, sink = run(MIXED, FOUR)
    same(system, expected)
    assert concatenated(sink) == concatenated(before)
    _, other = run(MIXED, FOUR, threads=2)
    assert concatenated(other) == concatenated(before)


def test_a_full_log_passes_a_tile_that_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tile 1 polls and blocks tile 0, whose log becomes full; time must continue, and the run must end."""
    monkeypatch.setattr(layout, "LOG_WORDS", layout.LOG_MARGIN + 4096)
    add = "ct.add.vv.fp16 dst=0x300, src0=0x100, src1=0x200, n=64\n"
    work = f"li t3, 3000\n5: {add} addi t3, t3, -1\n bnez t3, 5b\n"
    sink = Keep()
    system = System(asm.assemble(stream_program(work)), FOUR, sinks=[sink])
    system.run()
    assert len(sink.of(0, Track.CT)) == 3000
    wait = next(row for row in sink.of(1, Track.CORE) if row["cause"] == Cause.ARRIVAL)
    assert wait["ended"] == sink.of(0, Track.DTE)[0]["ended"]


def test_translated_code_takes_the_same_time() -> None:
    text = """li t1, 400000
    1:  addi t2, t2, 1
        andi t3, t2, 0xff
        bnez t3, 2f
        ct.add.vv.fp16 dst=0x300, src0=0x100, src1=0x200, n=64
    2:  bne t2, t1, 1b
        ncc.wait"""
    translated, sink = run(text)
    interpreted, other = run(text, translate=False)
    assert concatenated(sink) == concatenated(other)
    assert translated.cycles == interpreted.cycles


# -- reading time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_programs_read_exact_cycles(threads: int) -> None:
    text = f"""csrr s0, mhartid
        ct.add.vv.fp16 dst=0x300, src0=0x100, src1=0x200, n=2048
        csrr s2, cycle
        rdma.fp16 dst=0x1000, src={DDR}, n=8192
        ncc.wait
        csrr s3, cycle
        ncc.barrier
        csrr s4, cycle"""
    system, sink = run(text, FOUR, threads=threads)
    for tile in system.tiles:
        row = sink.of(tile.number, Track.RDMA)[0]
        read, join = CORE.csr_read.value, CORE.join.value + CORE.join_worker.value
        assert tile.register(18) == STEP + ISSUE
        assert row["issued"] == STEP + ISSUE + read + issue("rdma")
        assert tile.register(19) == int(row["ended"] + join)
        released = row["ended"] + join + read + TIMING.barrier.fixed.value
        assert tile.register(20) == pytest.approx(released, abs=1)
    assert {tile.register(20) for tile in system.tiles} == {system.tiles[0].register(20)}


def test_a_tile_that_reads_time_waits_for_slow_tiles_and_not_for_pollers() -> None:
    spin = "csrr s5, cycle\n li t3, 1000\n5: addi t3, t3, -1\n bnez t3, 5b\n csrr s6, cycle\n"
    system = System(asm.assemble(stream_program(spin)), FOUR)
    system.run(10_000_000)
    tile = system.tiles[0]
    assert tile.register(22) - tile.register(21) == CORE.csr_read.value + STEP * 2001


def test_the_time_is_read_without_the_option() -> None:
    image = asm.assemble(f"_start: rdcycle s2\n nop\n rdcycle s3{EXIT}")
    system = System(image, ONE)
    system.run()
    assert system.tiles[0].register(19) == CORE.csr_read.value + STEP
    quiet = System(image, ONE, timed=False)
    quiet.run()
    assert (quiet.tiles[0].register(18), quiet.tiles[0].register(19), quiet.cycles) == (0, 2, None)


# -- runs that do not end well -----------------------------------------------------------------------------


def test_a_fault_delivers_what_is_known() -> None:
    sink = Keep()
    text = "_start: csrr t0, mhartid\n ct.add.vv.fp16 dst=0x300, src0=0x100, src1=0x200, n=2048\n ebreak"
    system = System(asm.assemble(text), FOUR, sinks=[sink])
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    assert [len(sink.of(tile)) for tile in range(4)] == [1] * 4
    assert sink.closed == 1
    assert min(sink.ends) >= max(row["ended"] for tile in range(4) for row in sink.of(tile))


def test_a_limit_and_a_deadlock_deliver_what_is_known() -> None:
    add = "ct.add.vv.fp16 dst=0x300, src0=0x100, src1=0x200, n=2048"
    sink = Keep()
    system = System(asm.assemble(f"_start: {add}\n1: j 1b"), ONE, sinks=[sink])
    with pytest.raises(Fault, match="the limit given"):
        system.run(1000)
    assert len(sink.of()) == 1
    assert sink.ends[0] / 1000 == ISSUE + 999 * STEP
    sink = Keep()
    system = System(
        asm.assemble(f"_start: {add}\n csrr t0, mhartid\n beqz t0, 9f\n ncc.barrier{EXIT}"),
        FOUR,
        sinks=[sink],
    )
    with pytest.raises(Fault, match="can never go on"):
        system.run()
    assert len(sink.of(2)) == 1
    assert sink.closed == 1


# -- snapshots ---------------------------------------------------------------------------------------------


def test_a_simulation_goes_on_from_what_was_saved() -> None:
    """Two halves of a program: the second simulator gets the state of the first."""
    expected, before = run(MIXED, FOUR)
    sink = Keep()
    system = System(asm.assemble(f"_start: {MIXED}{EXIT}"), FOUR, sinks=[sink])
    from emulator.timing.simulator import Simulator

    rounds = 0

    def exchange() -> None:
        nonlocal rounds
        rounds += 1
        assert system.simulator is not None
        saved = system.simulator.save()
        system.observers.remove(system.simulator)
        system.simulator = Simulator(system.tiles, FOUR, [sink])
        system.simulator.restore(saved)
        system.observers.append(system.simulator)

    from emulator.tile.observer import Observer

    class Exchange(Observer):
        def round_ended(self, tiles: object) -> None:
            exchange()

    system.observers.insert(0, Exchange())
    system.run()
    assert rounds > 1
    assert concatenated(sink) == concatenated(before)
    assert system.cycles == expected.cycles
    assert all(tile.status is Status.EXITED for tile in system.tiles)
