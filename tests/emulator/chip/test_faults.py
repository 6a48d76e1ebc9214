"""Refusals of engine instructions: every operand, rule and range of every record, and the messages.

Kernels are replaced by one that does nothing, so that legal instructions also take no time.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asm
from asm.diagnostics import AsmError
from asm.image import Image, Segment, write_image
from chip_bench import CODE, EBREAK, ONE, W, build, words_image
from emulator.chip.system import System
from emulator.engines import queues, tables
from emulator.tile.fault import Fault
from fault_programs import (
    BASE,
    DDR,
    EXAMPLES,
    MACHINE,
    RECORDS,
    SPM,
    Case,
    memory,
    operand_error,
    random_value,
    spell,
    verdict,
)
from tx8isa.errors import Tx8Error
from tx8isa.numbers.formats import STORAGE_BITS
from tx8isa.records.record import Engine, Instruction, Operand
from tx8isa.table.registry import instructions

NUMBERS = {record.mnemonic: record for record in RECORDS}


def judge(case: Case) -> None:
    due, found = verdict(case), case.fault()
    assert bool(due) == bool(found), f"{spell(case)} {case.values}: {found or 'accepted'}, due: {due}"
    assert due in found
    if found:
        assert found.startswith(spell(case)) and "\n" not in found


every_record = pytest.mark.parametrize("record", RECORDS, ids=lambda r: r.mnemonic)


@every_record
def test_the_example_is_legal(record: Instruction) -> None:
    judge(EXAMPLES[record.mnemonic])
    assert not verdict(EXAMPLES[record.mnemonic])


@every_record
def test_the_last_byte_is_legal_and_the_next_is_not(record: Instruction) -> None:
    """Every address operand of every record at the end of its memory, or of both memories if it allows
    two."""
    tried = 0
    for operand in record.operands:
        for start in {"spm": (0,), "ddr": (BASE,), "any": (0, BASE)}.get(operand.memory, ()):
            case = EXAMPLES[record.mnemonic].touching(operand)
            base, size, where = memory(case.put(operand.name, start), operand)
            last = case.put(operand.name, base + size - case.length(operand))
            assert case.length(operand) > 0 and not last.fault()
            beyond = last.put(operand.name, last.get(operand.name) + case.align(operand))
            verb = "writes" if operand.role == "write" else "reads"
            text = f"{spell(case)}: operand '{operand.name}' {verb} {case.length(operand)} bytes from "
            assert beyond.fault() == f"{text}0x{beyond.get(operand.name):x}, outside {where}"
            tried += 1
    assert tried == sum(2 if o.memory == "any" else 1 for o in record.operands if o.is_address)


def check_refused(record: Instruction, operand: Operand, values: tuple[int, ...]) -> None:
    """A register with any value that the operand does not allow is a fault."""
    for value in values:
        if operand_error(operand, value) and operand.high < 1 << 63 and -(1 << 63) <= value < 1 << 63:
            found = EXAMPLES[record.mnemonic].put(operand.name, value).fault()
            assert f"operand '{operand.name}' from a register: {value} is " in found


def far_outside(operand: Operand) -> tuple[int, ...]:
    """Negative values, and 64-bit values whose low words would be legal."""
    return (_below(operand) if operand.scalar else -1, -(1 << 63), (1 << 32) + operand.low, 1 << 62)


def _below(operand: Operand) -> int:
    """The bits of a scalar may be extended by their sign."""
    return -(1 << 31) - 1 if operand.scalar else operand.low - 1


@every_record
def test_values_outside_an_operand_are_refused(record: Instruction) -> None:
    """Just outside for every operand, and one value far outside, of another kind for each of a record."""
    for number, operand in enumerate(record.word_operands):
        far = far_outside(operand)[number % 4]
        check_refused(record, operand, (_below(operand), operand.high + 1, far))


@pytest.mark.long
@every_record
def test_all_values_far_outside_an_operand_are_refused(record: Instruction) -> None:
    for operand in record.word_operands:
        check_refused(record, operand, far_outside(operand))


@every_record
def test_misaligned_addresses_are_refused(record: Instruction) -> None:
    for operand in record.operands:
        case = EXAMPLES[record.mnemonic].touching(operand)
        if operand.is_address and case.align(operand) > 1:
            case = case.put(operand.name, case.get(operand.name) + 1)
            address, align = case.get(operand.name), case.align(operand)
            assert case.fault().endswith(
                f"operand '{operand.name}' = 0x{address:x} must be a multiple of {align}"
            )


@every_record
def test_every_rule_is_enforced(record: Instruction) -> None:
    rng = random.Random(1)
    for check in tables.checks(record):
        names = {str(a).lstrip("@").partition(".")[0] for a in check.arguments if isinstance(a, str)}
        names |= {operand.name for operand in record.operands if operand.name.endswith("format")}
        for _ in range(20_000):
            case = EXAMPLES[record.mnemonic]
            for name in rng.sample(sorted(names), rng.randint(1, len(names))):
                case = case.put(name, random_value(record.operand(name), rng))
            if verdict(case) == check.text:
                break
        else:
            pytest.fail(f"{record.mnemonic}: nothing breaks the rule '{check.text}'")
        assert case.fault().startswith(f"{spell(case)}: {check.text}")


HUGE = st.sampled_from(
    [0, 1, -1, 1 << 31, 1 << 32, (1 << 32) - 1, (1 << 63) - 1, -(1 << 63), (1 << 24) - 1, 1 << 21]
)


@pytest.mark.long
@settings(max_examples=300)
@given(st.sampled_from([r for r in RECORDS if r.engine is not Engine.DTE]), st.data())
def test_random_operands_are_judged_as_exact_arithmetic_does(
    record: Instruction, data: st.DataObject
) -> None:
    """Nothing wraps: the verdict is that of unbounded integers."""
    case, rng = EXAMPLES[record.mnemonic], random.Random(data.draw(st.integers(0, 1 << 32)))
    for operand in data.draw(st.lists(st.sampled_from(record.word_operands), min_size=1, max_size=6)):
        legal = st.just(random_value(operand, rng))
        case = case.put(operand.name, data.draw(st.one_of(legal, legal, HUGE)))
    judge(case)


def test_products_of_trip_counts_do_not_wrap() -> None:
    """2**21 * 2**21 * 2**22 trips of 8 bytes are 0 modulo 2**64."""
    trips = {"iter0": 1 << 21, "iter1": 1 << 21, "iter2": 1 << 22, "n": 4}
    for name in ("rdma", "wdma", "td.memset"):
        case = EXAMPLES[name]
        for operand, value in trips.items():
            case = case.put(operand, min(value, case.record.operand(operand).high))
        assert "at most 2**32, the emulator's limit" in case.fault()


def largest(record: Instruction, operand: Operand) -> int:
    """An upper bound of an extent over all legal operands: extents grow with every argument."""
    assert operand.extent is not None
    values = []
    for argument in operand.extent.arguments:
        if isinstance(argument, int):
            values.append(argument)
        elif argument.startswith("@"):
            values.append(max(STORAGE_BITS[f] for f in record.formats or (0,)))
        else:
            name, _, lane = argument.partition(".")
            found = record.operand(name)
            values.append(next((x.high for x in found.lanes if x.name == lane), found.high))
    return operand.extent.length(*values)


def test_no_extent_can_leave_64_bits() -> None:
    """Except the stream of a nest, which the emulator's own check bounds."""
    unbounded = {
        (record.mnemonic, operand.name)
        for record in RECORDS
        for operand in record.operands
        if operand.is_address and largest(record, operand) >= 1 << 63
    }
    assert unbounded >= {("rdma", "dst"), ("wdma", "src")}
    assert all(tables.checks(NUMBERS[name])[0].text.startswith("block bytes") for name, _ in unbounded)


def test_the_format_is_the_first_operand_and_entries_hold_every_record() -> None:
    """Messages and the queues rely on this."""
    for record in instructions():
        assert not record.formats or record.operands[0].name == "format"
        assert len(record.operands) <= queues.MAX_FIELDS
        assert sum(o.is_address for o in record.operands) <= queues.MAX_RANGES


COUNTS = [
    (record, operand.name)
    for record in RECORDS
    for operand in record.operands
    if re.fullmatch(r"n|m|k|lb|rb|unit|full|full_unit|entries|(src_|dst_)?iter[012]", operand.name)
]


@pytest.mark.parametrize(("record", "name"), COUNTS, ids=lambda value: getattr(value, "mnemonic", value))
def test_a_count_of_zero_is_refused_as_text_and_from_a_register(record: Instruction, name: str) -> None:
    message = f"{record.operand(name).low - 1} is outside {record.operand(name).low}.."
    assert record.operand(name).low == 1
    case = EXAMPLES[record.mnemonic].put(name, 0)
    assert f": operand '{name}' from a register: {message}" in case.fault()
    named = {o.name: v for o, v in zip(record.operands, case.values, strict=True) if o in record.visible}
    text = ", ".join(f"{operand}={value:#x}" for operand, value in named.items())
    with pytest.raises(AsmError, match=f"error: operand '{name}': {re.escape(message)}"):
        asm.assemble(f"{spell(case)} {text}\n")


def test_every_engine_that_counts_is_among_them() -> None:
    engines = {record.engine for record, _ in COUNTS}
    assert engines == {Engine.CT, Engine.NE, Engine.RDMA, Engine.WDMA, Engine.TDMA, Engine.DTE}
    assert len({record for record, name in COUNTS if name == "n"}) > 170


def test_a_core_address_in_a_dma_gets_a_hint() -> None:
    found = EXAMPLES["rdma"].put("src", W.ddr_cached).fault()
    assert found.endswith("it is a kernel-core address: write %ncc(symbol)")


def test_immediates_and_registers_are_the_same_instruction() -> None:
    source = """
        li a0, 0x100
        li a1, 64
        td.memset.fp32 dst=0x100, value=1.5, n=64
        td.memset.fp32 dst=a2, value=a3, n=a1
        ct.add.vv.fp32 dst=0x300, src0=a0, src1=0x100, n=a1
        ncc.wait
        ebreak
    """
    system = build(source)
    system.tiles[0].set_register(12, 0x200)
    system.tiles[0].set_register(13, 0x3FC00000)
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    floats = system.tiles[0].spm.data.view(np.float32)
    assert (floats[0x40:0xC0] == 1.5).all() and (floats[0xC0:0x100] == 3.0).all()
    assert (system.tiles[0].spm.data[0x400:] == MACHINE.spm.reset_byte).all()


def test_the_message_names_line_and_node() -> None:
    image = asm.assemble(
        '_start: li a0, 0x300000\n.node "conv1"\n ct.abs.v.fp16 dst=a0, src0=0, n=64', name="k.s"
    )
    with pytest.raises(Fault) as fault:
        System(image, MACHINE).run()
    assert str(fault.value) == (
        "tile 0 at 0x80000004 (k.s:3, node 'conv1'): ct.abs.v.fp16: operand 'dst' writes 128 bytes "
        "from 0x300000, outside the SPM (0x0..0x2fffff)"
    )


# -- the exception register --------------------------------------------------------------------------------


def bits_after(*instructions: str, before: str = "") -> list[int]:
    """Bits of the exception register after refused instructions."""
    text = f"_start: li a0, -1\n li t0, 0x01000000\n{before}\n" + "\n".join(instructions)
    system = build(f"{text}\n ld s0, 0x750(t0)\n ebreak", on_exception="drop")
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    value = system.tiles[0].register(8)
    assert (system.tiles[0].spm.data == ONE.spm.reset_byte).all()
    assert not any(system.tiles[0].counts[:, 0])
    return [bit for bit in range(64) if value >> bit & 1]


@pytest.mark.parametrize(
    ("bad", "bit"),
    [
        ("ct.abs.v.fp16 dst=a0, src0=0, n=4", 9),
        ("li a0, 0x300000\n ct.abs.v.fp16 dst=0, src0=a0, n=4", 9),
        ("ct.abs.v.fp16 dst=0, src0=0, n=a0", 8),
        ("li a0, 1\n ct.abs.v.fp16 dst=a0, src0=0, n=4", 8),
        ("ne.gemm.fp16 a=0, b=0, out=a0, m=4, k=4, n=4", 17),
        ("ne.gemm.fp16 a=0, b=0, out=0, m=4, k=a0, n=4", 16),
        ("rdma.fp32 dst=0, src=a0, n=4", 24),
        ("rdma.fp32 dst=a0, src=0x280000000, n=4", 25),
        ("li a0, 0\n rdma.fp32 dst=0, src=0x280000000, n=a0", 27),
        ("wdma.fp32 src=a0, dst=0x280000000, n=4", 32),
        ("wdma.fp32 src=0, dst=a0, n=4", 33),
        ("wdma.fp32 src=0, dst=0x280000000, n=a0", 35),
        ("td.memset.fp32 dst=a0, value=0, n=4", 41),
        ("li a0, 0\n td.memset.fp32 dst=0, value=0, n=a0", 40),
    ],
)
def test_exception_bits(bad: str, bit: int) -> None:
    assert bits_after(bad) == [bit]


TWO = ("ct.abs.v.fp16 dst=a0, src0=0, n=4", "td.memset.fp32 dst=a0, value=0, n=4")
SET_MODE = "li t1, 1\n slli t1, t1, {}\n sd t1, 0x770(t0)"


def test_the_first_exception_is_kept() -> None:
    assert bits_after(*TWO) == [9]


def test_mode_bit_48_keeps_the_last() -> None:
    assert bits_after(*TWO, before=SET_MODE.format(48)) == [41]


def test_bit_49_clears_and_clears_itself() -> None:
    read_mask = "ld s1, 0x770(t0)\n srli s1, s1, 49\n add a0, s1, a0"
    assert bits_after(*TWO, SET_MODE.format(49)) == []
    assert bits_after(TWO[0], SET_MODE.format(49), read_mask, TWO[1]) == [41]


def test_a_stopped_run_shows_the_exception_too() -> None:
    system = EXAMPLES["ct.add.vv"].put("dst", SPM).system()
    with pytest.raises(Fault, match="outside the SPM"):
        system.run()
    assert system.tiles[0].block(0)[queues.EXCEPTION] == 1 << 9


def test_dropping_goes_on_behind_the_instruction() -> None:
    system = EXAMPLES["ct.add.vv"].put("dst", SPM).system(on_exception="drop")
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    assert system.tiles[0].retired == 1 and not system.tiles[0].counts.any()


@pytest.mark.parametrize("bad", ["dte.unicast dst=0, src=a0, tile=0, n=4", "sw a0, 0(a0)", ".word 0"])
def test_what_has_no_exception_bit_stops_in_either_mode(bad: str) -> None:
    with pytest.raises(Fault, match="tile 0 at 0x80000004"):
        build(f"_start: li a0, -1\n {bad}\n ebreak", on_exception="drop").run()


# -- images that do not fit the machine --------------------------------------------------------------------


def image_with(*segments: Segment, entry: int = CODE) -> Image:
    return replace(words_image([EBREAK]), segments=segments, entry=entry)


def test_odd_length_of_code() -> None:
    """The bytes after the last whole word are not an instruction."""
    data = EBREAK.to_bytes(4, "little") + b"\x13\x00\x00"
    system = System(image_with(Segment(".text", CODE, data, len(data), "rx")), ONE)
    with pytest.raises(Fault, match="ebreak"):
        system.run()
    system = System(image_with(Segment(".text", CODE, data, len(data), "rx"), entry=CODE + 4), ONE)
    with pytest.raises(Fault, match="illegal instruction"):
        system.run()


def test_a_wide_instruction_cut_off_by_the_end() -> None:
    data = EXAMPLES["ct.add.vv"].text()[:-4]
    system = System(image_with(Segment(".text", CODE, data, len(data), "rx")), ONE)
    with pytest.raises(Fault, match=r"ct.add.vv cut off: \d+ bytes needed"):
        system.run()


def test_a_jump_into_a_wide_instruction_names_it() -> None:
    system = build("_start: la a0, 1f\n jr 8(a0)\n1: ct.abs.v.fp16 dst=0, src0=0, n=4")
    with pytest.raises(Fault, match=r"0x[0-9a-f]{4} lies inside the wide instruction ct\.abs\.v"):
        system.run()


def test_data_in_code_hides_nothing() -> None:
    """A constant that looks like the header of a long instruction does not hide the code after it."""
    build("_start: j 1f\n .word 0x1f80707f\n1: ncc.wait\n li a7, 93\n ecall").run()


def test_two_pieces_of_code_and_the_gap_between_them() -> None:
    jump = asm.assemble("_start: li a0, 0x80010000\n jr a0").segments[0].data
    pieces = Segment(".text", CODE, jump, len(jump), "rx"), Segment(".far", CODE + 0x10000, bytes(4), 4, "rx")
    with pytest.raises(Fault, match="tile 0 at 0x80010000: illegal instruction: 0x0000 is not"):
        System(image_with(*pieces), ONE).run()


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        (Segment(".text", W.ddr_engine, bytes(4), 4, "rx"), "the kernel core fetches from 0x80000000.."),
        (Segment(".far", CODE + (1 << 31), bytes(4), 4, "rx"), "the code is spread over 2147483652 bytes"),
        (Segment(".bss", BASE + DDR - 4, b"", 8, "rw"), "machine tx81 has 68719476736"),
    ],
)
def test_images_the_machine_cannot_hold(segment: Segment, text: str) -> None:
    first = Segment(".text0", CODE, EBREAK.to_bytes(4, "little"), 4, "rx")
    with pytest.raises(Tx8Error, match=text):
        System(image_with(first, segment), ONE)


@pytest.mark.parametrize("entry", [CODE + 1, CODE + 3, CODE - 2, CODE + 4, 0, W.ddr_engine])
def test_entries_outside_the_code(entry: int) -> None:
    image = words_image([EBREAK])
    for wrong in (replace(image, entry=entry), replace(image, tile_entries={0: entry})):
        with pytest.raises(Tx8Error, match=f"entry 0x{entry:x}: expected a multiple of 2 inside the code"):
            System(wrong, ONE)


def test_an_image_for_another_machine() -> None:
    other = replace(words_image([EBREAK]), windows=(), machine="mini")
    with pytest.raises(Tx8Error, match="made for machine mini, whose DDR windows"):
        System(other, ONE)
    with pytest.raises(Tx8Error, match="an entry for tile 1, machine tx81 has 1 tiles"):
        System(replace(words_image([EBREAK]), tile_entries={1: CODE}), ONE)


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
from emulator.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.long
def test_a_small_program_runs_under_a_memory_limit(tmp_path: Path) -> None:
    """64 GiB of DDR do not fit 2 GiB of address space, so less of it is mapped."""
    program = tmp_path / "p.bin"
    source = tmp_path / "p.s"
    source.write_text("_start: td.memset.fp32 dst=0, value=0, n=4\n ncc.wait\n li a7, 93\n li a0, 0\n ecall")
    program.write_bytes(write_image(asm.assemble_file(source)))
    command = [
        sys.executable,
        "-c",
        LIMITED.format(limit=2 << 30),
        str(program),
        "--dump-ddr",
        "0x280000000:16",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("280000000")
    command[-1] = "0xa80000000:16"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (
        done.returncode == 1 and "is outside 0x280000000..0x" in done.stderr and done.stderr.count("\n") == 1
    )


def test_a_hopeless_memory_limit_is_one_line(tmp_path: Path) -> None:
    program = tmp_path / "p.bin"
    segments = words_image([EBREAK]).segments
    bss = Segment(".bss", BASE + (1 << 32), b"", 3 << 30, "rw")
    image = replace(words_image([EBREAK]), segments=(*segments, bss))
    program.write_bytes(write_image(image))
    command = [sys.executable, "-c", LIMITED.format(limit=2 << 30), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        done.stderr.startswith("tx8emu: error: the host refuses to map the ") and done.stderr.count("\n") == 1
    )
