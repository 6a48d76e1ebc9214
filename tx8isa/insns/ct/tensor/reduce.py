"""CT reductions over C, W, H or HW of an aligned NHWC tensor, opcodes 111..114 (docs/isa.md, Reductions)."""

from __future__ import annotations

from tx8isa.families.aligned import reduced, tensor
from tx8isa.families.fold import MAXIMUM, MEAN, MINIMUM, SUM
from tx8isa.numbers.formats import FLOATS
from tx8isa.records.meaning import Reduce, Reduction
from tx8isa.records.operands import dims, format_suffix, rule, shape, spm
from tx8isa.records.record import Engine, Instruction, register

_DIMS = (("c", 0), ("w", 1), ("h", 2), ("n", 3), ("hw", 4))


@rule("dims")
def _not_n(dims: int) -> bool:
    """dims must not be n: a reduction over N times out on the chip (board)"""
    return dims != 3


def _record(opcode: int, name: str, fold: Reduction, text: str) -> None:
    lanes = ("shape.n", "shape.h", "shape.w", "shape.c")
    operands = (
        format_suffix(FLOATS),
        spm("dst", "dst0", "write", reduced, "@format", *lanes, "dims"),
        spm("src0", "src0", "read", tensor, "@format", *lanes),
        shape("shape", "src0_tfr"),
        dims(_DIMS),
    )
    register(
        Instruction(
            Engine.CT,
            opcode,
            f"ct.reduce.{name}",
            operands,
            FLOATS,
            Reduce(fold),
            f"{text} over C, W, H or HW of an aligned NHWC tensor; the reduced extent becomes 1 and the "
            "result is aligned again, its padding lanes zero.",
            f"ct.reduce.{name}.fp16 dst=0x30000, src0=0x10000, shape=[1,2,8,64], dims=c",
            "spec; logical values on the board; accumulation order and width proposed; dims n times out on "
            "the chip (board)",
            (_not_n,),
        ),
        __name__,
    )


_record(111, "sum", SUM, "Sum, accumulated in FP32 in ascending index order,")
_record(112, "avg", MEAN, "Mean, the FP32 sum divided once by the number of elements,")
_record(113, "max", MAXIMUM, "Maximum")
_record(114, "min", MINIMUM, "Minimum")
