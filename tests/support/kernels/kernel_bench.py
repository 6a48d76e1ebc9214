"""One tile's memories in which tests run single kernels, and the records they run them for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emulator import native
from emulator.kernels import is_compact, kernel_name, make_kernel, make_table
from emulator.kernels.reference import execute
from emulator.memory import state
from tx8isa.numbers.formats import Format
from tx8isa.records.meaning import Control, Convolution, Matrix
from tx8isa.records.record import Instruction
from tx8isa.table.registry import by_mnemonic, instructions

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
            address = native.compile_kernel(kernel, name, 2, compact=is_compact(instruction))
            assert native.call(address, *where) == 0
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
