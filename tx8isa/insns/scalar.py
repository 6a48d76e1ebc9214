"""The SCALAR unit, opcodes 0..5 (docs/isa.md, The scalar unit): functions of CT applied to one value."""

from __future__ import annotations

from collections.abc import Callable

from tx8isa.numbers.elementary import cos, log2, pow2, sin
from tx8isa.numbers.formats import FLOATS
from tx8isa.numbers.primitives import divide, sqrt
from tx8isa.records.meaning import ScalarFunction
from tx8isa.records.operands import format_suffix, scalar
from tx8isa.records.record import Engine, Instruction, Operand, register
from tx8isa.riscv.registers import REGISTERS


def _reciprocal(x: float) -> float:
    return divide(1.0, x)


def _core_register() -> Operand:
    """The operand of the result's x register; x0 for none (its place in the control word is proposed)."""
    names = sorted(REGISTERS.items(), key=lambda item: (item[1], item[0].startswith("x")))
    return Operand("rd", "dst", 0, 5, 0, 31, at=16, default=0, choices=tuple(names))


def _record(opcode: int, name: str, body: Callable[[float], float], doc: str) -> None:
    mnemonic = f"sc.{name}"
    register(
        Instruction(
            Engine.SCALAR,
            opcode,
            mnemonic,
            (format_suffix(FLOATS, "format"), scalar("src", "srcs"), _core_register()),
            FLOATS,
            ScalarFunction(body),
            f"{doc} of the number whose raw bits are src. The result's bits go to rd, zero above, and to the "
            "unit's result register; they are there when the next instruction begins.",
            f"{mnemonic}.fp16 src=0x3c00, rd=a0",
            "spec; not wired in the vendor's library: completion and control word proposed",
        ),
        __name__,
    )


_record(0, "recip", _reciprocal, "Reciprocal")
_record(1, "sqrt", sqrt, "Square root")
_record(2, "sin", sin, "Sine, in radians,")
_record(3, "cos", cos, "Cosine, in radians,")
_record(4, "log2", log2, "Logarithm to base 2")
_record(5, "pow2", pow2, "2 to the power")
