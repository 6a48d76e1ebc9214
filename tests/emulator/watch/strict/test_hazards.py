"""Each kind of hazard: a program that has it, one that must not be reported, and the message."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import asm
from asm.image import write_image
from chip_bench import ONE, build
from emulator import Fault, load
from emulator.chip.system import System
from emulator.cli import main
from emulator.program import Program
from emulator.watch.strict.hazards import Hazard
from paths import ROOT
from tx8isa.machine.description import load_machine

FOLDER = ROOT / "examples/hazards"
Found = tuple[str, int | None, int | None]
"""Kind, line of the instruction, line of the other one."""

EXPECTED: dict[str, set[Found]] = {
    "unwritten": {("uninitialised", 7, None)},
    "unfinished": {("unfinished", 6, 4)},
    "unfinished_copy": {("unfinished", 5, 4), ("unfinished", 7, 4), ("unfinished", 7, 5)},
    "unfinished_exit": {("unfinished", 12, 9)},
    "workers": {("race", 5, 4)},
    "tiles": {("race", 8, 8)},
    "span": {("span", 8, 7)},
    "end": {("hidden-end", 17, 6)},
    "half_end": {("hidden-end", 24, 5)},
    "watchdog": {("watchdog", 4, None)},
    "shunned": {("shunned", 5, None)},
    "held": {("cache", 12, 10)},
    "stale": {("cache", 12, 9)},
    "endless": {("endless-wait", 10, None), ("endless-wait", 6, None)},
}


def program(name: str, folder: Path) -> Program:
    path = folder / f"{name}.bin"
    path.write_bytes(write_image(asm.assemble_file(FOLDER / f"{name}.s")))
    return load(path)


def strict(name: str, folder: Path, threads: int = 1) -> tuple[Hazard, ...]:
    """The hazards of an example, which may end in a fault."""
    loaded = program(name, folder)
    with suppress(Fault):
        loaded.run(strict=True, threads=threads)
    return loaded.hazards


def lines(hazards: tuple[Hazard, ...]) -> set[Found]:
    return {(h.kind, h.at.line, h.other.line if h.other else None) for h in hazards}


def test_every_example_is_tested_and_has_a_counterpart() -> None:
    assert {path.stem for path in FOLDER.glob("*.s")} == {*EXPECTED, *(f"{name}_ok" for name in EXPECTED)}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_hazard_is_found_where_it_is(name: str, tmp_path: Path) -> None:
    assert lines(strict(name, tmp_path)) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("mended", ["", "_ok"])
def test_compressed_programs_are_judged_alike(name: str, mended: str) -> None:
    """Instructions at any multiple of two bytes, including accesses of the core."""
    path = FOLDER / f"{name}{mended}.s"
    image = asm.assemble(f".option rvc; {path.read_text()}", str(path), include_dirs=[FOLDER])
    assert any(address % 4 for address in image.lines)
    loaded = Program(image, load_machine(None))
    with suppress(Fault):
        loaded.run(strict=True)
    assert lines(loaded.hazards) == (set() if mended else EXPECTED[name])


@pytest.mark.parametrize("name", EXPECTED)
def test_the_mended_program_is_not_accused(name: str, tmp_path: Path) -> None:
    assert program(f"{name}_ok", tmp_path).run(strict=True) is not None
    assert strict(f"{name}_ok", tmp_path) == ()


@pytest.mark.parametrize("name", ["tiles", "unfinished_copy", "endless"])
def test_hazards_do_not_depend_on_threads_and_come_by_tile(name: str, tmp_path: Path) -> None:
    found = strict(name, tmp_path)
    assert found == strict(name, tmp_path, threads=4)
    assert [hazard.at.tile for hazard in found] == sorted(hazard.at.tile for hazard in found)


def test_outputs_are_those_of_an_ordinary_run(tmp_path: Path) -> None:
    loaded = program("span", tmp_path)
    np.testing.assert_array_equal(loaded.run(strict=True)["y"], loaded.run()["y"])
    assert loaded.hazards == (), "those of the last run, which was not strict"


# --- one tile, by hand --------------------------------------------------------------------


def hazards(text: str, **options: bool) -> list[tuple[str, int, int, int]]:
    """(kind, first byte, last byte, count) of a program's hazards; it runs on tile 0 and ends in ebreak."""
    system = build(f"_start: {text}\n ebreak", strict=True, **options)
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    assert system.sanitizer is not None
    return [(h.kind, h.first, h.last, h.count) for h in system.sanitizer.hazards()]


FILL = "td.memset.fp32 dst=0, value=1.0, n=64\n"
BASE = f"li s0, {ONE.windows.spm_weak}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # never written: exactly the unwritten bytes, once for a pair, however often it occurs
        ("wdma.fp32 dst=0x280200000, src=0x100, n=2", [("uninitialised", 0x100, 0x107, 1)]),
        (FILL + "wdma.fp32 dst=0x280200000, src=0xf8, n=4", [("uninitialised", 0x100, 0x107, 1)]),
        (
            "li s1, 5\n1: wdma.fp32 dst=0x280200000, src=0x100, n=2\n addi s1, s1, -1\n bnez s1, 1b",
            [("uninitialised", 0x100, 0x107, 5)],
        ),
        (BASE + "lw t0, 0(s0)", [("uninitialised", 0, 3, 1)]),
        (BASE + "sw t0, 0(s0)\n ld t0, 0(s0)", [("uninitialised", 4, 7, 1)]),
        (BASE + "sb t0, 0(s0)\n lbu t0, 0(s0)", []),
        ("rdma.fp32 dst=0, src=0x280300000, n=1", [("uninitialised", 0x280300000, 0x280300003, 1)]),
        # strided rows: only the rows are read, only the rows are written
        (
            "td.memset.fp32 dst=0, value=1.0, n=1, stride0=8, iter0=4\n"
            "td.gatherscatter dst=0x1000, src0=0, n=4, src_stride0=8, src_iter0=4, "
            "dst_stride0=4, dst_iter0=4",
            [],
        ),
        (
            "td.memset.fp32 dst=0, value=1.0, n=1, stride0=8, iter0=4\nwdma.fp32 dst=0x280200000, src=0, n=2",
            [("uninitialised", 4, 7, 1)],
        ),
        # the core and its engines
        (FILL + BASE + "lw t0, 0xfc(s0)", [("unfinished", 0xFC, 0xFF, 1)]),
        (FILL + BASE + "sw t0, 0x100(s0)", []),
        (FILL + BASE + "ncc.wait worker=1\n lw t0, 0(s0)", [("unfinished", 0, 3, 1)]),
        (
            FILL + BASE + "1: li t1, 0x01000740\n ld t2, 0(t1)\n andi t2, t2, 0x100\n beqz t2, 1b\n"
            "lw t0, 0(s0)",
            [],
        ),
        (
            FILL + "ct.abs.v.fp32 dst=0x400, src0=0, n=64\n" + BASE + "sw t0, 0(s0)",
            [("unfinished", 0, 3, 1), ("unfinished", 0, 3, 1)],
        ),
        (BASE + "sw t0, 0(s0)\n ct.abs.v.fp32 dst=0x400, src0=0, n=1", []),
        # workers
        (FILL + "ct.abs.v.fp32 dst=0x400, src0=0, n=8, worker=1", [("race", 0, 31, 1)]),
        (FILL + "ncc.wait\n ct.abs.v.fp32 dst=0x400, src0=0, n=8, worker=1", []),
        (FILL + "ncc.wait\n ct.abs.v.fp32 dst=0x400, src0=0, n=8, worker=1\n" + FILL, [("race", 0, 31, 1)]),
        (
            FILL + "ncc.wait\n ct.abs.v.fp32 dst=0x400, src0=0, n=8, worker=1\n"
            "ct.abs.v.fp32 dst=0x800, src0=0, n=8\n",
            [],
        ),
        # spans: only CT and NE have them, and only earlier data counts
        (
            FILL + "ct.abs.v.fp32 dst=0, src0=0, n=2\n wdma.fp32 dst=0x280200000, src=8, n=1",
            [("span", 8, 11, 1)],
        ),
        (FILL + "td.memset.fp32 dst=0, value=0, n=2\n wdma.fp32 dst=0x280200000, src=8, n=1", []),
        (
            FILL + "ct.abs.v.fp32 dst=0, src0=0, n=2\n td.memset.fp32 dst=8, value=0, n=62\n"
            "wdma.fp32 dst=0x280200000, src=0, n=64",
            [],
        ),
    ],
)
def test_bytes_of_a_hazard(text: str, expected: list[tuple[str, int, int, int]]) -> None:
    assert hazards(text) == expected
    assert hazards(text, serial=True) == expected, "what may go wrong does not depend on the mode"


def test_translated_loops_are_checked_too() -> None:
    """A loop that runs long enough to be translated, and reads one unwritten byte at its end."""
    text = f"""{BASE} li t1, 2000000
1:      sd   t1, 0(s0)
        ld   t2, 0(s0)
        addi t1, t1, -1
        bnez t1, 1b
        lb   t3, 8(s0)
"""
    assert hazards(text) == [("uninitialised", 8, 8, 1)]


def test_a_loop_over_memory_finds_the_hole() -> None:
    text = f"""{BASE} li t1, 512
        mv   t2, s0
1:      sd   zero, 0(t2)
        addi t2, t2, 8
        addi t1, t1, -1
        bnez t1, 1b
        li   t1, 514
        mv   t2, s0
2:      ld   t3, 0(t2)
        addi t2, t2, 8
        addi t1, t1, -1
        bnez t1, 2b
"""
    assert hazards(text) == [("uninitialised", 4096, 4111, 2)], "loads of one step are one access"


# --- tiles --------------------------------------------------------------------------------


def tiles(text: str) -> list[str]:
    """The kinds that a program of sixteen tiles has."""
    system = System(asm.assemble(text), load_machine(None), strict=True)
    system.run()
    assert system.sanitizer is not None
    return [hazard.kind for hazard in system.sanitizer.hazards()]


END = "done: li a0, 0\n li a7, 93\n ecall\n"
FLAG = """
_start: csrr    t0, mhartid
        li      t1, 2
        bgeu    t0, t1, done
        la      t2, data
        la      t3, flag
        li      t4, {window}
        add     t3, t3, t4
        bnez    t0, wait
        sw      t1, 0(t2)
        th.dcache.cva t2
        fence
        sw      t1, 0(t3)
        {late}
        j       done
wait:   lw      t4, 0(t3)
        beqz    t4, wait
        th.dcache.iva t2
        fence
        lw      t4, 0(t2)
"""
DATA = ".data\n .balign 64\nflag: .word 0\n .balign 64\ndata: .word 0\n"


def test_a_flag_in_uncached_memory_orders_tiles() -> None:
    windows = load_machine(None).windows
    away = windows.ddr_uncached - windows.ddr_cached
    assert tiles(FLAG.format(window=away, late="nop") + END + DATA) == []
    assert tiles(FLAG.format(window=0, late="nop") + END + DATA) == ["race", "race"], "cached: seen by luck"
    late = FLAG.format(window=away, late="sw t1, 0(t2)") + END + DATA
    assert tiles(late) == ["race"], "what follows the flag is not ordered by it"


COPY = """
_start: csrr    t0, mhartid
        bnez    t0, other
        td.memset.fp32 dst=0x10000, value=1.0, n=64
        ncc.wait
        dte.unicast dst=0x20000, src=0x10000, tile=1, n=256
        {wait}
        ncc.barrier tiles=3
        j       done
other:  li      t1, 1
        bne     t0, t1, done
        ncc.barrier tiles=3
        ct.abs.v.fp32 dst=0x30000, src0=0x20000, n=64
        ncc.wait
"""


def test_a_copy_is_seen_after_its_wait_and_a_barrier() -> None:
    assert tiles(COPY.format(wait="dte.wait") + END) == []
    assert tiles(COPY.format(wait="nop") + END) == ["race"]


# --- the command --------------------------------------------------------------------------


def test_the_command_prints_hazards_writes_outputs_and_exits_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program("span", tmp_path)
    path = str(tmp_path / "span.bin")
    assert main([path, "-q", "--strict", "--output-dir", str(tmp_path)]) == 3
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "span.s:8" in error and "span.s:7" in error
    assert np.load(tmp_path / "y.npy").tolist() == [3.0, 3.0, 1.5, 1.5]
    program("span_ok", tmp_path)
    assert main([str(tmp_path / "span_ok.bin"), "-q", "--strict"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("option", [["--strict"], ["--explore", "3"]])
def test_a_run_is_watched_from_its_start(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["program.bin", "--load-state", "half.state", *option])
    assert left.value.code == 2 and "from its start" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("unfinished", "insert 'ncc.wait' before unfinished.s:6"),
        ("unfinished_copy", "insert 'dte.wait' before unfinished_copy.s:7"),
        ("workers", "insert 'ncc.wait' before workers.s:5"),
        ("end", "make the end 0x1007f, its last byte, or 0"),
    ],
)
def test_what_would_mend_it(name: str, fix: str, tmp_path: Path) -> None:
    texts = [hazard.text.replace(f"{FOLDER}/", "") for hazard in strict(name, tmp_path)]
    assert any(fix in text for text in texts), texts
