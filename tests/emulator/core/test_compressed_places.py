"""Compressed instructions on the kernel core: where instructions begin, traps, counting and decoding."""

from __future__ import annotations

import random
import struct

import pytest

import asm
from asm.image import Image, Segment
from chip_bench import CODE, M64, ONE, W, build, final_registers
from emulator.chip.system import System
from emulator.core.predecode import operation_records, parcels, predecode
from emulator.tile.fault import Fault
from machine_code import needs_jit
from translated_runs import same
from tx8isa.records.record import Engine
from tx8isa.table import compressed as rvc
from tx8isa.table import scalar as rv
from tx8isa.table.packets import PACKETS

RECORDS = rvc.compressed_by_mnemonic()

# -- where instructions begin ------------------------------------------------------------------------------


def test_jumps_into_an_instruction_execute_what_is_there() -> None:
    """The upper half of ``lui`` is c.addi a1, 5; the jump back goes to the place after it."""
    inside = RECORDS["c.addi"].encode({"rd": 11, "imm": 5})
    text = f"""
    _start: la t0, 1f
        la t1, 2f
        c.jalr t0
        .option norvc
    2:  ebreak
        .half {0x37 | 12 << 7:#x}  # lui a2, whose number begins with these bits
    1:  .half {inside:#x}
        c.jr t1
    """
    found = final_registers(text, 13)
    assert found[11] == 5 and found[12] == 0


def test_a_return_leads_behind_the_call() -> None:
    text = "_start: c.nop\njal t0, 1f\n1: jal t1, 2f\n2: la t2, 3f\nc.nop\njalr t3, t2\n"
    text += "3: la a0, 1b\nla a1, 2b\nebreak"
    found = final_registers(text)
    assert (found[5], found[6], found[28]) == (found[10], found[11], found[7])
    assert found[5] % 4 == 2


@pytest.mark.parametrize("jump", ["c.j", "c.bnez a0,"])
def test_a_short_jump_out_of_the_program_is_a_fault(jump: str) -> None:
    system = build(f"_start: li a0, 1\n{jump} . - 64")
    with pytest.raises(Fault, match=r"branch to 0x7fffffc4, which is outside the program"):
        system.run(10)
    assert system.tiles[0].pc == CODE + 4 and system.tiles[0].retired == 1


def segments(*parts: tuple[int, bytes]) -> System:
    """Executable segments at these distances from the beginning of the code."""
    found = [Segment(f".text{n}", CODE + at, data, len(data), "rx") for n, (at, data) in enumerate(parts)]
    return System(Image(CODE, tuple(found)), ONE)


ADDI = rv.scalar_by_mnemonic()["addi"].encode({"rd": 10, "rs1": 10, "imm": 7}).to_bytes(4, "little")
NOP, EBREAK = (RECORDS[name].match.to_bytes(2, "little") for name in ("c.nop", "c.ebreak"))


def test_an_instruction_across_two_segments_without_a_gap() -> None:
    system = segments((0, NOP + ADDI[:2]), (4, ADDI[2:] + EBREAK))
    with pytest.raises(Fault, match="ebreak"):
        system.run(10)
    assert system.tiles[0].register(10) == 7 and system.tiles[0].pc == CODE + 6


@pytest.mark.parametrize("after", [(), ((8, NOP + EBREAK),)])
def test_an_instruction_that_a_segment_cuts_off_is_none(after: tuple[tuple[int, bytes], ...]) -> None:
    system = segments((0, NOP + ADDI[:2]), *after)
    with pytest.raises(
        Fault, match=r"tile 0 at 0x80000002: illegal instruction: \.text0 ends after 2 of its 4"
    ):
        system.run(10)
    assert system.tiles[0].retired == 1


@pytest.mark.parametrize("first", [b"\1", b"\1\0\1"])
def test_a_byte_at_the_end_is_no_instruction(first: bytes) -> None:
    with pytest.raises(Fault, match=r"illegal instruction: \.text0 ends after 1 of its 2 bytes"):
        segments((0, first)).run(10)


def test_an_entry_between_two_multiples_of_four() -> None:
    system = System(Image(CODE + 2, (Segment(".text", CODE, NOP + NOP + EBREAK, 6, "rx"),)), ONE)
    with pytest.raises(Fault, match="ebreak"):
        system.run(10)
    assert system.tiles[0].retired == 1


def test_an_odd_entry_is_refused() -> None:
    with pytest.raises(Exception, match=r"entry 0x80000001: expected a multiple of 2 inside the code"):
        System(Image(CODE + 1, (Segment(".text", CODE, NOP * 4, 8, "rx"),)), ONE)


def test_engine_instructions_stand_anywhere() -> None:
    text = "_start: c.nop\nli a0, 0x3f800000\nsc.sqrt.fp32 src=a0, rd=a1\nc.nop\n"
    text += "sc.sqrt.fp32 src=0x40800000, rd=a2\nebreak"
    found = final_registers(text, 13)
    assert found[11:13] == [0x3F800000, 0x40000000]


# -- traps -------------------------------------------------------------------------------------------------

HANDLER = """
_start: la t0, handler
    csrw mtvec, t0
    {body}
after: csrw mtvec, zero
    ebreak
    .balign 4
handler: csrr s2, mcause
    csrr s3, mtval
    csrr s4, mepc
    la t1, after
    csrw mepc, t1
    mret
"""


def trap(body: str, head: str = "") -> tuple[int, int, int]:
    """mcause, mtval and mepc of a trap, from assembly."""
    found = final_registers(head + HANDLER.format(body=body), 21)
    return found[18], found[19], found[20]


RESERVED = [bits for bits in range(1 << 16) if bits & 3 != 3 and rvc.decode(bits) is None]


@pytest.mark.long
def test_every_reserved_encoding_traps() -> None:
    """The handler counts them, adds up mtval, and continues two bytes after each."""
    body = "".join(f".half {bits:#x}\n" for bits in RESERVED)
    text = f"""
    _start: la t0, handler
        csrw mtvec, t0
        {body}
        csrw mtvec, zero
        ebreak
        .balign 4
    handler: csrr t1, mcause
        addi t1, t1, -2
        or s2, s2, t1
        csrr t1, mtval
        add s3, s3, t1
        addi s4, s4, 1
        csrr t1, mepc
        addi t1, t1, 2
        csrw mepc, t1
        mret
    """
    system = build(text)
    with pytest.raises(Fault, match="ebreak"):
        system.run(100_000)
    found = [system.tiles[0].register(number) for number in (18, 19, 20)]
    assert found == [0, sum(RESERVED), len(RESERVED)]
    assert len(RESERVED) == 2409, "those that GNU objdump does not name, 0 and c.addi16sp sp, 0"


def test_an_illegal_encoding_is_named_without_a_handler() -> None:
    with pytest.raises(Fault, match=r"illegal instruction: 0x8002 is not an instruction"):
        build("_start: .insn 0x8002\nnop").run(10)


@pytest.mark.parametrize(
    ("body", "cause", "value"),
    [
        ("here: c.ebreak", 3, None),
        ("li a0, 0x1000\nc.nop\nhere: c.lw a1, 4(a0)", 5, 0x1004),
        ("li sp, 0x1000\nhere: c.ldsp a1, 8(sp)", 5, 0x1008),
        ("li a0, 0x1000\nhere: c.sd a1, 8(a0)", 7, 0x1008),
        ("li a0, 0x1000\nhere: c.fld fa1, 8(a0)", 5, 0x1008),
        ("c.nop\nhere: .insn 0x8002", 2, 0x8002),
        ("c.nop\nhere: .insn 0xffffffff", 2, 0xFFFFFFFF),
        ("c.nop\nli a7, 1234\nhere: ecall", 11, 0),
    ],
)
def test_exceptions_of_instructions_between_multiples_of_four(
    body: str, cause: int, value: int | None
) -> None:
    here = asm.assemble(HANDLER.format(body=body)).symbols["here"].address
    assert trap(body) == (cause, here if value is None else value, here)


@pytest.mark.parametrize(("jump", "link"), [("c.jalr a0", 2), ("jalr a0", 4), ("c.jr a0", None)])
def test_a_jump_to_where_no_program_is_faults_at_the_target(jump: str, link: int | None) -> None:
    """No address is misaligned any more, so the fetch faults, after the jump has linked."""
    text = HANDLER.format(body=f"li a0, 0x1002\nli ra, 77\nc.nop\nhere: {jump}")
    found = final_registers(text, 21)
    here = asm.assemble(text).symbols["here"].address
    assert found[18:21] == [1, 0x1002, 0x1002]
    assert found[1] == (77 if link is None else here + link)


def test_the_missing_half_of_an_instruction_is_a_fetch_fault() -> None:
    """mepc is the instruction, mtval the half that is missing (volume II, mtval)."""
    body = "la t2, last\nc.jr t2"
    head = '.section .text.end, "ax"\n.base 0x80100000\nc.nop\nlast: .half 0x0513\n.text\n'
    assert trap(body, head) == (1, 0x80100004, 0x80100002)


def test_mepc_holds_even_addresses() -> None:
    found = final_registers("_start: li a0, -1\ncsrw mepc, a0\ncsrr a1, mepc\ncsrr a2, misa\nebreak", 13)
    assert found[11] == M64 - 1
    assert found[12] >> 2 & 1 == 1, "misa has C"


# -- other behaviour of the core ---------------------------------------------------------------------------


def test_registers_of_the_engines_are_read_and_written() -> None:
    """c.lw and c.sw reach the window of the NCC, outside the compiled loop."""
    window = ONE.windows.ncc + PACKETS[Engine.CT].field("src0").register
    text = "_start: li a0, {base}\n{sw} a1, {at}(a0)\nc.nop\n{lw} a2, {at}(a0)\nebreak"
    results = []
    for load, store in (("lw", "sw"), ("c.lw", "c.sw")):
        system = build(text.format(base=window, lw=load, sw=store, at=0))
        system.tiles[0].set_register(11, 0x155)
        with pytest.raises(Fault, match="ebreak"):
            system.run(100)
        results.append([system.tiles[0].register(n) for n in range(32)])
    assert results[0] == results[1]


def test_new_code_is_executed_after_fence_i() -> None:
    new = RECORDS["c.addi"].encode({"rd": 10, "imm": 9})
    text = f"_start: li t0, {new}\nla t1, 1f\nsh t0, 0(t1)\nc.nop\nfence.i\n1: c.addi a0, 1\nebreak"
    assert final_registers(text, 11)[10] == 9


def test_instructions_are_counted_one_by_one() -> None:
    found = final_registers("_start: rdinstret a0\nc.nop\nnop\nc.addi a1, 1\nrdinstret a1\nebreak", 12)
    assert found[11] - found[10] == 4


def test_time_is_that_of_the_long_forms() -> None:
    """A compressed instruction costs as much as its expansion."""
    body = "add a2, a2, a3\nslli a2, a2, 3\nsd a2, 8(sp)\nld a3, 8(sp)"
    short = f"_start: rdcycle a0\n.option rvc\n{body}\n.option norvc\nrdcycle a1\nebreak"
    differences = []
    for text in (short, short.replace(".option rvc", "")):
        system = build(text)
        system.tiles[0].set_register(2, W.spm_weak)
        with pytest.raises(Fault, match="ebreak"):
            system.run(100)
        differences.append(system.tiles[0].register(11) - system.tiles[0].register(10))
    assert len(asm.assemble(short).segments[0].data) == 4 * 2 + 3 * 4
    assert differences[0] == differences[1] > 0


LOOP = """
_start: li a0, {turns}
1:  c.addi a1, 3
    c.jal_to f
    c.sdsp a1, 0(sp)
    beqz a1, 2f
    mul a2, a1, a1
2:  c.addi a0, -1
    c.bnez a0, 1b
    ebreak
f:  c.addi a3, 1
    c.jr ra
""".replace("c.jal_to", "jal ra,")


@pytest.mark.long
@needs_jit
def test_every_limit_of_a_loop() -> None:
    image = asm.assemble(LOOP.format(turns=5))
    for limit in range(1, 54):
        system, fault = same(image, {2: W.spm_weak + 64}, limit)
        assert system.tiles[0].retired == min(limit, 46)
        assert ("ebreak" if limit > 46 else f"stopped after {limit} instr") in fault


@needs_jit
def test_a_long_loop_is_translated_where_it_runs() -> None:
    """By the emulator's own choice, all of the loop with its function is translated, and nothing else."""
    system = build(LOOP.format(turns=2_000_000))
    system.tiles[0].set_register(2, W.spm_weak + 64)
    with pytest.raises(Fault, match="ebreak"):
        system.run(50_000_000)
    covered = system.code.translation.covered
    symbols = {name: (symbol.address - CODE) // 2 for name, symbol in system.image.symbols.items()}
    assert symbols["f"] in covered and (symbols["f"] + 1) in covered
    assert system.tiles[0].register(13) == 2_000_000


# -- decoding ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_predecoded_words_are_those_of_the_records(seed: int) -> None:
    """Compare random text word by word: operation, registers and immediate as the records decode them."""
    rng = random.Random(seed)
    text = bytes(rng.choice((rng.randrange(256), 0x13, 0x01, 0x85)) for _ in range(3000))
    operations = operation_records()
    for at, word in enumerate(predecode(text).tolist()):
        bits = int.from_bytes(text[2 * at : 2 * at + 4], "little")
        whole = rvc.is_compressed(bits) or 2 * at + 4 <= len(text)
        found = (rvc.expand(bits & 0xFFFF) if rvc.is_compressed(bits) else rv.decode(bits)) if whole else None
        if found is None:
            assert word == 0 or word & 0xFF == 255
            continue
        if found[0].kind == "float":
            continue
        record, size = operations[word & 0xFF]
        assert record is found[0] and size == parcels(word) == rvc.length(bits) // 2
        for name in ("imm", "target", "shamt"):
            if name in found[1]:
                assert word >> 32 == found[1][name]
        if "rs1" in found[1]:
            assert word >> 16 & 0xFF == found[1]["rs1"]


def test_a_program_ends_in_the_middle_of_an_instruction() -> None:
    assert predecode(struct.pack("<HH", 0x0001, 0x0513)).tolist()[1] == 0
    assert predecode(b"").tolist() == []
