"""RV64D: double precision. Source: RISC-V manual, volume I, chapter "D" (spec).

A binary64 fills an f register. Instructions that F has too are in ``fd.py``.
"""

from __future__ import annotations

from tx8isa.numbers.primitives import s64, u64
from tx8isa.riscv.float_arithmetic import DOUBLE, SINGLE, boxed, unbox
from tx8isa.riscv.float_convert import INT32, UINT32, convert, from_integer
from tx8isa.riscv.format import scalar

from .fd import Width, closed, instructions_of


@scalar("fld rd, imm(rs1)", "imm_i rs1 011 fd 0000111", example="fld fa0, -8(a1)", kind="load", width=8)
def fld(raw: int) -> int:
    """Load 8 bytes."""
    return s64(raw)


@scalar(
    "fsd rs2, imm(rs1)",
    "imm_s_hi fs2 rs1 011 imm_s_lo 0100111",
    example="fsd fa0, -8(a1)",
    kind="store",
    width=8,
)
def fsd(value: int) -> int:
    """Store the 8 bytes of rs2."""
    return u64(value)


COMMON = instructions_of(Width("d", "01", "binary64", DOUBLE, s64, closed), __name__)


@scalar("fcvt.s.d rd, rs1, rm", "0100000 00001 fs1 rm fd 1010011", example="fcvt.s.d fa0, fa1", kind="float")
def fcvt_s_d(a: int, rm: int) -> tuple[int, int]:
    """The binary32 of a binary64."""
    return boxed(convert(a, DOUBLE, SINGLE, rm))


@scalar(
    "fcvt.d.s rd, rs1, rm",
    "0100001 00000 fs1 rm fd 1010011",
    example="fcvt.d.s fa0, fa1",
    kind="float",
    rounding=0,
)
def fcvt_d_s(a: int, rm: int) -> tuple[int, int]:
    """The binary64 of a binary32; exact."""
    return convert(unbox(a), SINGLE, DOUBLE, rm)


@scalar(
    "fcvt.d.w rd, rs1, rm",
    "1101001 00000 rs1 rm fd 1010011",
    example="fcvt.d.w fa0, a0",
    kind="float",
    rounding=0,
)
def fcvt_d_w(a: int, rm: int) -> tuple[int, int]:
    """The binary64 of a signed 32-bit integer; exact."""
    return from_integer(a, INT32, DOUBLE, rm)


@scalar(
    "fcvt.d.wu rd, rs1, rm",
    "1101001 00001 rs1 rm fd 1010011",
    example="fcvt.d.wu fa0, a0",
    kind="float",
    rounding=0,
)
def fcvt_d_wu(a: int, rm: int) -> tuple[int, int]:
    """The binary64 of an unsigned 32-bit integer; exact."""
    return from_integer(a, UINT32, DOUBLE, rm)


@scalar("fmv.x.d rd, rs1", "1110001 00000 fs1 000 rd 1010011", example="fmv.x.d a0, fa0", kind="float")
def fmv_x_d(a: int) -> tuple[int, int]:
    """The bits of rs1."""
    return a, 0


@scalar("fmv.d.x rd, rs1", "1111001 00000 rs1 000 fd 1010011", example="fmv.d.x fa0, a0", kind="float")
def fmv_d_x(a: int) -> tuple[int, int]:
    """The bits of rs1."""
    return a, 0
