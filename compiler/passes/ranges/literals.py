"""Literals: addresses and numbers that several instructions make, in a table after the code.

An instruction of an engine contains its addresses and numbers. Code for a range of sizes has such literals in
registers, so the core must make them. An address in DDR then takes four instructions, a number of 32 bits
two. Loaded from a table, each takes one instruction.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from asm.instructions.constants import load_constant
from compiler.codegen.emitter import Emitter, instruction_text
from tx8isa.tools.command_line import one_line

SYMBOL = "core.literals"
"""Symbol of the table."""
_BASE = "gp"
"""Holds the address of the table throughout the program."""
_REACH = 2048
"""Bytes that a load reaches before and after an address."""
_LOAD_BYTES = 4
_ADDRESS_BYTES, _NEAR_BYTES = 16, 8
"""Bytes of the instructions that make an address in DDR, and an address that the core itself reads."""
_LOADED = re.compile(r"\s+(li|la)\s+(\w+), (\S+)$")
_DEFINED = re.compile(r"\s+\.equ (\S+), (-?\w+)\b")
_PLACE = re.compile(r"(?P<symbol>[^+-]+)(?P<offset>[+-]\d+)?$")


class _Literal(NamedTuple):
    """An entry of the table: its content, the instruction that loads it, and its bytes there."""

    text: str
    load: str
    bytes: int


def with_literals(start: Sequence[str], code: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """The start and the phases of a program with loads from the table where these take fewer bytes.

    The start gets the table and the instruction that makes its address.
    """
    numbers = _numbers(line for lines in code for line in lines)
    found = [literal for lines in code for line in lines if (literal := _literal(line, numbers))]
    entries = _entries(Counter(found))
    if not entries:
        return list(start), [list(lines) for lines in code]
    literals = [literal for literal, _ in entries]
    bias = min(sum(each.bytes for each in literals), _REACH)
    begins = accumulate((each.bytes for each in literals[:-1]), initial=-bias)
    loads = {each: f"{begin}({_BASE})" for each, begin in zip(literals, begins, strict=True)}
    changed = [[_changed(line, numbers, loads) for line in lines] for lines in code]
    return [*start, *_table(literals, bias)], changed


def _numbers(lines: Iterable[str]) -> dict[str, int]:
    """The values of the symbols in the code."""
    found = (match for line in lines if (match := _DEFINED.match(line)))
    return {match[1]: int(match[2], 0) for match in found}


def _literal(line: str, numbers: Mapping[str, int]) -> tuple[_Literal, int] | None:
    """The literal that a line makes, if a table can contain it, and the bytes of the line's instructions."""
    match = _LOADED.match(line)
    if match is None or "%" in match[3]:
        return None
    if match[1] == "la":
        return _address(match[3])
    value = _value(match[3], numbers)
    if value is None:
        return None
    is_word = -(1 << 31) <= value < 1 << 31
    literal = _Literal(str(value), "lw", 4) if is_word else _Literal(str(value), "ld", 8)
    return literal, load_constant(value).size


def _address(text: str) -> tuple[_Literal, int]:
    """An address in DDR, or the 32-bit address by which the core reaches it through its cache."""
    match = _PLACE.match(text)
    is_near = match is not None and int(match["offset"] or 0) < -(1 << 32)
    return (_Literal(text, "lwu", 4), _NEAR_BYTES) if is_near else (_Literal(text, "ld", 8), _ADDRESS_BYTES)


def _value(text: str, numbers: Mapping[str, int]) -> int | None:
    """The value of a number or symbol; None for an unknown symbol."""
    match = _PLACE.match(text)
    if match is None or match["symbol"] not in numbers:
        return int(text, 0) if re.match(r"-?\d", text) else None
    return numbers[match["symbol"]] + int(match["offset"] or 0)


def _entries(uses: Mapping[tuple[_Literal, int], int]) -> list[tuple[_Literal, int]]:
    """The literals that pay in the table, the longest first, as far as loads reach."""
    saved = {
        (literal, size): count * (size - _LOAD_BYTES) - literal.bytes
        for (literal, size), count in uses.items()
    }
    worth = sorted((each for each in saved if saved[each] > 0), key=lambda each: -saved[each])
    kept: list[tuple[_Literal, int]] = []
    room = 2 * _REACH
    for each in worth:
        if each[0].bytes <= room:
            kept.append(each)
            room -= each[0].bytes
    return sorted(kept, key=lambda each: -each[0].bytes)


def _changed(line: str, numbers: Mapping[str, int], loads: Mapping[_Literal, str]) -> str:
    found = _literal(line, numbers)
    if found is None or found[0] not in loads:
        return line
    match = _LOADED.match(line)
    assert match is not None
    text = instruction_text(found[0].load, f"{match[2]}, {loads[found[0]]}")
    return f"{text}  # {one_line(match[3])}"


def _table(literals: Sequence[_Literal], bias: int) -> Iterator[str]:
    """The table, and the instruction that makes the address of its middle."""
    out = Emitter()
    out.directive(".section .rodata")
    out.directive(".balign 8")
    out.label(SYMBOL)
    for literal in literals:
        out.directive(f"{'.dword' if literal.bytes == 8 else '.word'} {literal.text}")
    out.directive(".text")
    out.instruction("la", _BASE, f"{SYMBOL}+{bias}")
    yield from out.lines
