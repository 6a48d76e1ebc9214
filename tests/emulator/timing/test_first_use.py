"""Simulated time of a tile's first uses, and of slow instructions of the core.

The oracle is arithmetic on the coefficients: lines are counted from the addresses of the labels.
"""

from __future__ import annotations

import msgspec
import pytest

from chip_bench import TX81, chip
from emulator.timing.slices import Track
from time_bench import FOUR, changed, run
from tx8isa.machine.description import Machine

CORE, ISSUE = TX81.timing.core, TX81.timing.issue
ONE = changed(changed(chip(1, 0x40000), "spm", "collision", 0.0), "core", "program", 0.0)
STEP, READ, LINE = CORE.instruction.value, CORE.csr_read.value, CORE.line.value
DDR = 0x2_8020_0000
ADD = "ct.add.vv.fp16 dst=0x3000, src0=0x1000, src1=0x2000, n=64"
COPY = "td.memset.fp16 dst=0x4000, value=0, n=64"


def clocks(text: str, machine: Machine = ONE, tile: int = 0) -> list[int]:
    """Return the program's s0, s1 and s2, which read the clock."""
    system, _ = run(text, machine)
    return [system.tiles[tile].register(number) for number in (8, 9, 18)]


def between(text: str, machine: Machine = ONE) -> int:
    """Cycles between readings of the clock, each in a separate line of code."""
    first, second, _ = clocks(f".balign 64\n csrr s0, cycle\n .balign 64\n{text}\n csrr s1, cycle", machine)
    return second - first


def nops(count: int) -> str:
    return " nop\n" * count


@pytest.mark.parametrize("count", [1, 15, 16, 31, 160, 1000])
def test_each_line_of_straight_code_counts_once(count: int) -> None:
    """The padding of the first line is executed too: 15 instructions of 4 bytes."""
    lines = (4 * count) // 64 + 1
    assert between(nops(count)) == READ + (15 + count) * STEP + lines * LINE


def test_code_that_was_executed_before_is_warm() -> None:
    text = (
        f"li t0, 2\n .balign 64\n1: csrr s0, cycle\n{nops(63)} csrr s1, cycle\n addi t0, t0, -1\n bnez t0, 1b"
    )
    first, second, _ = clocks(text)
    assert second - first == READ + 63 * STEP


def test_code_that_is_jumped_over_does_not_count() -> None:
    """A jump over 100 lines: the tile executes only the lines of the jump and of its target."""
    text = f".balign 64\n csrr s0, cycle\n j 2f\n{nops(1600)}2: csrr s1, cycle"
    first, second, _ = clocks(text)
    assert second - first == READ + STEP + LINE


def test_a_function_above_counts_with_its_own_lines() -> None:
    text = f"""csrr s2, cycle
 j 1f
 .balign 64
f: {nops(32)} csrr s1, cycle
 li a7, 93
 li a0, 0
 ecall
 .balign 64
{nops(320)}
1: csrr s0, cycle
 j f"""
    first, second, _ = clocks(text)
    assert second - first == READ + 33 * STEP + 3 * LINE


def test_each_kind_of_command_costs_its_first_use_once() -> None:
    cold = changed(ONE, "core", "line", 0.0)
    for text, kinds in ((f"{ADD}\n{ADD}\n{ADD}", 1), (f"{ADD}\n{COPY}\n{ADD}\n{COPY}", 2)):
        engines = ["ct" if command == ADD else "tdma" for command in text.split("\n")]
        submitted = sum(getattr(ISSUE, engine).value for engine in engines)
        assert between(text, cold) == pytest.approx(READ + 15 * STEP + submitted + kinds * ISSUE.kind.value)


def test_another_format_or_size_is_the_same_kind() -> None:
    other = ADD.replace("fp16", "fp32").replace("n=64", "n=32")
    _, sink = run(f"{ADD}\n{other}", changed(ONE, "core", "line", 0.0))
    first, second = sink.of()
    assert second["issued"] - first["issued"] == ISSUE.ct.value


def test_every_tile_has_its_own_first_use() -> None:
    machine = changed(FOUR, "issue", "kind", 1000.0)
    _, sink = run(f"csrr t0, mhartid\n beqz t0, 9f\n{ADD}\n ncc.wait", machine)
    assert [len(sink.of(tile)) for tile in range(4)] == [0, 1, 1, 1]
    issued = {sink.of(tile)[0]["issued"] for tile in (1, 2, 3)}
    assert issued == {2 * STEP + 1000 + ISSUE.ct.value}


def test_the_library_for_c_takes_no_time_where_a_published_figure_stands_for_it() -> None:
    """Between the hints only commands count; elsewhere hints have no effect."""
    loop = "li t1, 40\n1: div t2, t1, t1\n addi t1, t1, -1\n bnez t1, 1b"
    inside, ready = f"slti x0, x0, 1\n{loop}\n{ADD}\n slti x0, x0, 2", changed(ONE, "core", "line", 0.0)
    command = ISSUE.c_runtime.value + ISSUE.kind.value
    short = between(inside, ready.issued_by("c-runtime"))
    assert short == pytest.approx(READ + 15 * STEP + command, abs=STEP)
    assert between(inside, ready) > READ + 40 * CORE.divide.value + ISSUE.ct.value + ISSUE.kind.value


@pytest.mark.parametrize("engine", ["ct", "ne", "rdma", "wdma", "tdma"])
@pytest.mark.parametrize("flow", ["text", "c-runtime"])
def test_submission_by_engine_and_flow(engine: str, flow: str) -> None:
    text = {
        "ct": ADD,
        "ne": "ne.gemm.fp16 out=0x8000, a=0, b=0x1000, m=8, k=16, n=8",
        "rdma": f"rdma.fp16 dst=0x1000, src={DDR}, n=64",
        "wdma": f"wdma.fp16 dst={DDR}, src=0x1000, n=64",
        "tdma": COPY,
    }[engine]
    machine = ONE if flow == "text" else ONE.issued_by("c-runtime")
    _, sink = run(f"{text}\n{text}", changed(machine, "core", "line", 0.0))
    first, second = sink.of()
    expected = getattr(ISSUE, engine) if flow == "text" else ISSUE.c_runtime
    assert second["issued"] - first["issued"] == expected.value


@pytest.mark.parametrize(
    ("text", "cycles"),
    [
        ("div t1, t2, t3", CORE.divide.value),
        ("remuw t1, t2, x0", CORE.divide.value),
        ("mul t1, t2, t3", STEP),
        ("th.dcache.cva t4", CORE.cache_line.value),
        ("th.dcache.iva t4", CORE.cache_line.value),
        ("th.dcache.civa t4", CORE.cache_line.value),
        ("th.dcache.call", CORE.cache.value),
        ("th.dcache.iall", CORE.cache.value),
        ("th.dcache.ciall", CORE.cache.value),
        ("th.sync", STEP),
        ("fence", STEP),
        ("lw t1, 0(t4)", CORE.load.value),
        ("c.ld s0, 0(a5)", CORE.load.value),
        ("lbu t1, 5(t5)", CORE.uncached_load.value),
        ("ld t1, 8(t6)", CORE.uncached_load.value),
        ("sd t1, 8(t6)", STEP),
        ("sd t1, 0(t4)", STEP),
    ],
)
def test_what_instructions_of_the_core_take(text: str, cycles: float) -> None:
    """A load from DDR through the cache or past it, or from the scratchpad; a store takes no longer."""
    at = TX81.windows
    setup = (
        f"li t4, {at.ddr_cached + 0x20_0000}\n li t5, {at.ddr_uncached + 0x20_0000}\n li t6, {at.spm_weak}\n"
    )
    setup += f"li a5, {at.ddr_cached + 0x20_0000}\n li t2, 77\n li t3, 5\n .option rvc\n"
    body = f"csrr s2, cycle\n{text}\n{text}\n csrr s1, cycle"
    _, last, first = clocks(f"{setup} .balign 64\n{body}", changed(ONE, "core", "line", 0.0))
    assert last - first == READ + 2 * cycles


def test_a_poll_that_divides_and_loads_takes_the_time_of_one_look() -> None:
    """The number of polls depends on the host's rounds, so instructions between polls must not count."""
    at = TX81.windows

    def look(work: str) -> str:
        return f"1: ld t1, 0x740(t0)\n{work} andi t1, t1, 256\n beqz t1, 1b\n"

    def until(work: str) -> float:
        load = f"rdma.fp16 dst=0x1000, src={DDR}, n=32768\n" * 3
        text = f"li t0, {at.ncc:#x}\n li t4, {at.ddr_cached}\n{load}{look(work)}{ADD}"
        _, sink = run(text, changed(ONE, "core", "line", 0.0))
        return sink.of(track=Track.CT)[0]["issued"] - sink.of(track=Track.RDMA)[2]["ended"]

    plain = until("")
    assert until(" div t2, t0, t4\n ld t3, 0(t4)\n") == plain + CORE.divide.value + CORE.load.value


def test_ranges_price_the_same_counts_at_their_ends() -> None:
    """The log has counts, no cycles: with figures without a range both ends are the run."""
    free = msgspec.structs.replace(CORE.line, value=0.0, least=0.0, most=300.0)
    core = msgspec.structs.replace(ONE.timing.core, line=free)
    machine = msgspec.structs.replace(ONE, timing=msgspec.structs.replace(ONE.timing, core=core))
    assert between(nops(160), machine) == READ + 175 * STEP
