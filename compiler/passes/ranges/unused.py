"""Removes instructions of the kernel core whose results nothing reads.

A lowering may keep a value in a register that turns out to be superfluous. Everything computed from it is a
constant number, or a size that the program has computed at its start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from compiler.codegen.registers import POOL

_PURE = frozenset(
    (
        *("mv", "li", "la", "neg", "not", "add", "addi", "sub", "mul", "divu", "remu", "slli", "srli"),
        *("and", "andi", "or", "ori", "xor", "xori", "slt"),
    )
)
"""Instructions whose only effect is the write of the first operand."""
_LOADS = re.compile(r"l(d|w|wu) .*\((tp|ra|gp|sp)\)")
"""Loads of data that the program itself has written."""
_BRANCHES = frozenset(
    ("beq", "bne", "blt", "bge", "ble", "bgt", "bltu", "bgeu", "beqz", "bnez", "blez", "bgez", "j")
)
_NAMES = frozenset(POOL)
_WORD = re.compile(r"[\w.%+-]+")


@dataclass(frozen=True)
class _Line:
    """A line of assembly, with the registers that it reads and its jump target.

    ``writes``: the register that it writes, if that is its only effect.
    """

    reads: Set[str]
    writes: str = ""
    target: str = ""
    goes_on: bool = True
    label: str = ""


def without_unused(lines: Sequence[str]) -> list[str]:
    """The lines of a phase without instructions whose results nothing reads.

    No phase reads a register of the pool that another phase has written.
    """
    code = [_read(line) for line in lines]
    following = [_following(code, number) for number in range(len(code))]
    needed: list[Set[str]] = [frozenset()] * (len(code) + 1)
    changed = True
    while changed:
        changed = False
        for number in range(len(code) - 1, -1, -1):
            before = _needed_before(code[number], needed, following[number])
            changed = changed or before != needed[number]
            needed[number] = before
    return [
        line
        for number, line in enumerate(lines)
        if not code[number].writes or _is_needed(code[number], needed, following[number])
    ]


def _is_needed(line: _Line, needed: Sequence[Set[str]], following: Sequence[int]) -> bool:
    return any(line.writes in needed[number] for number in following)


def _needed_before(line: _Line, needed: Sequence[Set[str]], following: Sequence[int]) -> Set[str]:
    """The registers whose contents are needed before a line."""
    after: Set[str] = frozenset().union(*(needed[number] for number in following))
    if not line.writes:
        return after | line.reads
    return after - {line.writes} | line.reads if line.writes in after else after


def _following(code: Sequence[_Line], number: int) -> tuple[int, ...]:
    """The lines that may be executed after a line; the number after the last one is the end of the phase."""
    line = code[number]
    found = [number + 1] if line.goes_on else []
    if line.target:
        found.append(_place(code, number, line.target))
    return tuple(found)


def _place(code: Sequence[_Line], number: int, target: str) -> int:
    """The line of a label, by default the end of the phase; a number means the next such label."""
    if target == "1f":
        return next(at for at in range(number, len(code)) if code[at].label == "1")
    return next((at for at, line in enumerate(code) if line.label == target), len(code))


def _read(line: str) -> _Line:
    text = line.partition("#")[0].strip()
    if text.endswith(":"):
        return _Line(frozenset(), label=text[:-1])
    if not text or text.startswith("."):
        return _Line(frozenset())
    mnemonic, _, operands = text.partition(" ")
    names = list(_registers(operands))
    if mnemonic in _BRANCHES:
        target = operands.rpartition(",")[2].strip()
        return _Line(frozenset(names), target=target, goes_on=mnemonic != "j")
    first = operands.partition(",")[0].strip()
    if first in _NAMES and (mnemonic in _PURE or _LOADS.match(" ".join(text.split()))):
        return _Line(frozenset(names[1:]), writes=first)
    return _Line(_NAMES if mnemonic == "ecall" else frozenset(names))


def _registers(operands: str) -> Iterator[str]:
    """The registers of operands in their order."""
    return (word for word in _WORD.findall(operands) if word in _NAMES)
