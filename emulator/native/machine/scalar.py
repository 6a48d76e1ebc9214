"""64-bit integer and binary64 primitives as LLVM instructions."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from .primitive import F32, F64, I32, I64, I128, Primitive, Version, declared, of_floats, of_words


def _low32(b: Any, a: Any) -> Any:
    return b.zext(b.trunc(a, I32), I64)


def _signed_low32(b: Any, a: Any) -> Any:
    return b.sext(b.trunc(a, I32), I64)


def _upper(left: str, right: str) -> Any:
    """Make the upper half of a product; each operand is extended to 128 bits by ``sext`` or ``zext``."""

    def emit(b: Any, x: Any, y: Any) -> Any:
        product = b.mul(getattr(b, left)(x, I128), getattr(b, right)(y, I128))
        return b.trunc(b.lshr(product, ir.Constant(I128, 64)), I64)

    return emit


def canonical(b: Any, value: Any) -> Any:
    """Replace a NaN ``value`` by the positive quiet NaN without payload.

    The select is on integers, because LLVM regards all NaN as equal and drops a select on floats.
    """
    word, nan = (I64, 0x7FF8 << 48) if value.type == F64 else (I32, 0x7FC00000)
    bits = b.bitcast(value, word)
    chosen = b.select(b.fcmp_unordered("uno", value, value), ir.Constant(word, nan), bits)
    return b.bitcast(chosen, value.type)


def _call(b: Any, name: str, *values: Any) -> Any:
    kind = values[0].type
    return b.call(declared(b, kind, [kind] * len(values), name), values)


def _sqrt(b: Any, x: Any) -> Any:
    return canonical(b, _call(b, "llvm.sqrt.f64", x))


def _fma64(b: Any, x: Any, y: Any, z: Any) -> Any:
    return canonical(b, _call(b, "llvm.fma.f64", x, y, z))


def _fma32(b: Any, x: Any, y: Any, z: Any) -> Any:
    return canonical(b, _call(b, "llvm.fma.f32", x, y, z))


def _fma32_in_doubles(b: Any, *values: Any) -> Any:
    """Make ``fma32`` of binary64 operands that hold binary32 values."""
    return canonical(b, b.fpext(_call(b, "llvm.fma.f32", *(b.fptrunc(v, F32) for v in values)), F64))


def _singles(emit: str) -> Any:
    """Make an operation on binary32 held by binary64; LLVM removes the conversions between two of them."""
    return lambda b, x, y: b.fpext(getattr(b, emit)(b.fptrunc(x, F32), b.fptrunc(y, F32)), F64)


TABLE: dict[str, Primitive] = {
    "u64": of_words(1, lambda b, a: a, "u"),
    "s64": of_words(1, lambda b, a: a),
    "u32": of_words(1, _low32),
    "s32": of_words(1, _signed_low32),
    "mulh": of_words(2, _upper("sext", "sext")),
    "mulhu": of_words(2, _upper("zext", "zext")),
    "mulhsu": of_words(2, _upper("sext", "zext")),
    "bits64": of_floats(1, "d", lambda b, x: b.bitcast(x, I64), "i"),
    "from_bits64": of_words(1, lambda b, bits: b.bitcast(bits, F64), "d"),
    "bits32": of_floats(1, "d", lambda b, x: b.zext(b.bitcast(b.fptrunc(x, F32), I32), I64), "i"),
    "from_bits32": of_words(1, lambda b, bits: b.fpext(b.bitcast(b.trunc(bits, I32), F32), F64), "d"),
    "sqrt": of_floats(1, "d", _sqrt, "d"),
    "divide": of_floats(2, "d", lambda b, x, y: canonical(b, b.fdiv(x, y)), "d"),
    "fma32": (Version("fff", "f", _fma32), Version("ddd", "d", _fma32_in_doubles)),
    "fma64": of_floats(3, "d", _fma64, "d"),
    "f32": of_floats(1, "d", lambda b, x: canonical(b, b.fpext(b.fptrunc(x, F32), F64)), "d"),
    "add32": of_floats(2, "d", _singles("fadd"), "d"),
    "mul32": of_floats(2, "d", _singles("fmul"), "d"),
}
