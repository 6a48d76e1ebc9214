"""Simulated time of one tile: against a recurrence in the order of the program, and cases by hand."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest

from emulator.timing.slices import Cause, Track
from time_bench import CORE, ONE, Keep, changed, issue, run
from tx8isa.cost.instructions import TICKS, cost, evaluate
from tx8isa.records.record import Engine
from tx8isa.table.packets import PACKETS
from tx8isa.table.registry import instructions

RECORDS = {record.mnemonic: record for record in instructions()}
ISSUE = issue("ct")
NO_SHARING = changed(ONE, "ddr", "run", 0.0)
"""A machine whose DDR holds up no tile that is alone."""
DDR = 0x2_8020_0000
DEPTH = {Engine.CT: 6, Engine.NE: 6, Engine.RDMA: 6, Engine.WDMA: 6, Engine.TDMA: 4}


class Instruction:
    """One instruction of a random program: its text and its ranges."""

    def __init__(self, text: str, engine: Engine, ranges: list[tuple[int, int, bool]]) -> None:
        self.text, self.engine, self.ranges = text, engine, ranges

    def takes(self, fields: list[int]) -> float:
        """Compute cycles from the cost functions alone."""
        record = RECORDS[self.text.split(",")[0].split(" ")[0].rsplit(".", 1)[0]]
        found = cost(record, ONE)
        return (found.fixed + evaluate(found.data, record, fields)) / TICKS

    def conflicts(self, other: Instruction) -> bool:
        return any(
            a < d and c < b and (write or written)
            for a, b, write in self.ranges
            for c, d, written in other.ranges
        )


def lines(first: int, size: int, write: bool) -> tuple[int, int, bool]:
    """A range; a result up to the end of its line."""
    end = first + size
    return first, (end + 255) // 256 * 256 if write else end, write


def random_instruction(rng: random.Random, engines: list[Engine]) -> Instruction:
    """Operands are whole lines in a small part of SPM, so that they often conflict."""
    engine = rng.choice(engines)
    a, b, c = (256 * rng.randrange(24) for _ in range(3))
    n = 64 * rng.randint(1, 40)
    if engine is Engine.CT:
        text = f"ct.add.vv.fp16 dst={a}, src0={b}, src1={c}, n={n}"
        ranges = [lines(a, 2 * n, True), lines(b, 2 * n, False), lines(c, 2 * n, False)]
        return Instruction(text, engine, ranges)
    if engine is Engine.TDMA:
        return Instruction(f"td.memset.fp16 dst={a}, value=0, n={n}", engine, [lines(a, 2 * n, True)])
    if engine is Engine.NE:
        m = 8 * rng.randint(1, 8)  # rows of 16 columns: one block of 32 bytes each
        ranges = [lines(a, 32 * m, True), lines(b, 32 * m, False), lines(c, 512, False)]
        text = f"ne.gemm.fp16 out={a}, a={b}, b={c}, m={m}, k=16, n=16"
        return Instruction(text, engine, ranges)
    at = 256 * rng.randrange(24)
    spm, ddr = lines(a, 2 * n, engine is Engine.RDMA), (1 << 40) + at
    ranges = [spm, lines(ddr, 2 * n, engine is Engine.WDMA)]
    operands = f"dst={a}, src={DDR + at}" if engine is Engine.RDMA else f"dst={DDR + at}, src={a}"
    return Instruction(f"{engine.name.lower()}.fp16 {operands}, n={n}", engine, ranges)


def expected(program: list[Instruction], takes: list[float], serial: bool) -> list[tuple[float, ...]]:
    """Return (issued, started, ended) of each instruction, one after another."""
    clock = 0.0
    times: list[tuple[float, ...]] = []
    free: dict[Engine, float] = defaultdict(float)
    begun: dict[Engine, list[float]] = defaultdict(list)
    for index, instruction in enumerate(program):
        clock += issue(instruction.engine.name.lower())
        begins, depth = begun[instruction.engine], DEPTH[instruction.engine]
        if len(begins) >= depth:
            clock = max(clock, begins[-depth])  # the queue has room when that instruction has left it
        start = max(clock, free[instruction.engine])
        for older, (_, _, ended) in zip(program, times, strict=False):
            if serial or instruction.conflicts(older):
                start = max(start, ended)
        times.append((clock, start, start + takes[index]))
        free[instruction.engine] = start + takes[index]
        begins.append(start)
    return times


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_random_programs_against_a_recurrence(seed: int, serial: bool) -> None:
    rng = random.Random(seed)
    vector = Engine.CT if seed % 2 else Engine.TDMA  # both share a path: see below
    engines = [vector, Engine.NE, Engine.RDMA, Engine.WDMA]
    program = [random_instruction(rng, engines) for _ in range(120)]
    text = "\n".join(instruction.text for instruction in program)
    system, sink = run(f"{text}\n ncc.wait", NO_SHARING, serial=serial)
    found = sink.of()
    assert [row["number"] for row in found] == list(range(len(program)))
    fields = [row.tolist() for row in sink.fields[np.argsort(sink.numbers(), kind="stable")]]
    takes = [instruction.takes(values) for instruction, values in zip(program, fields, strict=False)]
    for row, (issued, started, ended) in zip(found, expected(program, takes, serial), strict=True):
        assert row["issued"] == pytest.approx(issued, abs=0.5)
        assert row["started"] == pytest.approx(started, abs=1.0)
        assert row["ended"] == pytest.approx(ended, abs=1.0)
    assert system.cycles is not None
    assert system.cycles >= max(row["ended"] for row in found)


def one(text: str) -> list[dict[str, float]]:
    return run(text)[1].of()


ADD = "ct.add.vv.fp16 dst=0x3000, src0=0x1000, src1=0x2000, n=2048"


def test_one_instruction_after_another_at_the_cost_of_issue() -> None:
    rows = one(f"{ADD}\n{ADD}\n{ADD}")
    assert [row["started"] for row in rows] == [ISSUE, 2 * ISSUE, 3 * ISSUE]
    assert all(row["ended"] - row["started"] == pytest.approx(78.9, abs=0.2) for row in rows)


def test_instructions_of_the_core_take_time() -> None:
    rows = one(f"{ADD}\n" + "nop\n" * 10 + ADD)
    assert rows[1]["issued"] - rows[0]["issued"] == 10 * CORE.instruction.value + ISSUE


def test_a_full_queue_holds_the_core() -> None:
    big = "ne.gemm.fp16 out=0x20000, a=0, b=0x8000, m=128, k=128, n=128"
    _, sink = run(f"{big}\n" * 12)
    waits = [row for row in sink.of(track=Track.CORE) if row["cause"] == Cause.QUEUE]
    rows = sink.of()
    assert waits
    for wait in waits:
        begins = [row for row in rows if row["started"] == wait["ended"]]
        assert [row["number"] for row in begins] == [wait["blocker"]]
        waiting = [r for r in rows if r["issued"] < wait["ended"] and r["started"] >= wait["ended"]]
        assert len(waiting) == DEPTH[Engine.NE]  # with the instruction that now leaves it


def test_a_dependency_names_the_instruction_that_is_waited_for() -> None:
    load = f"rdma.fp16 dst=0x1000, src={DDR}, n=2048"
    rows = one(f"{load}\n{ADD}")
    assert rows[1]["started"] == rows[0]["ended"]
    assert (rows[1]["cause"], rows[1]["blocker"]) == (Cause.DEPENDENCY, 0)
    assert rows[1]["blocked"] == pytest.approx(rows[1]["started"] - rows[1]["issued"])


def test_ct_and_tdma_share_a_path() -> None:
    fill = "td.memset.fp16 dst=0x8000, value=0, n=32768"
    rows = one(f"{fill}\n{ADD}")
    alone = one(ADD)[0]
    fixed = cost(RECORDS["ct.add.vv"], ONE).fixed / TICKS
    data = alone["ended"] - alone["started"] - fixed
    assert rows[1]["started"] == pytest.approx(rows[0]["ended"] - fixed, abs=0.01)
    assert rows[1]["ended"] == pytest.approx(rows[0]["ended"] + data, abs=0.01)
    assert (rows[1]["cause"], rows[1]["blocker"]) == (Cause.DEPENDENCY, 0)
    assert rows[1]["blocked"] == pytest.approx(rows[1]["started"] - rows[1]["issued"])
    matrix = "ne.gemm.fp16 out=0x30000, a=0x20000, b=0x28000, m=8, k=16, n=8"
    assert one(f"{fill}\n{matrix}")[1]["blocked"] == 0


@pytest.mark.parametrize("workers", [(0, 0, 0), (0, 1, 2)])
def test_workers_share_an_engine(workers: tuple[int, ...]) -> None:
    big = "ne.gemm.fp16 out=0x20000, a=0, b=0x8000, m=128, k=128, n=128"
    _, sink = run("\n".join(f"{big}, worker={w}" for w in workers))
    rows = sink.of()
    takes = rows[0]["ended"] - rows[0]["started"]
    for before, after in pairwise(rows):
        assert after["started"] == before["ended"]
    assert rows[2]["ended"] - rows[0]["started"] == pytest.approx(3 * takes, abs=0.01)
    assert [row["worker"] for row in rows] == list(workers)


def test_nothing_orders_workers_but_priority() -> None:
    big = "ne.gemm.fp16 out=0x20000, a=0, b=0x8000, m=128, k=128, n=128"
    low = f"li t0, {ONE.windows.ncc:#x}\n li t1, 5\n sd t1, 0x760(t0)\n"
    _, sink = run(f"{low} {big}\n {big}\n {big}, worker=1")
    rows = sink.of()
    order = sorted(range(3), key=lambda n: rows[n]["started"])
    assert order == [0, 2, 1]  # worker 1 overtakes the instructions queued by worker 0


def test_a_wait_costs_a_join_and_ends_with_the_work() -> None:
    join = CORE.join.value + CORE.join_worker.value
    _, sink = run(f"{ADD}\n ncc.wait\n{ADD}")
    first, second = sink.of()
    (wait,) = sink.of(track=Track.CORE)
    assert (wait["started"], wait["ended"]) == (first["issued"], first["ended"])
    assert (wait["cause"], wait["blocker"]) == (Cause.DEPENDENCY, 0)
    assert second["issued"] == pytest.approx(first["ended"] + join + ISSUE, abs=0.01)
    _, idle = run(f"ncc.wait\n ncc.wait\n{ADD}")
    assert idle.of()[0]["issued"] == 2 * join + ISSUE
    assert idle.of(track=Track.CORE) == []


def test_scalar_is_executed_while_the_core_waits() -> None:
    rows = one(f"sc.recip.fp32 src=2.0\n{ADD}")
    assert rows[0]["track"] == Track.SCALAR
    assert rows[1]["issued"] == pytest.approx(rows[0]["ended"] + ISSUE)


def poll(worker: int = 0) -> str:
    return (
        f"li t0, {ONE.windows.ncc + worker * ONE.windows.ncc_stride:#x}\n1: ld t1, 0x740(t0)\n"
        " andi t1, t1, 256\n beqz t1, 1b\n"
    )


def test_polls_in_vain_take_no_time() -> None:
    """Each poll executes one instruction; the number of polls is not a property of the chip."""
    work = f"rdma.fp16 dst=0x1000, src={DDR}, n=32768\n" * 3
    _, sink = run(f"{work}{poll()}{ADD}")
    loads, add = sink.of()[:3], sink.of()[3]
    step = CORE.instruction.value
    assert add["issued"] == pytest.approx(
        loads[-1]["ended"] + CORE.register_read.value + 2 * step + ISSUE, abs=0.01
    )


def test_a_returned_value_is_there_when_its_instruction_has_ended() -> None:
    base, register = ONE.windows.ncc, PACKETS[Engine.CT].field("wb_data0").register
    load = f"rdma.fp16 dst=0x8000, src={DDR}, n=32768\n"
    look = f"li t0, {base + register}\n1: ld t1, (t0)\n srli t2, t1, 32\n beqz t2, 1b\n"
    _, sink = run(f"{load}ct.count.fp16 src0=0x1000, n=8192\n{look}{ADD}")
    long, count, add = sink.of()
    (wait,) = sink.of(track=Track.CORE)
    assert (wait["ended"], wait["blocker"]) == (count["ended"], count["number"])
    expected = count["ended"] + CORE.register_read.value + 2 * CORE.instruction.value + ISSUE
    assert add["issued"] == pytest.approx(expected, abs=0.01)
    assert long["ended"] > add["ended"]


def test_slices_tell_bytes_ranges_and_operands() -> None:
    _, sink = run(f"rdma.fp16 dst=0x1000, src={DDR}, n=2048\n{ADD}")
    load, add = sink.of()
    assert (load["ddr_read"], load["spm_written"]) == (4096, 4096)
    assert (load["ddr_written"], load["spm_read"]) == (0, 0)
    assert (add["spm_read"], add["spm_written"], add["operations"]) == (8192, 4096, 2048)
    assert sorted(sink.ranges[1][:3].tolist()) == [[0x1000, 4096, 0], [0x2000, 4096, 0], [0x3000, 4096, 1]]
    assert not sink.ranges[1][3:].any()
    names = [operand.name for operand in RECORDS["ct.add.vv"].operands]
    values = dict(zip(names, sink.fields[1].tolist(), strict=False))
    assert (values["dst"], values["src0"], values["n"]) == (0x3000, 0x1000, 2048)
    assert not sink.fields[1][len(names) :].any()


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        (
            "td.memset.fp16 dst=0x1000, value=0, n=8, stride0=1000, iter0=3, stride1=64, iter1=2",
            {"spm_written": 2 * 8 * 6},
        ),
        (
            "td.gatherscatter dst=0x1000, src0=0x8000, n=5, src_iter2=12, dst_stride0=32, dst_iter0=4, "
            "dst_stride1=512, dst_iter1=3",
            {"spm_read": 60, "spm_written": 60},
        ),
        (
            f"rdma.fp16 dst=0x1000, src={DDR}, n=128, stride0=4096, iter0=64",
            {"ddr_read": 64 * 256, "spm_written": 64 * 256},
        ),
        (
            f"wdma.bool dst={DDR}, src=0x1000, n=9, stride0=64, iter0=7, stride2=8192, iter2=2",
            {"spm_read": 2 * 7 * 2, "ddr_written": 2 * 7 * 2},
        ),
    ],
)
def test_the_gaps_of_strides_are_not_moved(text: str, moved: dict[str, int]) -> None:
    _, sink = run(text)
    (row,) = sink.of()
    ways = ("spm_read", "spm_written", "ddr_read", "ddr_written")
    assert {way: row[way] for way in ways if row[way]} == moved
    spans = sink.ranges[0]
    assert spans[spans[:, 0] != 0, 1].max() > max(moved.values())


def test_every_record_fits_into_a_slice() -> None:
    from emulator.timing.layout import MOST_FIELDS
    from emulator.timing.slices import MOST_RANGES

    assert max(len(record.operands) for record in instructions()) <= MOST_FIELDS
    assert max(sum(o.extent is not None for o in r.operands) for r in instructions()) <= MOST_RANGES


def test_without_sinks_the_clock_is_the_same() -> None:
    import asm
    from emulator.chip.system import System
    from time_bench import EXIT

    text = f"{ADD}\n rdma.fp16 dst=0x1000, src={DDR}, n=2048\n ncc.wait"
    system, _ = run(text)
    image = asm.assemble(f"_start: {text}{EXIT}")
    quiet, plain = System(image, ONE, timed=True), System(image, ONE)
    quiet.run()
    plain.run()
    assert quiet.cycles == system.cycles
    assert plain.cycles is None


def test_a_sink_is_closed_once_with_the_ends() -> None:
    system, sink = run(ADD)
    assert isinstance(sink, Keep)
    assert sink.closed == 1
    assert max(sink.ends) // 1000 == system.cycles
