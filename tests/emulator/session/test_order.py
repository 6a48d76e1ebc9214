"""Proofs of order at every size of a range, and what is said of numbers, refusals, and faults."""

from __future__ import annotations

from pathlib import Path

import pytest

import asm
from asm.image import write_image
from chip_bench import TX81
from emulator import Program
from emulator.cli import main
from emulator.session.order import OrderProof, prove_order
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import load_machine

Captured = pytest.CaptureFixture[str]
SHARED = """
        .input  x, fp32, 64x16
        .output y, fp32, 64x16
        .dimension rows, 16, 32, 64
        .extents input, x, rows, 16
        .extents output, y, rows, 16
        .shapes io.shapes, 1
_start: csrr    t0, mhartid
        la      a0, %core(io.shapes)
        ld      a1, 0(a0)
        srli    a2, a1, 4               # rows of a tile
        addi    a3, a1, {more}
        srli    a3, a3, 4               # rows that it copies
        mul     a4, t0, a2
        slli    a4, a4, 6
        slli    a5, a3, 4
        la      t1, x
        add     t1, t1, a4
        la      t2, y
        add     t2, t2, a4
        rdma.fp32 dst=0x1000, src=t1, n=a5
        wdma.fp32 dst=t2, src=0x1000, n=a5
        ncc.wait
        li      a0, 0
        li      a7, 93
        ecall
"""
"""Tiles copy shares of the rows. Those of ``more`` = 15 overlap if 16 does not divide the rows."""
INDEX = """
        .input  at, int32, 16
        .output y, fp32, 16x64
_start: csrr    t0, mhartid
        slli    t1, t0, 2
        la      a0, %core(at)
        add     a0, a0, t1
        lw      a1, 0(a0)
        {chosen}
        la      t2, y
        slli    a1, a1, 8
        add     t2, t2, a1
        td.memset.fp32 dst=0x1000, value=1.0, n=64
        wdma.fp32 dst=t2, src=0x1000, n=64
        ncc.wait
        li      a0, 0
        li      a7, 93
        ecall
"""
READS_BACK = """
        .output y, fp32, 64
_start: csrr    t0, mhartid
        bnez    t0, done
        td.memset.fp32 dst=0x1000, value=1.0, n=64
        ncc.wait
        li      t1, {spm}
        lw      t2, 0(t1)
        beqz    t2, done
        la      t2, y
        wdma.fp32 dst=t2, src=0x1000, n=64
        {wait}
done:   li      a0, 0
        li      a7, 93
        ecall
"""


def proof(text: str, **sizes: int) -> OrderProof:
    return prove_order(Program(asm.assemble(text, "prog.s"), TX81), sizes)


def test_every_size_of_a_range_is_judged() -> None:
    found, seen = proof(SHARED.format(more=0)), list[tuple[int, int]]()
    assert found.holds
    assert (found.sizes, found.ranges) == (49, {"rows": (16, 64)})
    assert str(found) == "order proved at all 49 sizes of rows=16:64: up to 96 accesses"
    program = Program(asm.assemble(SHARED.format(more=0), "prog.s"), TX81)
    prove_order(program, progress=lambda judged, of: seen.append((judged, of)))
    assert seen == [(number, 49) for number in range(1, 50)]


def test_a_fault_that_the_ends_and_the_usual_size_do_not_have_is_found() -> None:
    found = proof(SHARED.format(more=15))
    assert not found.holds
    assert (found.sizes, found.at) == (4, {"rows": 17})  # after 16, 32 and 64
    assert found.confirmed
    assert str(found).startswith("order WRONG at rows=17: race: wdma of tile ")
    assert str(found).endswith("(the same on 14 more tiles); found by --strict, too")
    assert {(h.at.line, h.other.line if h.other else None) for h in found.hazards} == {(22, 22)}


@pytest.mark.parametrize(("rows", "holds"), [(16, True), (32, True), (33, False), (64, True)])
def test_sizes_may_be_chosen(rows: int, holds: bool) -> None:
    found = proof(SHARED.format(more=15), rows=rows)
    assert (found.holds, found.sizes, found.ranges) == (holds, 1, {"rows": (rows, rows)})


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"rows": 65}, "rows is 65; allowed are 16 to 64"),
        ({"rows": 15}, "rows is 15; allowed are 16 to 64"),
        ({"row": 16}, "the program has no dimension 'row'; its dimensions: rows"),
    ],
)
def test_other_sizes_are_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(Tx8Error) as error:
        proof(SHARED.format(more=0), **sizes)
    assert str(error.value) == message


def test_a_program_of_one_size_has_no_dimension() -> None:
    with pytest.raises(Tx8Error, match="its dimensions: none"):
        proof("_start: li a7, 93\n ecall", rows=1)


def test_several_chips_are_refused() -> None:
    program = Program(asm.assemble("_start: li a7, 93\n ecall", "a.s"), load_machine(None).of_chips(2, 1))
    with pytest.raises(Tx8Error, match="runs on 2 chips; --prove-order takes programs of one"):
        prove_order(program)


def test_numbers_of_inputs_that_the_core_reads_are_named() -> None:
    found = proof(INDEX.format(chosen="mv a1, t0"))
    assert found.holds
    assert "but for input 'at', which the core reads at prog.s:8: zeros here" in str(found)


def test_places_that_such_numbers_choose_are_judged_as_zeros_choose_them() -> None:
    found = proof(INDEX.format(chosen=""))
    assert not found.holds
    assert found.confirmed


@pytest.mark.parametrize(("wait", "holds"), [("ncc.wait", True), ("", False)])
def test_a_core_that_reads_what_engines_make_gets_it(wait: str, holds: bool) -> None:
    found = proof(READS_BACK.format(spm=TX81.windows.spm_weak + 0x1000, wait=wait))
    assert found.holds == holds
    lines = [line for line in found.lines() if line.startswith("but for numbers that follow from the inputs")]
    assert any("(prog.s:8): lw reads what engines or copies make" in line for line in lines)


def test_a_program_that_stops_is_open() -> None:
    found = proof("_start: ebreak")
    assert (found.holds, found.hazards) == (False, ())
    assert str(found).startswith("order open: tile 0 at ")


def test_a_program_that_reads_time_is_open() -> None:
    found = proof("_start: rdcycle t0\n ncc.barrier tiles=0xffff\n li a0, 0\n li a7, 93\n ecall")
    assert str(found) == "order open: simulated time: not followed"


def test_flags_in_memory_are_not_followed() -> None:
    text = """
_start: csrr    t0, mhartid
        li      t1, {flag}
        bnez    t0, done
        sw      t1, 0(t1)
done:   lw      t2, 0(t1)
        li      a0, 0
        li      a7, 93
        ecall
    """
    found = proof(text.format(flag=TX81.windows.ddr_uncached + 0x10000))
    assert str(found) == "order open: flags in memory: not followed"
    cached = proof(text.format(flag=TX81.windows.ddr_cached + 0x10000))
    assert [str(hazard.kind) for hazard in cached.hazards][:1] == ["race"]


@pytest.mark.parametrize(
    ("more", "status", "line"), [(0, 0, "proved at all 49 "), (15, 3, "WRONG at rows=17")]
)
def test_command(more: int, status: int, line: str, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "prog.bin"
    path.write_bytes(write_image(asm.assemble(SHARED.format(more=more), "prog.s")))
    assert main([str(path), "--prove-order", "-q"]) == status
    assert capsys.readouterr().out.startswith(f"order {line}")


@pytest.mark.parametrize(
    "other",
    [
        *("--strict", "--random 0", "--cycles-only", "--explore 2", "--stats", "--max-instructions 9"),
        *("--threads 2", "--serial", "--timed", "--write-span hostile"),
    ],
)
def test_command_with_options_of_a_run(other: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["prog.bin", "--prove-order", *other.split()])
    assert (
        f"--prove-order: not with {other.split()[0]}, which is about a single run" in capsys.readouterr().err
    )
