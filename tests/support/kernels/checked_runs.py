"""Checked variants of kernels, and the exception bits they raise."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np

from emulator import native
from emulator.kernels import FAMILIES, is_compact, kernel_name, make_kernel
from emulator.memory import state
from kernel_bench import Tile
from tx8isa.numbers.formats import Format
from tx8isa.records.record import Instruction
from tx8isa.table.registry import by_mnemonic, instructions

RECORDS = by_mnemonic()

DST, SRC0, SRC1 = 0x8000, 0x1000, 0x4000
HALF = Fraction(1, 2)
CHECKED = tuple(meaning for meaning, family in FAMILIES.items() if family.checked)
WATCHED = [i for i in instructions() if isinstance(i.meaning, CHECKED)]


def run_checked(
    tile: Tile, record: Instruction, fmt: Format | None, values: list[int], compiled: bool
) -> int:
    """Run the checked kernel; return the bits that it raises."""
    names = [operand.name for operand in record.operands]
    nearest = "rnd" not in names or values[names.index("rnd")] == 0
    kernel = make_kernel(record, fmt, nearest, True)
    fields = np.array([*values, 0], np.int64)
    where = fields.ctypes.data, tile.state.ctypes.data
    tile.state[state.NUMERIC] = 0
    with np.errstate(all="ignore"):
        if compiled:
            name = kernel_name(record, fmt, nearest, True)
            address = native.compile_kernel(kernel, name, 2, compact=is_compact(record))
            assert native.call(address, *where) == 0
        else:
            assert kernel(*where) == 0
    return int(tile.state[state.NUMERIC])


@cache
def tile() -> Tile:
    return Tile()


def put(address: int, fmt: Format, pattern: int) -> None:
    size = fmt.bits // 8
    tile().spm[address : address + size] = np.frombuffer(pattern.to_bytes(size, "little"), np.uint8)


def take(address: int, fmt: Format) -> int:
    return int.from_bytes(tile().spm[address : address + fmt.bits // 8].tobytes(), "little")


def one(
    mnemonic: str, fmt: Format | None, source: Format, target: Format, a: int, b: int, **more: int
) -> tuple[int, int]:
    """(pattern of the result, bits) of an instruction on single elements."""
    record = RECORDS[mnemonic]
    put(SRC0, source, a)
    put(SRC1, source, b)
    named = {"dst": DST, "src0": SRC0, "src1": SRC1, "n": 1, **more}
    bits = run_checked(tile(), record, fmt, [named.get(o.name, 0) for o in record.operands], False)
    return take(DST, target), bits
