"""The contract of the kernel layer, and the bench on which the other test_kernels files run kernels.

``Tile.check`` runs one kernel and the slow reference on equal memories and compares every byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emulator import native, state
from emulator.kernels import kernel_name, make_kernel, make_table
from emulator.kernels.lfsr import random_bits, step
from emulator.kernels.reference import execute
from emulator.native.keys import kernel_key
from tx8isa.formats import FLOATS, Format
from tx8isa.meaning import Control, Convert, Convolution, Elementwise, Matrix
from tx8isa.record import Instruction
from tx8isa.registry import by_mnemonic, instructions

RECORDS = by_mnemonic()
MIB = 1 << 20
SPM_BYTES = 1 << 16
DDR_BYTES = 1 << 16

SPECIAL = {
    Format.FP16: (
        0x0000,
        0x8000,
        0x0001,
        0x8001,
        0x03FF,
        0x0400,
        0x3C00,
        0xBC00,
        0x3C01,
        0x3BFF,
        0x4600,
        0x7BFF,
        0xFBFF,
        0x7C00,
        0xFC00,
        0x7C01,
        0xFE00,
        0x7FFF,
        0xFD55,
    ),
    Format.BF16: (
        0x0000,
        0x8000,
        0x0001,
        0x8001,
        0x007F,
        0x0080,
        0x3F80,
        0xBF80,
        0x3F81,
        0x4700,
        0x477F,
        0x7F7F,
        0xFF7F,
        0x7F80,
        0xFF80,
        0x7F81,
        0xFFC0,
        0x7FFF,
        0x3300,
    ),
    Format.FP32: (
        0x00000000,
        0x80000000,
        0x00000001,
        0x807FFFFF,
        0x00800000,
        0x3F800000,
        0xBF800000,
        0x3F801000,
        0x3F803000,
        0x3F808000,
        0x477FF000,
        0x477FEFFF,
        0x33000000,
        0x33000001,
        0x7F7FFFFF,
        0xFF7FFFFF,
        0x7F800000,
        0xFF800000,
        0x7F800001,
        0xFFC12345,
        0x4EFFFFFF,
        0x4F000000,
        0xCF000000,
        0x3F000000,
        0x40200000,
    ),
    Format.TF32: (
        0x00000000,
        0x80001FFF,
        0x00002000,
        0x00402000,
        0x3F800000,
        0x3F801FFF,
        0xBF802000,
        0x7F7FE000,
        0xFF7FE000,
        0x7F800000,
        0xFF800000,
        0x7F800001,
        0x7F802000,
        0xFFC12345,
        0x1D910000,
        0x1CE20000,
    ),
    Format.INT8: (0, 1, 0x7F, 0x80, 0xFF),
    Format.INT16: (0, 1, 0x7FFF, 0x8000, 0xFFFF, 0x0801, 0x0803),
    Format.INT32: (
        0,
        1,
        0x7FFFFFFF,
        0x80000000,
        0xFFFFFFFF,
        0x01000001,
        0x01000003,
        0x0001FFFF,
        2049,
        2051,
        65519,
        65520,
    ),
}
"""Zeros of both signs, ends of the subnormal, normal and finite ranges, ties, infinities, NaN payloads."""


def pack(*lanes: int) -> int:
    """A packed operand, highest lane first."""
    value = 0
    for lane in lanes:
        value = value << 16 | lane
    return value


def patterns(fmt: Format, n: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """``n`` stored elements: random bits, random numbers of ordinary size, and special ones."""
    dtype = np.dtype(f"u{fmt.bits // 8}")
    raw = rng.integers(0, 1 << fmt.bits, n, dtype=np.uint64).astype(dtype)
    if fmt.is_float:
        ordinary = (rng.normal(size=n) * 4).astype(np.float32).view(np.uint32)
        if fmt is Format.FP16:
            ordinary = ordinary.view(np.float32).astype(np.float16).view(np.uint16)
        elif fmt is Format.BF16:
            ordinary = (ordinary >> 16).astype(np.uint16)
        raw = np.where(rng.random(n) < 0.5, raw, ordinary.astype(dtype))
    special = rng.choice(np.array(SPECIAL[fmt], dtype), n)
    return np.where(rng.random(n) < 0.4, special, raw).astype(dtype)


def field_values(instruction: Instruction, operands: dict[str, int]) -> list[int]:
    """Operand values in record order, defaults filled in."""
    values = []
    for operand in instruction.operands:
        default = operand.default if isinstance(operand.default, int) else 0
        values.append(operands.get(operand.name, default))
    unknown = set(operands) - {operand.name for operand in instruction.operands}
    assert not unknown, f"{instruction.mnemonic} has no operand {unknown}"
    return values


class Tile:
    """Memories and the state words of a tile."""

    scratch = np.zeros(9 * MIB, np.uint8)

    def __init__(self, seed: int = 0, fmt: Format | None = None) -> None:
        self.rng = np.random.default_rng(seed)
        if fmt is None:
            self.spm = self.rng.integers(0, 256, SPM_BYTES, dtype=np.uint8)
        else:
            self.spm = patterns(fmt, SPM_BYTES * 8 // fmt.bits, self.rng).view(np.uint8)
        self.ddr = self.rng.integers(0, 256, DDR_BYTES, dtype=np.uint8)
        self.state = np.zeros(state.SIZE, np.int64)
        self.state[state.SPM] = self.spm.ctypes.data
        self.state[state.DDR] = self.ddr.ctypes.data
        self.state[state.SCRATCH] = self.scratch.ctypes.data
        self.state[state.SCRATCH_BYTES] = self.scratch.size
        self.state[state.RANDOM] = 0xACE1
        self.state[state.SPM_BYTES] = self.spm.size
        self.write_back = np.array([-7, 11], np.int64)
        """Registers wb_data0 and wb_data1."""
        self.state[state.WRITE_BACK] = self.write_back.ctypes.data

    def run(self, mnemonic: str, fmt: Format | None, compiled: bool, operands: dict[str, int]) -> None:
        """Run the kernel alone."""
        instruction = RECORDS[mnemonic]
        nearest = operands.get("rnd", 0) == 0
        kernel = make_kernel(instruction, fmt, nearest)
        table = make_table(instruction, fmt)
        address = 0 if table is None else table.ctypes.data
        fields = np.array([*field_values(instruction, operands), address], np.int64)
        where = fields.ctypes.data, self.state.ctypes.data
        if compiled:
            name = kernel_name(instruction, fmt, nearest)
            assert native.call(native.compile_kernel(kernel, name, 2), *where) == 0
        else:
            with np.errstate(all="ignore"):
                assert kernel(*where) == 0

    def check(self, mnemonic: str, fmt: Format | None, compiled: bool, **operands: int) -> None:
        """Run the kernel and the reference; every byte of SPM and DDR and the random state must agree."""
        instruction = RECORDS[mnemonic]
        spm, ddr = bytearray(self.spm.tobytes()), bytearray(self.ddr.tobytes())
        values = field_values(instruction, operands)
        write_back: list[int] = self.write_back.tolist()
        random = execute(instruction, fmt, values, spm, ddr, int(self.state[state.RANDOM]), write_back)
        self.run(mnemonic, fmt, compiled, operands)
        _same(self.spm, spm, f"SPM after {mnemonic} {fmt!r} {operands}")
        _same(self.ddr, ddr, f"DDR after {mnemonic} {fmt!r} {operands}")
        assert int(self.state[state.RANDOM]) == random
        assert self.write_back.tolist() == write_back


def _same(found: np.ndarray[Any, Any], expected: bytearray, what: str) -> None:
    wrong = np.flatnonzero(found != np.frombuffer(expected, np.uint8))
    if wrong.size:
        at = int(wrong[0]) & -4
        pytest.fail(
            f"{what}: {wrong.size} bytes differ, first at {int(wrong[0]):#x}: kernel "
            f"{found[at : at + 8].tobytes().hex(' ')}, reference {bytes(expected[at : at + 8]).hex(' ')}"
        )


NOT_HERE = (Matrix, Convolution, Control)


def kernel_ident(variant: tuple[Instruction, Format | None, bool]) -> str:
    instruction, fmt, nearest = variant
    return f"{instruction.mnemonic}-{fmt.token if fmt else ''}-{'rne' if nearest else 'modes'}"


def variants() -> list[tuple[Instruction, Format | None, bool]]:
    """Every kernel there is."""
    found = []
    for instruction in instructions():
        if isinstance(instruction.meaning, NOT_HERE):
            continue
        rounded = any(operand.name == "rnd" for operand in instruction.operands)
        for fmt in instruction.formats or (None,):
            found += [(instruction, fmt, nearest) for nearest in ((True, False) if rounded else (True,))]
    return found


def test_every_record_has_a_kernel_for_each_format() -> None:
    assert len(variants()) > 300
    for instruction, fmt, nearest in variants():
        assert callable(make_kernel(instruction, fmt, nearest))


def test_kernels_share_a_name_exactly_when_they_share_code() -> None:
    """The object cache's key without the name is the same for equal code."""
    keys: dict[str, set[str]] = {}
    for variant in variants():
        keys.setdefault(kernel_name(*variant), set()).add(kernel_key(make_kernel(*variant), "", 2))
    assert all(len(found) == 1 for found in keys.values())
    assert len(keys) > 280


def test_kernel_names_are_readable() -> None:
    assert kernel_name(RECORDS["td.pad"], Format.BF16, True) == "td.pad.16bit"
    assert kernel_name(RECORDS["ct.exp.v"], Format.BF16, True) == "ct.lookup.v"
    assert kernel_name(RECORDS["ct.add.vv"], Format.FP16, False) == "ct.add.vv.fp16.rounded"
    assert kernel_name(RECORDS["ct.cvt.fp16.int8"], None, True) == "ct.cvt.fp16.int8"


@pytest.mark.parametrize("instruction", [i for i in instructions() if isinstance(i.meaning, NOT_HERE)])
def test_records_of_other_units_are_refused(instruction: Instruction) -> None:
    fmt = instruction.formats[0] if instruction.formats else None
    with pytest.raises(ValueError, match=instruction.mnemonic):
        make_kernel(instruction, fmt, True)
    if isinstance(instruction.meaning, Matrix | Convolution):
        return
    with pytest.raises(ValueError, match=instruction.mnemonic):
        execute(instruction, fmt, field_values(instruction, {}), bytearray(64), bytearray(64))


@pytest.mark.parametrize(
    ("mnemonic", "fmt"),
    [
        ("ct.add.vv", Format.INT8),
        ("ct.add.vv", None),
        ("td.memset", Format.BOOL),
        ("ct.cvt.fp16.int8", Format.FP16),
    ],
)
def test_formats_a_record_does_not_have_are_refused(mnemonic: str, fmt: Format | None) -> None:
    with pytest.raises(ValueError, match="has no format"):
        make_kernel(RECORDS[mnemonic], fmt, True)


def test_tables_exist_exactly_for_costly_functions_of_16_bits() -> None:
    for instruction, fmt, _ in variants():
        meaning = instruction.meaning
        wanted = (
            isinstance(meaning, Elementwise)
            and instruction.mnemonic.endswith(".v")
            and not meaning.single
            and fmt in (Format.FP16, Format.BF16)
        )
        if not wanted:
            assert make_table(instruction, fmt) is None
    table = make_table(RECORDS["ct.sqrt.v"], Format.FP16)
    assert table is not None and table.dtype == np.uint16 and table.shape == (65536,)
    assert table is make_table(RECORDS["ct.sqrt.v"], Format.FP16)
    assert table[0x4400] == 0x4000  # the root of 4


Columns = list[int]
"""A 32 x 32 matrix of bits: column k is the image of 1 << k."""


def image(matrix: Columns, vector: int) -> int:
    result = 0
    for k, column in enumerate(matrix):
        if vector >> k & 1:
            result ^= column
    return result


def test_lfsr_has_the_full_period() -> None:
    """Its matrix over GF(2) has order 2**32 - 1: that power is 1, and no power by a prime factor less is."""
    identity = [1 << k for k in range(32)]
    matrix = [step(1 << k) for k in range(32)]
    rng = np.random.default_rng(1)
    for vector in rng.integers(1, 1 << 32, 50).tolist():
        assert step(vector) == image(matrix, vector)

    def power(exponent: int) -> Columns:
        result, base = identity, matrix
        while exponent:
            if exponent & 1:
                result = [image(base, column) for column in result]
            base = [image(base, column) for column in base]
            exponent >>= 1
        return result

    order = (1 << 32) - 1
    assert power(order) == identity
    for prime in (3, 5, 17, 257, 65537):
        assert power(order // prime) != identity


def test_lfsr_never_stops_at_zero() -> None:
    assert step(0) == step(1) != 0


def test_random_bits_are_spread_evenly() -> None:
    """4,096 draws: mean, and mean product of neighbours, within five standard deviations of uniform ones."""
    state_, draws = 0xACE1, []
    for _ in range(4096):
        state_ = step(state_)
        assert 0 < state_ < 1 << 32
        draws.append(random_bits(state_) / 2.0**52)
    assert all(0 <= x < 1 for x in draws)
    x = np.array(draws)
    assert abs(x.mean() - 0.5) < 5 * (1 / 12 / 4096) ** 0.5
    assert abs(((x[1:] - 0.5) * (x[:-1] - 0.5)).mean()) < 5 * (1 / 12) / 4095**0.5


def test_converts_have_no_format_suffix() -> None:
    assert all(not i.formats for i in instructions() if isinstance(i.meaning, Convert))
    assert all(i.formats == FLOATS for i in instructions() if isinstance(i.meaning, Elementwise))
