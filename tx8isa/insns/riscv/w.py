"""RV64I: instructions on the low 32 bits of a register. Source: RISC-V manual, volume I, chapter 4 (spec).

Every result is sign-extended from 32 to 64 bits.
"""

from __future__ import annotations

from tx8isa.numbers.primitives import s32, u32
from tx8isa.riscv.format import scalar


@scalar("addiw rd, rs1, imm", "imm_i rs1 000 rd 0011011", example="addiw a0, a1, -2048")
def addiw(a: int, b: int) -> int:
    """Low 32 bits of the sum of rs1 and imm."""
    return s32(a + b)


@scalar("slliw rd, rs1, shamt", "0000000 shamt5 rs1 001 rd 0011011", example="slliw a0, a1, 31")
def slliw(a: int, b: int) -> int:
    """Low 32 bits of rs1 shifted left by 0..31 bits."""
    return s32(u32(a) << u32(b))


@scalar("srliw rd, rs1, shamt", "0000000 shamt5 rs1 101 rd 0011011", example="srliw a0, a1, 31")
def srliw(a: int, b: int) -> int:
    """Low 32 bits of rs1 shifted right by 0..31 bits, zeros entering."""
    return s32(u32(a) >> u32(b))


@scalar("sraiw rd, rs1, shamt", "0100000 shamt5 rs1 101 rd 0011011", example="sraiw a0, a1, 31")
def sraiw(a: int, b: int) -> int:
    """Low 32 bits of rs1 shifted right by 0..31 bits, copies of bit 31 entering."""
    return s32(a) >> b


@scalar("addw rd, rs1, rs2", "0000000 rs2 rs1 000 rd 0111011", example="addw a0, a1, a2")
def addw(a: int, b: int) -> int:
    """Low 32 bits of the sum of rs1 and rs2."""
    return s32(a + b)


@scalar("subw rd, rs1, rs2", "0100000 rs2 rs1 000 rd 0111011", example="subw a0, a1, a2")
def subw(a: int, b: int) -> int:
    """Low 32 bits of the difference of rs1 and rs2."""
    return s32(a - b)


@scalar("sllw rd, rs1, rs2", "0000000 rs2 rs1 001 rd 0111011", example="sllw a0, a1, a2")
def sllw(a: int, b: int) -> int:
    """Low 32 bits of rs1 shifted left by the low 5 bits of rs2."""
    return s32(u32(a) << u32(b & 31))


@scalar("srlw rd, rs1, rs2", "0000000 rs2 rs1 101 rd 0111011", example="srlw a0, a1, a2")
def srlw(a: int, b: int) -> int:
    """Low 32 bits of rs1 shifted right by the low 5 bits of rs2, zeros entering."""
    return s32(u32(a) >> u32(b & 31))


@scalar("sraw rd, rs1, rs2", "0100000 rs2 rs1 101 rd 0111011", example="sraw a0, a1, a2")
def sraw(a: int, b: int) -> int:
    """Low 32 bits of rs1 shifted right by the low 5 bits of rs2, copies of bit 31 entering."""
    return s32(a) >> (b & 31)
