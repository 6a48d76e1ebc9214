"""The kernel core: the compiled loop against a slow interpreter written from the records.

``Chip`` and ``build`` here are the bench of the other test_emulator files too.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chip_bench import (
    CODE,
    DATA,
    EBREAK,
    EDGES,
    IDLE_KINDS,
    M64,
    ONE,
    POINTERS,
    TX81,
    Reference,
    W,
    block,
    build,
    chip,
    registers,
    run_words,
    word,
)
from emulator.memory import state
from emulator.tile.fault import Fault
from tx8isa.riscv.format import Scalar
from tx8isa.table import scalar as rv


def compare(words: list[int], registers: dict[int, int]) -> None:
    words = [*words, EBREAK]
    reference = Reference(words, registers)
    reference.run()
    system, fault = run_words(words, registers)
    tile = system.tiles[0]
    assert "ebreak" in fault
    assert tile.pc == reference.pc
    assert [tile.register(i) for i in range(32)] == reference.x
    assert tile.words[state.F : state.F + 32].tolist() == reference.f
    for (space, at), byte in reference.memory.items():
        found = tile.spm.data[at] if space == "spm" else system.ddr[at]
        assert found == byte, f"{space} byte {at:#x}"
    written = {at >> 8 for space, at in reference.memory if space == "spm"}
    assert set(np.flatnonzero(tile.spm.lines).tolist()) == written


@settings(max_examples=60)
@given(st.lists(block(), min_size=1, max_size=4), registers())
def test_random_programs(blocks: list[list[int]], start: dict[int, int]) -> None:
    compare([w for b in blocks for w in b], start)


@pytest.mark.parametrize(
    "record", [r for r in rv.scalar_instructions() if r.kind in ("alu", "divide", "upper", *IDLE_KINDS)]
)
def test_every_alu_instruction(record: Scalar) -> None:
    """Every pair of edge values, with register and immediate operands."""
    words, start = [], dict(enumerate(EDGES, 3))
    names = {field.name: field for field in record.fields}
    for a in start:
        for b in start if "rs2" in names else (0,):
            chosen = {"rd": 30, "rs1": a, "rs2": b}
            values = {n: chosen.get(n, f.minimum if a % 2 else f.maximum) for n, f in names.items()}
            words += [record.encode(values)]
            if "rd" in names:
                words += [word("xor", rd=29, rs1=29, rs2=30), word("slli", rd=28, rs1=29, shamt=1)]
                words += [word("add", rd=29, rs1=29, rs2=28)]
    compare(words, start)


@pytest.mark.parametrize("base", [8, 9, 18, 19])
@pytest.mark.parametrize("record", [r for r in rv.scalar_instructions() if r.kind in ("load", "store")])
def test_every_memory_instruction(record: Scalar, base: int) -> None:
    """Aligned and misaligned, at either side of a pointer, in every window."""
    words = []
    for k, imm in enumerate((0, 1, 3, 7, 8, -1, -8)):
        register = {"rd": 20 + k} if record.kind == "load" else {"rs2": 20 + k}
        words.append(record.encode({"rs1": base, "imm": imm, **register}))
    compare(words, {**dict(enumerate(EDGES[-7:], 20)), **POINTERS})


@pytest.mark.parametrize("record", [r for r in rv.scalar_instructions() if r.kind == "branch"])
def test_every_branch(record: Scalar) -> None:
    words, start = [], dict(enumerate(EDGES[:12], 3))
    for a in start:
        for b in start:
            words += [record.encode({"rs1": a, "rs2": b, "target": 8}), word("addi", rd=30, rs1=30, imm=1)]
            words += [word("slli", rd=30, rs1=30, shamt=1)]
    compare(words, start)


def test_jal_and_jalr_both_ways() -> None:
    compare(
        [
            word("jal", rd=1, target=12),
            word("addi", rd=5, rs1=5, imm=1),
            word("jal", rd=0, target=12),
            word("jalr", rd=6, rs1=1, imm=0),
            word("addi", rd=5, rs1=5, imm=100),
            word("jalr", rd=7, rs1=7, imm=25),  # bit 0 of the target is cleared
        ],
        {7: CODE},
    )


def test_jalr_reads_its_base_before_it_writes_rd() -> None:
    compare([word("jalr", rd=7, rs1=7, imm=8), word("addi", rd=5, rs1=5, imm=1)], {7: CODE})


def test_x0_stays_zero() -> None:
    words = [word("addi", rd=0, rs1=0, imm=5), word("lw", rd=0, rs1=8, imm=0), word("auipc", rd=0, imm=1)]
    words += [
        word("jal", rd=0, target=4),
        word("csrrs", rd=0, csr=0xF14, rs1=0),
        word("add", rd=5, rs1=0, rs2=0),
    ]
    system, _ = run_words([*words, EBREAK], {5: 7, **POINTERS})
    assert system.tiles[0].register(0) == 0 and system.tiles[0].register(5) == 0


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (0x1000, f"it sees SPM byte a at 0x{W.spm_weak:x} + a"),
        (W.ddr_engine, "the engines' view of DDR: write %core(symbol)"),
        (W.spm_weak + ONE.spm.bytes - 3, f"load of 4 bytes at 0x{W.spm_weak + ONE.spm.bytes - 3:x}"),
        (W.spm_weak - 1, "where the kernel core sees no memory"),
        (W.ddr_cached - 2, "where the kernel core sees no memory"),
        (-1, "load of 4 bytes at 0xffffffffffffffff"),
        (-(1 << 63), "load of 4 bytes at 0x8000000000000000"),
    ],
)
def test_a_load_outside_memory_is_a_fault(address: int, text: str) -> None:
    system, fault = run_words([word("lw", rd=5, rs1=6, imm=0), EBREAK], {6: address})
    assert text in fault and "tile 0 at 0x80000000" in fault
    assert system.tiles[0].pc == CODE and system.tiles[0].retired == 0


@pytest.mark.parametrize("base", [W.spm_weak, W.spm_strong])
def test_the_last_byte_of_spm(base: int) -> None:
    last = base + ONE.spm.bytes - 1
    system, fault = run_words(
        [word("sb", rs1=6, rs2=7, imm=0), word("sb", rs1=6, rs2=7, imm=1)], {6: last, 7: 0x5A}
    )
    assert system.tiles[0].spm.data[-1] == 0x5A
    assert f"store of 1 bytes at 0x{last + 1:x}" in fault


def test_the_ends_of_the_ddr_windows_show_the_same_byte() -> None:
    last = W.ddr_core_bytes - 8
    words = [word("sd", rs1=6, rs2=7, imm=0), word("ld", rd=5, rs1=8, imm=0), word("ld", rd=5, rs1=8, imm=1)]
    system, fault = run_words(words, {6: W.ddr_cached + last, 7: -3, 8: W.ddr_uncached + last})
    assert system.tiles[0].register(5) == -3
    assert "load of 8 bytes" in fault


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (CODE - 2, "branch to 0x7ffffffe, which is outside the program"),
        (CODE - 4, "branch to 0x7ffffffc, which is outside the program"),
        (CODE + 8, "branch to 0x80000008, which is outside the program"),
        (DATA, "which is outside the program"),
        (-4, "branch to 0xfffffffffffffffc, which is outside the program"),
    ],
)
def test_a_jump_out_of_the_program_is_a_fault_of_the_jump(target: int, text: str) -> None:
    system, fault = run_words([word("jalr", rd=5, rs1=6, imm=0), EBREAK], {5: 77, 6: target})
    assert text in fault
    assert system.tiles[0].pc == CODE and system.tiles[0].register(5) == 77


@pytest.mark.parametrize("bad", [0, 0xFFFFFFFF, 0x0000006B, 0x9C41])
def test_an_illegal_word_is_named(bad: int) -> None:
    _, fault = run_words([bad, EBREAK], {})
    shown = f"0x{bad:08x}" if bad & 3 == 3 else f"0x{bad & 0xFFFF:04x}"
    assert f"illegal instruction: {shown}" in fault or "unclaimed" in fault or "engine" in fault


def test_running_off_the_end() -> None:
    _, fault = run_words([word("addi", rd=1, rs1=0, imm=1)], {})
    assert "the program counter left the program" in fault


def test_text_is_executed_as_it_was_loaded() -> None:
    """A program that overwrites its text executes the old text until a fence.i."""
    words = [
        word("sw", rs1=6, rs2=0, imm=8),
        word("addi", rd=5, rs1=0, imm=1),
        word("addi", rd=5, rs1=5, imm=2),
    ]
    system, fault = run_words([*words, EBREAK], {6: CODE})
    assert system.tiles[0].register(5) == 3 and "ebreak" in fault
    assert not system.ddr[8:12].any()


# -- control and status registers, environment calls -----------------------------------------------------


def csr(mnemonic: str, number: int, rd: int, operand: int) -> int:
    return word(mnemonic, csr=number, rd=rd, **{"zimm" if mnemonic.endswith("i") else "rs1": operand})


def test_mhartid_and_identity() -> None:
    system = build(
        "csrr a0, mhartid\n csrr a1, misa\n csrw misa, zero\n csrr a2, misa\n csrr a3, marchid\n ebreak",
        chip(3),
    )
    with pytest.raises(Fault):
        system.run()
    assert [t.register(10) for t in system.tiles] == [0, 1, 2]
    misa = 2 << 62 | sum(1 << ord(letter) - ord("A") for letter in "IMFDC")
    assert {t.register(n) & M64 for t in system.tiles for n in (11, 12)} == {misa}
    assert system.tiles[0].register(13) == 0


def test_counters_count_instructions_and_cycles() -> None:
    words = [
        csr("csrrs", 0xC02, 5, 0),
        csr("csrrs", 0xC00, 6, 0),
        csr("csrrs", 0xC01, 7, 0),
        word("addi", rd=9, rs1=0, imm=0),
    ]
    words += [
        csr("csrrw", 0xB02, 0, 8),
        csr("csrrs", 0xC02, 28, 0),
        csr("csrrs", 0xB02, 29, 0),
        csr("csrrs", 0xC00, 30, 0),
    ]
    system, _ = run_words([*words, EBREAK], {8: 1000})
    x = system.tiles[0].register
    core = TX81.timing.core
    step, read, line = core.instruction.value, core.csr_read.value, core.line.value
    assert [x(5), x(6), x(7)] == [0, step + line, step + line + read]
    assert [x(28), x(29), x(30)] == [1000, 1001, 5 * step + 2 * read + line]


def test_scratch_register_and_all_six_instructions() -> None:
    words = [
        csr("csrrw", 0x340, 5, 8),
        csr("csrrs", 0x340, 6, 9),
        csr("csrrc", 0x340, 7, 8),
        csr("csrrwi", 0x340, 28, 17),
        csr("csrrsi", 0x340, 29, 14),
        csr("csrrci", 0x340, 30, 1),
        csr("csrrs", 0x340, 31, 0),
    ]
    system, _ = run_words([*words, EBREAK], {8: -16, 9: 5})
    x = system.tiles[0].register
    assert [x(n) for n in (5, 6, 7, 28, 29, 30, 31)] == [0, -16, -11, 5, 17, 31, 30]


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (csr("csrrw", 0xF14, 0, 5), "csrrw: cannot write CSR 0xf14, mhartid"),
        (csr("csrrsi", 0xC00, 0, 1), "csrrsi: cannot write CSR 0xc00, cycle"),
        (csr("csrrs", 0x123, 5, 0), "csrrs: cannot read CSR 0x123, which does not exist"),
        (csr("csrrw", 0x7C0, 0, 0), "CSR 0x7c0"),
    ],
)
def test_csr_refusals(bad: int, text: str) -> None:
    system, fault = run_words([bad, EBREAK], {5: 3})
    assert text in fault and system.tiles[0].register(5) == 3


def test_setting_no_bits_of_a_read_only_register_reads_it() -> None:
    system, fault = run_words([csr("csrrs", 0xF14, 5, 0), csr("csrrci", 0xC02, 6, 0), EBREAK], {5: 9})
    assert "ebreak" in fault and system.tiles[0].register(5) == 0


WRITE_AND_EXIT = """
_start: csrr t0, mhartid
    la a1, hello
    add a1, a1, t0
    li a0, 1
    li a2, 3
    li a7, 64
    ecall
    mv s0, a0
    li a0, 0
    li a7, 93
    ecall
.data
hello: .ascii "abcdefgh"
"""


def test_write_and_exit() -> None:
    shown: list[tuple[int, bytes]] = []
    system = build(WRITE_AND_EXIT, chip(3), show=lambda file, data: shown.append((file, data)))
    system.run()
    assert shown == [(1, b"abc"), (1, b"bcd"), (1, b"cde")]
    assert [t.register(8) for t in system.tiles] == [3, 3, 3]


@pytest.mark.parametrize(
    ("a7", "a0", "a1", "a2", "result"),
    [
        (64, 5, DATA, 3, -9),
        (64, 1, 0x10, 3, -14),
        (64, 1, DATA, -1, -14),
        (64, 1, DATA, (1 << 63) - 1, -14),
        (64, 2, DATA, 0, 0),
        (1234, 1, DATA, 3, -38),
        (-1, 0, 0, 0, -38),
    ],
)
def test_refused_calls_answer_as_linux_does(a7: int, a0: int, a1: int, a2: int, result: int) -> None:
    system, _ = run_words([word("ecall"), EBREAK], {10: a0, 11: a1, 12: a2, 17: a7})
    assert system.tiles[0].register(10) == result and system.tiles[0].retired == 1


@pytest.mark.parametrize(("call", "status"), [(93, 7), (94, 255)])
def test_exit_status_is_a_fault(call: int, status: int) -> None:
    _, fault = run_words([word("ecall")], {10: status, 17: call})
    assert f"tile 0 at 0x80000000: the program exited with status {status}" in fault


def test_instruction_limit_stops_an_endless_loop_exactly() -> None:
    system = build("_start: addi a0, a0, 1\n j _start")
    with pytest.raises(Fault, match="stopped after 1001 instructions"):
        system.run(1001)
    assert system.tiles[0].retired == 1001 and system.tiles[0].register(10) == 501


@pytest.fixture
def gnu_as() -> str:
    path = shutil.which("riscv64-unknown-elf-as")
    if path is None:
        if os.environ.get("CI") == "true":
            pytest.fail("riscv64-unknown-elf-as is missing")
        pytest.skip("riscv64-unknown-elf-as is missing")
    return path


def test_program_encoded_by_gnu_as(gnu_as: str, tmp_path: Path) -> None:
    """Collatz lengths and a table of squares: the machine code of another assembler."""
    source, obj, raw = (tmp_path / name for name in ("p.s", "p.o", "p.bin"))
    source.write_text("""
        li t0, 27
        li t1, 0
    1:  li t2, 1
        beq t0, t2, 3f
        addi t1, t1, 1
        andi t3, t0, 1
        beqz t3, 2f
        slli t4, t0, 1
        add t0, t0, t4
        addi t0, t0, 1
        j 1b
    2:  srai t0, t0, 1
        j 1b
    3:  li t2, 0
        li t5, 10
    4:  mulw t6, t2, t2
        slli a1, t2, 3
        add a1, a1, s0
        sd t6, 3(a1)
        addi t2, t2, 1
        bltu t2, t5, 4b
        divu a2, t1, t5
        remu a3, t1, t5
        ebreak
    """)
    subprocess.run([gnu_as, "-march=rv64im", "-mno-relax", "-o", obj, source], check=True)
    subprocess.run([gnu_as.replace("-as", "-objcopy"), "-O", "binary", "-j", ".text", obj, raw], check=True)
    code = raw.read_bytes()
    system, _ = run_words(list(struct.unpack(f"<{len(code) // 4}I", code)), {8: DATA})
    x = system.tiles[0].register
    assert (x(6), x(12), x(13)) == (111, 11, 1)
    at = DATA - CODE + 3
    assert system.ddr[at : at + 80].view("<u8").tolist() == [n * n for n in range(10)]


@pytest.mark.parametrize(("store", "lines"), [("sd", [2, 3]), ("sw", [2]), ("sb", [2])])
def test_a_store_across_lines_marks_both(store: str, lines: list[int]) -> None:
    system, _ = run_words([word(store, rs1=6, rs2=0, imm=0), EBREAK], {6: W.spm_strong + 0x2FC})
    assert np.flatnonzero(system.tiles[0].spm.lines).tolist() == lines
