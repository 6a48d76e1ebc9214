"""Logic on truth values and on bits, and bits to numbers: kernels against the slow reference and numpy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import asm
from asm.diagnostics import AsmError
from chip_bench import build, chip
from emulator import native
from emulator.native.primitives.flags import pack_flags, spread_flags
from kernel_bench import RECORDS, SPECIAL, Tile, kernel_ident, patterns, variants
from relation_cases import ALIASES, DST, LENGTHS, ONE, SRC0, SRC1, numbers, operands, refusal
from tx8isa.numbers.formats import FLOATS, Format
from tx8isa.records.meaning import Bitwise, Relation, Unpack

VALUES = [v for v in variants() if isinstance(v[0].meaning, Relation) and v[0].opcode >= 78]
BITS = [v for v in variants() if isinstance(v[0].meaning, Bitwise)]
UNPACK = [v for v in variants() if isinstance(v[0].meaning, Unpack)]
LOGIC: dict[str, Callable[[Any, Any], Any]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": lambda a, _: np.logical_not(a),
}
TWO = ("and", "or", "xor")


def check(variant: Any, compiled: bool, lengths: tuple[int, ...]) -> None:
    instruction, fmt, _ = variant
    for n in lengths:
        values = {"dst": DST, "src0": SRC0, "n": n}
        if not isinstance(instruction.meaning, Unpack):
            values = operands(instruction, n)
        Tile(n, fmt).check(instruction.mnemonic, fmt, compiled, **values)


def test_opcodes_follow_the_list() -> None:
    values = ["ct.not.v", *(f"ct.{name}.{form}" for form in ("vv", "vuv", "vuv_loop") for name in TWO)]
    forms = ("bvbv", "bvubv", "bvubv_loop")
    bits = ["ct.not.bv.bv", *(f"ct.{name}.bv.{form}" for form in forms for name in TWO)]
    assert [RECORDS[mnemonic].opcode for mnemonic in values + bits] == list(range(78, 98))
    assert RECORDS["ct.bit2fp"].opcode == 181
    assert all(RECORDS[mnemonic].formats == FLOATS for mnemonic in (*values, "ct.bit2fp"))
    assert all(RECORDS[mnemonic].formats == () for mnemonic in bits)


@pytest.mark.parametrize("variant", VALUES + BITS + UNPACK, ids=kernel_ident)
def test_interpreted_kernel_equals_reference(variant: Any) -> None:
    check(variant, False, (0, 1, 7, 65, 200))


@pytest.mark.parametrize("variant", [*VALUES[::5], *BITS, *UNPACK], ids=kernel_ident)
def test_compiled_kernel_equals_reference(variant: Any) -> None:
    check(variant, True, LENGTHS)


@pytest.mark.long
@pytest.mark.parametrize("variant", VALUES + BITS + UNPACK, ids=kernel_ident)
def test_every_compiled_kernel_equals_reference(variant: Any) -> None:
    check(variant, True, (*LENGTHS, 1023, 1025))


# --- truth values -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "fmt"),
    [
        ("not", Format.FP16),
        ("and", Format.FP16),
        ("or", Format.BF16),
        ("xor", Format.FP32),
        ("and", Format.TF32),
    ],
)
def test_truth_values_against_numpy(name: str, fmt: Format) -> None:
    """Zero of either sign is false and everything else true, including NaN; every special pair."""
    special = np.array(SPECIAL[fmt], f"u{fmt.bits // 8}")
    rng = np.random.default_rng(1)
    first = np.concatenate([np.repeat(special, len(special)), patterns(fmt, 777, rng)])
    second = np.concatenate([np.tile(special, len(special)), patterns(fmt, 777, rng)])
    with np.errstate(invalid="ignore"):
        a, b = numbers(fmt, first) != 0, numbers(fmt, second) != 0
    expected = np.where(LOGIC[name](a, b), ONE[fmt], 0)
    tile = Tile(2)
    tile.spm[: first.nbytes] = first.view(np.uint8)
    tile.spm[0x4000 : 0x4000 + second.nbytes] = second.view(np.uint8)
    values = {"dst": DST, "src0": 0, "n": len(first)}
    if name == "not":
        tile.run("ct.not.v", fmt, True, values)
    else:
        tile.run(f"ct.{name}.vv", fmt, True, values | {"src1": 0x4000})
    found = tile.spm[DST : DST + first.nbytes].view(first.dtype)
    assert np.array_equal(found, expected)


# --- bits ---------------------------------------------------------------------------------


def bits_of(data: Any) -> Any:
    return np.unpackbits(data, bitorder="little")


def second_bits(form: str, source: Any, n: int, unit: int, groups: int) -> Any:
    """The second operand of every bit, by the table of the chip page."""
    i = np.arange(n * groups)
    if form == "bvbv":
        return source[: len(i)]
    if form == "bvubv_loop":
        return source[i // n * 64 + i % n % 64]
    period = (unit + 7) // 8 * 8
    return np.where(i < n // period * period, source[i % period], 0)


def compare_bits(name: str, form: str, n: int, unit: int = 64, groups: int = 1, at: int = 0) -> None:
    """One instruction on random bits; ``at`` moves every operand by a few bytes."""
    tile = Tile(n + unit)
    before = bits_of(tile.spm)
    first, target = SRC0 + at, DST + 3 * at
    values = {"dst": target, "src0": first, "n": n}
    second = np.zeros(n * groups, np.uint8)
    if name != "not":
        values["src1"] = SRC1 + 5 * at
        second = second_bits(form, before[8 * values["src1"] :], n, unit, groups)
    if form == "bvubv":
        values["unit"] = unit
    if form == "bvubv_loop":
        values |= {"unit": 64, "full": n * groups, "full_unit": 64 * groups}
    expected = before.copy()
    total = n * groups
    expected[8 * target : 8 * target + total] = LOGIC[name](before[8 * first : 8 * first + total], second)
    tile.run(f"ct.{name}.bv.{form}", None, True, values)
    assert np.array_equal(bits_of(tile.spm), expected)


@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.parametrize("n", (*LENGTHS, 4095, 33333))
@pytest.mark.parametrize("name", [*TWO, "not"])
def test_bits_against_numpy(name: str, n: int, at: int) -> None:
    compare_bits(name, "bv" if name == "not" else "bvbv", n, at=at)


@pytest.mark.parametrize("unit", [1, 7, 8, 9, 33, 37, 40, 63, 64])
@pytest.mark.parametrize("n", (1, 8, 37, 40, 63, 64, 65, 1000, 20000))
@pytest.mark.parametrize("name", TWO)
def test_unit_bits_end_with_the_last_whole_period(name: str, n: int, unit: int) -> None:
    compare_bits(name, "bvubv", n, unit)


def test_a_unit_of_37_bits_behaves_as_40() -> None:
    """And past the last whole period the second operand is 0 (both measured)."""
    tile = Tile(1)
    tile.spm[SRC0 : SRC0 + 16] = 0xFF
    tile.spm[SRC1 : SRC1 + 5] = 0xFF
    tile.spm[DST : DST + 16] = 0
    tile.run("ct.and.bv.bvubv", None, True, {"dst": DST, "src0": SRC0, "src1": SRC1, "n": 100, "unit": 37})
    assert tile.spm[DST : DST + 16].tobytes() == b"\xff" * 10 + b"\x00" * 6


@pytest.mark.parametrize(("n", "groups"), [(64, 1), (64, 50), (128, 3), (1088, 4), (8256, 3)])
@pytest.mark.parametrize("name", TWO)
def test_unit_bits_by_group(name: str, n: int, groups: int) -> None:
    compare_bits(name, "bvubv_loop", n, groups=groups, at=1)


@pytest.mark.parametrize("n", [65, 4500, 99_999])
@pytest.mark.parametrize("alias", ALIASES)
@pytest.mark.parametrize("form", ["not.bv.bv", "xor.bv.bvbv", "xor.bv.bvubv", "xor.bv.bvubv_loop"])
def test_overlapping_bits_are_a_snapshot(form: str, alias: str, n: int) -> None:
    values = operands(RECORDS[f"ct.{form}"], n)
    if form.endswith("loop"):
        values |= {"n": 64, "full": n // 64 * 64, "full_unit": n // 64 * 64}
    moved = {k: v for k, v in ALIASES[alias].items() if k in values}
    Tile(1).check(f"ct.{form}", None, True, **(values | moved))


# --- bits to numbers ----------------------------------------------------------------------


@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("n", (*LENGTHS, 4097, 9000))
def test_bits_to_numbers_against_numpy(fmt: Format, n: int) -> None:
    tile = Tile(n)
    expected = tile.spm.copy()
    result = np.where(bits_of(tile.spm)[8 * 0x101 : 8 * 0x101 + n], ONE[fmt], 0).astype(f"u{fmt.bits // 8}")
    expected[0x4000 : 0x4000 + result.nbytes] = result.view(np.uint8)
    tile.run("ct.bit2fp", fmt, True, {"dst": 0x4000, "src0": 0x101, "n": n})
    assert np.array_equal(tile.spm, expected)


@pytest.mark.parametrize("shift", [0, 1, 8, 100, 1000, 8999, -1, -8])
def test_bits_to_numbers_over_their_source(shift: int) -> None:
    Tile(3).check("ct.bit2fp", Format.FP16, True, dst=SRC0, src0=SRC0 + shift, n=4500)


def flags_there_and_back(source: int, target: int) -> int:
    """Flags to a word, and that word to flags elsewhere."""
    word = pack_flags(source)
    spread_flags(word, target)
    return word


@pytest.mark.parametrize("compiled", [False, True])
def test_flags_and_words(compiled: bool) -> None:
    rng = np.random.default_rng(5)
    run: Callable[[int, int], int] = flags_there_and_back
    if compiled:
        run = partial(native.call, native.compile_kernel(flags_there_and_back, "flags", 2))
    for density in (0.0, 0.1, 0.5, 1.0):
        memory = np.full(192, 0xAA, np.uint8)
        memory[1:65] = np.where(rng.random(64) < density, rng.integers(1, 256, 64), 0)
        truth = memory[1:65] != 0
        word = run(memory.ctypes.data + 1, memory.ctypes.data + 67)
        assert word % (1 << 64) == sum(1 << i for i in range(64) if truth[i])
        assert np.array_equal(memory[67:131], truth.astype(np.uint8))
        assert memory[0] == memory[66] == memory[131] == 0xAA


# --- what is refused, and a whole program -------------------------------------------------


@pytest.mark.parametrize(
    ("mnemonic", "changed", "message"),
    [
        ("ct.and.bv.bvubv_loop", {"unit": 32}, "unit must be 64"),
        ("ct.or.vuv_loop", {"unit": 37}, "unit must be 64"),
        ("ct.and.bv.bvubv_loop", {"n": 32}, "n must be a multiple of 64"),
        ("ct.and.bv.bvubv_loop", {"n": 0}, "operand 'n' from a register: 0 is outside"),
        ("ct.xor.bv.bvubv_loop", {"full": 448}, "full must be a multiple of n"),
        ("ct.xor.bv.bvubv_loop", {"full_unit": 384}, "full / n must equal full_unit / unit"),
        ("ct.and.bv.bvubv", {"unit": 0}, "unit"),
        ("ct.and.bv.bvubv", {"unit": 65}, "unit"),
        ("ct.and.vuv", {"unit": 65}, "unit"),
        ("ct.not.bv.bv", {"dst": 0x2FFFF1}, "dst"),
        ("ct.or.bv.bvbv", {"src0": 0x2FFFF1}, "src0"),
        ("ct.or.bv.bvbv", {"src1": 0x2FFFF1}, "src1"),
        ("ct.or.bv.bvbv", {"n": 8 * 0x300000 + 1}, "n"),
        ("ct.and.bv.bvubv", {"src1": 0x2FFFFD}, "src1"),
        ("ct.and.bv.bvubv_loop", {"src1": 0x2FFFE9}, "src1"),
        ("ct.bit2fp", {"dst": 0x30001}, "dst"),
        ("ct.bit2fp", {"dst": 0x2FFF02}, "dst"),
        ("ct.bit2fp", {"src0": 0x2FFFF1}, "src0"),
        ("ct.not.v", {"src0": 0x10001}, "src0"),
    ],
)
def test_operands_that_are_refused(mnemonic: str, changed: dict[str, int], message: str) -> None:
    assert message in refusal(mnemonic, **changed)


@pytest.mark.parametrize(
    ("mnemonic", "changed"),
    [
        ("ct.not.bv.bv", {"dst": 0x2FFFF0}),
        ("ct.or.bv.bvbv", {"src0": 0x2FFFF0, "src1": 0x1}),
        ("ct.or.bv.bvbv", {"src0": 0x2FFFF0, "n": 121}),
        ("ct.and.bv.bvubv", {"src1": 0x2FFFFC}),
        ("ct.and.bv.bvubv", {"src1": 0x2FFFFF, "unit": 1}),
        ("ct.and.bv.bvubv_loop", {"src1": 0x2FFFE8}),
        ("ct.bit2fp", {"src0": 0x2FFFF0}),
        ("ct.bit2fp", {"n": 1}),
    ],
)
def test_operands_at_the_edge_are_accepted(mnemonic: str, changed: dict[str, int]) -> None:
    assert refusal(mnemonic, **changed) == ""


@pytest.mark.parametrize(
    "line",
    [
        "ct.and.bv.bvbv.bool dst=0, src0=0, src1=0, n=8",
        "ct.and.bv.bvbv.fp16 dst=0, src0=0, src1=0, n=8",
        "ct.not.bv.bv dst=0, src0=0, src1=0, n=8",
        "ct.and.vs.fp16 dst=0, src0=0, src1=0, n=8",
        "ct.not.v dst=0, src0=0, n=8",
        "ct.bit2fp dst=0, src0=0, n=8",
        "ct.bit2fp.int8 dst=0, src0=0, n=8",
        "ct.and.bv.bvubv dst=0, src0=0, src1=0, n=8, unit=0",
    ],
)
def test_lines_that_do_not_assemble(line: str) -> None:
    with pytest.raises(AsmError, match="error"):
        asm.assemble(line)


PROGRAM = """
    td.memset.fp16      dst=0x1000, value=0x3c00, n=100
    td.memset.fp16      dst=0x1060, value=0x4000, n=10
    td.memset.int8      dst=0x2000, value=0xff, n=13
    ct.gt.bv.vs.fp16    dst=0x2000, src0=0x1000, src1=0x3c00, n=100
    ct.not.bv.bv        dst=0x2100, src0=0x2000, n=100
    ct.xor.bv.bvbv      dst=0x2100, src0=0x2100, src1=0x2000, n=50
    ct.bit2fp.bf16      dst=0x2200, src0=0x2000, n=100
    ncc.wait
    li a0, 0
    li a7, 93
    ecall
"""


def test_a_program_from_numbers_to_bits_and_back() -> None:
    system = build(PROGRAM, chip())
    system.run()
    spm = system.tiles[0].spm.data
    larger = (np.arange(100) >= 48) & (np.arange(100) < 58)
    bits = bits_of(np.asarray(spm[0x2000:0x200D]))
    assert np.array_equal(bits[:100], larger) and bits[100:].all()
    inverse = bits_of(np.asarray(spm[0x2100:0x210D]))[:100]
    assert inverse[:50].all() and np.array_equal(inverse[50:], ~larger[50:])
    found = np.asarray(spm[0x2200 : 0x2200 + 200]).view(np.uint16)
    assert np.array_equal(found, np.where(larger, 0x3F80, 0))
