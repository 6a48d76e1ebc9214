"""Operations of the core, on registers and on integers known at compile time.

A register holds an integer of a type extended by its sign to 64 bits, a truth value as 0 or 1. Results wrap
around as in the type. Division by 0, and of the least number, follows RISC-V. The only operation of floats is
the remainder, of the bits of FP32 numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

from compiler.codegen.emitter import Emitter

WIDE = 64
WORD = 32
_UNITS = 0x4330_0000_0000_0000
"""The bits of 2**52 in binary64: all numbers from there on are whole."""


@dataclass(frozen=True)
class RegisterCode:
    """Writes instructions whose operands are registers."""

    out: Emitter

    def emit(self, mnemonic: str, *operands: str) -> None:
        """Write one instruction."""
        self.out.instruction(mnemonic, *operands)

    def signed(self, register: str, bits: int) -> None:
        """Extend the lowest bits of a register by their sign."""
        if bits == 1:
            self.emit("andi", register, register, "1")
        elif bits == WORD:
            self.emit("sext.w", register, register)
        elif bits < WIDE:
            self.emit("slli", register, register, str(WIDE - bits))
            self.emit("srai", register, register, str(WIDE - bits))

    def unsigned(self, target: str, source: str, bits: int) -> None:
        """Extend the lowest bits of a register by zeros."""
        if bits == 1:
            self.emit("andi", target, source, "1")
        elif bits == WIDE:
            self.emit("mv", target, source)
        else:
            self.emit("slli", target, source, str(WIDE - bits))
            self.emit("srli", target, target, str(WIDE - bits))


TwoOperands = Callable[[RegisterCode, str, str, str, int], None]
"""Writes target = left op right for a number of bits; the target differs from the operands' registers."""


def _instruction(name: str) -> TwoOperands:
    """Return an instruction that has a form for words of 32 bits."""

    def code(core: RegisterCode, target: str, left: str, right: str, bits: int) -> None:
        core.emit(f"{name}w" if bits == WORD else name, target, left, right)
        if bits < WORD:
            core.signed(target, bits)

    return code


def _bitwise(name: str) -> TwoOperands:
    def code(core: RegisterCode, target: str, left: str, right: str, bits: int) -> None:
        core.emit(name, target, left, right)

    return code


def _extremum(branch: str) -> TwoOperands:
    """Return code for the left operand if the branch is taken, else the right one."""

    def code(core: RegisterCode, target: str, left: str, right: str, bits: int) -> None:
        core.emit("mv", target, left)
        core.emit(branch, left, right, "1f")
        core.emit("mv", target, right)
        core.out.label("1")

    return code


def _equality(test: str) -> TwoOperands:
    def code(core: RegisterCode, target: str, left: str, right: str, bits: int) -> None:
        core.emit("xor", target, left, right)
        core.emit(test, target, target)

    return code


def _order(name: str, exchanged: bool, negated: bool) -> TwoOperands:
    """Return a comparison by ``slt`` or ``sltu``, perhaps of exchanged operands or negated."""

    def code(core: RegisterCode, target: str, left: str, right: str, bits: int) -> None:
        core.emit(name, target, *((right, left) if exchanged else (left, right)))
        if negated:
            core.emit("xori", target, target, "1")

    return code


_LOWER = 24
"""The lowest bits of a quotient in binary64, which are cleared to leave 29."""


def _float_remainder(core: RegisterCode, target: str, left: str, right: str, bits: int) -> None:
    """Write the exact remainder of FP32 numbers, with the sign of the left one, as fmod of C.

    A loop subtracts multiples of the divisor in binary64. The factor has 29 bits: its product with the 24
    bits of the divisor is exact, and so is the difference. Quotients are rounded to zero, so no difference is
    negative. An infinite quotient, or NaN, makes the result NaN and ends the loop.
    """
    sign, divisor, rest, quotient, whole = (f"ft{number}" for number in range(5))
    for register, source in ((sign, left), (divisor, right)):
        core.emit("fmv.w.x", register, source)
        core.emit("fcvt.d.s", register, register)
    core.emit("fabs.d", rest, sign)
    core.emit("fabs.d", divisor, divisor)
    core.emit("li", target, hex(_UNITS))
    core.emit("fmv.d.x", whole, target)
    core.out.label("2")
    core.emit("fle.d", target, divisor, rest)
    core.emit("beqz", target, "4f")
    core.emit("fdiv.d", quotient, rest, divisor, "rtz")
    core.emit("fmv.x.d", target, quotient)
    core.emit("srli", target, target, str(_LOWER))
    core.emit("slli", target, target, str(_LOWER))
    core.emit("fmv.d.x", quotient, target)
    core.emit("flt.d", target, quotient, whole)
    core.emit("beqz", target, "3f")
    core.emit("fadd.d", quotient, quotient, whole, "rtz")
    core.emit("fsub.d", quotient, quotient, whole)
    core.out.label("3")
    core.emit("fnmsub.d", rest, quotient, divisor, rest)
    core.emit("j", "2b")
    core.out.label("4")
    core.emit("feq.d", target, divisor, divisor)
    core.emit("bnez", target, "5f")
    core.emit("fmv.d", rest, divisor)
    core.out.label("5")
    core.emit("fsgnj.d", rest, rest, sign)
    core.emit("fcvt.s.d", rest, rest)
    core.emit("fmv.x.w", target, rest)


ORDERS = {"lt": (False, False), "ge": (False, True), "gt": (True, False), "le": (True, True)}
"""Comparisons, as a pair: operands are exchanged, the result is negated."""

TWO_OPERANDS: dict[str, TwoOperands] = {
    **{name: _instruction(name) for name in ("add", "sub", "mul")},
    **{name: _bitwise(name) for name in ("and", "or", "xor")},
    **{"shl": _instruction("sll"), "shrsi": _instruction("sra"), "shrui": _instruction("srl")},
    **{"divsi": _instruction("div"), "remsi": _instruction("rem")},
    **{"divui": _instruction("divu"), "remui": _instruction("remu")},
    "mulhui": _bitwise("mulhu"),
    "remf": _float_remainder,
    **{"minsi": _extremum("ble"), "maxsi": _extremum("bge")},
    **{"minui": _extremum("bleu"), "maxui": _extremum("bgeu")},
    **{"eq": _equality("seqz"), "ne": _equality("snez")},
    **{f"s{name}": _order("slt", *flags) for name, flags in ORDERS.items()},
    **{f"u{name}": _order("sltu", *flags) for name, flags in ORDERS.items()},
}
"""Operations of two integers. Unsigned ones, except comparisons, are of 32 or 64 bits."""

COMPARISONS = ("eq", "ne", *(f"{sign}{name}" for sign in "su" for name in ORDERS))
"""Operations whose result is a truth value."""


# --- known numbers -----------------------------------------------------------------------------------------


def wrapped(number: int, bits: int) -> int:
    """Return the number of a type with the same lowest bits; a truth value is 0 or 1."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if bits > 1 and number >> (bits - 1) else number


def _truncated(left: int, right: int) -> int:
    """Return the quotient rounded to zero; -1 for a division by 0, as the core gives it."""
    if right == 0:
        return -1
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


_SIGNED: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": lambda left, right: left << right,
    "shrsi": operator.rshift,
    "divsi": _truncated,
    "remsi": lambda left, right: left - right * _truncated(left, right) if right else left,
    "minsi": min,
    "maxsi": max,
    **{"eq": operator.eq, "ne": operator.ne},
    **{"slt": operator.lt, "sle": operator.le, "sgt": operator.gt, "sge": operator.ge},
}
_UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "shrui": operator.rshift,
    "divui": lambda left, right: left // right if right else -1,
    "remui": lambda left, right: left % right if right else left,
    "minui": min,
    "maxui": max,
    **{"ult": operator.lt, "ule": operator.le, "ugt": operator.gt, "uge": operator.ge},
}


def folded(name: str, left: int, right: int, bits: int) -> int:
    """Compute an operation of two numbers of a type with ``bits``; shifts are modulo ``bits``."""
    if name in ("shl", "shrsi", "shrui"):
        right %= bits
    mask = (1 << bits) - 1
    if name == "mulhui":
        found = (left & mask) * (right & mask) >> bits
    elif name in _UNSIGNED:
        found = _UNSIGNED[name](left & mask, right & mask)
    else:
        found = _SIGNED[name](left, right)
    return int(found) if name in COMPARISONS else wrapped(found, bits)
