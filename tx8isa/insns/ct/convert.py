"""CT converts, opcodes 139..174 (docs/isa.md, Converts): both vectors packed, formats given by the opcode."""

from __future__ import annotations

from tx8isa.numbers.formats import Format
from tx8isa.records.meaning import Convert
from tx8isa.records.operands import count, linear, rounding, spm
from tx8isa.records.record import Engine, Instruction, register

F16, BF16, F32, TF32 = Format.FP16, Format.BF16, Format.FP32, Format.TF32
I8, I16, I32 = Format.INT8, Format.INT16, Format.INT32

_PAIRS = (
    (I8, F16),
    (I8, BF16),
    (I8, F32),
    (I8, TF32),
    (I16, F16),
    (I16, BF16),
    (I16, F32),
    (I16, TF32),
    (I32, F16),
    (I32, BF16),
    (I32, F32),
    (I32, TF32),
    (BF16, I8),
    (BF16, I16),
    (BF16, I32),
    (BF16, F16),
    (BF16, F32),
    (BF16, TF32),
    (F16, I8),
    (F16, I16),
    (F16, I32),
    (F16, BF16),
    (F16, F32),
    (F16, TF32),
    (F32, I8),
    (F32, I16),
    (F32, I32),
    (F32, F16),
    (F32, BF16),
    (F32, TF32),
    (TF32, I8),
    (TF32, I16),
    (TF32, I32),
    (TF32, F16),
    (TF32, BF16),
    (TF32, F32),
)
_FIRST_OPCODE = 139
_WITHOUT_ROUNDING = {143, 151, 154, 155, 156, 161, 162, 172, 174}
"""Converts whose wrapper takes no mode (spec); where inexact they round to nearest even (proposed)."""


def _convert(opcode: int, source: Format, target: Format) -> Instruction:
    zero_point = source is Format.INT8
    operands = [
        spm("dst", "dst0", "write", linear, target.bits, "n"),
        spm("src0", "src0", "read", linear, source.bits, "n"),
        count("n", "elem_count"),
    ]
    text = f"{source.name} vector to {target.name}: dst[i] = src0[i]"
    if zero_point:
        operands.append(count("zero", "int8_bn_bias", 0, 127, default=0))
        text = f"{source.name} vector to {target.name}: dst[i] = src0[i] - zero"
    elif opcode not in _WITHOUT_ROUNDING:
        operands.append(rounding())
        text += ", rounded by rnd"
    if not target.is_float:
        text += "; out of range saturates, NaN gives 0"
    mnemonic = f"ct.cvt.{source.token}.{target.token}"
    return Instruction(
        Engine.CT,
        opcode,
        mnemonic,
        tuple(operands),
        (),
        Convert(source, target, zero_point),
        text + ".",
        f"{mnemonic} dst=0x30000, src0=0x10000, n=128",
        "spec; overflow and NaN to integer proposed",
    )


for _step, (_source, _target) in enumerate(_PAIRS):
    register(_convert(_FIRST_OPCODE + _step, _source, _target), __name__)
