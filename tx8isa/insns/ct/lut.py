"""CT tables, opcodes 183 and 184 (docs/isa.md, Tables)."""

from __future__ import annotations

from tx8isa.records.meaning import Gather
from tx8isa.records.operands import count, linear, spm
from tx8isa.records.record import Engine, Instruction, register


def _lookup(opcode: int, bits: int) -> None:
    register(
        Instruction(
            Engine.CT,
            opcode,
            f"ct.lut{bits}",
            (
                spm("dst", "dst0", "write", linear, bits, "n"),
                spm("src0", "src0", "read", linear, bits, "entries"),
                spm("src1", "src1", "read", linear, bits, "n"),
                count("n", "elem_count"),
                count("entries", "full_elem_count"),
            ),
            (),
            Gather(bits, in_bytes=True),
            f"dst[i] is the {bits}-bit word at src0 + src1[i]; the offsets are unsigned {bits}-bit numbers, "
            "in bytes. Those beyond the entries read SPM as addressed, unseen by the conflict detection; "
            "beyond SPM they read 0.",
            f"ct.lut{bits} dst=0x30000, src0=0x10000, src1=0x20000, n=128, entries=64",
            "spec: the opcode; byte offsets seen in use; operand places inferred from argument names; the "
            "number of entries and offsets beyond them proposed",
        ),
        __name__,
    )


_lookup(183, 16)
_lookup(184, 32)
