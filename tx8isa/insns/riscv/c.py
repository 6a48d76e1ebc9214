"""C: compressed instructions. Source: RISC-V manual, volume I, chapter "C", those of RV64 with D (spec).

An encoding without effect on a register, such as an addition to x0, is a hint; it is executed like its
expansion. Encodings that the manual reserves are illegal. Shifts by 0, which are hints, have their binutils
names.
"""

from __future__ import annotations

from tx8isa.riscv.compressed import compressed

_ZERO = (0,)
_ALL = tuple(range(32))

c_addi4spn = compressed(
    "c.addi4spn rd, sp, uimm",
    "000 uimm[5:4|9:6|2|3] rd' 00",
    "addi rd, sp, uimm",
    example="c.addi4spn a0, sp, 1020",
    never={"uimm": _ZERO},
)
c_fld = compressed(
    "c.fld rd, uimm(rs1)",
    "001 uimm[5:3] rs1' uimm[7:6] fd' 00",
    "fld rd, uimm(rs1)",
    example="c.fld fa0, 248(a1)",
)
c_lw = compressed(
    "c.lw rd, uimm(rs1)",
    "010 uimm[5:3] rs1' uimm[2|6] rd' 00",
    "lw rd, uimm(rs1)",
    example="c.lw a0, 124(a1)",
)
c_ld = compressed(
    "c.ld rd, uimm(rs1)",
    "011 uimm[5:3] rs1' uimm[7:6] rd' 00",
    "ld rd, uimm(rs1)",
    example="c.ld a0, 248(a1)",
)
c_fsd = compressed(
    "c.fsd rs2, uimm(rs1)",
    "101 uimm[5:3] rs1' uimm[7:6] fs2' 00",
    "fsd rs2, uimm(rs1)",
    example="c.fsd fa0, 8(a1)",
)
c_sw = compressed(
    "c.sw rs2, uimm(rs1)",
    "110 uimm[5:3] rs1' uimm[2|6] rs2' 00",
    "sw rs2, uimm(rs1)",
    example="c.sw a0, 4(a1)",
)
c_sd = compressed(
    "c.sd rs2, uimm(rs1)",
    "111 uimm[5:3] rs1' uimm[7:6] rs2' 00",
    "sd rs2, uimm(rs1)",
    example="c.sd a0, 8(a1)",
)
c_nop = compressed(
    "c.nop imm",
    "000 imm[5] 00000 imm[4:0] 01",
    "addi zero, zero, imm",
    example="c.nop",
    hints={"imm": tuple(n for n in range(-32, 32) if n)},
    optional=0,
)
c_addi = compressed(
    "c.addi rd, imm",
    "000 imm[5] rd imm[4:0] 01",
    "addi rd, rd, imm",
    example="c.addi a0, -32",
    never={"rd": _ZERO},
    hints={"imm": _ZERO},
)
c_addiw = compressed(
    "c.addiw rd, imm",
    "001 imm[5] rd imm[4:0] 01",
    "addiw rd, rd, imm",
    example="c.addiw a0, 31",
    never={"rd": _ZERO},
)
c_li = compressed(
    "c.li rd, imm",
    "010 imm[5] rd imm[4:0] 01",
    "addi rd, zero, imm",
    example="c.li a0, -1",
    hints={"rd": _ZERO},
)
c_addi16sp = compressed(
    "c.addi16sp sp, imm",
    "011 imm[9] 00010 imm[4|6|8:7|5] 01",
    "addi sp, sp, imm",
    example="c.addi16sp sp, -512",
    never={"imm": _ZERO},
)
c_lui = compressed(
    "c.lui rd, imm",
    "011 upper[5] rd upper[4:0] 01",
    "lui rd, imm",
    example="c.lui a0, 0xfffe1",
    never={"rd": (2,), "imm": _ZERO},
    hints={"rd": _ZERO},
)
c_srli = compressed(
    "c.srli rd, shamt",
    "100 shamt[5] 00 rd' shamt[4:0] 01",
    "srli rd, rd, shamt",
    example="c.srli a0, 63",
    never={"shamt": _ZERO},
)
c_srli64 = compressed(
    "c.srli64 rd", "100 0 00 rd' 00000 01", "srli rd, rd, 0", example="c.srli64 a0", hints={"rd": _ALL}
)
c_srai = compressed(
    "c.srai rd, shamt",
    "100 shamt[5] 01 rd' shamt[4:0] 01",
    "srai rd, rd, shamt",
    example="c.srai a0, 1",
    never={"shamt": _ZERO},
)
c_srai64 = compressed(
    "c.srai64 rd", "100 0 01 rd' 00000 01", "srai rd, rd, 0", example="c.srai64 a0", hints={"rd": _ALL}
)
c_andi = compressed(
    "c.andi rd, imm", "100 imm[5] 10 rd' imm[4:0] 01", "andi rd, rd, imm", example="c.andi a0, 15"
)
c_sub = compressed("c.sub rd, rs2", "100 0 11 rd' 00 rs2' 01", "sub rd, rd, rs2", example="c.sub a0, a1")
c_xor = compressed(
    "c.xor rd, rs2",
    "100 0 11 rd' 01 rs2' 01",
    "xor rd, rd, rs2",
    example="c.xor a0, a1",
    also=("xor rd, rs2, rd",),
)
c_or = compressed(
    "c.or rd, rs2",
    "100 0 11 rd' 10 rs2' 01",
    "or rd, rd, rs2",
    example="c.or a0, a1",
    also=("or rd, rs2, rd",),
)
c_and = compressed(
    "c.and rd, rs2",
    "100 0 11 rd' 11 rs2' 01",
    "and rd, rd, rs2",
    example="c.and a0, a1",
    also=("and rd, rs2, rd",),
)
c_subw = compressed("c.subw rd, rs2", "100 1 11 rd' 00 rs2' 01", "subw rd, rd, rs2", example="c.subw a0, a1")
c_addw = compressed(
    "c.addw rd, rs2",
    "100 1 11 rd' 01 rs2' 01",
    "addw rd, rd, rs2",
    example="c.addw a0, a1",
    also=("addw rd, rs2, rd",),
)
c_j = compressed("c.j target", "101 target[11|4|9:8|10|6|7|3:1|5] 01", "jal zero, target", example="c.j .")
c_beqz = compressed(
    "c.beqz rs1, target",
    "110 target[8|4:3] rs1' target[7:6|2:1|5] 01",
    "beq rs1, zero, target",
    example="c.beqz a0, .",
)
c_bnez = compressed(
    "c.bnez rs1, target",
    "111 target[8|4:3] rs1' target[7:6|2:1|5] 01",
    "bne rs1, zero, target",
    example="c.bnez a0, .",
)
c_slli = compressed(
    "c.slli rd, shamt",
    "000 shamt[5] rd shamt[4:0] 10",
    "slli rd, rd, shamt",
    example="c.slli a0, 63",
    never={"shamt": _ZERO},
    hints={"rd": _ZERO},
)
c_slli64 = compressed(
    "c.slli64 rd", "000 0 rd 00000 10", "slli rd, rd, 0", example="c.slli64 a0", hints={"rd": _ALL}
)
c_fldsp = compressed(
    "c.fldsp rd, uimm(sp)",
    "001 uimm[5] fd uimm[4:3|8:6] 10",
    "fld rd, uimm(sp)",
    example="c.fldsp fa0, 504(sp)",
)
c_lwsp = compressed(
    "c.lwsp rd, uimm(sp)",
    "010 uimm[5] rd uimm[4:2|7:6] 10",
    "lw rd, uimm(sp)",
    example="c.lwsp a0, 252(sp)",
    never={"rd": _ZERO},
)
c_ldsp = compressed(
    "c.ldsp rd, uimm(sp)",
    "011 uimm[5] rd uimm[4:3|8:6] 10",
    "ld rd, uimm(sp)",
    example="c.ldsp a0, 504(sp)",
    never={"rd": _ZERO},
)
c_jr = compressed(
    "c.jr rs1", "100 0 rs1 00000 10", "jalr zero, 0(rs1)", example="c.jr ra", never={"rs1": _ZERO}
)
c_mv = compressed(
    "c.mv rd, rs2",
    "100 0 rd rs2 10",
    "add rd, zero, rs2",
    example="c.mv a0, a1",
    never={"rs2": _ZERO},
    hints={"rd": _ZERO},
    also=("addi rd, rs2, 0",),
)
c_ebreak = compressed("c.ebreak", "100 1 00000 00000 10", "ebreak", example="c.ebreak")
c_jalr = compressed(
    "c.jalr rs1", "100 1 rs1 00000 10", "jalr ra, 0(rs1)", example="c.jalr a0", never={"rs1": _ZERO}
)
c_add = compressed(
    "c.add rd, rs2",
    "100 1 rd rs2 10",
    "add rd, rd, rs2",
    example="c.add a0, a1",
    never={"rs2": _ZERO},
    hints={"rd": _ZERO},
    also=("add rd, rs2, rd",),
)
c_fsdsp = compressed(
    "c.fsdsp rs2, uimm(sp)", "101 uimm[5:3|8:6] fs2 10", "fsd rs2, uimm(sp)", example="c.fsdsp fa0, 504(sp)"
)
c_swsp = compressed(
    "c.swsp rs2, uimm(sp)", "110 uimm[5:2|7:6] rs2 10", "sw rs2, uimm(sp)", example="c.swsp a0, 252(sp)"
)
c_sdsp = compressed(
    "c.sdsp rs2, uimm(sp)", "111 uimm[5:3|8:6] rs2 10", "sd rs2, uimm(sp)", example="c.sdsp a0, 504(sp)"
)
