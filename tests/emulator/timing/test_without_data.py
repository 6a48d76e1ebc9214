"""Runs without data: equal cycles and counts to runs with data, and the programs that they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asm
import tx8
from chip_bench import W, build, chip
from emulator import Fault, Program
from emulator.cli.command import main
from emulator.program import on_chips
from emulator.session import ProgramSession, SessionError
from machine_code import needs_jit
from paths import ROOT
from time_bench import Keep
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import load_machine
from tx8isa.table.packets import WRITE_BACK

FOUR = chip(4, 0x4000)
EXIT = "\n ncc.wait\n li a0, 0\n li a7, 93\n ecall\n"
DDR = W.ddr_engine + 0x20_0000
ONLY_ZERO = "_start: csrr s0, mhartid\n bnez s0, done\n"
SPM = f" li t0, {W.spm_weak:#x}\n"
REFUSED = "a run without data \\(data=False\\) cannot go on$"
DOUBLE = """
        .input  x, fp32, 16
        .output y, fp32, 16
        .text
_start: csrr t0, mhartid
        bnez t0, done
        la a0, x
        la a1, y
        rdma.fp32 dst=0x100, src=a0, n=16
        ct.add.vv.fp32 dst=0x200, src0=0x100, src1=0x100, n=16
        wdma.fp32 dst=a1, src=0x200, n=16
done:"""
X = np.arange(16, dtype=np.float32)


def refusal(text: str, **options: Any) -> str:
    """The fault of a program that a run with data completes."""
    text = f"{ONLY_ZERO}{text}\ndone: {EXIT}"
    build(text, FOUR, **options).run()
    with pytest.raises(Fault, match=REFUSED) as found:
        build(text, FOUR, data=False, **options).run()
    return str(found.value)


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize(
    ("made", "load"),
    [
        ("td.memset.fp32 dst=0x1000, value=1.5, n=64", "lw t1, 0x7fc(t0)\n lw t1, 0(t2)"),
        ("td.memset.fp32 dst=0x1000, value=1.5, n=1", "lbu t1, 0xff(t2)"),
        ("td.memset.fp32 dst=0x1000, value=1.5, n=65", "ld t1, 0x100(t2)"),
        ("dte.unicast dst=0x1000, src=0, tile=0, n=4\n dte.wait", "flw f1, 0(t2)"),
        ("dte.broadcast dst=0x1000, src=0, tiles=15, n=4\n dte.wait", "lhu t1, 2(t3)"),
    ],
)
def test_loads_of_what_engines_make_are_refused(made: str, load: str, timed: bool) -> None:
    places = f"{SPM} li t2, {W.spm_weak + 0x1000:#x}\n li t3, {W.spm_strong + 0x1000:#x}\n"
    text = f"{places} {made}\n ncc.wait\n {load}"
    name = load.split("\n")[-1].split()[0]
    assert f": {name} reads what engines or copies make; " in refusal(text, timed=timed)


@pytest.mark.parametrize("window", [W.ddr_cached, W.ddr_uncached])
def test_loads_from_ddr_are_refused(window: int) -> None:
    place = window + DDR - W.ddr_engine
    text = f" wdma.fp32 dst={DDR:#x}, src=0x1000, n=64\n ncc.wait\n li t0, {place:#x}\n"
    assert ": ld reads" in refusal(text + " ld t1, 0xf8(t0)")
    assert ": lwu reads" in refusal(text + " lwu t1, 0(t0)")
    build(f"{ONLY_ZERO}{text} lw t1, 0x100(t0)\ndone: {EXIT}", FOUR, data=False).run()


def test_what_the_core_has_stored_is_there() -> None:
    text = f"""{ONLY_ZERO}{SPM}
        li t1, 77
        sw t1, 0x40(t0)
        td.memset.fp32 dst=0x1000, value=1.5, n=64
        dte.unicast dst=0x1000, src=0, tile=1, n=256
        dte.wait
        ncc.wait
        lw s2, 0x40(t0)
        done: {EXIT}"""
    system = build(text, FOUR, data=False)
    system.run()
    assert system.tiles[0].register(18) == 77
    assert (system.tiles[0].spm.data[0x1000:0x1100] == FOUR.spm.reset_byte).all(), "nothing was computed"
    assert (system.tiles[1].spm.data[0x1000:0x1100] == FOUR.spm.reset_byte).all(), "nothing was moved"


def test_texts_and_results_of_instructions_are_refused() -> None:
    write = f"{SPM} td.memset.fp32 dst=0, value=1.5, n=4\n ncc.wait\n li a0, 1\n mv a1, t0\n li a2, 3\n"
    assert ": ecall reads" in refusal(write + " li a7, 64\n ecall\n")
    result = f" li t0, {W.ncc + WRITE_BACK[0].register:#x}\n ld t1, 0(t0)\n"
    assert ": ld reads what engines" in refusal(result)
    masked = f" li t0, {W.ncc:#x}\n sd zero, 0x770(t0)\n ct.add.vv.fp32 dst=0x100, src0=0, src1=0, n=4\n"
    assert ": ct.add.vv may raise numeric exceptions" in refusal(masked)


def test_runs_with_and_without_data_take_turns() -> None:
    program = Program(asm.assemble(DOUBLE + EXIT, machine=FOUR), FOUR)
    for _ in range(3):
        assert program.run({"x": X}, data=False) == {}
        assert np.array_equal(program.run({"x": X})["y"], 2 * X)
    text = DOUBLE.replace(
        "la a0, x", f"la a0, x\n li t1, {W.ddr_engine - W.ddr_cached}\n sub a2, a0, t1\n lw t1, 0(a2)"
    )
    given = Program(asm.assemble(text + EXIT, machine=FOUR), FOUR)
    for _ in range(2):
        assert given.run({"x": X}, data=False) == {}, "inputs are there"


def test_tx8_knows_cycles_and_statistics_and_no_outputs() -> None:
    program = tx8.assemble(DOUBLE + EXIT)
    run, whole = program.run(x=X, data=False), program.run(x=X)
    assert run.cycles == whole.cycles and str(run.stats) == str(whole.stats)
    assert run.cycles_range == whole.cycles_range
    assert len(run) == 0 and len(whole) == 1
    assert run.hazards == whole.hazards


@needs_jit
def test_nothing_is_compiled_for_the_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(asm.assemble(DOUBLE + EXIT, machine=FOUR), FOUR)
    system = program.start({"x": X}, data=False)
    system.run()
    assert not system.slots.words.any()


def test_chips_take_the_same_time() -> None:
    image = asm.assemble_file(ROOT / "examples/assembly/ring.s")
    program = on_chips(Program(image, load_machine(None)), 2, 2, "ring")
    ends, inputs = [], {"x": np.ones((16, 1024), np.float32)}
    for data in (True, False):
        sinks = [Keep() for _ in range(4)]
        mesh = program.start_chips(inputs, watch=lambda number, sinks=sinks: [sinks[number]], data=data)
        mesh.run()
        ends.append([(sink.slices.tobytes(), list(sink.ends)) for sink in sinks])
    assert ends[0] == ends[1]


def test_what_needs_data_is_refused() -> None:
    program = Program(asm.assemble(DOUBLE + EXIT, machine=FOUR), FOUR)
    with pytest.raises(Tx8Error, match="nothing for the sanitizer"):
        program.run({"x": X}, data=False, strict=True)
    with pytest.raises(SessionError, match="keeps data from step to step"):
        ProgramSession(program, data=False)


def test_the_command_prints_cycles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "double.bin"
    tx8.assemble(DOUBLE + EXIT).save(tmp_path)
    file = tmp_path / "prog.bin"
    cycles = tx8.assemble(DOUBLE + EXIT).run(x=X).cycles
    assert main([str(file), "-q", "--random", "1", "--cycles-only"]) == 0
    assert capsys.readouterr().out == f"{int(cycles):,} cycles\n"
    assert main([str(file), "-q", "--random", "1", "--cycles-only", "--stats"]) == 0
    assert capsys.readouterr().out.startswith("time ")
    for other in (["--output-dir", "."], ["--dump-spm"], ["--strict"], ["--gdb", "0"], ["--explore", "2"]):
        with pytest.raises(SystemExit):
            main([str(file), "--cycles-only", *other])
        assert f"not with {other[0]}, which is about data" in capsys.readouterr().err
