"""Runs of one program one after another and at the same time: each starts from the reset state.

The bytes that a run leaves are found with the page map of the host (``snapshot.memory``), which is
independent of the marks by which memories are reset.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence

import numpy as np
import pytest

import asm
from chip_bench import W, chip
from emulator import Program
from emulator.chip.memories import RENEWED_AT, Memories
from emulator.chip.system import System
from emulator.debug.snapshot.memory import save_ddr, save_spm
from emulator.memory.areas import (
    GRANULE_SHIFT,
    HostMemoryError,
    Scratchpad,
    make_scratchpads,
    renew_in_huge_pages,
)
from emulator.memory.resetting import Area, Resetting, reset_kernel
from emulator.tile.fault import Fault
from emulator.timing.slices import Batch
from machine_code import needs_jit

FOUR = chip(4, 0x4000)
EXIT = "\n ncc.wait\n li a0, 0\n li a7, 93\n ecall\n"
START = ".text\n_start: csrr s0, mhartid\n"
GRANULE = 1 << GRANULE_SHIFT
WRITERS = {
    "stores of the core": f"""
        li t0, {W.ddr_cached + 0x30_0000 + GRANULE - 4}
        slli t1, s0, 20
        add t0, t0, t1
        sd t0, 0(t0)                   # on both sides of a granule's end
        li t0, {W.ddr_uncached + 0x80_0000}
        add t0, t0, t1
        sb t0, 3(t0)
        li t0, {W.spm_strong + 0x3FF}
        sh t0, 0(t0)""",
    "WDMA with strides": f"""
        td.memset.int32 dst=0x100, value=7, n=64
        slli t1, s0, 12
        li t0, {W.ddr_engine + 0x40_0000}
        add t0, t0, t1
        wdma.int8 dst=t0, src=0x100, n=16, stride0={3 * GRANULE}, iter0=4, stride1=64, iter1=2""",
    "copies of the DTE": f"""
        td.memset.int32 dst=0x100, value=7, n=64
        ncc.wait
        slli t1, s0, 16
        li t0, {W.ddr_engine + 0x50_FFF8}
        add t0, t0, t1
        dte.unicast dst=t0, src=0x100, tile=s0, n=256
        dte.unicast dst=0x2f00, src=0x100, tile=s0, n=256
        dte.wait""",
    "over its own data": """
        la t0, table
        sw s0, 0(t0)
        la t0, y
        li t1, 0x200000000
        sub t0, t0, t1
        sw s0, 0(t0)""",
}
TABLE = "\n.data\ntable: .word 1, 2, 3, 4\n"


def program(body: str) -> Program:
    return Program(asm.assemble(f".output y, int32, 4\n{START}{body}{EXIT}{TABLE}"), FOUR)


def left_behind(program: Program, memories: Memories) -> tuple[bytes, list[bytes]]:
    """Numbers of the pieces of DDR and of each SPM that are not as after loading."""
    system = System(program.image, program.machine, memories=memories)
    reset = program.machine.spm.reset_byte
    return save_ddr(system).numbers, [save_spm(tile.spm, reset).numbers for tile in system.tiles]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("body", WRITERS.values(), ids=WRITERS)
def test_nothing_is_left_behind(body: str, threads: int) -> None:
    written = program(body)
    memories = Memories(written.image, FOUR)
    System(written.image, FOUR, memories=memories).run()
    ddr, spm = left_behind(written, memories)
    assert ddr and (any(spm) or "table" in body)
    memories.reset(threads)
    assert left_behind(written, memories) == (b"", [b""] * 4)
    assert not memories.ddr_area.marks.any() and not any(spm.lines.any() for spm in memories.spm)


@pytest.mark.parametrize("threads", [1, 2])
def test_scratchpads_that_get_large_pages_are_reset_too(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr("emulator.chip.memories.LARGE", 0)
    renewed: list[int] = []

    def renew(pads: Sequence[Scratchpad]) -> None:
        renewed.append(len(pads))
        renew_in_huge_pages(pads)

    monkeypatch.setattr("emulator.chip.memories.renew_in_huge_pages", renew)
    counts = counter()
    memories = Memories(counts.image, FOUR)
    places = [spm.data.ctypes.data for spm in memories.spm]
    for _ in range(RENEWED_AT + 1):
        system = System(counts.image, FOUR, memories=memories)
        system.run()
        assert system.tiles[0].spm.data[0x40:0x44].view(np.int32).tolist() == [0]  # 0xFFFFFFFF and one more
        memories.reset(threads)
        assert left_behind(counts, memories) == (b"", [b""] * 4)
        assert not any(spm.lines.any() for spm in memories.spm)
    assert [spm.data.ctypes.data for spm in memories.spm] == places
    assert renewed == [4]


@needs_jit
def test_stores_of_translated_code_leave_nothing_behind() -> None:
    body = f"""
        li t0, {W.ddr_cached + 0x30_0000}
        li t1, 3000000
    1:  sw t1, 0(t0)
        addi t0, t0, 4
        li t2, {W.ddr_cached + 0x38_0000}
        bltu t0, t2, 2f
        li t0, {W.ddr_cached + 0x30_0000}
    2:  addi t1, t1, -1
        bnez t1, 1b"""
    written = program(f"bnez s0, 3f\n{body}\n3:")
    memories = Memories(written.image, FOUR)
    System(written.image, FOUR, memories=memories).run()
    assert memories.code.translation.covered
    assert len(left_behind(written, memories)[0]) == 8 * (0x8_0000 // 4096)
    memories.reset()
    assert left_behind(written, memories)[0] == b""


@pytest.mark.parametrize("size", [1, 255, 256, 2048, 2049, 5000, 40 * 2048 - 1])
@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_marked_is_reset_and_nothing_else(size: int, threads: int) -> None:
    """Single marks, whole words of them, and none; the bytes after an area must not change."""
    rng, areas, expected = np.random.default_rng(size), [], []
    for number in range(5):
        lines = -(-size // 256)
        marks, data = np.zeros(lines + 7 & -8, np.uint8), rng.integers(1, 255, size + 64, dtype=np.uint8)
        marks[:lines] = rng.random(lines) < (0, 0.05, 0.5, 0.95, 1)[number]
        byte = 0 if number % 2 else 0xA5
        areas.append(Area(data[:size], marks, 8, byte))
        written = np.repeat(marks[:lines] != 0, 256)[:size]
        expected.append((np.where(written, byte, data[:size]), data[size:].copy()))
    work = Resetting(areas, reset_kernel())
    for _ in range(2):  # the second time nothing is marked
        work.begin()
        others = [threading.Thread(target=work.share) for _ in range(threads - 1)]
        for other in others:
            other.start()
        work.share()
        for other in others:
            other.join()
        for area, (inside, behind) in zip(areas, expected, strict=True):
            base = area.data.base
            assert isinstance(base, np.ndarray) and np.array_equal(base[size:], behind)
            assert np.array_equal(area.data, inside) and not area.marks.any()
            area.data[:] = inside


def test_inputs_of_the_last_run_are_gone() -> None:
    copier = Program(asm.assemble(f".input x, int32, 4\n.output y, int32, 4\n{START}{EXIT}"), FOUR)
    copier.run({"x": np.int32([1, 2, 3, 4])})
    assert left_behind(copier, copier._pool.take().memories)[0] == b""


def counter() -> Program:
    """y is one more than its earlier contents; SPM counts, too."""
    body = f"""
        bnez s0, 9f
        la t0, y
        li t1, 0x200000000
        sub t0, t0, t1
        lw t2, 0(t0)
        addi t2, t2, 1
        sw t2, 0(t0)
        li t3, {W.spm_weak}
        lw t2, 0x40(t3)
        addi t2, t2, 1
        sw t2, 0x40(t3)
        sw t2, 4(t0)
    9:"""
    return program(body)


def test_a_second_run_has_the_memories_of_the_first_and_none_of_its_bytes() -> None:
    counts = counter()
    first = counts.run()["y"]
    kept = counts._pool.take()
    counts._pool.give_back(kept)
    assert counts.run()["y"].tolist() == first.tolist() == [1, 0, 0, 0]
    assert counts._pool.take() is kept


@pytest.mark.parametrize("options", [{"strict": True}, {"sinks": True}, {"timed": True}, {"serial": True}])
def test_other_ways_to_run_in_between(options: dict[str, bool]) -> None:
    class Nothing:
        def take(self, batch: Batch) -> None:
            pass

        def close(self, ends: Sequence[int]) -> None:
            pass

    counts = counter()
    chosen = {**options, **({"sinks": [Nothing()]} if "sinks" in options else {})}
    runs = [counts.run()["y"], counts.run(**chosen)["y"], counts.run()["y"]]  # type: ignore[arg-type]
    assert [y.tolist() for y in runs] == [[1, 0, 0, 0]] * 3


def test_results_stay_when_the_memories_are_used_again() -> None:
    text = f".input x, int32, 4\n.output y, int32, 4\n{START} bnez s0, 9f\n"
    text += " rdma.int32 dst=0x100, src=x, n=4\n wdma.int32 dst=y, src=0x100, n=4\n9:" + EXIT
    copier = Program(asm.assemble(text), FOUR)
    first = copier.run({"x": np.int32([1, 2, 3, 4])})["y"]
    assert copier.run({"x": np.int32([5, 6, 7, 8])})["y"].tolist() == [5, 6, 7, 8]
    assert first.tolist() == [1, 2, 3, 4]


def test_a_fault_does_not_spoil_the_next_run() -> None:
    text = f".input x, int32, 1\n.output y, int32, 1\n{START} bnez s0, 9f\n"
    text += " la t1, x\n la t2, y\n li t3, 0x200000000\n sub t1, t1, t3\n sub t2, t2, t3\n"
    text += " lw t4, 0(t1)\n lw t5, 0(t2)\n addi t5, t5, 1\n sw t5, 0(t2)\n beqz t4, 9f\n ebreak\n9:" + EXIT
    picky = Program(asm.assemble(text), FOUR)
    assert picky.run({"x": np.int32([0])})["y"].tolist() == [1]
    with pytest.raises(Fault, match="ebreak"):
        picky.run({"x": np.int32([1])})
    assert picky.run({"x": np.int32([0])})["y"].tolist() == [1]


def test_runs_at_the_same_time_share_nothing() -> None:
    body = """
        la t0, y
        li t1, 0x200000000
        sub t0, t0, t1
        li t1, 20000
        bnez s0, 9f
    1:  lw t2, 0(t0)
        addi t2, t2, 1
        sw t2, 0(t0)
        addi t1, t1, -1
        bnez t1, 1b
    9:"""
    counts, found = program(body), list[int]()
    counts.run()

    def run() -> None:
        found.append(int(counts.run(threads=2)["y"][0]))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [20000] * 4


def test_scratchpads_begin_in_their_reset_state_whatever_others_have_written() -> None:
    first = make_scratchpads(FOUR)
    for pad in first:
        pad.data[:] = 0x77  # nothing is marked
    second = make_scratchpads(FOUR)
    assert all((pad.data == FOUR.spm.reset_byte).all() and not pad.lines.any() for pad in second)
    assert all((pad.data == 0x77).all() for pad in first)
    del first, pad
    assert all((pad.data == FOUR.spm.reset_byte).all() for pad in (*make_scratchpads(FOUR), *second))


def test_scratchpads_that_somebody_looks_at_stay() -> None:
    first = make_scratchpads(FOUR)
    seen = first[3].data[5:7]
    seen[:] = 0x77
    del first
    make_scratchpads(FOUR)[3].data[:] = 0x66
    assert seen.tolist() == [0x77, 0x77]


def test_scratchpads_whose_pages_the_host_refuses_to_renew(monkeypatch: pytest.MonkeyPatch) -> None:
    pads = make_scratchpads(FOUR)
    pads[1].data[:] = 0x77
    monkeypatch.setattr("emulator.memory.areas._mapped", lambda *_: False)
    renew_in_huge_pages(pads)
    assert not any(pad.lines.any() for pad in pads) and (pads[1].data == 0x77).all()


@pytest.mark.parametrize("size", [0x5000, 0x5800], ids=["whole pages", "a part of the last page"])
def test_new_pages_are_written_ones(size: int) -> None:
    pads = make_scratchpads(chip(4, size))
    pads[1].data[:] = 0x77
    renew_in_huge_pages(pads)
    assert all(pad.written() == [(0, size)] and not pad.data.any() for pad in pads)


@pytest.mark.parametrize("size", [0x5000, 0x5800], ids=["whole pages", "a part of the last page"])
def test_scratchpads_of_any_size(size: int) -> None:
    pads = make_scratchpads(chip(4, size))
    assert [pad.data.size for pad in pads] == [size] * 4
    pads[2].data[:] = 0x77
    assert all((pads[at].data == FOUR.spm.reset_byte).all() for at in (0, 1, 3))


def test_scratchpads_that_the_host_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.memory.areas.map_privately", lambda *_: False)
    with pytest.raises(HostMemoryError, match=r"^the host refuses \d+ bytes for each of 4 scratchpads"):
        make_scratchpads(FOUR)


AT_ONCE = """
import sys, threading
import numpy as np
import asm, emulator
from tx8isa.machine.description import load_machine
text = '''
        .input x, fp16, 64
        .output y, fp16, 64
_start: la a0, x
        la a1, y
        rdma.fp16 dst=0x1000, src=a0, n=64
        ct.{op}.v.fp16 dst=0x2000, src0=0x1000, n=64
        wdma.fp16 dst=a1, src=0x2000, n=64
        ncc.wait
        li a0, 0
        li a7, 93
        ecall
'''
sys.setswitchinterval(1e-6)
machine, found = load_machine(), {}
x = np.linspace(-2, 2, 64).astype(np.float16)
ready = threading.Barrier(4)
def run(op):
    program = emulator.Program(asm.assemble(text.format(op=op)), machine)
    ready.wait()
    found[op] = program.run({"x": x})["y"]
threads = [threading.Thread(target=run, args=[op]) for op in ("abs", "relu", "neg", "square")]
[each.start() for each in threads]
[each.join() for each in threads]
for op, wanted in (("abs", abs(x)), ("relu", np.maximum(x, 0)), ("neg", -x), ("square", x * x)):
    assert np.array_equal(found[op], wanted), op
"""


def test_the_first_runs_of_a_process_may_begin_at_the_same_time() -> None:
    """Values that a process computes once, and that compiled code reads by address, may then be computed
    twice."""
    ended = subprocess.run([sys.executable, "-c", AT_ONCE], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
