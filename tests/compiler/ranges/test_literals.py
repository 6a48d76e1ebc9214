"""The table of literals: programs compute equal values with it, and it is used where that is shorter."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import tx8
from compiler.passes.ranges.literals import SYMBOL, with_literals

NUMBERS = (0, -2048, 0x2100, -123456, 0x7FFFFFFF, 4295032832, 281474976776193, -(1 << 40), (1 << 63) + 5)
ADDRESSES = ("table", "table+4096", "y-8589934592", "y-4294967296")
START = ["        .output y, int32, 16x64", "        .section .ddr.bss", "table:", "        .space 8192"]


def loads(texts: Sequence[object], times: int = 1) -> list[str]:
    """Lines that make each value equally often, and store it in the result."""
    lines = []
    for number, text in enumerate(texts):
        mnemonic = "li" if str(text).lstrip("-").isdigit() or str(text).startswith("p0.") else "la"
        lines += [f"        {mnemonic:<23} a0, {text}"] * times
        lines.append(f"        {'sd':<23} a0, {8 * number}(a1)")
    return lines


def values(start: Sequence[str], code: Sequence[str]) -> list[int]:
    """Return the values that a program stores."""
    begin = ["        .text", "        .globl _start", "_start:", *start, "        la a1, y-8589934592"]
    end = ["        li a0, 0", "        li a7, 93", "        ecall"]
    text = "\n".join([*START, *begin, *code, *end, ""])
    return tx8.assemble(text).run()["y"].tobytes()[: 8 * 32]  # type: ignore[no-any-return]


@pytest.mark.parametrize("times", [1, 2, 9])
@pytest.mark.parametrize("texts", [NUMBERS, ADDRESSES, (*NUMBERS, *ADDRESSES, "p0.x", "p0.x+512")])
def test_values_from_the_table_are_those_that_instructions_make(texts: Sequence[object], times: int) -> None:
    code = ["        .equ p0.x, 0x2eff00  # 256 bytes", *loads(texts, times)]
    start, (changed,) = with_literals([], [code])
    assert changed != code or times == 1
    assert values(start, changed) == values(start, code)


def test_what_is_made_in_one_instruction_or_once_stays() -> None:
    code = loads([5, 4096, 0x2100, "y-8589934592"])
    assert with_literals(["start"], [code]) == (["start"], [code])


def test_phases_share_entries() -> None:
    start, code = with_literals([], [loads([0x2100]), loads([0x2100]), loads(["table"])])
    assert [line.split() for line in start if ".word" in line or ".dword" in line] == [
        [".dword", "table"],
        [".word", "8448"],
    ]
    assert [phase[0].split()[:2] for phase in code] == [["lw", "a0,"], ["lw", "a0,"], ["ld", "a0,"]]


def test_a_core_address_is_left_to_the_assembler() -> None:
    code = ["        la                      a7, %core(io.shapes)"] * 3
    assert with_literals([], [code]) == ([], [code])


@pytest.mark.parametrize("count", [500, 2000])
def test_the_table_is_not_longer_than_loads_reach(count: int) -> None:
    texts = [0x100001 + 0x1001 * number for number in range(count)]
    start, (changed,) = with_literals([], [loads(texts, 2)])
    words = [line for line in start if ".word" in line]
    assert len(words) == min(count, 1024)
    assert sum(line.split()[0] == "lw" for line in changed) == 2 * len(words)
    offsets = {int(line.split()[2].partition("(")[0]) for line in changed if line.split()[0] == "lw"}
    assert offsets <= set(range(-2048, 2048))
    assert sum(SYMBOL in line for line in start) == 2
