"""Executes, line by line, the kernel core's instructions that the compiler writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_MASK = (1 << 64) - 1
_OPERATIONS: dict[str, Callable[..., int]] = {
    "li": lambda a: a,
    "mv": lambda a: a,
    "neg": lambda a: -a,
    "not": lambda a: ~a,
    "seqz": lambda a: int(a == 0),
    "snez": lambda a: int(a != 0),
    "slt": lambda a, b: int(a < b),
    "add": lambda a, b: a + b,
    "addi": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "slli": lambda a, b: a << b,
    "srli": lambda a, b: (a & _MASK) >> b,
    "and": lambda a, b: a & b,
    "andi": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "divu": lambda a, b: (a & _MASK) // (b & _MASK),
    "remu": lambda a, b: (a & _MASK) % (b & _MASK),
}
_BRANCHES: dict[str, Callable[[int, int], bool]] = {
    "ble": lambda a, b: a <= b,
    "blt": lambda a, b: a < b,
    "bge": lambda a, b: a >= b,
    "bne": lambda a, b: a != b,
}


def interpret(
    lines: Sequence[str], registers: dict[str, int], memory: dict[str, int] | None = None
) -> str | None:
    """Execute lines on 64-bit two's complement; return the label of a jump out of them, None at their end.

    ``memory`` has words by the text of the operand that names them. Bytes of a table are those of all
    ``.byte`` lines, and a table begins at address 0. Labels that are numbers are looked for after the branch.
    """
    words = memory if memory is not None else {}
    table = [int(n) for line in lines if ".byte" in line for n in line.split(".byte")[1].split(",")]
    at = 0
    while at < len(lines):
        line = lines[at].partition("#")[0].strip()
        at += 1
        if not line or line.startswith(".") or line.endswith(":"):
            continue
        mnemonic, *rest = line.replace(",", " ").split()
        if mnemonic in _BRANCHES or mnemonic == "j":
            if mnemonic == "j" or _BRANCHES[mnemonic](*(_number(text, registers) for text in rest[:2])):
                place = _place(lines, rest[-1], at)
                if place is None:
                    return rest[-1]
                at = place
        elif mnemonic in ("ld", "sd"):
            text = line.split(",", 1)[1].strip()
            if mnemonic == "sd":
                words[text] = _number(rest[0], registers)
            else:
                registers[rest[0]] = words[text]
        elif mnemonic == "la":
            registers[rest[0]] = 0
        elif mnemonic == "lbu":
            registers[rest[0]] = table[registers[rest[1].strip("0()")]]
        else:
            registers[rest[0]] = signed(
                _OPERATIONS[mnemonic](*(_number(text, registers) for text in rest[1:]))
            )
    return None


def _place(lines: Sequence[str], label: str, after: int) -> int | None:
    """The number of the line with a label."""
    name, begin = (label[:-1], after) if label[:-1].isdigit() else (label, 0)
    return next((at for at in range(begin, len(lines)) if lines[at].strip() == f"{name}:"), None)


def _number(text: str, registers: dict[str, int]) -> int:
    if text == "zero":
        return 0
    return registers[text] if text in registers else int(text, 0)


def signed(value: int) -> int:
    """The 64 bits of a number as a signed one."""
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value
