"""Vector instructions and converts: kernels against the slow reference, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.memory import state
from kernel_bench import RECORDS, Tile, kernel_ident, variants
from tx8isa.numbers.formats import FLOATS, Format
from tx8isa.records.meaning import Convert, Elementwise, Form
from tx8isa.records.record import Instruction

LENGTHS = (0, 1, 15, 63, 64, 65)
DST, SRC0, SRC1 = 0x8000, 0x1000, 0x4000
VECTOR = [v for v in variants() if isinstance(v[0].meaning, Elementwise)]
CONVERTS = [v for v in variants() if isinstance(v[0].meaning, Convert)]
ELEMENTWISE = [i for i in RECORDS.values() if isinstance(i.meaning, Elementwise)]


def ident(value: Any) -> str:
    return kernel_ident(value) if isinstance(value, tuple) else str(value)


def operands(instruction: Instruction, n: int, mode: int) -> dict[str, int]:
    """A plain case of ``n`` elements; the loop form gets three groups of a multiple of 64."""
    form = instruction.meaning.form if isinstance(instruction.meaning, Elementwise) else Form.V
    values = {"dst": DST, "src0": SRC0, "n": n}
    if form is Form.VS:
        values["src1"] = 0xC2480000 | 0xC248  # a number in every format
    elif form is not Form.V:
        values["src1"] = SRC1
    if form is Form.VUV:
        values["unit"] = min(37, max(n, 1))
    if form is Form.VUV_LOOP:
        groups = 3 if n > 64 else 1
        n = max(n // 64, 1) * 64
        values |= {"n": n, "unit": 64, "full": groups * n, "full_unit": groups * 64}
    if any(operand.name == "rnd" for operand in instruction.operands):
        values["rnd"] = mode
    return values


def modes(variant: tuple[Instruction, Format | None, bool]) -> tuple[int, ...]:
    return (0,) if variant[2] else (1, 2, 3, 4)


def source_format(variant: tuple[Instruction, Format | None, bool]) -> Format:
    instruction, fmt, _ = variant
    source: Format = fmt if fmt is not None else instruction.meaning.source
    return source


def check(variant: tuple[Instruction, Format | None, bool], compiled: bool, lengths: tuple[int, ...]) -> None:
    instruction, fmt, _ = variant
    for mode in modes(variant):
        for n in lengths:
            tile = Tile(seed=n + mode, fmt=source_format(variant))
            tile.check(instruction.mnemonic, fmt, compiled, **operands(instruction, n, mode))


@pytest.mark.parametrize("variant", VECTOR + CONVERTS, ids=kernel_ident)
def test_interpreted_kernel_equals_reference(variant: Any) -> None:
    check(variant, False, (0, 1, 65))


def chosen() -> list[tuple[Instruction, Format | None, bool]]:
    """A compiled sample that has every body, every form, every format and every kind of convert."""
    sample = []
    for number, variant in enumerate(VECTOR):
        instruction, fmt, nearest = variant
        form = instruction.meaning.form
        turn = FLOATS[number // 5 % 4]
        if form in (Form.V, Form.VV) and nearest and fmt is turn:
            sample.append(variant)
        if instruction.mnemonic.startswith("ct.sub") and fmt is Format.FP16 and form is not Form.VV:
            sample.append(variant)
        if instruction.mnemonic == "ct.div.vv" and not nearest and fmt in (Format.FP32, Format.BF16):
            sample.append(variant)
    return sample + CONVERTS[::5]


@pytest.mark.parametrize("variant", chosen(), ids=kernel_ident)
def test_compiled_kernel_equals_reference(variant: Any) -> None:
    check(variant, True, LENGTHS)


def test_the_compiled_sample_is_wide() -> None:
    sample = chosen()
    assert {v[0].meaning.form for v in sample if v[1]} == set(Form)
    assert {v[1] for v in sample} == {*FLOATS, None}
    assert len({v[0].meaning.body for v in sample if v[1]}) >= 20


@pytest.mark.long
@pytest.mark.parametrize("variant", VECTOR + CONVERTS, ids=kernel_ident)
def test_every_compiled_kernel_equals_reference(variant: Any) -> None:
    check(variant, True, (*LENGTHS, 7, 16, 17, 127, 128, 1025))


ALIASES = {
    "result is src0": {"dst": SRC0},
    "result is src1": {"dst": SRC1},
    "all the same": {"dst": SRC0, "src1": SRC0},
    "result just behind src0": {"dst": SRC0 + 8},
    "result just before src0": {"dst": SRC0 - 8},
    "result just behind src1": {"dst": SRC1 + 8},
    "result just before src1": {"dst": SRC1 - 8},
    "result begins in the last of src0": {"dst": SRC0 + 120},
    "result ends in the first of src0": {"dst": SRC0 - 120},
    "result begins in the last of src1": {"dst": SRC1 + 120},
    "result ends in the first of src1": {"dst": SRC1 - 120},
    "result between the two": {"src1": SRC0 + 256, "dst": SRC0 + 128},
    "result touches src0": {"dst": SRC0 + 4 * 4500},
    "sources are one": {"src1": SRC0},
}


@pytest.mark.parametrize("n", [65, 4500])
@pytest.mark.parametrize("alias", ALIASES)
@pytest.mark.parametrize("mnemonic", ["ct.abs.v", "ct.sub.vs", "ct.sub.vv", "ct.sub.vuv", "ct.sub.vuv_loop"])
def test_overlapping_operands_are_a_snapshot(mnemonic: str, alias: str, n: int) -> None:
    fmt = Format.FP32 if mnemonic == "ct.sub.vv" else Format.FP16
    values = operands(RECORDS[mnemonic], n, 0)
    moved = {
        k: v for k, v in ALIASES[alias].items() if k in values and not (k == "src1" and "vs" in mnemonic)
    }
    if mnemonic == "ct.sub.vuv_loop":
        values |= {"n": 64, "full": n // 64 * 64, "full_unit": n // 64 * 64}
    Tile(1, fmt).check(mnemonic, fmt, True, **(values | moved))


@pytest.mark.parametrize("mode", [0, 4])
@pytest.mark.parametrize("shift", [0, -8, 8, 128, -128])
@pytest.mark.parametrize(
    "mnemonic", ["ct.cvt.fp16.fp32", "ct.cvt.fp32.fp16", "ct.cvt.int8.fp32", "ct.cvt.fp32.int8"]
)
def test_overlapping_converts_are_a_snapshot(mnemonic: str, shift: int, mode: int) -> None:
    source = RECORDS[mnemonic].meaning.source
    rounded = {"rnd": mode} if any(o.name == "rnd" for o in RECORDS[mnemonic].operands) else {}
    Tile(2, source).check(mnemonic, None, True, dst=SRC0 + shift, src0=SRC0, n=333, **rounded)


@pytest.mark.parametrize("first", [0, 1, 3, 31])
def test_bases_need_no_more_than_element_alignment(first: int) -> None:
    values = {"dst": DST + 2 * (first + 1), "src0": SRC0 + 2 * first, "src1": SRC1 + 2 * (first + 5), "n": 77}
    Tile(3, Format.FP16).check("ct.sub.vv", Format.FP16, True, **values)


@pytest.mark.parametrize("unit", [1, 2, 31, 32, 37, 63, 64])
@pytest.mark.parametrize("n", [1, 30, 64, 1023, 1024, 1025, 3000])
def test_unit_vector_wraps(unit: int, n: int) -> None:
    values = {"dst": DST, "src0": SRC0, "src1": SRC1, "n": n, "unit": unit}
    Tile(4, Format.FP16).check("ct.sub.vuv", Format.FP16, True, **values)


@pytest.mark.parametrize(("n", "groups"), [(64, 1), (128, 3), (192, 2), (1088, 4), (2048, 2)])
def test_unit_vectors_by_group(n: int, groups: int) -> None:
    values = {"n": n, "unit": 64, "full": n * groups, "full_unit": 64 * groups}
    Tile(5, Format.FP16).check("ct.sub.vuv_loop", Format.FP16, True, dst=DST, src0=SRC0, src1=SRC1, **values)


@pytest.mark.parametrize("zero", [0, 1, 127])
@pytest.mark.parametrize("target", ["fp16", "bf16", "fp32", "tf32"])
def test_zero_points(zero: int, target: str) -> None:
    Tile(6, Format.INT8).check(f"ct.cvt.int8.{target}", None, True, dst=DST, src0=SRC0, n=256, zero=zero)


def test_in_place_runs_of_many_pieces() -> None:
    """Longer than the piece that is copied through scratch at a time; the result is on either source and on
    both."""
    for alias in ({"dst": SRC0}, {"dst": SRC1}, {"dst": SRC0, "src1": SRC0}):
        values = {"dst": DST, "src0": SRC0, "src1": SRC1, "n": 5000} | alias
        Tile(7, Format.FP16).check("ct.sub.vv", Format.FP16, True, **values)


def test_stochastic_rounding_depends_on_the_state_and_only_in_mode_4() -> None:
    results = []
    for seed in (1, 2):
        tile = Tile(8, Format.FP32)
        tile.state[state.RANDOM] = seed
        tile.run("ct.cvt.fp32.fp16", None, True, {"dst": DST, "src0": SRC0, "n": 500, "rnd": 4})
        results.append(tile.spm.tobytes())
    assert results[0] != results[1]
    tile = Tile(8, Format.FP32)
    tile.run("ct.cvt.fp32.fp16", None, True, {"dst": DST, "src0": SRC0, "n": 500, "rnd": 1})
    assert tile.state[state.RANDOM] == 0xACE1
