"""Traps that a program handles itself, counters, and code that a program changes."""

from __future__ import annotations

from typing import Any

import pytest

from chip_bench import CODE, ONE, TX81, build, chip, word
from emulator.chip.system import System
from emulator.tile.fault import Fault
from tx8isa.riscv.registers import CSRS

W = TX81.windows
M64 = (1 << 64) - 1

HANDLER = """
_start:
    la t0, handler
    csrw mtvec, t0
    {body}
after:
    csrw mtvec, zero
    ebreak
    .balign 4
handler:
    csrr s0, mcause
    csrr s1, mtval
    csrr s2, mepc
    csrr s3, mstatus
    addi s4, s4, 1
    la t1, after
    csrw mepc, t1
    mret
"""


def run(text: str, expected: str = "ebreak: there is no debugger", **options: Any) -> System:
    system = build(text, **options)
    with pytest.raises(Fault) as fault:
        system.run(10_000)
    assert expected in str(fault.value)
    return system


def trap(body: str) -> tuple[int, int, int, int]:
    """mcause, mtval, and mepc as a distance from the label ``here``, and how many traps there were."""
    system = run(HANDLER.format(body=body))
    tile = system.tiles[0]
    here = system.image.symbols["here"].address
    x = tile.register
    return x(8), x(9) & M64, (x(18) - here) & M64, x(20)


@pytest.mark.parametrize(
    ("body", "cause", "value"),
    [
        ("here: .insn 0x00000000", 2, 0),
        ("here: .insn 0xffffffff", 2, 0xFFFFFFFF),
        ("here: .insn 0x10200073", 2, 0x10200073),
        ("here: csrrw a0, 0x123, a1", 2, word("csrrw", rd=10, csr=0x123, rs1=11)),
        ("here: csrw mhartid, a1", 2, word("csrrw", rd=0, csr=0xF14, rs1=11)),
        ("csrwi frm, 5\nhere: fadd.s f0, f1, f2", 2, word("fadd.s", rd=0, rs1=1, rs2=2, rm=7)),
        ("li a0, 0x1000\nhere: lw a1, 4(a0)", 5, 0x1004),
        ("li a0, -8\nhere: fld f1, 0(a0)", 5, M64 - 7),
        ("li a0, 0x1000\nhere: sd a1, -8(a0)", 7, 0xFF8),
        (f"li a0, {W.spm_weak + ONE.spm.bytes - 4}\nhere: sd a1, (a0)", 7, W.spm_weak + ONE.spm.bytes - 4),
        (f"li a0, {W.spm_weak + ONE.spm.bytes - 1}\nhere: lh a1, (a0)", 5, W.spm_weak + ONE.spm.bytes - 1),
        ("li a7, 1234\nhere: ecall", 11, 0),
    ],
)
def test_exceptions_reach_the_handler(body: str, cause: int, value: int) -> None:
    assert trap(body) == (cause, value, 0, 1)


def test_a_breakpoint_gives_its_own_address() -> None:
    cause, value, distance, count = trap("here: ebreak")
    assert (cause, distance, count) == (3, 0, 1) and value & M64 >= CODE


@pytest.mark.parametrize(("jump", "links"), [("jalr ra, (a0)", True), ("jr a0", False)])
def test_a_target_outside_the_program_traps_at_the_target(jump: str, links: bool) -> None:
    """The jump itself is complete, and the fetch faults."""
    system = run(HANDLER.format(body=f"li a0, 0x1000\nli ra, 77\nhere: {jump}"))
    x, here = system.tiles[0].register, system.image.symbols["here"].address
    assert (x(8), x(9), x(18), x(1)) == (1, 0x1000, 0x1000, here + 4 if links else 77)


@pytest.mark.parametrize("enabled", [0, 8])
def test_mstatus_goes_down_and_comes_back(enabled: int) -> None:
    text = HANDLER.format(body=f"li a0, {enabled}\ncsrw mstatus, a0\nhere: .insn 0")
    system = run(text.replace("csrw mtvec, zero", "csrr s5, mstatus\ncsrw mtvec, zero"))
    x = system.tiles[0].register
    fixed = 1 << 63 | 0b11 << 13 | 0b11 << 11
    assert x(19) & M64 == fixed | (1 << 7 if enabled else 0)
    assert x(21) & M64 == fixed | 1 << 7 | enabled


@pytest.mark.parametrize(("written", "read"), [(0x80000001, 0x80000001), (0x80000002, 0x80000000), (3, 1)])
def test_mtvec_takes_the_direct_and_the_vectored_mode(written: int, read: int) -> None:
    system = run(f"li a0, {written}\ncsrw mtvec, a0\ncsrr s0, mtvec\ncsrw mtvec, zero\nebreak")
    assert system.tiles[0].register(8) == read


def test_exceptions_go_to_the_base_in_the_vectored_mode() -> None:
    text = HANDLER.format(body="here: .insn 0")
    vectored = text.replace("csrw mtvec, t0", "addi t0, t0, 1\ncsrw mtvec, t0")
    assert run(vectored).tiles[0].register(8) == 2


def test_mepc_holds_addresses_of_instructions() -> None:
    system = run("li a0, -1\ncsrw mepc, a0\ncsrr s0, mepc\nebreak")
    assert system.tiles[0].register(8) == -2


def test_what_the_environment_serves_stays_with_it() -> None:
    shown: list[bytes] = []
    body = "la a1, text\nli a0, 1\nli a2, 2\nli a7, 64\necall\nmv s5, a0\nli a0, 0\nli a7, 93\necall\n"
    body += 'text: .ascii "ok\\n\\n"'
    system = build(HANDLER.format(body=body), show=lambda _, data: shown.append(data))
    system.run(1000)
    assert b"".join(shown) == b"ok"
    assert (system.tiles[0].register(21), system.tiles[0].register(20)) == (2, 0)


def test_without_a_handler_an_unknown_call_answers() -> None:
    assert run("li a7, 1234\necall\nebreak").tiles[0].register(10) == -38


@pytest.mark.parametrize(
    ("handler", "text"),
    [("0x1000", "the program counter left the program"), ("bad", "illegal instruction: 0x0000 is")],
)
def test_a_handler_that_cannot_run_is_a_fault(handler: str, text: str) -> None:
    """It is not an endless loop, although the same trap would repeat forever."""
    run(f"la t0, {handler}\ncsrw mtvec, t0\nebreak\n.balign 4\nbad: .insn 0", text)


def test_a_handler_that_traps_later_is_stopped_by_the_limit() -> None:
    run("la t0, h\ncsrw mtvec, t0\nebreak\n.balign 4\nh: nop\nebreak", "stopped after 10000 instructions")


def test_a_refused_engine_instruction_is_not_a_trap_of_the_core() -> None:
    engine = "li a0, 0x7fffff00\nct.add.vv.fp16 dst=a0, src0=0, src1=0, n=64"
    run(f"la t0, h\ncsrw mtvec, t0\n{engine}\nh: nop\nebreak", "operand 'dst'")


def test_an_exit_with_a_status_is_no_trap() -> None:
    run("la t0, h\ncsrw mtvec, t0\nli a7, 93\nli a0, 3\necall\n.balign 4\nh: j h", "exited with status 3")


def test_wfi_goes_on_at_once() -> None:
    assert run("li a0, 1\nwfi\nli a0, 2\nebreak").tiles[0].register(10) == 2


def test_handlers_of_tiles_are_their_own() -> None:
    text = """
    csrr s5, mhartid
    bnez s5, 1f
    la t0, handler
    csrw mtvec, t0
    .insn 0x6b
    1: li a7, 93
    li a0, 0
    ecall
    .balign 4
    handler: csrr s0, mcause
    csrr t0, mepc
    addi t0, t0, 4
    csrw mepc, t0
    mret
    """
    system = build(text, chip(2))
    system.run(1000)
    assert [t.register(8) for t in system.tiles] == [2, 0]


# -- counters and identity ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["marchid", "mimpid", "mip", "mcountinhibit", "mhpmcounter3", "mhpmevent31", "hpmcounter17"]
)
def test_registers_that_read_zero(name: str) -> None:
    write = "" if CSRS[name] >> 10 == 3 else f"csrw {name}, a0\n"
    assert run(f"li a0, -1\nli s0, 5\n{write}csrr s0, {name}\nebreak").tiles[0].register(8) == 0


@pytest.mark.parametrize(
    ("name", "value"), [("mvendorid", 0x5B7), ("mhcr", 0x1FF), ("mccr2", 0x42000A), ("mhint", 0xA4000)]
)
def test_registers_of_the_cores_maker_read_as_on_the_card(name: str, value: int) -> None:
    """Writes to the writable ones change nothing, because there is no cache to switch."""
    write = "" if CSRS[name] >> 10 == 3 else f"csrw {name}, a0\n"
    assert run(f"li a0, -1\n{write}csrr s0, {name}\nebreak").tiles[0].register(8) == value


def test_the_makers_identity_cannot_be_written() -> None:
    system = build("li a0, 1\ncsrw mvendorid, a0\nebreak")
    with pytest.raises(Fault, match="cannot write CSR 0xf11, mvendorid"):
        system.run(100)


COUNTERS = "nop\nrdinstret s0\nrdcycle s1\nrdtime s2\ncsrr s3, mcycle\ncsrr s4, minstret\nebreak"


def test_counters_agree_without_a_clock() -> None:
    system = run(COUNTERS, timed=False)
    assert [system.tiles[0].register(n) for n in (8, 9, 18, 19, 20)] == [1, 2, 3, 4, 5]


def test_a_program_that_reads_the_time_gets_a_clock() -> None:
    system = run(COUNTERS)
    step, read = (getattr(TX81.timing.core, name).value for name in ("instruction", "csr_read"))
    first = 2 * step + TX81.timing.core.line.value  # of its first line of code
    assert [system.tiles[0].register(n) for n in (9, 18, 19)] == [first, first + read, first + 2 * read]
    assert [system.tiles[0].register(n) for n in (8, 20)] == [1, 5]


def test_a_trap_retires_nothing_and_mret_one() -> None:
    text = HANDLER.format(body="rdinstret s5\nhere: .insn 0")
    x = run(text.replace("after:", "after: rdinstret s6")).tiles[0].register
    assert x(22) - x(21) == 1 + 9  # rdinstret; five, la of two, csrw, mret


# -- fence.i -----------------------------------------------------------------------------------------------

NEW = word("addi", rd=8, rs1=0, imm=2)
CHANGE = """
    la t0, place
    li t1, {new}
    {fence_before}
    sw t1, (t0)
    {fence}
place:
    addi s0, zero, 1
    ebreak
"""


@pytest.mark.parametrize(
    ("before", "fence", "result"),
    [("nop", "fence.i", 2), ("nop", "nop", 1), ("nop", "fence", 1), ("fence.i", "nop", 1)],
)
def test_changed_code_runs_after_fence_i_only(before: str, fence: str, result: int) -> None:
    system = run(CHANGE.format(new=NEW, fence_before=before, fence=fence))
    assert system.tiles[0].register(8) == result


def test_a_changed_float_instruction_gets_its_unit() -> None:
    """The program as loaded has no floating-point instruction."""
    system = run(CHANGE.format(new=word("fcvt.w.s", rd=8, rs1=0, rm=0), fence_before="nop", fence="fence.i"))
    assert system.tiles[0].register(8) == (1 << 31) - 1  # f0 is not boxed: a NaN


def test_a_changed_engine_instruction_is_issued() -> None:
    text = """
    la t0, other
    la t1, place
    li t2, 7
    1: lw t3, (t0)
    sw t3, (t1)
    addi t0, t0, 4
    addi t1, t1, 4
    addi t2, t2, -1
    bnez t2, 1b
    fence.i
    j place
    other: td.memset.int32 dst=0x100, value=5, n=4
    place: td.memset.int32 dst=0x100, value=9, n=4
    ncc.wait
    ebreak
    """
    system = build(text)
    size = system.image.symbols["place"].address - system.image.symbols["other"].address
    system = run(text.replace("li t2, 7", f"li t2, {size // 4}"))
    assert system.tiles[0].spm.data[0x100:0x110].view("<i4").tolist() == [5] * 4


def test_a_word_spoiled_before_fence_i_is_illegal_as_it_is_now() -> None:
    run(CHANGE.format(new=1, fence_before="nop", fence="fence.i"), "illegal instruction: 0x0000 is")


def test_each_tile_fetches_for_itself() -> None:
    text = f"""
    csrr s5, mhartid
    bnez s5, 1f
    la t0, place
    li t1, {NEW}
    sw t1, (t0)
    1: ncc.barrier tiles=0
    bnez s5, 2f
    fence.i
    2: j place
    place: addi s0, zero, 1
    li a7, 93
    li a0, 0
    ecall
    """
    system = build(text, chip(2))
    system.run(1000)
    assert [t.register(8) for t in system.tiles] == [2, 1]


def test_fence_i_does_not_extend_the_program() -> None:
    """Only the executable segments are fetched; data remains data."""
    text = f"la t0, data\nli t1, {NEW}\nsw t1, (t0)\nfence.i\njr t0\n.data\ndata: .word 0"
    run(text, "which is outside the program")


# -- misaligned accesses -----------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", range(1, 8))
@pytest.mark.parametrize(
    "base", [W.spm_weak + 0xF8, W.spm_strong + 0x100, W.ddr_cached + 0x20_0000, W.ddr_uncached + 0x20_0FF8]
)
def test_misaligned_accesses_are_plain_bytes(base: int, offset: int) -> None:
    text = f"""
    li a0, {base}
    li a1, 0x0102030405060708
    sd zero, 0(a0)
    sd zero, 8(a0)
    sd a1, {offset}(a0)
    ld s0, {offset}(a0)
    fld f0, {offset}(a0)
    fmv.x.d s1, f0
    lw s2, {offset + 1}(a0)
    lhu s3, {offset + 1}(a0)
    ld s4, 0(a0)
    ebreak
    """
    x = run(text).tiles[0].register
    value = 0x0102030405060708
    assert (x(8), x(9), x(18), x(19)) == (value, value, 0x04050607, 0x0607)
    assert x(20) & M64 == value << 8 * offset & M64
