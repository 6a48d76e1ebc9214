"""Translated code against the interpreter, the slow reference, and its own rules.

A test translates a whole program before it runs, or shortens the quanta so that the emulator does.
"""

from __future__ import annotations

import ast
import ctypes
import importlib
import random
import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asm
from asm.image import Image, Segment
from chip_bench import CODE, DATA, EBREAK, EDGES, ONE, Reference, W, block, chip, registers, word, words_image
from emulator import native
from emulator.chip import system as system_module
from emulator.chip.system import System
from emulator.core import translate
from emulator.core.float_unit import ON_HOST
from emulator.core.predecode import ENGINE, FIRST_SCALAR, FLOAT, TRANSLATED
from emulator.core.translate import ENOUGH, instructions
from emulator.core.translate.frame import ENTRY
from emulator.core.translate.instructions import source_of, translates
from emulator.core.translate.machine_code import MachineCode
from emulator.core.translate.region import (
    LARGEST_REGION,
    LEFT_OUT,
    LONGEST_BLOCK,
    block_at,
    nearest,
    operation_kinds,
    region_at,
)
from emulator.core.translate.statements import Statements
from emulator.core.translate.values import Untranslatable, Value, typed
from emulator.core.translate.vocabulary import DECLARATIONS, integer
from emulator.memory import state, stop
from emulator.native.primitives.float32 import bits_f32, f32_bits
from emulator.tile.fault import Fault
from tx8isa.numbers.primitives import (
    bits64,
    divide,
    fma32,
    fma64,
    from_bits64,
    mulh,
    mulhsu,
    mulhu,
    s32,
    s64,
    sqrt,
    u32,
    u64,
)
from tx8isa.riscv.format import Scalar
from tx8isa.table import scalar as rv

pytestmark = pytest.mark.skipif(not native.jit_enabled(), reason="translations are machine code")

SAME = [
    n
    for n in range(state.SIZE)
    if n
    not in (
        state.SINK,
        state.SPM,
        state.DDR,
        state.SCRATCH,
        state.LINES,
        state.CODE,
        state.PLAIN,
        state.KERNELS,
        state.COUNTS,
        state.QUEUE,
        state.TEXT,
        state.WRITE_BACK,
        state.REGISTERS,
        state.REGISTER_MAP,
        state.DDR_MARKS,
    )
]
"""Words of the state that hold no host address, and are not where writes to x0 go."""


def translate_all(system: System) -> None:
    """Translate every block of a system's program, from every place that can be one's beginning."""
    code = system.code
    layout = code.translation.layout
    starts = {0, *(n for n in layout.leaders if 0 <= n < len(layout.words) - 1)}
    starts |= {n for n in range(1, len(layout.words)) if layout.kinds[n - 1] in LEFT_OUT}
    blocks = {}
    for start in sorted(starts):
        while (found := block_at(layout, start)) and start not in blocks:
            blocks[start] = found
            start = found[-1] + 1
    if blocks:
        code.translation.translate(blocks, system.tiles[0].words)
    for tile in system.tiles:
        code.install(tile.words)


def entrances(system: System) -> int:
    """How many words of the program lead into translations."""
    return int(np.count_nonzero(system.code.translation.dispatch & 0xFF == TRANSLATED))


def outcome(image: Image, start: dict[int, int], limit: int, *, translated: bool, **options: Any) -> Any:
    """The system after a run, and the fault that ended it."""
    system = System(image, options.pop("machine", ONE), translate=False, **options)
    for number, value in start.items():
        system.tiles[0].set_register(number, value)
    if translated:
        translate_all(system)
        assert entrances(system) > 0
    try:
        system.run(limit)
    except Fault as fault:
        return system, str(fault)
    return system, ""


def same(image: Image, start: dict[int, int], limit: int = 100_000, **options: Any) -> tuple[System, str]:
    """Run both ways and compare everything a program can see."""
    first, expected = outcome(image, start, limit, translated=False, **options)
    second, found = outcome(image, start, limit, translated=True, **options)
    assert found == expected
    for a, b in zip(first.tiles, second.tiles, strict=True):
        assert b.words[SAME].tolist() == a.words[SAME].tolist()
        assert (b.status, b.exit_code, b.csrs, b.output) == (a.status, a.exit_code, a.csrs, a.output)
        assert np.array_equal(a.spm.data, b.spm.data) and np.array_equal(a.spm.lines, b.spm.lines)
        assert np.array_equal(a.counts, b.counts)
    assert np.array_equal(first.ddr[: 1 << 21], second.ddr[: 1 << 21])
    return second, found


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


@settings(max_examples=25)
@given(st.lists(block(), min_size=1, max_size=3), registers(), st.data())
def test_a_limit_stops_at_the_same_instruction(
    blocks: list[list[int]], start: dict[int, int], data: st.DataObject
) -> None:
    image = words_image([*(w for b in blocks for w in b), EBREAK])
    whole, _ = outcome(image, start, 10_000, translated=False)
    limit = data.draw(st.integers(1, whole.tiles[0].retired + 1))
    same(image, start, limit)


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
    [r for r in rv.scalar_instructions() if r.kind in ("alu", "upper", "branch")],
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
        ("jr t3", "expected a multiple of 4"),
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
    """On its first turn, and later: the loop reaches it when a counter runs out."""
    image = asm.assemble(f"""
        _start: csrwi frm, 5
            li a0, {turns}
            li t1, {W.spm_weak + ONE.spm.bytes - 6}
            li t2, -8
            li t3, {CODE + 2}
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
    """Quanta so short that all tiles reach translations, made while others run."""
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


# -- what is translated, and when ------------------------------------------------------------------------


def test_every_instruction_but_those_of_the_environment_is_translated() -> None:
    kinds = operation_kinds()
    used = [FLOAT, ENGINE]
    for number, record in enumerate(rv.scalar_instructions()):
        if record.kind != "float" or record.mnemonic in ON_HOST:  # the others are FLOAT
            used.append(FIRST_SCALAR + number)
    assert {kinds[op] for op in used if not translates(op)} == set()
    assert {kinds[op] for op in used} - LEFT_OUT == {
        "alu",
        "upper",
        "load",
        "store",
        "branch",
        "jal",
        "jalr",
        "float",
        "fence",
        "engine",
    }


def test_no_instruction_is_described_again() -> None:
    """The translator's sources name no instruction: bodies and kinds come from the records and the core."""
    folder = Path(translate.__file__).parent
    strings = [
        node.value
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    llvm = {"add", "sub", "mul", "and", "or", "xor", "fence.i", "jal", "jalr"}
    assert len(strings) > 200 and not {r.mnemonic for r in rv.scalar_instructions()} - llvm & set(strings)


def test_a_body_that_is_not_known_is_left_to_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    image = asm.assemble("_start: li a0, 3\n1: xor a1, a1, a0\n addi a0, a0, -1\n bnez a0, 1b\n ebreak")
    number = [r.mnemonic for r in rv.scalar_instructions()].index("xor") + FIRST_SCALAR
    original = source_of
    monkeypatch.setattr(
        instructions, "source_of", lambda op: "for i in range(3): pass" if op == number else original(op)
    )
    translates.cache_clear()
    try:
        assert not translates(number)
        system, fault = same(image, {})
    finally:
        translates.cache_clear()
    assert "ebreak" in fault and system.tiles[0].register(11) == 3 ^ 2 ^ 1
    at = int(np.flatnonzero(system.code.words & 0xFF == number)[0])
    assert at not in system.code.translation.covered and at + 1 in system.code.translation.covered


LONG = "_start: li a0, {turns}\n1: addi a0, a0, -1\n bnez a0, 1b\n li a7, 93\n ecall"


def test_translation_begins_when_a_loop_has_run_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = (System(asm.assemble(LONG.format(turns=n)), ONE) for n in (500_000, 5_000_000))
    short.run()
    long.run()
    assert (entrances(short), entrances(long)) == (0, 1)
    assert [s.tiles[0].retired for s in (short, long)] == [2 * 500_000 + 4, 2 * 5_000_000 + 4]


def test_translation_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    image = asm.assemble(LONG.format(turns=5_000_000))
    off = System(image, ONE, translate=False)
    monkeypatch.setenv("TX8_TRANSLATE", "0")
    switched_off = System(image, ONE)
    off.run()
    switched_off.run()
    assert entrances(off) == entrances(switched_off) == 0


def test_a_large_translation_waits_longer_and_is_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_module, "QUANTUM", 1000)
    body = " addi a1, a1, 1\n" * 100
    text = f"_start: li a0, {{turns}}\n1: {body} addi a0, a0, -1\n bnez a0, 1b\n li a7, 93\n li a0, 0\n ecall"
    found = []
    for quanta in (12, 20, 150):
        system = System(asm.assemble(text.format(turns=quanta * 1000 // 102)), ONE)
        system.run()
        found.append(len(system.code.translation.covered))
    assert found[0] == 0 and 0 < found[1] <= ENOUGH and found[2] >= 102


def test_a_program_spread_over_much_memory_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_module, "QUANTUM", 1000)
    found = []
    for missing in (1, 0):
        system = System(asm.assemble(LONG.format(turns=10_000)), ONE)
        monkeypatch.setattr(translate, "LARGEST_PROGRAM", system.code.words.size - missing)
        system.run()
        found.append(entrances(system))
    assert found == [0, 1]


def test_words_of_the_program_stay_as_they_are() -> None:
    image = asm.assemble(LONG.format(turns=10))
    system = System(image, ONE)
    before = system.code.words.copy()
    translate_all(system)
    assert entrances(system) > 0 and np.array_equal(system.code.words, before)


def test_an_interrupt_of_the_run_ends_translated_code_at_its_slice() -> None:
    """LIMIT set to 0 from outside counts when the function is entered again."""
    system = System(asm.assemble("_start: addi a0, a0, 1\n j _start"), ONE)
    translate_all(system)
    tile = system.tiles[0]
    tile.words[state.LIMIT] = 1000
    assert native.call(system.loop, tile.words.ctypes.data) == stop.LIMIT and tile.retired == 1000
    tile.words[state.LIMIT] = 0
    assert native.call(system.loop, tile.words.ctypes.data) == stop.LIMIT and tile.retired == 1000


# -- regions ---------------------------------------------------------------------------------------------


def layout_of(text: str) -> Any:
    return System(asm.assemble(text), ONE).code.translation.layout


NEST = """
    _start: li a0, 9
    1:  li a1, 9
    2:  addi a1, a1, -1
        bnez a1, 2b
        jal function
        addi a0, a0, -1
        bnez a0, 1b
        addi a5, a5, 1
        ebreak
    function: addi a3, a3, 1
        ret
"""


@pytest.mark.parametrize(("index", "link"), [(2, -1), (5, -1), (9, 5), (10, 5)])
def test_a_region_is_the_loops_around_a_place(index: int, link: int) -> None:
    """Callers are found through the return address; what follows the loops is left out."""
    blocks = region_at(layout_of(NEST), index, link)
    covered = {n for found in blocks.values() for n in found}
    assert covered >= {1, 2, 3, 4} and 8 not in covered and 0 not in covered
    assert {5, 9, 10} <= covered


@pytest.mark.parametrize("index", [0, 63, 64, 70, 130, 201])
def test_a_region_holds_the_place_it_was_made_for(index: int) -> None:
    """Also where the block is longer than one may be."""
    layout = layout_of("_start:" + " addi a0, a0, 1\n" * 200 + " bnez a0, _start\n li a1, 1\n ebreak")
    blocks = nearest(region_at(layout, index, -1), 1)
    assert len(blocks) == 1 and any(index in block for block in blocks.values())


def test_a_region_without_a_way_back_is_small() -> None:
    blocks = region_at(layout_of("_start:" + " addi a0, a0, 1\n" * 500 + " ebreak"), 3, -1)
    assert sum(map(len, blocks.values())) == LONGEST_BLOCK


def test_a_region_has_a_largest_size() -> None:
    text = "_start:" + "1: addi a0, a0, 1\n bnez a0, 1f\n nop\n" * 300 + "1: j _start"
    blocks = region_at(layout_of(text), 300, -1)
    assert LARGEST_REGION - LONGEST_BLOCK < sum(map(len, blocks.values())) <= LARGEST_REGION


def test_nothing_is_translated_where_python_executes() -> None:
    layout = layout_of("_start: ebreak\n csrr a0, mhartid\n .word 0\n j _start")
    assert [block_at(layout, n) for n in range(5)] == [[], [], [], [3], []]
    assert region_at(layout, 1, -1) == {} and list(region_at(layout, 3, -1)) == [3]


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, (1 << 32) - 1), min_size=1, max_size=30), st.integers(0, 29), st.integers(-9, 99)
)
def test_regions_of_any_words(words: list[int], index: int, link: int) -> None:
    """Blocks lie inside the program, hold neighbours, and each place begins one block at most."""
    system = System(words_image([*words, *[EBREAK] * 30]), ONE)
    layout = system.code.translation.layout
    for first, found in region_at(layout, index, link).items():
        assert found == list(range(first, first + len(found))) and len(found) <= LONGEST_BLOCK
        assert first >= 0 and found[-1] < len(layout.words) - 1


# -- the language of bodies ------------------------------------------------------------------------------


class Function(Statements):
    """One plain function of two words as an LLVM function, without a machine behind it."""

    def load_word(self, place: int) -> Any:
        raise Untranslatable("no state here")

    def store_word(self, place: int, value: Any) -> None:
        raise Untranslatable("no state here")

    def call_kernel(self, address: Any, fields: Any, state: Any) -> Any:
        raise Untranslatable("no kernels here")

    def leave(self, names: Any) -> None:
        raise Untranslatable("no loop here")

    go_on = leave


def compiled(function: Callable[..., Any], *known: Any) -> Callable[[int, int], int]:
    """Machine code of a function of a and b; ``known`` are further arguments."""
    text = Function()
    result = integer(text.writer, text.inline(function, [Value("i", "%a"), Value("i", "%b"), *known]))
    lines = [
        f"define i64 @{ENTRY}(i64 %a, i64 %b) {{",
        "entry:",
        *text.writer.lines,
        f"  ret {typed(result)}",
        "}",
    ]
    code = MachineCode("\n".join([*lines, DECLARATIONS]))
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(code.address)
    call.code = code  # type: ignore[attr-defined]
    return call


def quotient(a: int, b: int) -> int:
    return 0 if b == 0 or b == -1 else a // b


def remainder(a: int, b: int) -> int:
    return 0 if b == 0 or b == -1 else a % b


def unsigned_quotient(a: int, b: int) -> int:
    return 5 if b == 0 else s64(u64(a) // u64(b))


def unsigned_remainder(a: int, b: int) -> int:
    return 5 if b == 0 else s64(u64(a) % u64(b))


def shifts(a: int, b: int) -> int:
    return s64((a >> (b & 63)) + s64(u64(a) >> u64(b & 63)) + s64(u64(a) << (b & 63)) + s64(1 << (b & 63)))


def chains(a: int, b: int) -> int:
    return 1 if -5 < a <= b < 1 << 40 else 2 if 0 <= u64(a) < u64(b) else 3


def logic(a: int, b: int) -> int:
    small = b != 0 and b != -1 and a // b > 1
    return s64((1 if small or not (a < b) else 0) + 2 * (1 if a or b else 0) + (a == b))


def branches(a: int, b: int) -> int:
    result = 7
    if a > b:
        result = a ^ b
        if b < 0:
            return ~a
    elif a == b:
        result += 1
    else:
        if a & 1:
            result -= b & 0xFF
    again = result * 3
    return s64(again - -a)


def words_of(a: int, b: int) -> int:
    pair = (s32(a), u32(b), a)
    return s64(pair[0] + pair[1] ^ mulh(a, b) ^ mulhu(a, b) ^ mulhsu(a, b))


def double_arithmetic(a: int, b: int) -> int:
    x = from_bits64(a)
    y = from_bits64(b)
    total = fma64(x, y, -x)
    rest = divide(total, sqrt(y))
    return bits64(rest) if x == x and y == y else (1 if x < y else 2 if x != y else 3)


def conversions(a: int, b: int) -> int:
    x = float(a)
    if -1e18 < from_bits64(b) < 1e18:
        return s64(int(from_bits64(b)) + bits64(x))
    return bits64(float(u64(b)))


def singles(a: int, b: int) -> int:
    x = bits_f32(a)
    y = bits_f32(b)
    z = fma32(x, y, y)
    if z != z:
        return 1 if x != x or y != y else 2
    return f32_bits(z) - (1 if x < y else 0)


VALUES = (
    *EDGES,
    -7,
    7,
    12,
    -12,
    0x3FF0000000000000,
    0x4008000000000000,
    -0x4010000000000000,
    0x7FF0000000000000,
    0x7FF8000000000001,
    0x3F800000,
    0x40490FDB,
    0x7F800000,
    0xFF800001,
    1 << 23,
    (1 << 62) + 12345,
)


@pytest.mark.parametrize(
    "function",
    [
        quotient,
        remainder,
        unsigned_quotient,
        unsigned_remainder,
        shifts,
        chains,
        logic,
        branches,
        words_of,
        double_arithmetic,
        conversions,
        singles,
    ],
    ids=lambda f: f.__name__,
)
def test_a_function_means_what_python_means(function: Callable[..., int]) -> None:
    """Both operands unknown; and each of them known when the text is written."""
    code = compiled(function)
    with np.errstate(all="ignore"):
        for a in VALUES:
            for b in VALUES:
                assert code(a, b) == s64(int(function(a, b))), (a, b)


@pytest.mark.parametrize(
    "function", [shifts, branches, unsigned_remainder, chains, words_of], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("known", [0, -1, 5, -(1 << 63)])
def test_known_operands_are_calculated_at_once(function: Callable[..., int], known: int) -> None:
    lines = Function()
    value = lines.inline(function, [known, known])
    assert value == function(known, known) and not [line for line in lines.writer.lines if " = " in line]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("for i in range(3):\n  pass", "For"),
        ("while a:\n  a -= 1", "While"),
        ("return [a]", "List"),
        ("return u64(a) < b", "signed"),
        ("return u64(a) < -1", "signed"),
        ("return 'text'", "constant"),
        ("return f(a)", "call"),
        ("return len(a)", "call"),
        ("return a / b", "Div"),
        ("return from_bits64(a) + a", "fraction"),
        ("return from_bits64(a) % from_bits64(b)", "fraction"),
        ("return unknown", "'unknown'"),
        ("return a[0]", "view"),
        ("x, y = a, b\n return x", "several"),
        ("return (a, b)[a]", "depends on data"),
        ("return math.pi", "integer constant"),
        ("return a if b else from_bits64(a)", "kind"),
        ("return a is b", "Is"),
        ("return lambda: a", "Lambda"),
    ],
)
def test_what_is_not_known_is_refused(
    body: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "refused.py"
    source.write_text(
        "import math\nfrom tx8isa.numbers.primitives import u64, from_bits64\n"
        "def outer(x):\n    def f(a):\n        return a + x\n    return f\nf = outer(1)\n"
        f"def refused(a, b):\n {body}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "refused", raising=False)
    module = importlib.import_module("refused")
    with pytest.raises(Untranslatable, match=re.escape(why)):
        compiled(module.refused)
    monkeypatch.delitem(sys.modules, "refused")


def test_a_function_that_calls_itself_is_refused() -> None:
    with pytest.raises(Untranslatable, match="deep"):
        compiled(endless)


def endless(a: int, b: int) -> int:
    return endless(b, a)
