"""The meanings of instructions in the field, against their results for small integers.

With the order of numbers in place of the keyed one, maxima and relations are those of the numbers.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from emulator.kernels import reference
from emulator.watch.prove.memory import FieldMemory, move
from emulator.watch.prove.observer import RULES
from emulator.watch.prove.step import FieldStep, NotFollowed, aligned
from record_operands import DDR_BYTES, SPM_BYTES, Case, draw
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import element_offset
from tx8isa.numbers.packing import storage_dtype, stored_numbers
from tx8isa.numbers.prime_field import Elements, PrimeField, Words
from tx8isa.numbers.rounding import rounded
from tx8isa.records.meaning import (
    Bitwise,
    Convolution,
    Direction,
    Elementwise,
    Fill,
    Nest,
    Pool,
    Relation,
    Unpack,
)
from tx8isa.records.record import Instruction, Operand
from tx8isa.table.registry import instructions

INEXACT = (
    *("recip", "sqrt", "rsqrt", "log2", "ln", "pow2", "exp", "exp_lp", "sin", "cos", "tanh", "sigmoid"),
    *("softplus", "leakyrelu", "div", "avg"),
)
"""Functions of integers that are no integers."""


LITERAL = (Fill, Bitwise, Unpack)
"""Meanings whose results are never elements."""


class Numbers(PrimeField):
    """A field whose keyed order is that of small integers."""

    def order(self, x: Elements) -> Words:
        own = np.nan_to_num(self.canonical(x)[: self.primes], posinf=2.0**40, neginf=-(2.0**40))
        return (own + 2.0**41).astype(np.uint64)


FIELD = Numbers(1, exponentials=False)


def not_followed(record: Instruction) -> bool:
    """Return True if a record has no meaning in the field."""
    meaning = record.meaning
    packed = isinstance(meaning, Relation) and meaning.packed
    indexed = isinstance(meaning, Pool) and meaning.indexed
    backward = isinstance(meaning, Convolution) and meaning.direction is Direction.BACKWARD
    return packed or indexed or backward or record.mnemonic == "ct.lut32"


def records() -> list[tuple[Instruction, Format | None]]:
    """The records with a rule, in each of their formats."""
    found = []
    for record in instructions():
        name = record.mnemonic.split(".")
        inexact = any(part in INEXACT for part in name[1:])
        followed = type(record.meaning) in RULES and not not_followed(record)
        if followed and not inexact and not isinstance(record.meaning, LITERAL):
            found += [(record, fmt) for fmt in record.formats or (None,) if fmt is not Format.BOOL]
    return found


def operand_format(case: Case, operand: Operand) -> Format:
    """Return the format of the data at an address."""
    assert operand.extent is not None
    first = operand.extent.arguments[0]
    if isinstance(first, str) and first.startswith("@"):
        return Format(case.named[first[1:]])
    if isinstance(case.record.meaning, Nest):
        return Format.FP16
    name = {"src0": "source", "dst": "target"}.get(operand.name, "")
    return getattr(case.record.meaning, name, Format.INT32)


def small(count: int, fmt: Format, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """The bytes of small integers in a format."""
    values = rng.integers(-3, 4, count)
    if fmt.is_float:
        return np.asarray(rounded(values.astype(np.float64), fmt)).view(np.uint8)
    return values.astype(storage_dtype(fmt)).view(np.uint8)


def run(case: Case, seed: int) -> tuple[FieldMemory, FieldMemory, bytearray, bytearray]:
    """The memories after the rule, and the bytes after the instruction."""
    rng = np.random.default_rng(seed)
    for operand in case.record.operands:
        if operand.scalar and case.fmt is not None:
            case.named[operand.name] = int.from_bytes(small(1, case.fmt, rng).tobytes(), "little")
    spm, ddr = np.zeros(SPM_BYTES, np.uint8), np.zeros(DDR_BYTES, np.uint8)
    memories = {"spm": FieldMemory(spm, FIELD), "ddr": FieldMemory(ddr, FIELD)}
    for operand in case.addresses():
        if operand.role == "write" or (operand.name == "src1" and "gather" in case.record.mnemonic):
            continue
        fmt = operand_format(case, operand)
        first, size = case.named[operand.name], fmt.bits // 8
        count = case.length(operand) // size
        memory = memories[operand.memory]
        memory.data[first : first + count * size] = small(count, fmt, rng)
        places = first + np.arange(count) * size
        memory.write(places, fmt, memory.read(places, fmt))
    after, far = bytearray(spm.tobytes()), bytearray(ddr.tobytes())
    step = FieldStep(case.record, case.fmt, case.named, memories["spm"], memories["ddr"], FIELD, {})
    RULES[type(case.record.meaning)](step)
    reference.execute(case.record, case.fmt, case.values, after, far)
    return memories["spm"], memories["ddr"], after, far


def check(case: Case, seed: int) -> None:
    spm, ddr, after, far = run(case, seed)
    for operand in case.addresses():
        if operand.role == "read":
            continue
        fmt = operand_format(case, operand)
        size = fmt.bits // 8
        memory, data = (ddr, far) if operand.memory == "ddr" else (spm, after)
        places = case.named[operand.name] + np.arange(case.length(operand) // size) * size
        there = np.array([memory.has_elements(places[at : at + 1]) for at in range(places.size)], bool)
        whole = np.frombuffer(bytes(data), np.uint8)
        words = np.zeros(places.shape, np.int64)
        for byte in range(size):
            words |= whole[places + byte].astype(np.int64) << 8 * byte
        assert (words[~there] == 0).all(), f"{case.record.mnemonic} {operand.name}: a result is no element"
        found = FIELD.canonical(memory.read(places[there], fmt))
        wanted = FIELD.canonical(FIELD.of_numbers(stored_numbers(words[there], fmt)))
        assert np.array_equal(found, wanted, equal_nan=True), (
            f"{case.record.mnemonic} {operand.name} {case.named}"
        )


def with_whole_elements(case: Case) -> Case:
    """A loop nest of bytes that moves elements of two bytes; sums of which no shift cuts bits off."""
    case.put(q1=0, q0=0)
    if isinstance(case.record.meaning, Nest):
        for name, value in case.named.items():
            if "stride" in name or name == "n":
                case.named[name] = 2 * value
            elif name in ("dst", "src0"):
                case.named[name] = value & ~1
    return case


@pytest.mark.parametrize(("record", "fmt"), records(), ids=lambda each: getattr(each, "mnemonic", str(each)))
def test_elements_are_what_small_integers_become(record: Instruction, fmt: Format | None) -> None:
    rng, tried = Random(f"{record.mnemonic}{fmt}"), 0
    for size in (1, 3, 8, 20, 40, 3, 8, 20) * 3:
        case = draw(record, fmt, size, rng)
        try:
            if case is not None and tried < 4:
                check(with_whole_elements(case), size)
                tried += 1
        except NotFollowed:
            continue
    assert tried, "no such case is followed"


@pytest.mark.parametrize(
    "record", [each for each in instructions() if not_followed(each)], ids=lambda each: each.mnemonic
)
def test_what_is_not_followed_says_so(record: Instruction) -> None:
    case = draw(record, record.formats[0] if record.formats else None, 8, Random(3))
    assert case is not None
    with pytest.raises(NotFollowed):
        check(case, 8)


@pytest.mark.parametrize(("q1", "q0", "zero"), [(1, 1, 0), (3, 2, 5), (2, 4, 0xFB), (0, 3, 9)])
def test_shifted_sums_are_the_engines_where_these_are_whole(q1: int, q0: int, zero: int) -> None:
    """Elsewhere the engine's number is within one of the sum behind the shifts."""
    record = next(each for each in instructions() if each.mnemonic == "ne.conv")
    case = draw(record, Format.INT8, 8, Random(3))
    assert case is not None
    case.put(shape=[1, 1, 8, 4], dst_shape=[1, 1, 8, 4], window=[1, 1, 1, 1], pad=[0] * 4, unpad=[0] * 4)
    case.put(a=0, w=256, out=512, bias=768, scale_p=1024, scale_n=1024, psum_format=4, dilation=[1, 1])
    case.put(bias_en=1, scale_en=1, inpsum_en=0, zp_a=0, out_format=0, lrelu=0)
    case.put(q1=q1, q0=q0, zp_out=zero, relu=0)
    rng, scale = np.random.default_rng(q1), np.array([1, 3, 2, 5], np.int16)
    bias = ((-(-(1 << q0 - 1) // scale.astype(int)) << q1) + (1 << q1 >> 1)).astype(np.int32)
    spm = np.zeros(SPM_BYTES, np.uint8)
    spm[:32] = rng.integers(-9, 9, 32).astype(np.int8).view(np.uint8)
    spm[256:272] = (np.eye(4) * 16).astype(np.int8).reshape(-1).view(np.uint8)
    spm[768:784], spm[1024:1032] = bias.view(np.uint8), scale.view(np.uint8)
    memory = FieldMemory(spm, FIELD)
    memory.write(np.arange(32), Format.INT8, memory.read(np.arange(32), Format.INT8))
    after = bytearray(spm.tobytes())
    RULES[Convolution](FieldStep(record, Format.INT8, case.named, memory, memory, FIELD, {}))
    reference.execute(record, Format.INT8, case.values, after, bytearray(DDR_BYTES))
    got = FIELD.canonical(memory.read(np.arange(512, 544), Format.INT8))
    real = np.frombuffer(after, np.int8)[512:544].astype(np.float64)
    exact = sum_behind_shifts(spm, bias, scale, q1, q0, zero - (zero >> 7 << 8))
    whole = exact == np.rint(exact)
    assert whole.any()
    assert np.abs(real - exact).max() <= 1.0
    for residue in got:
        assert np.array_equal(residue[whole], exact[whole])


def sum_behind_shifts(
    spm: npt.NDArray[np.uint8], bias: npt.NDArray[Any], scale: npt.NDArray[Any], q1: int, q0: int, zero: int
) -> npt.NDArray[np.float64]:
    """Sums of 16 times each byte and the bias, behind both shifts, before anything is rounded."""
    sums = spm[:32].view(np.int8).reshape(8, 4) * 16.0 + bias
    half = [0.5 if bits else 0.0 for bits in (q1, q0)]
    found = (np.ldexp(sums, -q1) - half[0]) * scale
    return np.clip(np.ldexp(found, -q0) - half[1] + zero, -128, 127).reshape(-1)


def test_aligned_offsets_are_those_of_the_layouts() -> None:
    for bits, positions, channels in ((16, 5, 3), (16, 4, 64), (32, 3, 70), (8, 2, 130), (16, 1, 97)):
        found = aligned(2, positions, channels, bits)
        for batch, position, channel in ((0, 0, 0), (1, positions - 1, channels - 1), (1, 0, channels // 2)):
            wanted = element_offset(positions, channels, bits, batch, position, channel)
            assert found[batch, position, channel] == wanted


def test_a_function_without_algebra_is_hashed_by_its_name() -> None:
    record = next(each for each in instructions() if each.mnemonic == "ct.tanh.v")
    assert isinstance(record.meaning, Elementwise)
    spm = FieldMemory(np.zeros(4096, np.uint8), FIELD)
    x = FIELD.random("x", (8,))
    spm.write(np.arange(8) * 2, Format.FP16, x)
    values = {"format": int(Format.FP16), "dst": 256, "src0": 0, "n": 8}
    RULES[Elementwise](FieldStep(record, Format.FP16, values, spm, spm, FIELD, {}))
    assert (spm.read(256 + np.arange(8) * 2, Format.FP16) == FIELD.hashed("tanh", x)).all()


def test_literals_alone_stay_literals() -> None:
    """Their values are the bytes of the run, with the rounding of the run."""
    record = next(each for each in instructions() if each.mnemonic == "ct.add.vv")
    spm = FieldMemory(np.zeros(4096, np.uint8), FIELD)
    spm.write(np.arange(8) * 2 + 512, Format.FP16, FIELD.random("before", (8,)))
    values = {"format": int(Format.FP16), "dst": 512, "src0": 0, "src1": 256, "n": 8, "rnd": 0}
    RULES[Elementwise](FieldStep(record, Format.FP16, values, spm, spm, FIELD, {}))
    assert not spm.has_elements(np.arange(8) * 2 + 512)


@pytest.mark.parametrize("size", [2, 6, 64])
@pytest.mark.parametrize("places", [[128], [0, 64, 128], [0, 192, 384], [192, 0, 64], [0, 64, 256]])
def test_blocks_take_their_elements_along(places: list[int], size: int) -> None:
    """Blocks side by side, at even and other distances, and in another order."""
    memory, x = FieldMemory(np.zeros(4096, np.uint8), FIELD), FIELD.random("x", (512,))
    memory.write(np.arange(512) * 2, Format.FP16, x)
    targets = 2048 + np.arange(len(places)) * 64
    memory.move(np.array(places), targets, size)
    for source, target in zip(places, targets, strict=True):
        moved = memory.read(target + np.arange(size // 2) * 2, Format.FP16)
        assert (moved == x[:, source // 2 : (source + size) // 2]).all()
        assert not memory.has_elements(np.arange(target + size, target + 64))


def test_pieces_of_numbers_are_no_numbers() -> None:
    """Half of a number, a number of two halves, and one without a byte: none equals a written number."""
    spm, x = FieldMemory(np.zeros(4096, np.uint8), FIELD), FIELD.random("x", (4,))
    wide, narrow = np.arange(4) * 4, 256 + np.arange(4) * 2
    spm.write(wide, Format.FP32, x)
    spm.write(narrow, Format.FP16, x)
    assert (spm.read(wide, Format.FP32) == x).all()
    assert (spm.read(narrow, Format.FP16) == x).all()
    for places, fmt in ((wide, Format.FP16), (wide + 2, Format.FP16), (narrow[::2], Format.FP32)):
        assert not (spm.read(places, fmt)[0] == x[0, : places.size]).any()
    spm.clear(int(narrow[-1]) + 1, 1)
    found = spm.read(narrow, Format.FP16)
    assert (found[:, :-1] == x[:, :-1]).all()
    assert (found[:, -1] != x[:, -1]).all()
    move(spm, wide, spm, wide + 512, 4)
    assert (spm.read(wide + 512, Format.FP32) == x).all()


@pytest.mark.parametrize(("fmt", "other"), [(Format.UINT8, Format.INT8), (Format.INT32, Format.FP32)])
def test_a_number_of_another_kind_is_another_number(fmt: Format, other: Format) -> None:
    spm, x = FieldMemory(np.zeros(4096, np.uint8), FIELD), FIELD.random("x", (4,))
    places = np.arange(4) * (fmt.bits // 8)
    spm.write(places, fmt, x)
    assert (spm.read(places, fmt) == x).all()
    assert (spm.read(places, other) != x).any(0).all()
