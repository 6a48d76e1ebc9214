"""Operands of relations, and their results by comparisons of NumPy and ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from chip_bench import build, chip
from emulator.tile.fault import Fault
from kernel_bench import RECORDS
from tx8isa.numbers.formats import Format
from tx8isa.records.meaning import Form
from tx8isa.records.record import Instruction

DST, SRC0, SRC1 = 0x8000, 0x1000, 0x4000


LENGTHS = (0, 1, 7, 8, 9, 63, 64, 65, 1000)


NUMPY = {
    Format.FP16: np.float16,
    Format.BF16: ml_dtypes.bfloat16,
    Format.FP32: np.float32,
    Format.TF32: np.float32,
}


ONE = {Format.FP16: 0x3C00, Format.BF16: 0x3F80, Format.FP32: 0x3F800000, Format.TF32: 0x3F800000}


def operands(instruction: Instruction, n: int) -> dict[str, int]:
    """A plain case of ``n`` elements; the loop form gets three groups of a multiple of 64."""
    form = instruction.meaning.form
    values = {"dst": DST, "src0": SRC0, "n": n}
    if form is not Form.V:
        values["src1"] = 0xC2480000 | 0xC248 if form is Form.VS else SRC1  # a number in every format
    if form is Form.VUV:
        values["unit"] = min(37, max(n, 1))
    if form is Form.VUV_LOOP:
        n = max(n // 64, 1) * 64
        values |= {"n": n, "unit": 64, "full": 3 * n, "full_unit": 3 * 64}
    return values


def numbers(fmt: Format, stored: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Stored patterns as numbers of numpy; TF32 without its low 13 bits."""
    if fmt is Format.TF32:
        stored = stored & np.uint32(0xFFFFE000)
    return stored.view(NUMPY[fmt])


ALIASES = {
    "result is src0": {"dst": SRC0},
    "result is src1": {"dst": SRC1},
    "all the same": {"dst": SRC0, "src1": SRC0},
    "sources are one": {"src1": SRC0},
    "result just behind src0": {"dst": SRC0 + 8},
    "result just before src0": {"dst": SRC0 - 8},
    "result far inside src0": {"dst": SRC0 + 2048},
    "result just behind src1": {"dst": SRC1 + 8},
    "result just before src1": {"dst": SRC1 - 8},
    "result far inside src1": {"dst": SRC1 + 100},
    "result reaches into src0": {"dst": SRC0 - 64},
    "result behind both": {"src1": SRC0 + 64, "dst": SRC0 + 128},
    "result between the two": {"src1": SRC0 + 256, "dst": SRC0 + 128},
}


def refusal(mnemonic: str, **changed: int) -> str:
    """The fault of the record's example with some operands changed, through registers; empty if none."""
    name, _, rest = RECORDS[mnemonic].example.partition(" ")
    values = dict(part.split("=") for part in rest.split(", "))
    lines = []
    for number, (operand, value) in enumerate(changed.items()):
        lines.append(f"li t{number}, {value}")
        assert operand in values
        values[operand] = f"t{number}"
    lines += [f"{name} " + ", ".join(f"{k}={v}" for k, v in values.items()), "ncc.wait", "ebreak"]
    with pytest.raises(Fault) as fault:
        build("\n".join(lines), chip()).run()
    text = str(fault.value)
    return "" if "ebreak" in text else text.partition(": ")[2]
