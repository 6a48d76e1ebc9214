"""The compiler's estimate of a phase, compared with the simulated time of the same code as a program."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asm
from compiler.codegen.expr import Address, minimum
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.scalar import ScalarCode
from compiler.codegen.slices.tensors import DdrTensor
from compiler.search.cost import Estimates, KindUse, estimate
from compiler.search.cost.pricing import Price
from compiler.search.cost.timeline import Timeline
from emulator.engines import queues, tables
from emulator.program import Program
from time_bench import changed
from tx8isa.cost.instructions import TICKS, ddr_prices
from tx8isa.machine.description import load_machine
from tx8isa.machine.ends import End, at_end
from tx8isa.numbers.formats import Format
from tx8isa.records.record import Engine

MACHINE = load_machine(None)
DATA = Address("data")
KIND = MACHINE.timing.issue.kind.value
SUBMITTED = [number for number, record in enumerate(tables.records()) if record.engine <= Engine.SCALAR]
"""Numbers of the kinds of commands that the core submits."""
PROLOGUE = """
        .section .ddr.bss
        .balign 4096
data:   .space 0x800000
        .text
_start: csrr s11, mhartid
        li t0, {tiles}
        bltu s11, t0, 1f
        li a7, 93
        ecall
1:
"""
EPILOGUE = """
        ncc.wait
        li a0, 0
        li a7, 93
        ecall
"""


def made(write: Callable[[Kernel], None], tiles: int) -> Kernel:
    k = Kernel("p0", Target(tiles, 1 << 20, Format.FP16), 1 << 20)
    write(k)
    k.place_buffers()
    return k


def simulated(k: Kernel) -> float:
    """The cycles of the phase as a program, without costs that a program has once."""
    text = PROLOGUE.format(tiles=k.target.tiles) + "\n".join(k.text()) + EPILOGUE
    system = Program(asm.assemble(text), MACHINE).start({}, timed=True)
    system.run()
    assert system.cycles is not None
    timing = MACHINE.timing
    sends = any("dte." in text for text in k.text())
    kinds = max(sum(map(bool, tile.counts[:, 0][SUBMITTED])) for tile in system.tiles)
    once = timing.core.program.value + kinds * timing.issue.kind.value
    return system.cycles - once - (timing.dte.first.value if sends else 0)


def stream(k: Kernel) -> None:
    """Load, arithmetic and store of many slices per tile: DDR is the bound."""
    with k.items(200) as item:
        x, y = k.buffer("x", 8192), k.buffer("y", 8192)
        place = DATA + item * 8192
        k.emit("rdma.fp16", dst=x, src=place, n=4096)
        k.emit("ct.mul.vs.fp16", dst=y, src0=x, src1=2.0, n=4096)
        k.emit("wdma.fp16", dst=place, src=y, n=4096)


def arithmetic(k: Kernel) -> None:
    """Several instructions on data in the scratchpad: the vector engine is the bound."""
    x = k.buffer("x", 65536)
    k.emit("td.memset.fp16", dst=x, value=1.0, n=32768)
    with k.loop(30):
        y = k.buffer("y", 65536)
        k.emit("ct.add.vv.fp16", dst=y, src0=x, src1=x, n=32768)
        k.emit("ct.exp.v.fp16", dst=y, src0=y, n=1024)


def products(k: Kernel) -> None:
    """Tails, nested loops and the matrix engine."""
    with k.items(37) as item:
        rows = k.let(minimum(64, 37 * 64 - 20 - item * 64))
        total = k.buffer("total", 32768)
        k.emit("td.memset.fp32", dst=total, value=0.0, n=8192)
        with k.loop(5) as step:
            a, b = k.buffer("a", 16384), k.buffer("b", 32768)
            k.emit("rdma.fp16", dst=a, src=DATA + step * 16384, n=64, stride0=64, iter0=128)
            k.emit("rdma.fp16", dst=b, src=DATA, n=16384)
            k.emit(
                "ne.gemm.fp16", a=a, b=b, out=total, psum=total, m=rows, k=128, n=128, rt=1, out_format="fp32"
            )
        k.emit("wdma.fp32", dst=DATA + item * 32768, src=total, n=8192)


def short(k: Kernel) -> None:
    """Instructions so short that the core cannot keep up, and a queue of moves that fills."""
    x, y = k.buffer("x", 4096), k.buffer("y", 4096)
    k.emit("td.memset.fp16", dst=x, value=1.0, n=2048)
    with k.loop(40):
        k.emit("ct.neg.v.fp16", dst=x, src0=x, n=64)
    with k.loop(12):
        k.emit(
            "td.gatherscatter", dst=y, src0=x, n=4, src_stride0=8, src_iter0=256, dst_stride0=4, dst_iter0=256
        )


def few(k: Kernel) -> None:
    """Work for three of the tiles."""
    with k.items(3) as item:
        x = k.buffer("x", 65536)
        k.emit("rdma.fp16", dst=x, src=DATA + item * 65536, n=32768)
    k.synchronize()


def shared(k: Kernel) -> None:
    """Every tile loads a part and sends it to all others, twice."""
    with k.loop(2):
        x = k.buffer("x", 16384 * k.target.tiles)
        mine = k.let(k.tile * 16384)
        k.emit("rdma.fp16", dst=x + mine, src=DATA + mine, n=8192)
        k.emit("ncc.wait")
        k.emit("dte.broadcast", dst=x + mine, src=x + mine, tiles=(1 << k.target.tiles) - 1, n=16384)
        k.emit("dte.wait")
        k.emit("ncc.barrier", tiles=(1 << k.target.tiles) - 1)


def to_few(k: Kernel) -> None:
    """Every tile sends a part to the first half of the tiles, which get more than a tile sends."""
    tiles = k.target.tiles
    x = k.buffer("x", 32768 * tiles)
    mine = k.let(k.tile * 32768)
    with k.loop(20):
        k.emit("dte.broadcast", dst=x + mine, src=x, tiles=(1 << max(tiles // 2, 1)) - 1, n=32768)
        k.emit("dte.wait")
        k.emit("ncc.barrier", tiles=(1 << tiles) - 1)


def some(k: Kernel) -> None:
    """All tiles load a little, and a quarter of them load much."""
    x, y = k.buffer("x", 4096), k.buffer("y", 1 << 18)
    k.emit("rdma.fp16", dst=x, src=DATA + k.tile * 4096, n=2048)
    with k.if_below(k.tile, max(k.target.tiles // 4, 1)):
        k.emit("rdma.fp16", dst=y, src=DATA + k.tile * (1 << 18), n=1 << 17)
    k.synchronize()


def beside(k: Kernel) -> None:
    """Many short stores of ready data, while the vector engine still works on something else."""
    x, y = k.buffer("x", 1 << 18), k.buffer("y", 65536)
    k.emit("td.memset.fp16", dst=y, value=1.0, n=32768)
    for _ in range(2):
        k.emit("ct.neg.v.fp16", dst=x, src0=x, n=1 << 17)
    with k.loop(400) as row:
        k.emit("wdma.fp16", dst=DATA + k.tile * (1 << 19) + row * 1024, src=y + row * 128, n=48)


WRITTEN = [stream, arithmetic, products, short, few, shared, to_few, some, beside]


@pytest.mark.parametrize("write", WRITTEN, ids=lambda w: w.__name__)
@pytest.mark.parametrize("tiles", [1, 4, 16])
def test_estimates_are_near_simulated_time(write: Callable[[Kernel], None], tiles: int) -> None:
    """Both are models of the same machine, but the code for mesh, queues and dependencies is independent.

    Only simulated time knows of crossing routes on the mesh, so copies from all tiles to all differ more.
    """
    if write in (shared, to_few) and tiles == 1:
        pytest.skip("one tile shares with nobody")
    k = made(write, tiles)
    found = estimate(k, MACHINE).cycles
    rel = 0.2 if write is to_few else 0.4 if write is shared and tiles == 16 else 0.15
    assert found == pytest.approx(simulated(k), rel=rel)


@pytest.mark.parametrize("constant", [True, False])
def test_what_a_phase_before_may_hide(constant: bool) -> None:
    """Loads of constants, up to the first meeting of the tiles; other loads depend on earlier phases."""

    def write(k: Kernel) -> None:
        x = k.buffer("x", 65536)
        weights = k.constant("w", Format.FP16, np.zeros(32768, np.float16)).symbol
        source = DdrTensor(weights, Format.FP16, (32768,)).at(0) if constant else DATA
        k.emit("rdma.fp16", dst=x, src=source, n=32768)
        k.synchronize()
        k.emit("rdma.fp16", dst=x, src=DATA, n=32768)
        k.synchronize()

    found, estimates = made(write, 4), Estimates(MACHINE)
    hidden, cycles = estimates.ahead(found), estimates.cycles(found)
    assert cycles / 3 < hidden < 2 * cycles / 3 if constant else hidden == 0


@pytest.mark.parametrize(("write", "copies"), [(shared, 1), (to_few, 1), (few, 0)])
def test_the_only_phase_of_a_program_makes_its_first_copy(
    write: Callable[[Kernel], None], copies: int
) -> None:
    """Simulated time agrees: a phase takes this much longer alone than among others."""
    found, beside_others, alone = made(write, 4), Estimates(MACHINE), Estimates(MACHINE, alone=True)
    first = MACHINE.timing.dte.first
    assert alone.cycles(found) - beside_others.cycles(found) == copies * first.value
    ends = zip(alone.at_ends(found), beside_others.at_ends(found), strict=True)
    assert [one - other for one, other in ends] == [copies * first.least, copies * first.most]


def test_a_phase_with_kinds_of_its_own_pays_as_a_program_does() -> None:
    kernel = made(stream, 4)
    without, paying = Estimates(MACHINE), Estimates(MACHINE, use=KindUse())
    assert set(paying.kinds(kernel)) == {"rdma", "ct.mul.vs", "wdma"}
    more = paying.cycles(kernel) - without.cycles(kernel)
    assert 2 * KIND < more <= 3 * KIND, "engines may work while the core comes to a new kind"
    assert paying.cycles(kernel) == pytest.approx(simulated(kernel) + 3 * KIND, rel=0.15)
    least, most = paying.at_ends(kernel)
    assert least < paying.cycles(kernel) < most


def test_a_phase_pays_its_share() -> None:
    kernel, use = made(few, 4), KindUse()
    use.count(["rdma"], 4)
    alone, shared, without = (Estimates(MACHINE, use=each).cycles(kernel) for each in (KindUse(), use, None))
    assert alone - without == pytest.approx(KIND, abs=1)
    assert shared - without == pytest.approx(KIND / 4, abs=1)


def test_tiles_without_work_are_not_counted() -> None:
    assert estimate(made(few, 16), MACHINE).tiles == 3
    assert estimate(made(stream, 16), MACHINE).tiles == 16


def test_bytes_are_those_of_all_tiles() -> None:
    assert estimate(made(few, 16), MACHINE).ddr_bytes == 3 * 65536


def line() -> Timeline:
    return Timeline(MACHINE, 1)


def price(cycles: int, ddr_bytes: int = 0) -> Price:
    return Price(cycles * TICKS, ddr_bytes, ddr_prices(MACHINE).ticks(ddr_bytes, 1 if ddr_bytes else 0), 0)


ISSUES = MACHINE.timing.issue
LOAD, STORE, ISSUE = (round(ISSUES.of(engine).value * TICKS) for engine in ("rdma", "wdma", "ct"))


def test_engines_run_beside_each_other() -> None:
    t = line()
    t.issue(Engine.CT, price(10_000), [], [(0, 256)])
    t.issue(Engine.NE, price(10_000), [], [(256, 512)])
    assert t.now == 2 * ISSUE + 10_000 * TICKS


@pytest.mark.parametrize(
    ("first", "second"), [("", "x"), ("x", ""), ("", "")], ids=["read later", "read before", "written twice"]
)
def test_what_touches_the_same_bytes_waits(first: str, second: str) -> None:
    t, x = line(), [(1000, 2000)]
    t.issue(Engine.CT, price(10_000), x if first else [], [] if first else x)
    y = [(1999, 3000)]
    t.issue(Engine.NE, price(10_000), y if second else [], [] if second else y)
    assert t.now == ISSUE + 20_000 * TICKS


RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8), st.booleans()), max_size=queues.MAX_RANGES)
"""First byte, size, and whether the range is written."""


@settings(max_examples=300)
@given(RANGES, RANGES)
def test_instructions_wait_as_in_the_queues_of_the_emulator(
    older: list[tuple[int, int, bool]], younger: list[tuple[int, int, bool]]
) -> None:
    words = np.zeros((len(older) + len(younger) + 1, queues.RANGE_WORDS), np.int64)
    for fields, (first, size, written) in zip(words[:-1], [*older, *younger], strict=True):
        fields[queues.R_FIRST], fields[queues.R_REACH], fields[queues.R_WRITE] = (
            first,
            first + size - 1,
            written,
        )
    second = len(older) * queues.RANGE_WORDS
    waits = queues.share_bytes(words.ctypes.data, 0, len(older), second, len(younger))

    timeline = line()
    for engine, ranges in ((Engine.CT, older), (Engine.NE, younger)):
        reads, writes = (
            [(first, first + size) for first, size, written in ranges if written is wanted]
            for wanted in (False, True)
        )
        timeline.issue(engine, price(10_000), reads, writes)
    assert (timeline.now == ISSUE + 20_000 * TICKS) == waits


@pytest.mark.parametrize("writes", [True, False])
def test_other_bytes_or_two_reads_do_not(writes: bool) -> None:
    t, x, y = line(), [(1000, 2000)], [(2000, 3000)]
    t.issue(Engine.CT, price(10_000), [] if writes else x, x if writes else [])
    t.issue(Engine.NE, price(10_000), x if not writes else y, [])
    assert t.now == 2 * ISSUE + 10_000 * TICKS


def test_a_full_queue_holds_the_core() -> None:
    t = line()
    for _ in range(8):
        t.issue(Engine.TDMA, price(10_000), [], [])
    assert t.core >= 30_000 * TICKS


def test_a_transfer_takes_its_share_of_ddr() -> None:
    alone, among = Timeline(MACHINE, 1), Timeline(MACHINE, 16)
    for t in (alone, among):
        t.issue(Engine.RDMA, price(3000, 90_000), [], [])
    assert alone.now == LOAD + 3000 * TICKS
    run = MACHINE.timing.ddr.run.value
    assert among.now == pytest.approx(LOAD + 16 * (90_000 / 150 + run) * TICKS, rel=1e-4)


def test_a_load_does_not_wait_for_a_store_that_begins_later() -> None:
    """The store waits for its data; until then DDR is free for the load."""
    t, x = Timeline(MACHINE, 16), [(0, 256)]
    t.issue(Engine.CT, price(10_000), [], x)
    t.issue(Engine.WDMA, price(100, 15_000), x, [])
    stored, issued = t.free[Engine.WDMA], ISSUE + STORE + LOAD
    assert stored == pytest.approx(ISSUE + 11_600 * TICKS, rel=0.01)
    each = 3_200 * TICKS + 16 * MACHINE.timing.ddr.run.value * TICKS
    for _ in range(2):
        t.issue(Engine.RDMA, price(100, 30_000), [], [])
    assert t.free[Engine.RDMA] == pytest.approx(issued + 2 * each, rel=1e-3)
    t.issue(Engine.RDMA, price(100, 30_000), [], [])
    early = ISSUE + 10_000 * TICKS - (issued + 2 * each)  # the work that remains before the store begins
    assert t.free[Engine.RDMA] == pytest.approx(stored + each - early, rel=1e-3)


def test_turns_like_two_are_as_long_as_both_on_average() -> None:
    t = line()
    t.mark()
    for cycles in (1_000, 3_000):
        t.issue(Engine.CT, price(cycles), [], [])
    begun = t.now
    t.repeat(5, 2)
    assert t.now == begun + 5 * (ISSUE + 4_000 * TICKS) // 2


def test_what_the_core_waits_for_a_queue_is_not_its_work() -> None:
    """Iterations of a fast engine that wait for a slow one that began before the loop."""
    t = line()
    for _ in range(8):
        t.issue(Engine.TDMA, price(10_000), [], [])
    t.mark()
    t.issue(Engine.TDMA, price(100), [], [])
    before = t.now
    t.repeat(10, 1)
    assert t.now - before < 10_000 * TICKS


@pytest.mark.parametrize("write", [stream, products, short, shared], ids=lambda w: w.__name__)
def test_one_walk_gives_the_estimates_of_three_machines(write: Callable[[Kernel], None]) -> None:
    """In any order, and whatever was estimated before."""
    k, other = made(write, 16), made(arithmetic, 16)
    least, most = (estimate(k, at_end(MACHINE, end)).cycles for end in (End.LEAST, End.MOST))
    middle = estimate(k, MACHINE).cycles
    assert least < middle < most
    estimates = Estimates(MACHINE)
    assert estimates.has_range and not Estimates(at_end(MACHINE, End.MOST)).has_range
    first = estimates.at_ends(k)
    assert estimates.cycles(other) == estimate(other, MACHINE).cycles
    assert (first, estimates.cycles(k), estimates.at_ends(k)) == ((least, most), middle, (least, most))


def test_a_machine_that_was_changed_has_prices_of_its_own() -> None:
    """Twice the time of an instruction of the core, in the same process."""
    core = MACHINE.timing.core
    slow = msgspec.structs.replace(core.instruction, value=2 * core.instruction.value)
    timing = msgspec.structs.replace(MACHINE.timing, core=msgspec.structs.replace(core, instruction=slow))
    changed = msgspec.structs.replace(MACHINE, timing=timing)
    k = made(short, 1)
    before = estimate(k, MACHINE).cycles
    assert estimate(k, changed).cycles > before == estimate(k, MACHINE).cycles


def test_maintenance_of_the_whole_cache_is_priced() -> None:
    """Code of the core begins by invalidating its cache and ends by cleaning it."""

    def write(k: Kernel) -> None:
        with ScalarCode(k).elements(64):
            pass

    kernel, cache = made(write, 1), MACHINE.timing.core.cache.value
    free = changed(MACHINE, "core", "cache", 0.0)
    assert estimate(kernel, MACHINE).cycles - estimate(kernel, free).cycles == pytest.approx(2 * cache, abs=1)
