"""Relations: kernels against the slow reference, and against comparisons of numpy and ml_dtypes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asm
from asm.diagnostics import AsmError
from emulator.memory import state
from kernel_bench import RECORDS, SPECIAL, Tile, kernel_ident, patterns, variants
from relation_cases import ALIASES, DST, LENGTHS, ONE, SRC0, SRC1, numbers, operands, refusal
from tx8isa.numbers.formats import FLOATS, Format
from tx8isa.records.meaning import Relation

NAMES = ("eq", "ne", "ge", "gt", "le", "lt")
FORMS = ("vv", "bv.vv", "vs", "bv.vs", "vuv", "vuv_loop", "bv.vuv", "bv.vuv_loop")
"""In the order of the opcodes (spec)."""
COMPARE: dict[str, Callable[[Any, Any], Any]] = {name: getattr(operator, name) for name in NAMES}
RELATIONS = [v for v in variants() if isinstance(v[0].meaning, Relation) and v[0].opcode < 78]


def check(variant: Any, compiled: bool, lengths: tuple[int, ...]) -> None:
    for n in lengths:
        Tile(n, variant[1]).check(variant[0].mnemonic, variant[1], compiled, **operands(variant[0], n))


def test_opcodes_follow_the_list() -> None:
    order = [f"ct.{name}.{form}" for name in NAMES for form in FORMS]
    assert [RECORDS[mnemonic].opcode for mnemonic in order] == list(range(30, 78))
    assert {v[0].mnemonic for v in RELATIONS} == set(order)
    assert {v[1] for v in RELATIONS} == set(FLOATS)


@pytest.mark.parametrize("variant", RELATIONS, ids=kernel_ident)
def test_interpreted_kernel_equals_reference(variant: Any) -> None:
    check(variant, False, (1, 65))


def chosen() -> list[Any]:
    """One relation in every form, each in one format and FP16; numpy judges the others below."""
    turns = dict(zip(FORMS, (*FLOATS, *FLOATS[::-1]), strict=True))
    less = [v for v in RELATIONS if v[0].mnemonic.startswith("ct.lt.")]
    return [v for v in less if v[1] in (Format.FP16, turns[v[0].mnemonic.removeprefix("ct.lt.")])]


@pytest.mark.parametrize("variant", chosen(), ids=kernel_ident)
def test_compiled_kernel_equals_reference(variant: Any) -> None:
    check(variant, True, LENGTHS)


@pytest.mark.long
@pytest.mark.parametrize("variant", RELATIONS, ids=kernel_ident)
def test_every_compiled_kernel_equals_reference(variant: Any) -> None:
    check(variant, True, (*LENGTHS, 1023, 1025))


# --- against numpy and ml_dtypes ----------------------------------------------------------


class Wide(Tile):
    """A tile with room for vectors of all patterns of a 16-bit format."""

    def __init__(self) -> None:
        super().__init__()
        self.spm = self.rng.integers(0, 256, 1 << 20, dtype=np.uint8)
        self.state[state.SPM] = self.spm.ctypes.data


RESULT, FIRST, SECOND = 0x80000, 0, 0x40000


def compare(name: str, fmt: Format, form: str, first: Any, second: Any, expected: Any, **counts: int) -> None:
    """Run both kinds of results and compare them with an array of truths."""
    for kind in (form, f"bv.{form}"):
        tile = Wide()
        tile.spm[FIRST : FIRST + first.nbytes] = first.view(np.uint8)
        values = {"dst": RESULT, "src0": FIRST, "src1": SECOND, "n": len(first)} | counts
        if form == "vs":
            values["src1"] = int(second)
        else:
            tile.spm[SECOND : SECOND + second.nbytes] = second.view(np.uint8)
        before = tile.spm.copy()
        tile.run(f"ct.{name}.{kind}", fmt, True, values)
        n, after = len(first), before.copy()
        if kind == form:
            result = np.where(expected, ONE[fmt], 0).astype(f"u{fmt.bits // 8}").view(np.uint8)
        else:
            size = (n + 7) // 8
            bits = np.unpackbits(before[RESULT : RESULT + size], bitorder="little")
            bits[:n] = expected
            result = np.packbits(bits, bitorder="little")
        after[RESULT : RESULT + len(result)] = result
        assert np.array_equal(tile.spm, after), f"{name} {fmt!r} {kind}"


def scalars(fmt: Format) -> list[int]:
    """Special values, and their neighbours."""
    special = {p + d & 0xFFFF for p in SPECIAL[fmt] for d in (-1, 0, 1)}
    return sorted(special)


def compare_all_patterns(name: str, fmt: Format, with_scalars: list[int]) -> None:
    stored = np.arange(65536, dtype=np.uint16)
    for scalar in with_scalars:
        with np.errstate(invalid="ignore"):
            expected = COMPARE[name](numbers(fmt, stored), numbers(fmt, np.array([scalar], np.uint16))[0])
        compare(name, fmt, "vs", stored, scalar, expected)


@pytest.mark.parametrize("fmt", [Format.FP16, Format.BF16])
@pytest.mark.parametrize("name", NAMES)
def test_all_16_bit_patterns_against_special_values(name: str, fmt: Format) -> None:
    chosen_scalars = scalars(fmt)
    assert len(chosen_scalars) >= 30
    compare_all_patterns(name, fmt, chosen_scalars[:: 1 if name == "lt" else 4])


@pytest.mark.long
@pytest.mark.parametrize("fmt", [Format.FP16, Format.BF16])
@pytest.mark.parametrize("name", NAMES)
def test_all_16_bit_patterns_against_more_values(name: str, fmt: Format) -> None:
    rng = np.random.default_rng(3)
    compare_all_patterns(name, fmt, [*scalars(fmt), *rng.integers(0, 65536, 200).tolist()])


@pytest.mark.parametrize(
    ("name", "fmt"), [*zip(NAMES, (*FLOATS, *FLOATS), strict=False), ("lt", Format.FP32), ("ne", Format.TF32)]
)
def test_pairs(name: str, fmt: Format) -> None:
    compare_pairs(name, fmt)


@pytest.mark.long
@pytest.mark.parametrize("fmt", FLOATS)
@pytest.mark.parametrize("name", NAMES)
def test_pairs_in_every_format(name: str, fmt: Format) -> None:
    compare_pairs(name, fmt)


def compare_pairs(name: str, fmt: Format) -> None:
    """Random and special elements; a third of the pairs are equal, and each special one meets each other
    one."""
    rng = np.random.default_rng(4)
    special = np.array(SPECIAL[fmt], f"u{fmt.bits // 8}")
    first = np.concatenate([np.repeat(special, len(special)), patterns(fmt, 9001, rng)])
    second = np.concatenate([np.tile(special, len(special)), patterns(fmt, 9001, rng)])
    second = np.where(np.arange(len(first)) % 3 == 2, first, second)
    with np.errstate(invalid="ignore"):
        expected = COMPARE[name](numbers(fmt, first), numbers(fmt, second))
    assert 0 < expected.sum() < len(expected)
    compare(name, fmt, "vv", first, second, expected)


def compare_less(fmt: Format, form: str, first: Any, second: Any, place: Any, **counts: int) -> None:
    with np.errstate(invalid="ignore"):
        expected = numbers(fmt, first) < numbers(fmt, second)[place]
    compare("lt", fmt, form, first, second, expected, **counts)


@pytest.mark.parametrize("unit", [1, 2, 31, 32, 37, 48, 63, 64])
@pytest.mark.parametrize("n", [1, 63, 64, 1000, 4099, 9001])
def test_unit_vector_wraps(n: int, unit: int) -> None:
    rng = np.random.default_rng(n + unit)
    fmt = Format.TF32 if unit % 2 else Format.FP16
    first, second = patterns(fmt, n, rng), patterns(fmt, unit, rng)
    compare_less(fmt, "vuv", first, second, np.arange(n) % unit, unit=unit)


@pytest.mark.parametrize(("n", "groups"), [(64, 1), (64, 70), (128, 3), (1088, 4), (4160, 2)])
@pytest.mark.parametrize("fmt", [Format.FP16, Format.BF16])
def test_unit_vectors_by_group(fmt: Format, n: int, groups: int) -> None:
    rng = np.random.default_rng(n)
    first, second = patterns(fmt, n * groups, rng), patterns(fmt, 64 * groups, rng)
    i = np.arange(n * groups)
    place = i // n * 64 + i % n % 64
    compare_less(fmt, "vuv_loop", first, second, place, n=n, unit=64, full=n * groups, full_unit=64 * groups)


# --- places -------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [65, 4500])
@pytest.mark.parametrize("alias", ALIASES)
@pytest.mark.parametrize("form", FORMS)
def test_overlapping_operands_are_a_snapshot(form: str, alias: str, n: int) -> None:
    values = operands(RECORDS[f"ct.lt.{form}"], n)
    if form.endswith("loop"):
        values |= {"n": 64, "full": n // 64 * 64, "full_unit": n // 64 * 64}
    moved = {k: v for k, v in ALIASES[alias].items() if not (k == "src1" and form.endswith("vs"))}
    Tile(1, Format.FP16).check(f"ct.lt.{form}", Format.FP16, True, **(values | moved))


@pytest.mark.parametrize("first", [1, 3, 7, 63])
@pytest.mark.parametrize("n", [5, 64, 1000])
def test_bits_may_begin_at_any_byte(n: int, first: int) -> None:
    values = {"dst": DST + first, "src0": SRC0 + 2 * first, "src1": SRC1 + 6 * first, "n": n}
    Tile(3, Format.FP16).check("ct.ge.bv.vv", Format.FP16, True, **values)


# --- what is refused ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mnemonic", "changed", "message"),
    [
        ("ct.lt.vuv_loop", {"unit": 32}, "unit must be 64"),
        ("ct.lt.bv.vuv_loop", {"unit": 32}, "unit must be 64"),
        ("ct.eq.bv.vuv_loop", {"n": 96}, "n must be a multiple of 64"),
        ("ct.eq.bv.vuv_loop", {"n": 0}, "operand 'n' from a register: 0 is outside"),
        ("ct.ge.bv.vuv_loop", {"full": 320}, "full must be a multiple of n"),
        ("ct.ge.bv.vuv_loop", {"full_unit": 65}, "full_unit must be a multiple of 64"),
        ("ct.ge.bv.vuv_loop", {"full_unit": 256}, "full / n must equal full_unit / unit"),
        ("ct.lt.bv.vuv", {"unit": 0}, "unit"),
        ("ct.lt.vuv", {"unit": 65}, "unit"),
        ("ct.lt.bv.vuv", {"unit": 1 << 40}, "unit"),
        ("ct.lt.bv.vv", {"n": 1 << 24}, "n"),
        ("ct.lt.bv.vv", {"src0": 0x2FFF02}, "src0"),
        ("ct.lt.bv.vv", {"src1": 0x10001}, "src1"),
        ("ct.lt.bv.vv", {"src0": 0x10001}, "src0"),
        ("ct.lt.bv.vs", {"dst": 0x2FFFF1}, "dst"),
        ("ct.lt.bv.vuv_loop", {"dst": 0x2FFFD1}, "dst"),
        ("ct.lt.vv", {"dst": 0x2FFF02}, "dst"),
        ("ct.lt.vv", {"dst": 0x30001}, "dst"),
        ("ct.lt.bv.vuv", {"src1": 0x2FFFC2}, "src1"),
    ],
)
def test_operands_that_are_refused(mnemonic: str, changed: dict[str, int], message: str) -> None:
    assert message in refusal(mnemonic, **changed)


@pytest.mark.parametrize(
    ("mnemonic", "changed"),
    [
        ("ct.lt.bv.vs", {"dst": 0x2FFFF0}),
        ("ct.lt.bv.vv", {"dst": 0x30001}),
        ("ct.lt.bv.vuv_loop", {"dst": 0x2FFFD0}),
        ("ct.lt.bv.vv", {"src0": 0x2FFF00}),
        ("ct.lt.bv.vuv", {"src1": 0x2FFFC0}),
        ("ct.lt.bv.vv", {"n": 1}),
    ],
)
def test_operands_at_the_edge_are_accepted(mnemonic: str, changed: dict[str, int]) -> None:
    assert refusal(mnemonic, **changed) == ""


@pytest.mark.parametrize(
    "line",
    [
        "ct.lt.bv.vv dst=0, src0=0, src1=0, n=8",
        "ct.lt.bv.vv.bool dst=0, src0=0, src1=0, n=8",
        "ct.lt.vv.int16 dst=0, src0=0, src1=0, n=8",
        "ct.lt.vv.fp16 dst=0, src0=0, src1=0, n=8, rnd=rtz",
        "ct.lt.bv.vuv.fp16 dst=0, src0=0, src1=0, n=8, unit=65",
        "ct.lt.bv.vuv_loop.fp16 dst=0, src0=0, src1=0, n=64, unit=32, full=64, full_unit=64",
    ],
)
def test_lines_that_do_not_assemble(line: str) -> None:
    with pytest.raises(AsmError, match=r"error"):
        asm.assemble(line)
