"""RV64F: single precision. Source: RISC-V manual, volume I, chapter "F" (spec).

A binary32 in an f register is NaN-boxed: the upper 32 bits are ones. Instructions that D has too are in
``fd.py``.
"""

from __future__ import annotations

from tx8isa.numbers.primitives import s32, u32, u64
from tx8isa.riscv.float_arithmetic import SINGLE, boxed, unbox
from tx8isa.riscv.float_convert import INT32, UINT32, from_integer
from tx8isa.riscv.format import scalar

from .fd import Width, instructions_of


@scalar("flw rd, imm(rs1)", "imm_i rs1 010 fd 0000111", example="flw fa0, -8(a1)", kind="load", width=4)
def flw(raw: int) -> int:
    """Load 4 bytes and NaN-box them."""
    return boxed((raw, 0))[0]


@scalar(
    "fsw rs2, imm(rs1)",
    "imm_s_hi fs2 rs1 010 imm_s_lo 0100111",
    example="fsw fa0, -8(a1)",
    kind="store",
    width=4,
)
def fsw(value: int) -> int:
    """Store the low 4 bytes of rs2, boxed or not."""
    return u64(u32(value))


COMMON = instructions_of(Width("s", "00", "binary32", SINGLE, unbox, boxed), __name__)


@scalar("fcvt.s.w rd, rs1, rm", "1101000 00000 rs1 rm fd 1010011", example="fcvt.s.w fa0, a0", kind="float")
def fcvt_s_w(a: int, rm: int) -> tuple[int, int]:
    """The binary32 of a signed 32-bit integer."""
    return boxed(from_integer(a, INT32, SINGLE, rm))


@scalar("fcvt.s.wu rd, rs1, rm", "1101000 00001 rs1 rm fd 1010011", example="fcvt.s.wu fa0, a0", kind="float")
def fcvt_s_wu(a: int, rm: int) -> tuple[int, int]:
    """The binary32 of an unsigned 32-bit integer."""
    return boxed(from_integer(a, UINT32, SINGLE, rm))


@scalar("fmv.x.w rd, rs1", "1110000 00000 fs1 000 rd 1010011", example="fmv.x.w a0, fa0", kind="float")
def fmv_x_w(a: int) -> tuple[int, int]:
    """The low 32 bits of rs1, sign-extended, boxed or not."""
    return s32(a), 0


@scalar("fmv.w.x rd, rs1", "1111000 00000 rs1 000 fd 1010011", example="fmv.w.x fa0, a0", kind="float")
def fmv_w_x(a: int) -> tuple[int, int]:
    """The low 32 bits of rs1, NaN-boxed."""
    return boxed((u32(a), 0))
