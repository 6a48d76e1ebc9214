"""Format conversions as branch-free LLVM instructions, so that every plain loop over them vectorises."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from emulator.native.target import has_feature

from .primitive import F16, F32, I16, I32, I64, Emit, Primitive, Version, of_floats, of_words


def _word(value: int) -> Any:
    return ir.Constant(I32, value)


def _widening(emit: Emit) -> Primitive:
    """Make a function from a pattern to binary32; ``emit(builder, i32 word)`` returns the float."""
    return of_words(1, lambda b, bits: emit(b, b.trunc(bits, I32)), "f")


def _narrowing(emit: Emit) -> Primitive:
    """Make a function from binary32 to a pattern; ``emit(builder, float)`` returns 16 or 32 bits."""
    return of_floats(1, "f", lambda b, x: b.zext(emit(b, x), I64), "i")


def _raw(b: Any, word: Any) -> Any:
    return b.bitcast(word, F32)


def _fp16_by_instruction(b: Any, word: Any) -> Any:
    return b.fpext(b.bitcast(b.trunc(word, I16), F16), F32)


def _fp16_by_integers(b: Any, word: Any) -> Any:
    """Move exponent and mantissa up, rescale by 2**112 (exact, also below the normals), patch inf and NaN."""
    magnitude = b.and_(word, _word(0x7FFF))
    scaled = b.fmul(b.bitcast(b.shl(magnitude, _word(13)), F32), ir.Constant(F32, 2.0**112))
    finite = b.bitcast(scaled, I32)
    infinite = b.or_(finite, _word(0x7F800000))
    quiet = b.or_(infinite, _word(0x7FC00000))
    result = b.select(b.icmp_unsigned(">=", magnitude, _word(0x7C00)), infinite, finite)
    result = b.select(b.icmp_unsigned(">", magnitude, _word(0x7C00)), quiet, result)
    return b.bitcast(b.or_(result, b.shl(b.and_(word, _word(0x8000)), _word(16))), F32)


def _bf16(b: Any, word: Any) -> Any:
    return b.bitcast(b.shl(word, _word(16)), F32)


def _tf32(b: Any, word: Any) -> Any:
    return b.bitcast(b.and_(word, _word(0xFFFFE000)), F32)


def _unless_nan(b: Any, x: Any, bits: Any, nan: int) -> Any:
    return b.select(b.fcmp_unordered("uno", x, x), ir.Constant(bits.type, nan), bits)


def _to_fp16_by_instruction(b: Any, x: Any) -> Any:
    return _unless_nan(b, x, b.bitcast(b.fptrunc(x, F16), I16), 0x7E00)


def _to_fp16_by_integers(b: Any, x: Any) -> Any:
    """Round normal results in the integer, and subnormal ones by adding 0.5, whose last bit is 2**-24."""
    bits = b.bitcast(x, I32)
    magnitude = b.and_(bits, _word(0x7FFFFFFF))
    even = b.and_(b.lshr(magnitude, _word(13)), _word(1))
    normal = b.lshr(b.add(b.sub(magnitude, _word(0x38000000 - 0xFFF)), even), _word(13))
    shifted = b.fadd(b.bitcast(magnitude, F32), ir.Constant(F32, 0.5))
    subnormal = b.sub(b.bitcast(shifted, I32), _word(0x3F000000))
    result = b.select(b.icmp_unsigned("<", magnitude, _word(0x38800000)), subnormal, normal)
    result = b.select(b.icmp_unsigned(">=", magnitude, _word(0x477FF000)), _word(0x7C00), result)
    result = b.or_(result, b.and_(b.lshr(bits, _word(16)), _word(0x8000)))
    return _unless_nan(b, x, b.trunc(result, I16), 0x7E00)


def _round_low_bits(b: Any, x: Any, dropped: int) -> Any:
    """Add just under half a unit of the last kept bit to the pattern; a carry rounds it up."""
    bits = b.bitcast(x, I32)
    even = b.and_(b.lshr(bits, _word(dropped)), _word(1))
    return b.add(b.add(bits, _word((1 << (dropped - 1)) - 1)), even)


def _to_bf16(b: Any, x: Any) -> Any:
    rounded = b.lshr(_round_low_bits(b, x, 16), _word(16))
    return _unless_nan(b, x, b.trunc(rounded, I16), 0x7FC0)


def _to_tf32(b: Any, x: Any) -> Any:
    return _unless_nan(b, x, b.and_(_round_low_bits(b, x, 13), _word(0xFFFFE000)), 0x7FC00000)


def _to_fp32(b: Any, x: Any) -> Any:
    return _unless_nan(b, x, b.bitcast(x, I32), 0x7FC00000)


HARDWARE_FP16 = has_feature("f16c")
"""True if the processor has F16C; without it LLVM would call a library function that is missing here."""

SINGLE: Primitive = (
    Version("f", "f", lambda b, x: x),
    Version("d", "f", lambda b, x: b.fptrunc(x, F32)),
    Version("u", "f", lambda b, x: b.uitofp(x, F32)),
    Version("i", "f", lambda b, x: b.sitofp(x, F32)),
)
BY_INTEGERS: dict[str, Primitive] = {
    "fp16_to_f32": _widening(_fp16_by_integers),
    "f32_to_fp16": _narrowing(_to_fp16_by_integers),
}
BY_INSTRUCTION: dict[str, Primitive] = {
    "fp16_to_f32": _widening(_fp16_by_instruction),
    "f32_to_fp16": _narrowing(_to_fp16_by_instruction),
}
TABLE: dict[str, Primitive] = {
    "bits_f32": _widening(_raw),
    "bf16_to_f32": _widening(_bf16),
    "tf32_to_f32": _widening(_tf32),
    "single": SINGLE,
    "f32_bits": _narrowing(lambda b, x: b.bitcast(x, I32)),
    "f32_to_bf16": _narrowing(_to_bf16),
    "f32_to_tf32": _narrowing(_to_tf32),
    "f32_to_fp32": _narrowing(_to_fp32),
    **(BY_INSTRUCTION if HARDWARE_FP16 else BY_INTEGERS),
}
