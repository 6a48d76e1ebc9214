"""Operands of tensor instructions, and their results by NumPy."""

from __future__ import annotations

import pytest

from kernel_bench import RECORDS, Tile, pack
from tx8isa.numbers.formats import Format
from tx8isa.records.record import Rule

DST, SRC0, SRC1 = 0x8000, 0x0000, 0x4000


COMPILED = pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])


def legal(mnemonic: str, fmt: Format | None, values: dict[str, int]) -> bool:
    """Return True if the record's own rules accept the operands."""
    instruction = RECORDS[mnemonic]

    def argument(name: str | int) -> int:
        if isinstance(name, int):
            return name
        if name.startswith("@"):
            assert fmt is not None
            return fmt.bits
        operand, _, lane = name.partition(".")
        default = instruction.operand(operand).default
        value = values.get(operand, default if isinstance(default, int) else 0)
        if not lane:
            return value
        names = [entry.name for entry in instruction.operand(operand).lanes]
        return value >> 16 * (len(names) - 1 - names.index(lane)) & 0xFFFF

    def holds(rule: Rule) -> bool:
        return rule.holds(*map(argument, rule.arguments))

    return all(map(holds, instruction.rules))


def check(mnemonic: str, fmt: Format | None, compiled: bool, seed: int = 0, **values: int) -> None:
    assert legal(mnemonic, fmt, values), f"the test breaks a rule of {mnemonic}: {values}"
    ordinary = fmt if fmt is not None and fmt.is_float else None
    Tile(seed, ordinary).check(mnemonic, fmt, compiled, **values)


def pooled(shape: tuple[int, ...], pad: tuple[int, ...], window: tuple[int, ...]) -> dict[str, int]:
    n, h, w, c = shape
    rows = (h + pad[0] + pad[1] - window[1]) // window[3] + 1
    columns = (w + pad[2] + pad[3] - window[0]) // window[2] + 1
    result = pack(n, rows, columns, c)
    return {"shape": pack(*shape), "dst_shape": result, "pad": pack(*pad), "window": pack(*window)}


POOLS = (
    ((1, 4, 4, 64), (0, 0, 0, 0), (2, 2, 2, 2)),
    ((2, 5, 4, 3), (1, 0, 2, 1), (3, 2, 1, 2)),
    ((1, 3, 3, 65), (1, 1, 1, 1), (3, 3, 2, 1)),
    ((1, 2, 2, 100), (3, 3, 3, 3), (2, 2, 3, 3)),
    ((2, 3, 5, 130), (0, 1, 0, 2), (1, 3, 2, 1)),
    ((1, 5, 9, 40), (0, 1, 1, 1), (3, 3, 2, 2)),
)
