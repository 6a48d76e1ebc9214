"""RV64I: the base integer instructions. Source: RISC-V manual, volume I, chapters 2 and 4 (spec)."""

from __future__ import annotations

from tx8isa.numbers.primitives import s32, s64, u32, u64
from tx8isa.riscv.format import scalar


@scalar("lui rd, imm", "imm_u rd 0110111", example="lui a0, 0x12345", kind="upper")
def lui(pc: int, imm: int) -> int:
    """Load upper immediate: imm * 4096, sign-extended from 32 bits."""
    return s32(imm << 12)


@scalar("auipc rd, imm", "imm_u rd 0010111", example="auipc a0, 0xfffff", kind="upper")
def auipc(pc: int, imm: int) -> int:
    """Address of this instruction plus imm * 4096, the latter sign-extended from 32 bits."""
    return s64(pc + s32(imm << 12))


@scalar("jal rd, target", "imm_j rd 1101111", example="jal ra, .", kind="jal")
def jal(pc: int, target: int) -> int:
    """Jump to a label within 1 MiB; rd receives the address of the next instruction."""
    return s64(pc + target)


@scalar("jalr rd, imm(rs1)", "imm_i rs1 000 rd 1100111", example="jalr ra, 16(a0)", kind="jalr")
def jalr(a: int, imm: int) -> int:
    """Jump to rs1 + imm with bit 0 cleared; rd receives the address of the next instruction."""
    return s64(a + imm) & -2


@scalar(
    "beq rs1, rs2, target", "imm_b_hi rs2 rs1 000 imm_b_lo 1100011", example="beq a0, a1, .", kind="branch"
)
def beq(a: int, b: int) -> bool:
    """Branch when rs1 and rs2 are equal."""
    return a == b


@scalar(
    "bne rs1, rs2, target", "imm_b_hi rs2 rs1 001 imm_b_lo 1100011", example="bne a0, a1, .", kind="branch"
)
def bne(a: int, b: int) -> bool:
    """Branch when rs1 and rs2 differ."""
    return a != b


@scalar(
    "blt rs1, rs2, target", "imm_b_hi rs2 rs1 100 imm_b_lo 1100011", example="blt a0, a1, .", kind="branch"
)
def blt(a: int, b: int) -> bool:
    """Branch when rs1 is less than rs2, both signed."""
    return a < b


@scalar(
    "bge rs1, rs2, target", "imm_b_hi rs2 rs1 101 imm_b_lo 1100011", example="bge a0, a1, .", kind="branch"
)
def bge(a: int, b: int) -> bool:
    """Branch when rs1 is not less than rs2, both signed."""
    return a >= b


@scalar(
    "bltu rs1, rs2, target", "imm_b_hi rs2 rs1 110 imm_b_lo 1100011", example="bltu a0, a1, .", kind="branch"
)
def bltu(a: int, b: int) -> bool:
    """Branch when rs1 is less than rs2, both unsigned."""
    return u64(a) < u64(b)


@scalar(
    "bgeu rs1, rs2, target", "imm_b_hi rs2 rs1 111 imm_b_lo 1100011", example="bgeu a0, a1, .", kind="branch"
)
def bgeu(a: int, b: int) -> bool:
    """Branch when rs1 is not less than rs2, both unsigned."""
    return u64(a) >= u64(b)


@scalar("lb rd, imm(rs1)", "imm_i rs1 000 rd 0000011", example="lb a0, -1(a1)", kind="load", width=1)
def lb(raw: int) -> int:
    """Load the byte at rs1 + imm, sign-extended."""
    return (s64(raw) ^ 0x80) - 0x80


@scalar("lh rd, imm(rs1)", "imm_i rs1 001 rd 0000011", example="lh a0, -2(a1)", kind="load", width=2)
def lh(raw: int) -> int:
    """Load 2 bytes at rs1 + imm, sign-extended."""
    return (s64(raw) ^ 0x8000) - 0x8000


@scalar("lw rd, imm(rs1)", "imm_i rs1 010 rd 0000011", example="lw a0, 2047(a1)", kind="load", width=4)
def lw(raw: int) -> int:
    """Load 4 bytes at rs1 + imm, sign-extended."""
    return s32(raw)


@scalar("ld rd, imm(rs1)", "imm_i rs1 011 rd 0000011", example="ld a0, -2048(a1)", kind="load", width=8)
def ld(raw: int) -> int:
    """Load 8 bytes at rs1 + imm."""
    return s64(raw)


@scalar("lbu rd, imm(rs1)", "imm_i rs1 100 rd 0000011", example="lbu a0, 1(a1)", kind="load", width=1)
def lbu(raw: int) -> int:
    """Load the byte at rs1 + imm, zero-extended."""
    return s64(raw)


@scalar("lhu rd, imm(rs1)", "imm_i rs1 101 rd 0000011", example="lhu a0, 2(a1)", kind="load", width=2)
def lhu(raw: int) -> int:
    """Load 2 bytes at rs1 + imm, zero-extended."""
    return s64(raw)


@scalar("lwu rd, imm(rs1)", "imm_i rs1 110 rd 0000011", example="lwu a0, 4(a1)", kind="load", width=4)
def lwu(raw: int) -> int:
    """Load 4 bytes at rs1 + imm, zero-extended."""
    return s64(raw)


@scalar(
    "sb rs2, imm(rs1)",
    "imm_s_hi rs2 rs1 000 imm_s_lo 0100011",
    example="sb a0, -1(a1)",
    kind="store",
    width=1,
)
def sb(value: int) -> int:
    """Store the low byte of rs2 at rs1 + imm."""
    return u64(value & 0xFF)


@scalar(
    "sh rs2, imm(rs1)",
    "imm_s_hi rs2 rs1 001 imm_s_lo 0100011",
    example="sh a0, -2(a1)",
    kind="store",
    width=2,
)
def sh(value: int) -> int:
    """Store the low 2 bytes of rs2 at rs1 + imm."""
    return u64(value & 0xFFFF)


@scalar(
    "sw rs2, imm(rs1)",
    "imm_s_hi rs2 rs1 010 imm_s_lo 0100011",
    example="sw a0, 2047(a1)",
    kind="store",
    width=4,
)
def sw(value: int) -> int:
    """Store the low 4 bytes of rs2 at rs1 + imm."""
    return u64(u32(value))


@scalar(
    "sd rs2, imm(rs1)",
    "imm_s_hi rs2 rs1 011 imm_s_lo 0100011",
    example="sd a0, -2048(a1)",
    kind="store",
    width=8,
)
def sd(value: int) -> int:
    """Store the 8 bytes of rs2 at rs1 + imm."""
    return u64(value)


@scalar("addi rd, rs1, imm", "imm_i rs1 000 rd 0010011", example="addi a0, a1, -2048")
def addi(a: int, b: int) -> int:
    """Sum of rs1 and imm, modulo 2**64."""
    return s64(a + b)


@scalar("slti rd, rs1, imm", "imm_i rs1 010 rd 0010011", example="slti a0, a1, -1")
def slti(a: int, b: int) -> int:
    """1 when rs1 is less than imm, both signed, else 0."""
    return 1 if a < b else 0


@scalar("sltiu rd, rs1, imm", "imm_i rs1 011 rd 0010011", example="sltiu a0, a1, 1")
def sltiu(a: int, b: int) -> int:
    """1 when rs1 is less than the sign-extended imm, both taken as unsigned, else 0."""
    return 1 if u64(a) < u64(b) else 0


@scalar("xori rd, rs1, imm", "imm_i rs1 100 rd 0010011", example="xori a0, a1, -1")
def xori(a: int, b: int) -> int:
    """Bitwise exclusive or of rs1 and imm."""
    return a ^ b


@scalar("ori rd, rs1, imm", "imm_i rs1 110 rd 0010011", example="ori a0, a1, 255")
def ori(a: int, b: int) -> int:
    """Bitwise or of rs1 and imm."""
    return a | b


@scalar("andi rd, rs1, imm", "imm_i rs1 111 rd 0010011", example="andi a0, a1, 255")
def andi(a: int, b: int) -> int:
    """Bitwise and of rs1 and imm."""
    return a & b


@scalar("slli rd, rs1, shamt", "000000 shamt6 rs1 001 rd 0010011", example="slli a0, a1, 63")
def slli(a: int, b: int) -> int:
    """rs1 shifted left by 0..63 bits."""
    return s64(u64(a) << u64(b))


@scalar("srli rd, rs1, shamt", "000000 shamt6 rs1 101 rd 0010011", example="srli a0, a1, 63")
def srli(a: int, b: int) -> int:
    """rs1 shifted right by 0..63 bits, zeros entering."""
    return s64(u64(a) >> u64(b))


@scalar("srai rd, rs1, shamt", "010000 shamt6 rs1 101 rd 0010011", example="srai a0, a1, 63")
def srai(a: int, b: int) -> int:
    """rs1 shifted right by 0..63 bits, copies of the sign entering."""
    return a >> b


@scalar("add rd, rs1, rs2", "0000000 rs2 rs1 000 rd 0110011", example="add a0, a1, a2")
def add(a: int, b: int) -> int:
    """Sum of rs1 and rs2, modulo 2**64."""
    return s64(a + b)


@scalar("sub rd, rs1, rs2", "0100000 rs2 rs1 000 rd 0110011", example="sub a0, a1, a2")
def sub(a: int, b: int) -> int:
    """Difference of rs1 and rs2, modulo 2**64."""
    return s64(a - b)


@scalar("sll rd, rs1, rs2", "0000000 rs2 rs1 001 rd 0110011", example="sll a0, a1, a2")
def sll(a: int, b: int) -> int:
    """rs1 shifted left by the low 6 bits of rs2."""
    return s64(u64(a) << u64(b & 63))


@scalar("slt rd, rs1, rs2", "0000000 rs2 rs1 010 rd 0110011", example="slt a0, a1, a2")
def slt(a: int, b: int) -> int:
    """1 when rs1 is less than rs2, both signed, else 0."""
    return 1 if a < b else 0


@scalar("sltu rd, rs1, rs2", "0000000 rs2 rs1 011 rd 0110011", example="sltu a0, a1, a2")
def sltu(a: int, b: int) -> int:
    """1 when rs1 is less than rs2, both unsigned, else 0."""
    return 1 if u64(a) < u64(b) else 0


@scalar("xor rd, rs1, rs2", "0000000 rs2 rs1 100 rd 0110011", example="xor a0, a1, a2")
def xor(a: int, b: int) -> int:
    """Bitwise exclusive or of rs1 and rs2."""
    return a ^ b


@scalar("srl rd, rs1, rs2", "0000000 rs2 rs1 101 rd 0110011", example="srl a0, a1, a2")
def srl(a: int, b: int) -> int:
    """rs1 shifted right by the low 6 bits of rs2, zeros entering."""
    return s64(u64(a) >> u64(b & 63))


@scalar("sra rd, rs1, rs2", "0100000 rs2 rs1 101 rd 0110011", example="sra a0, a1, a2")
def sra(a: int, b: int) -> int:
    """rs1 shifted right by the low 6 bits of rs2, copies of the sign entering."""
    return a >> (b & 63)


@scalar("or rd, rs1, rs2", "0000000 rs2 rs1 110 rd 0110011", example="or a0, a1, a2")
def or_(a: int, b: int) -> int:
    """Bitwise or of rs1 and rs2."""
    return a | b


@scalar("and rd, rs1, rs2", "0000000 rs2 rs1 111 rd 0110011", example="and a0, a1, a2")
def and_(a: int, b: int) -> int:
    """Bitwise and of rs1 and rs2."""
    return a & b


@scalar("fence pred, succ", "0000 pred succ 00000 000 00000 0001111", example="fence rw, w", kind="fence")
def fence() -> None:
    """Order the accesses of pred before those of succ; the two are sets of i, o, r and w."""


@scalar("fence.tso", "1000 0011 0011 00000 000 00000 0001111", example="fence.tso", kind="fence")
def fence_tso() -> None:
    """Order loads before later loads and stores, and stores before later stores."""


@scalar("ecall", "000000000000 00000 000 00000 1110011", example="ecall", kind="system")
def ecall() -> None:
    """Call the execution environment: a7 holds the number of the service, a0..a5 its arguments."""


@scalar("ebreak", "000000000001 00000 000 00000 1110011", example="ebreak", kind="system")
def ebreak() -> None:
    """Return control to a debugger."""
