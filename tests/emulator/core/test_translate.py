"""Translated code against the interpreter, the slow reference, and its own rules.

A test translates a whole program before it runs, or shortens the quanta so that the emulator does.
"""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asm
from asm.image import Image, Segment
from chip_bench import CODE, DATA, EBREAK, EDGES, ONE, Reference, W, block, chip, registers, word, words_image
from emulator.chip import system as system_module
from emulator.chip.system import System
from emulator.memory import state
from machine_code import needs_jit
from translated_runs import SAME, entrances, outcome, same
from tx8isa.numbers.primitives import s64
from tx8isa.riscv.format import Scalar
from tx8isa.table import scalar as rv

pytestmark = needs_jit


# -- random programs -------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.lists(block(), min_size=1, max_size=4), registers())
def test_random_programs_against_the_reference(blocks: list[list[int]], start: dict[int, int]) -> None:
    words = [*(w for b in blocks for w in b), EBREAK]
    reference = Reference(words, start)
    reference.run()
    system, fault = outcome(words_image(words), {2: 0, **start}, 100_000, translated=True)
    tile = system.tiles[0]
    assert "ebreak" in fault and tile.pc == reference.pc
    assert [tile.register(i) for i in range(32)] == reference.x
    assert tile.words[state.F : state.F + 32].tolist() == reference.f
    for (space, at), byte in reference.memory.items():
        assert (tile.spm.data[at] if space == "spm" else system.ddr[at]) == byte
    written = {at >> 8 for space, at in reference.memory if space == "spm"}
    assert set(np.flatnonzero(tile.spm.lines).tolist()) == written


@pytest.mark.long
@settings(max_examples=25)
@given(st.lists(block(), min_size=1, max_size=3), registers(), st.data())
def test_a_limit_stops_at_the_same_instruction(
    blocks: list[list[int]], start: dict[int, int], data: st.DataObject
) -> None:
    image = words_image([*(w for b in blocks for w in b), EBREAK])
    whole, _ = outcome(image, start, 10_000, translated=False)
    limit = data.draw(st.integers(1, whole.tiles[0].retired + 1))
    same(image, start, limit)


@pytest.mark.long
def test_every_limit_of_a_loop() -> None:
    loop = "_start: li a0, 7\n1: addi a1, a1, 3\n sd a1, 0(sp)\n beqz a1, 2f\n mul a2, a1, a1\n"
    loop += "2: addi a0, a0, -1\n bnez a0, 1b\n ebreak"
    image = asm.assemble(loop)
    for limit in range(1, 46):
        system, fault = same(image, {2: W.spm_weak + 64}, limit)
        assert system.tiles[0].retired == min(limit, 43)
        assert ("ebreak" if limit > 43 else f"stopped after {limit} instr") in fault


@pytest.mark.parametrize(
    "record",
    [r for r in rv.scalar_instructions() if r.kind in ("alu", "divide", "upper", "branch")],
    ids=lambda r: r.mnemonic,
)
def test_every_calculation(record: Scalar) -> None:
    """Every pair of edge values, with register and immediate operands."""
    words, start = [], dict(enumerate(EDGES, 3))
    names = {field.name: field for field in record.fields}
    for a in (0, *start):
        for b in (0, *start) if "rs2" in names else (0,):
            chosen = {"rd": 30, "rs1": a, "rs2": b, "target": 8}
            values = {n: chosen.get(n, f.minimum if a % 2 else f.maximum) for n, f in names.items()}
            words += [record.encode(values), word("xor", rd=29, rs1=29, rs2=30)]
            words += [word("slli", rd=28, rs1=29, shamt=1), word("add", rd=29, rs1=29, rs2=28)]
            words += [word("addi", rd=29, rs1=29, imm=1)]
    reference = Reference([*words, EBREAK], start)
    reference.run()
    system, _ = outcome(words_image([*words, EBREAK]), {2: 0, **start}, 100_000, translated=True)
    assert [system.tiles[0].register(i) for i in range(32)] == reference.x


FLOAT_EDGES = (
    0,
    1 << 63,
    0x3FF0000000000000,
    0xBFF8000000000000,
    0x7FF0000000000000,
    0xFFF0000000000000,
    0x7FF8000000000000,
    0x7FF0000000000001,
    1,
    0x000FFFFFFFFFFFFF,
    0x7FEFFFFFFFFFFFFF,
    0x4340000000000001,
    0xFFFFFFFF3F800000,
    0xFFFFFFFFC0490FDB,
    0xFFFFFFFF7F800000,
    0xFFFFFFFF7FC00000,
    0xFFFFFFFF00000001,
    0xFFFFFFFF7F7FFFFF,
    0xFFFFFFFF80000000,
    0xFFFFFFFF7F800001,
    0x3F800000,
)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_random_floating_point_programs(seed: int) -> None:
    """All F and D instructions with all rounding modes, many of them as a loop; flags and frm as well."""
    rng = random.Random(seed)
    records = [r for r in rv.scalar_instructions() if r.kind == "float"]
    words = []
    for record in rng.choices(records, k=40):
        values = {f.name: rng.randrange(32 if f.kind == "float" else 28) for f in record.fields}
        if "rm" in values:
            values["rm"] = rng.choice((0, 0, 0, 7, 7, 1, 2, 3, 4))
        words.append(record.encode(values))
    down = [word("addi", rd=31, rs1=31, imm=-1), word("bne", rs1=31, rs2=0, target=-4 * (len(words) + 1))]
    start = [word("fld", rs1=8, imm=8 * number, rd=number) for number in range(32)]
    frm = word("csrrwi", csr=2, rd=0, zimm=rng.choice((0, 0, 3, 7)))
    pool = [s64(rng.choice((rng.choice(FLOAT_EDGES), rng.getrandbits(64)))) for _ in range(32)]
    text = struct.pack(f"<{len(start) + len(words) + 4}I", *start, frm, *words, *down, EBREAK)
    data = np.array(pool).tobytes()
    segments = Segment(".text", CODE, text, len(text), "rx"), Segment(".data", DATA, data, len(data), "rw")
    image = Image(CODE, segments)
    _, fault = same(image, {8: DATA, 31: 3, **{n: rng.choice(EDGES) for n in (5, 6, 7, 9, 10)}})
    assert "ebreak" in fault or "illegal" in fault or "rounding" in fault


# -- stops -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("middle", "text"),
    [
        ("lw a1, 0(zero)", "load of 4 bytes at 0x0"),
        ("sd a1, -1(t1)", "store of 8 bytes at"),
        ("fld fa0, 0(t2)", "load of 8 bytes at"),
        ("jr t3", "outside the program"),
        ("jalr ra, 4(zero)", "outside the program"),
        (".word 0", "illegal instruction"),
        ("ebreak", "there is no debugger"),
        ("csrr a1, 0x7c0", "which does not exist"),
        ("fadd.s fa0, fa0, fa0", "illegal"),
        ("ct.add.vv.fp16 dst=0, src0=a5, src1=0, n=64", "src0"),
        ("ct.add.vv.fp16 dst=0x3f80, src0=0, src1=0, n=64, worker=2\n ncc.wait", "ebreak"),
    ],
)
@pytest.mark.parametrize("turns", [1, 3])
def test_a_stop_in_the_middle_of_a_block(middle: str, text: str, turns: int) -> None:
    """On its first iteration, and later: the loop reaches it when a counter runs out."""
    image = asm.assemble(f"""
        _start: csrwi frm, 5
            li a0, {turns}
            li t1, {W.spm_weak + ONE.spm.bytes - 6}
            li t2, -8
            li t3, {CODE - 2}
            li a5, 1
        1:  addi a1, a1, 3
            addi a0, a0, -1
            bnez a0, 2f
            add a2, a1, a1
            {middle}
            add a3, a2, a1
            ebreak
        2:  sw a1, 16(sp)
            j 1b
    """)
    system, fault = same(image, {2: W.spm_weak})
    assert text in fault
    assert (system.tiles[0].register(13) != 0) == (text == "ebreak")


def test_calls_returns_and_jumps_by_table() -> None:
    image = asm.assemble("""
        _start: li a0, 40
        1:  call double
            andi t0, a0, 3
            slli t0, t0, 3
            la t1, 3f
            add t1, t1, t0
            jr t1
        3:  addi a1, a1, 1
            j 4f
            addi a1, a1, 10
            j 4f
            addi a1, a1, 100
            j 4f
            addi a1, a1, 1000
            j 4f
        4:  addi a0, a0, -1
            bnez a0, 1b
            ebreak
        double: slli a2, a0, 1
            mv s1, ra
            call leaf
            jr s1
        leaf: add a3, a3, a2
            ret
    """)
    system, _ = same(image, {})
    assert system.tiles[0].register(11) == 11110 and system.tiles[0].register(13) == 40 * 41


def test_control_registers_and_calls_in_a_loop() -> None:
    image = asm.assemble("""
        _start: li s0, 5
            la a1, text
        1:  csrr a3, instret
            add a4, a4, a3
            csrrw a5, mscratch, a4
            li a7, 64
            li a0, 1
            li a2, 2
            ecall
            add a1, a1, a0
            addi s0, s0, -1
            bnez s0, 1b
            li a7, 93
            li a0, 0
            ecall
        .data
        text: .ascii "0123456789"
    """)
    system, fault = same(image, {})
    assert fault == "" and system.tiles[0].register(11) != 0


def test_traps_to_a_handler() -> None:
    image = asm.assemble("""
        _start: la t0, handler
            csrw mtvec, t0
            li s0, 4
        1:  lw a0, 8(zero)
            .word 0
            addi s0, s0, -1
            bnez s0, 1b
            csrw mtvec, zero
            ebreak
        handler: csrr t0, mepc
            addi t0, t0, 4
            csrw mepc, t0
            csrr t1, mcause
            add s1, s1, t1
            mret
    """)
    system, fault = same(image, {})
    assert "ebreak" in fault and system.tiles[0].register(9) == 4 * (5 + 2)


def test_registers_of_devices_in_a_loop() -> None:
    """Operand registers are reached by compiled code, control and status registers by Python."""
    ncc = W.ncc
    image = asm.assemble(f"""
        _start: li s0, 6
            li t0, {ncc}
        1:  sd s0, 16(t0)
            ld a0, 16(t0)
            add a1, a1, a0
            lw a2, 0x740(t0)
            addi s0, s0, -1
            bnez s0, 1b
            ebreak
    """)
    _, fault = same(image, {})
    assert "ebreak" in fault or "no memory" in fault


CHANGES = """
    _start: li s0, 6
        la s1, here
        lw t0, 0(s1)
        la s2, other
        lw t1, 0(s2)
    1:  sw t1, 0(s1)
        {fence}
        mv t2, t0
        mv t0, t1
        mv t1, t2
    here: addi a0, a0, 1
        addi s0, s0, -1
        bnez s0, 1b
        ebreak
    other: addi a0, a0, 100
"""


def test_changed_text_is_executed_after_a_fence() -> None:
    """The translation belongs to the old text: after fence.i new words are fetched, and interpreted."""
    system, _ = same(asm.assemble(CHANGES.format(fence="fence.i")), {})
    assert system.tiles[0].register(10) == 303
    system, _ = same(asm.assemble(CHANGES.format(fence="nop")), {})
    assert system.tiles[0].register(10) == 6


# -- engines and tiles -----------------------------------------------------------------------------------

ENGINES = """
    _start: csrr s1, mhartid
        li s0, {turns}
        li a1, 0x1000
        slli a2, s1, 8
    1:  td.memset.fp32 dst=0x1000, value=a2, n=64
        ct.add.vv.fp32 dst=0x2000, src0=a1, src1=0x2000, n=64, worker=1
        addi a2, a2, 1
        ncc.wait
        ncc.wait worker=1
        addi s0, s0, -1
        bnez s0, 1b
        li a7, 93
        li a0, 0
        ecall
"""


@pytest.mark.parametrize("limit", [100_000, 47])
def test_engine_instructions_in_a_loop(limit: int) -> None:
    system, fault = same(asm.assemble(ENGINES.format(turns=9)), {}, limit)
    assert (fault == "") == (limit == 100_000)
    assert system.tiles[0].counts.sum() > 0


def test_refused_engine_instructions_are_dropped_where_that_is_asked_for() -> None:
    text = ENGINES.format(turns=5).replace("src0=a1, src1=0x2000, n=64, worker=1", "src0=a2, src1=0, n=64")
    system, fault = same(asm.assemble(text), {}, on_exception="drop")
    assert fault == "" and system.tiles[0].counts.sum() > 0
    _, fault = same(asm.assemble(text), {})
    assert "src0" in fault


@pytest.mark.parametrize("threads", [1, 2])
def test_tiles_that_get_hot_on_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quanta are so short that all tiles reach translations, which are made while others run."""
    monkeypatch.setattr(system_module, "QUANTUM", 400)
    inner = "1: li t0, 50\n3: add t1, t1, t0\n sd t1, 0(sp)\n addi t0, t0, -1\n bnez t0, 3b\n td"
    text = ENGINES.format(turns=100).replace("1:  td", inner)
    text = text.replace("_start:", f"_start: li sp, {W.spm_weak + 0x800}\n")
    assert "bnez t0, 3b" in text
    machine = chip(4)
    plain = System(asm.assemble(text), machine, translate=False)
    hot = System(asm.assemble(text), machine, threads=threads)
    plain.run()
    hot.run()
    assert entrances(hot) >= 2 and entrances(plain) == 0
    details = range(state.DETAIL, state.DETAIL + 4)  # left by whichever tile needed a kernel first
    same_words = [n for n in SAME if n not in details]
    for a, b in zip(plain.tiles, hot.tiles, strict=True):
        assert b.words[same_words].tolist() == a.words[same_words].tolist()
        assert np.array_equal(a.spm.data, b.spm.data) and np.array_equal(a.counts, b.counts)
