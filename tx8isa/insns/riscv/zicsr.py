"""Zicsr: control and status registers. Source: RISC-V manual, volume I, chapter "Zicsr" (spec).

Each instruction gives rd the old value. A set or clear from x0, or from the immediate 0, does not write.
"""

from __future__ import annotations

from tx8isa.riscv.format import scalar


@scalar("csrrw rd, csr, rs1", "csr rs1 001 rd 1110011", example="csrrw a0, mscratch, a1", kind="csr")
def csrrw(old: int, operand: int) -> int:
    """Write rs1 to the register."""
    return operand


@scalar("csrrs rd, csr, rs1", "csr rs1 010 rd 1110011", example="csrrs a0, mhartid, zero", kind="csr")
def csrrs(old: int, operand: int) -> int:
    """Set the bits of the register that are 1 in rs1."""
    return old | operand


@scalar("csrrc rd, csr, rs1", "csr rs1 011 rd 1110011", example="csrrc a0, mstatus, a1", kind="csr")
def csrrc(old: int, operand: int) -> int:
    """Clear the bits of the register that are 1 in rs1."""
    return old & ~operand


@scalar("csrrwi rd, csr, zimm", "csr zimm 101 rd 1110011", example="csrrwi a0, mscratch, 31", kind="csr")
def csrrwi(old: int, operand: int) -> int:
    """Write the 5-bit zimm to the register."""
    return operand


@scalar("csrrsi rd, csr, zimm", "csr zimm 110 rd 1110011", example="csrrsi a0, mstatus, 8", kind="csr")
def csrrsi(old: int, operand: int) -> int:
    """Set the bits of the register that are 1 in the 5-bit zimm."""
    return old | operand


@scalar("csrrci rd, csr, zimm", "csr zimm 111 rd 1110011", example="csrrci a0, mstatus, 8", kind="csr")
def csrrci(old: int, operand: int) -> int:
    """Clear the bits of the register that are 1 in the 5-bit zimm."""
    return old & ~operand
