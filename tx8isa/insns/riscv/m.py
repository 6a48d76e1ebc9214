"""M: integer multiplication and division. Source: RISC-V manual, volume I, chapter "M" (spec).

Division truncates toward zero and never traps: a zero divisor gives a quotient of all ones and leaves the
dividend as the remainder; the most negative number divided by -1 gives itself, remainder 0. The signed
bodies start from the floor division that Python and the machine versions share, and correct it.
"""

from __future__ import annotations

from tx8isa.numbers.primitives import mulh as upper_signed
from tx8isa.numbers.primitives import mulhsu as upper_mixed
from tx8isa.numbers.primitives import mulhu as upper_unsigned
from tx8isa.numbers.primitives import s32, s64, u32, u64
from tx8isa.riscv.format import scalar


@scalar("mul rd, rs1, rs2", "0000001 rs2 rs1 000 rd 0110011", example="mul a0, a1, a2")
def mul(a: int, b: int) -> int:
    """Low 64 bits of the product of rs1 and rs2."""
    return s64(a * b)


@scalar("mulh rd, rs1, rs2", "0000001 rs2 rs1 001 rd 0110011", example="mulh a0, a1, a2")
def mulh(a: int, b: int) -> int:
    """Upper 64 bits of the product of rs1 and rs2, both signed."""
    return upper_signed(a, b)


@scalar("mulhsu rd, rs1, rs2", "0000001 rs2 rs1 010 rd 0110011", example="mulhsu a0, a1, a2")
def mulhsu(a: int, b: int) -> int:
    """Upper 64 bits of the product of rs1, signed, and rs2, unsigned."""
    return upper_mixed(a, b)


@scalar("mulhu rd, rs1, rs2", "0000001 rs2 rs1 011 rd 0110011", example="mulhu a0, a1, a2")
def mulhu(a: int, b: int) -> int:
    """Upper 64 bits of the product of rs1 and rs2, both unsigned."""
    return upper_unsigned(a, b)


@scalar("div rd, rs1, rs2", "0000001 rs2 rs1 100 rd 0110011", example="div a0, a1, a2", kind="divide")
def div(a: int, b: int) -> int:
    """Quotient of rs1 by rs2, both signed, truncated toward zero; -1 when rs2 is 0."""
    if b == 0:
        return -1
    if b == -1:  # the one divisor that overflows
        return s64(-a)
    quotient = a // b
    if quotient < 0 and quotient * b != a:
        quotient += 1
    return quotient


@scalar("divu rd, rs1, rs2", "0000001 rs2 rs1 101 rd 0110011", example="divu a0, a1, a2", kind="divide")
def divu(a: int, b: int) -> int:
    """Quotient of rs1 by rs2, both unsigned; 2**64 - 1 when rs2 is 0."""
    if b == 0:
        return -1
    return s64(u64(a) // u64(b))


@scalar("rem rd, rs1, rs2", "0000001 rs2 rs1 110 rd 0110011", example="rem a0, a1, a2", kind="divide")
def rem(a: int, b: int) -> int:
    """Remainder of rs1 by rs2, both signed, with the sign of rs1; rs1 itself when rs2 is 0."""
    if b == 0:
        return a
    if b == -1:  # the one divisor that overflows
        return 0
    remainder = a % b
    if remainder != 0 and (a < 0) != (b < 0):
        remainder -= b
    return remainder


@scalar("remu rd, rs1, rs2", "0000001 rs2 rs1 111 rd 0110011", example="remu a0, a1, a2", kind="divide")
def remu(a: int, b: int) -> int:
    """Remainder of rs1 by rs2, both unsigned; rs1 itself when rs2 is 0."""
    if b == 0:
        return a
    return s64(u64(a) % u64(b))


@scalar("mulw rd, rs1, rs2", "0000001 rs2 rs1 000 rd 0111011", example="mulw a0, a1, a2")
def mulw(a: int, b: int) -> int:
    """Low 32 bits of the product of rs1 and rs2, sign-extended."""
    return s32(a * b)


@scalar("divw rd, rs1, rs2", "0000001 rs2 rs1 100 rd 0111011", example="divw a0, a1, a2", kind="divide")
def divw(a: int, b: int) -> int:
    """Quotient of the low 32 bits, signed, truncated toward zero; -1 when the divisor is 0."""
    dividend = s32(a)
    divisor = s32(b)
    if divisor == 0:
        return -1
    quotient = dividend // divisor
    if quotient < 0 and quotient * divisor != dividend:
        quotient += 1
    return s32(quotient)


@scalar("divuw rd, rs1, rs2", "0000001 rs2 rs1 101 rd 0111011", example="divuw a0, a1, a2", kind="divide")
def divuw(a: int, b: int) -> int:
    """Quotient of the low 32 bits, unsigned, sign-extended; -1 when the divisor is 0."""
    if s32(b) == 0:
        return -1
    return s32(u32(a) // u32(b))


@scalar("remw rd, rs1, rs2", "0000001 rs2 rs1 110 rd 0111011", example="remw a0, a1, a2", kind="divide")
def remw(a: int, b: int) -> int:
    """Remainder of the low 32 bits, signed, with the sign of rs1; the dividend when the divisor is 0."""
    dividend = s32(a)
    divisor = s32(b)
    if divisor == 0:
        return dividend
    remainder = dividend % divisor
    if remainder != 0 and (dividend < 0) != (divisor < 0):
        remainder -= divisor
    return remainder


@scalar("remuw rd, rs1, rs2", "0000001 rs2 rs1 111 rd 0111011", example="remuw a0, a1, a2", kind="divide")
def remuw(a: int, b: int) -> int:
    """Remainder of the low 32 bits, unsigned, sign-extended; the dividend when the divisor is 0."""
    if s32(b) == 0:
        return s32(a)
    return s32(u32(a) % u32(b))
