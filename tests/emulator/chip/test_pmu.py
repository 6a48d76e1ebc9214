"""The performance counters of the NCC: instructions by unit and worker, exceptions, stops at exceptions."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from chip_bench import ONE, W, build
from emulator.chip.system import System
from emulator.tile.fault import Fault
from emulator.timing.slices import TICKS, Batch
from time_bench import sharp

PMU = W.pmu
WORK = {
    "CT": "ct.abs.v.fp16 dst=0x100, src0=0, n=4",
    "NE": "ne.gemm.fp16 a=0x400, b=0x800, out=0xc00, m=1, k=4, n=4",
    "RDMA": "rdma.fp32 dst=0x200, src=0x280200000, n=4",
    "WDMA": "wdma.fp32 src=0, dst=0x280200000, n=4",
    "TDMA": "td.memset.fp32 dst=0, value=0, n=4",
    "SCALAR": "sc.recip.fp32 src=2.0",
}
UNITS = list(WORK)
ENABLE, CLEAR, FIRST, STOP = 0x000, 0x004, 0x1F8, 0x284
DRAIN = "".join(f"ncc.wait worker={worker}\n" for worker in range(3))


def build_text(text: str) -> str:
    return f"_start: li t0, {PMU}\n li t1, 1\n{text}\n ebreak"


def run(text: str, **options: object) -> System:
    """The system after a program that finds the PMU in t0 and 1 in t1."""
    system = build(build_text(text), **options)
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    return system


def reads(*offsets: int) -> str:
    """Store registers as 64-bit words from SPM byte 0x2000 on."""
    text = f"li t2, {W.spm_weak + 0x2000}\n"
    return text + "".join(f"lwu t3, {at}(t0)\n sd t3, {8 * k}(t2)\n" for k, at in enumerate(offsets))


def found(system: System, count: int) -> list[int]:
    return system.tiles[0].spm.data[0x2000 : 0x2000 + 8 * count].view("<u8").tolist()


def executed(unit: str, worker: int) -> int:
    """Offset of a counter of executed instructions."""
    return 0x010 + 0x30 * worker + 4 * UNITS.index(unit)


def issue(unit: str, worker: int, times: int = 1) -> str:
    return f"{WORK[unit]}, worker={worker}\n" * times


# -- instructions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("worker", range(3))
def test_each_instruction_counts_at_its_unit_and_worker(unit: str, worker: int) -> None:
    everywhere = [executed(u, w) for w in range(3) for u in UNITS]
    system = run(f"sw t1, {ENABLE}(t0)\n{issue(unit, worker, 3)}{DRAIN}{reads(*everywhere)}")
    expected = [3 * (at == executed(unit, worker)) for at in everywhere]
    assert found(system, 18) == expected


def test_counting_begins_and_ends_with_enable() -> None:
    work = f"{issue('CT', 0)} ncc.wait\n"
    text = f"{work} sw t1, 0(t0)\n{work}{work} sw zero, 0(t0)\n{work}{reads(0x010)}"
    assert found(run(text), 1) == [2]
    again = f"{work} sw t1, 0(t0)\n{work}{work} sw zero, 0(t0)\n{work} sw t1, 0(t0)\n{work}{reads(0x010)}"
    assert found(run(again), 1) == [3]


def test_writing_enable_once_more_loses_nothing() -> None:
    work = f"sw t1, 0(t0)\n{issue('CT', 0)} ncc.wait\n"
    assert found(run(work * 3 + reads(0x010)), 1) == [3]


@pytest.mark.parametrize("still", [True, False])
def test_clear(still: bool) -> None:
    """It sets the counters to zero, and does not change if they count."""
    work = f"{issue('CT', 2)} ncc.wait worker=2\n"
    stop = "" if still else "sw zero, 0(t0)\n"
    text = f"sw t1, 0(t0)\n{work * 3}{stop} sw t1, {CLEAR}(t0)\n{work}"
    system = run(text + reads(executed("CT", 2)))
    assert found(system, 1) == [1 if still else 0]


def test_nothing_counts_after_a_reset() -> None:
    assert found(run(f"{issue('CT', 0)} ncc.wait\n{reads(ENABLE, 0x010)}"), 2) == [0, 0]


BLOCKED = [0x028 + 0x30 * w + 4 * u for w in range(3) for u in range(6)]
BUSY = range(0x13C, 0x174, 4)


@pytest.mark.parametrize("at", [*BLOCKED[::5], *BUSY[::3]])
def test_counters_of_time_need_simulated_time(at: int) -> None:
    system = build(build_text(f"lw t3, {at}(t0)"))
    with pytest.raises(Fault, match="the counter counts time: run with --timed"):
        system.run()


def test_nothing_is_busy_while_nothing_counts() -> None:
    text = f"{issue('CT', 0)} ncc.wait\n{reads(*BLOCKED, *BUSY)}"
    assert found(run(text, timed=True), 18 + 14) == [0] * 32


@pytest.mark.parametrize("unit", UNITS)
def test_busy_times_are_those_of_the_slices(unit: str) -> None:
    slices = Slices()
    text = f"sw t1, 0(t0)\n{issue(unit, 0, 3)}{issue(unit, 1, 2)}{DRAIN}{reads(*BUSY, *BLOCKED)}"
    words = found(run(text, sinks=[slices]), 14 + 18)
    busy = [low | high << 32 for low, high in zip(words[0:14:2], words[1:14:2], strict=True)]
    ticks = slices.busy(UNITS.index(unit))
    assert ticks > 0
    expected = [ticks // TICKS * (at in (0, 1 + UNITS.index(unit))) for at in range(7)]
    expected[0] *= unit != "SCALAR"  # which is not a queued engine
    assert busy == expected
    blocked = [[slices.blocked(u, w) // TICKS for u in range(6)] for w in range(3)]
    assert words[14:] == [ticks for row in blocked for ticks in row]


def test_counting_of_time_begins_with_enable_and_with_clear() -> None:
    work = f"{issue('NE', 0, 2)} ncc.wait\n"
    slices = Slices()
    text = f"{work} sw t1, 0(t0)\n{work} sw zero, 0(t0)\n{work} sw t1, 0(t0)\n{work}{reads(0x14C)}"
    system = run(text, sinks=[slices])
    assert found(system, 1) == [slices.busy(1) // 2 // TICKS]
    text = f"sw t1, 0(t0)\n{work} sw t1, 4(t0)\n{reads(0x14C, 0x010 + 4)}"
    assert found(run(text, timed=True), 2) == [0, 0]


def test_busy_time_of_an_instruction_at_work() -> None:
    slices = Slices()
    again = "lwu t3, 0x154(t0)\n sd t3, 8(t2)\n"
    text = f"sw t1, 0(t0)\n{issue('RDMA', 0)} {reads(0x154)} ncc.wait\n {again}"
    system = run(text, sinks=[slices], machine=sharp(ONE))  # a new line of code would take the core longer
    meanwhile, afterwards = found(system, 2)
    assert 0 < meanwhile < 100 < 200 < afterwards  # the core arrives before the RDMA is complete
    assert afterwards == slices.busy(UNITS.index("RDMA")) // TICKS


class Slices:
    """Sums up the expected values of the registers."""

    def __init__(self) -> None:
        self.rows: list[np.ndarray] = []

    def take(self, batch: Batch) -> None:
        self.rows.append(batch.slices)

    def close(self, ends: Sequence[int]) -> None:
        pass

    def busy(self, track: int) -> int:
        rows = np.concatenate(self.rows)
        rows = rows[rows["track"] == track]
        return int((rows["ended"] - rows["started"]).sum())

    def blocked(self, track: int, worker: int) -> int:
        rows = np.concatenate(self.rows)
        return int(rows["blocked"][(rows["track"] == track) & (rows["worker"] == worker)].sum())


def test_counters_are_those_of_the_tile() -> None:
    machine = msgspec.structs.replace(ONE, grid=msgspec.structs.replace(ONE.grid, x=1, y=2))
    work = f"{issue('CT', 0)} ncc.wait\n"
    text = f"csrr t4, mhartid\n sw t1, 0(t0)\n bnez t4, 2f\n{work}2:{work}{reads(0x010)}"
    system = build(build_text(text).replace("ebreak", "li a7, 93\n li a0, 0\n ecall"), machine, threads=2)
    system.run()
    counts = [t.spm.data[0x2000:0x2008].view("<u8")[0] for t in system.tiles]
    assert counts == [2, 1]


# -- exceptions --------------------------------------------------------------------------------------------

BAD = "ct.abs.v.fp16 dst=0, src0=0, n=a5, worker={}\n"
RAW, STATUS, MASK, COMMAND = 0x00, 0x08, 0x10, 0x18


def block(worker: int, at: int) -> list[int]:
    """Both halves of a 64-bit exception register."""
    return [0x1FC + 0x20 * worker + at + half for half in (0, 4)]


def test_exceptions_with_worker_mask_and_command() -> None:
    """The third instruction of worker 1 is refused; its bit 8 is unmasked; worker 2's stays masked."""
    unmask = f"li t4, {W.ncc + W.ncc_stride}\n li t5, {(1 << 48) - 1 - (1 << 8)}\n sd t5, 0x770(t4)\n"
    text = f"li a5, -1\n{unmask}{issue('TDMA', 1, 2)}{BAD.format(1)}{BAD.format(2)}"
    offsets = [FIRST, *(at for w in range(3) for r in (RAW, STATUS, MASK, COMMAND) for at in block(w, r))]
    values = found(run(text + reads(*offsets), on_exception="drop"), 25)
    low, high = 0xFFFFFFFF, 0xFFFF
    assert values[0] == 1 << 1
    assert values[1:9] == [0, 0, 0, 0, low, high, 0, 0]
    assert values[9:17] == [0x100, 0, 0x100, 0, low - 0x100, high, 2, 0]
    assert values[17:25] == [0x100, 0, 0, 0, low, high, 0, 0]


def test_the_worker_is_forgotten_with_its_exception() -> None:
    clear = f"li t4, {W.ncc + 2 * W.ncc_stride}\n li t5, {1 << 49}\n sd t5, 0x770(t4)\n"
    text = f"li a5, -1\n{BAD.format(2)}{BAD.format(0)}{reads(FIRST)}{clear} lwu s0, {FIRST}(t0)\n"
    system = run(text, on_exception="drop")
    assert (found(system, 1), system.tiles[0].register(8)) == ([4], 0)


@pytest.mark.parametrize(
    ("instruction", "bits"),
    [
        ("sc.recip.fp32 src=0", 1 << 0),
        ("sc.log2.fp16 src=0", 1 << 0),
        ("sc.pow2.fp16 src=17.0", 1 << 0),
        ("sc.sin.fp16 src=0x7e00", 1 << 1),
        ("sc.sqrt.bf16 src=0x7fc0", 1 << 1),
        ("sc.sqrt.fp32 src=-1.0", 0),
        ("sc.recip.fp32 src=3.0", 0),
        ("sc.cos.tf32 src=1.0", 0),
    ],
)
def test_numeric_exceptions_of_the_scalar_unit(instruction: str, bits: int) -> None:
    text = f"{instruction}, worker=1\n{reads(*block(1, RAW), *block(0, RAW))}"
    assert found(run(text), 4) == [bits, 0, 0, 0]


UNMASK = f"li t4, {W.ncc}\n sd zero, 0x770(t4)\n"


def test_stop_on_an_exception_that_is_not_masked() -> None:
    text = f"li t2, {STOP}\n add t2, t2, t0\n sw t1, 0(t2)\n"
    with pytest.raises(Fault) as fault:
        build(build_text(f"{text}{UNMASK}{issue('TDMA', 0, 2)} sc.recip.fp32 src=0\n")).run()
    due = "instruction 2 of worker 0 raised an exception that is not masked: bits 0x1, "
    assert str(fault.value).endswith(f"{due}and the machine is set to stop then")
    run(f"{text} sc.recip.fp32 src=0\n")  # masked
    run(f"{UNMASK} sc.recip.fp32 src=0\n")  # not set to stop
    with pytest.raises(Fault, match="operand 'n' from a register: -1"):
        build(build_text(f"{text}{UNMASK} li a5, -1\n{BAD.format(0)}"), on_exception="drop").run()


def test_a_unit_whose_exceptions_are_switched_off() -> None:
    bad = "rdma.fp32 dst=0, src=0x280200000, n=zero\n"
    text = f"sw zero, 0x298(t0)\n{bad}{reads(*block(0, RAW), 0x298)}"
    assert found(run(text, on_exception="drop"), 3) == [0, 0, 0]
    assert found(run(f"{bad}{reads(*block(0, RAW), 0x298)}", on_exception="drop"), 3) == [1 << 27, 0, 1]


# -- registers ---------------------------------------------------------------------------------------------


def test_reset_values_and_writable_bits() -> None:
    registers = (0x000, 0x008, 0x284, 0x288, 0x28C, 0x298, 0x29C, 0x2A0)
    low = 0xFFFFFFFF
    assert found(run(reads(*registers)), 8) == [0, 0, 0, low, 0xFFFF, 1, 1, 1]
    stores = "li t4, -1\n" + "".join(f"sw t4, {at}(t0)\n" for at in registers)
    assert found(run(stores + reads(*registers)), 8) == [1, low, 1, low, 0xFFFF, 1, 1, 1]


@pytest.mark.parametrize(
    "access",
    [
        "ld s0, 0(t0)",
        "sd t1, 0(t0)",
        "lb s0, 0(t0)",
        "lh s0, 2(t0)",
        "sh t1, 0(t0)",
        "lw s0, 4(t0)",
        "sw t1, 0x10(t0)",
        "sw t1, 0x13c(t0)",
        "sw t1, 0x1f8(t0)",
        "sw t1, 0x200(t0)",
        "lw s0, 0xc(t0)",
        "lw s0, 0xa0(t0)",
        "lw s0, 0x174(t0)",
        "lw s0, 0x25c(t0)",
        "lw s0, 0x290(t0)",
        "lw s0, 0x2a4(t0)",
    ],
)
def test_other_accesses_are_faults(access: str) -> None:
    with pytest.raises(Fault, match=r"(load|store) of \d bytes at 0x59"):
        build(build_text(access)).run()
