"""Compressed instructions of RV64 with D, written from chapter "C" of the RISC-V manual in z3's terms.

An encoding is a condition on 16 bits, with the 32-bit instruction that it expands to and its operands.
Reserved encodings are not included here; hints are. ``srli64`` and its like are the shifts by 0,
which are hints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from riscv_manual import Terms, bit, bits
from solver import z3


@dataclass(frozen=True)
class Short:
    """The condition on 16 bits for the instruction, and its expansion."""

    matches: Callable[[Any], Any]
    expansion: str
    operands: Callable[[Any], Terms]


def _number(sign: bool, *parts: Any) -> Any:
    """Bits from the highest to the lowest one, extended to 64."""
    whole = z3.Concat(*parts)
    return (z3.SignExt if sign else z3.ZeroExt)(64 - whole.size(), whole)


def _zeros(count: int) -> Any:
    return z3.BitVecVal(0, count)


def _place(high: int, low: int) -> Callable[[Any], Any]:
    return lambda c: bits(c, high, low)


def _short(low: int) -> Callable[[Any], Any]:
    """rd', rs1' or rs2': three bits that name x8..x15 or f8..f15."""
    return lambda c: z3.Concat(z3.BitVecVal(0b01, 2), bits(c, low + 2, low))


LONG = _place(11, 7)  # rd, and rs1 where it is the same
SECOND = _place(6, 2)  # rs2
LOW, HIGH = _short(2), _short(7)  # rd' or rs2', rs1' or rd'


def _imm6(c: Any) -> Any:
    return _number(True, bit(c, 12), bits(c, 6, 2))


def _shamt(c: Any) -> Any:
    return z3.Concat(bit(c, 12), bits(c, 6, 2))


def _word_offset(c: Any) -> Any:
    return _number(False, bit(c, 5), bits(c, 12, 10), bit(c, 6), _zeros(2))


def _double_offset(c: Any) -> Any:
    return _number(False, bits(c, 6, 5), bits(c, 12, 10), _zeros(3))


def _stack_word(c: Any) -> Any:
    return _number(False, bits(c, 3, 2), bit(c, 12), bits(c, 6, 4), _zeros(2))


def _stack_double(c: Any) -> Any:
    return _number(False, bits(c, 4, 2), bit(c, 12), bits(c, 6, 5), _zeros(3))


def _stack_store_word(c: Any) -> Any:
    return _number(False, bits(c, 8, 7), bits(c, 12, 9), _zeros(2))


def _stack_store_double(c: Any) -> Any:
    return _number(False, bits(c, 9, 7), bits(c, 12, 10), _zeros(3))


def _addi4spn(c: Any) -> Any:
    return _number(False, bits(c, 10, 7), bits(c, 12, 11), bit(c, 5), bit(c, 6), _zeros(2))


def _addi16sp(c: Any) -> Any:
    return _number(True, bit(c, 12), bits(c, 4, 3), bit(c, 5), bit(c, 2), bit(c, 6), _zeros(4))


def _jump(c: Any) -> Any:
    return _number(
        True,
        bit(c, 12),
        bit(c, 8),
        bits(c, 10, 9),
        bit(c, 6),
        bit(c, 7),
        bit(c, 2),
        bit(c, 11),
        bits(c, 5, 3),
        _zeros(1),
    )


def _branch(c: Any) -> Any:
    return _number(True, bit(c, 12), bits(c, 6, 5), bit(c, 2), bits(c, 11, 10), bits(c, 4, 3), _zeros(1))


def _upper(c: Any) -> Any:
    """imm[17:12] of c.lui as the 20 bits that lui holds."""
    return z3.SignExt(14, _shamt(c))


def _entry(
    quadrant: int, funct3: int, expansion: str, condition: Callable[[Any], Any] | None, **operands: Any
) -> Short:
    def matches(c: Any) -> Any:
        own = z3.And(bits(c, 1, 0) == quadrant, bits(c, 15, 13) == funct3)
        return own if condition is None else z3.And(own, condition(c))

    def values(c: Any) -> Terms:
        return {
            name: given(c) if callable(given) else z3.BitVecVal(given, 5) for name, given in operands.items()
        }

    return Short(matches, expansion, values)


ZERO, RA, SP = 0, 1, 2


def _loads() -> dict[str, Short]:
    found = {"c.addi4spn": _entry(0, 0, "addi", lambda c: _addi4spn(c) != 0, rd=LOW, rs1=SP, imm=_addi4spn)}
    kinds = (("w", _word_offset, 0b010), ("d", _double_offset, 0b011))
    for letter, offset, funct3 in (
        *(("lsw"[0] + k, o, f) for k, o, f in kinds),
        ("fld", _double_offset, 0b001),
    ):
        found[f"c.{letter}"] = _entry(0, funct3, letter, None, rd=LOW, rs1=HIGH, imm=offset)
    for name, offset, funct3 in (
        ("fsd", _double_offset, 5),
        ("sw", _word_offset, 6),
        ("sd", _double_offset, 7),
    ):
        found[f"c.{name}"] = _entry(0, funct3, name, None, rs2=LOW, rs1=HIGH, imm=offset)
    return found


def _stack() -> dict[str, Short]:
    def named(c: Any) -> Any:
        return LONG(c) != 0

    return {
        "c.fldsp": _entry(2, 1, "fld", None, rd=LONG, rs1=SP, imm=_stack_double),
        "c.lwsp": _entry(2, 2, "lw", named, rd=LONG, rs1=SP, imm=_stack_word),
        "c.ldsp": _entry(2, 3, "ld", named, rd=LONG, rs1=SP, imm=_stack_double),
        "c.fsdsp": _entry(2, 5, "fsd", None, rs2=SECOND, rs1=SP, imm=_stack_store_double),
        "c.swsp": _entry(2, 6, "sw", None, rs2=SECOND, rs1=SP, imm=_stack_store_word),
        "c.sdsp": _entry(2, 7, "sd", None, rs2=SECOND, rs1=SP, imm=_stack_store_double),
    }


def _immediates() -> dict[str, Short]:
    def named(c: Any) -> Any:
        return LONG(c) != 0

    def is_lui(c: Any) -> Any:
        return z3.And(LONG(c) != SP, _shamt(c) != 0)

    def is_addi16sp(c: Any) -> Any:
        return z3.And(LONG(c) == SP, _shamt(c) != 0)

    return {
        "c.nop": _entry(1, 0, "addi", lambda c: LONG(c) == 0, rd=ZERO, rs1=ZERO, imm=_imm6),
        "c.addi": _entry(1, 0, "addi", named, rd=LONG, rs1=LONG, imm=_imm6),
        "c.addiw": _entry(1, 1, "addiw", named, rd=LONG, rs1=LONG, imm=_imm6),
        "c.li": _entry(1, 2, "addi", None, rd=LONG, rs1=ZERO, imm=_imm6),
        "c.addi16sp": _entry(1, 3, "addi", is_addi16sp, rd=SP, rs1=SP, imm=_addi16sp),
        "c.lui": _entry(1, 3, "lui", is_lui, rd=LONG, imm=_upper),
    }


def _registers() -> dict[str, Short]:
    """CB and CA formats: inst[11:10], then inst[12] and inst[6:5]."""

    def shift(kind: int, by_zero: bool) -> Callable[[Any], Any]:
        return lambda c: z3.And(bits(c, 11, 10) == kind, (_shamt(c) == 0) == z3.BoolVal(by_zero))

    found: dict[str, Short] = {}
    for kind, name in enumerate(("srli", "srai")):
        found[f"c.{name}"] = _entry(1, 4, name, shift(kind, False), rd=HIGH, rs1=HIGH, shamt=_shamt)
        found[f"c.{name}64"] = _entry(1, 4, name, shift(kind, True), rd=HIGH, rs1=HIGH, shamt=_shamt)
    found["c.andi"] = _entry(1, 4, "andi", lambda c: bits(c, 11, 10) == 2, rd=HIGH, rs1=HIGH, imm=_imm6)
    for high, names in enumerate((("sub", "xor", "or", "and"), ("subw", "addw"))):
        for low, name in enumerate(names):

            def condition(c: Any, high: int = high, low: int = low) -> Any:
                return z3.And(bits(c, 12, 10) == (high << 2 | 3), bits(c, 6, 5) == low)

            found[f"c.{name}"] = _entry(1, 4, name, condition, rd=HIGH, rs1=HIGH, rs2=LOW)
    return found


def _jumps() -> dict[str, Short]:
    def register(link: int, first: bool, second: bool) -> Callable[[Any], Any]:
        """inst[12], and whether rs1 and rs2 are not x0; with an rs2, rs1 may be any register."""

        def condition(c: Any) -> Any:
            own = z3.And(bit(c, 12) == link, (SECOND(c) != 0) == z3.BoolVal(second))
            return own if second else z3.And(own, (LONG(c) != 0) == z3.BoolVal(first))

        return condition

    def offset(_: Any) -> Any:
        return z3.BitVecVal(0, 64)

    return {
        "c.j": _entry(1, 5, "jal", None, rd=ZERO, target=_jump),
        "c.beqz": _entry(1, 6, "beq", None, rs1=HIGH, rs2=ZERO, target=_branch),
        "c.bnez": _entry(1, 7, "bne", None, rs1=HIGH, rs2=ZERO, target=_branch),
        "c.slli": _entry(2, 0, "slli", lambda c: _shamt(c) != 0, rd=LONG, rs1=LONG, shamt=_shamt),
        "c.slli64": _entry(2, 0, "slli", lambda c: _shamt(c) == 0, rd=LONG, rs1=LONG, shamt=_shamt),
        "c.jr": _entry(2, 4, "jalr", register(0, True, False), rd=ZERO, rs1=LONG, imm=offset),
        "c.mv": _entry(2, 4, "add", register(0, True, True), rd=LONG, rs1=ZERO, rs2=SECOND),
        "c.ebreak": _entry(2, 4, "ebreak", register(1, False, False)),
        "c.jalr": _entry(2, 4, "jalr", register(1, True, False), rd=RA, rs1=LONG, imm=offset),
        "c.add": _entry(2, 4, "add", register(1, True, True), rd=LONG, rs1=LONG, rs2=SECOND),
    }


SHORT = _loads() | _stack() | _immediates() | _registers() | _jumps()
"""Encoding and expansion by mnemonic."""
