"""64-bit integer and binary64 primitives as LLVM instructions."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils as numba_cgutils
from numba.extending import intrinsic

cgutils: Any = numba_cgutils
I32, I64, I128 = ir.IntType(32), ir.IntType(64), ir.IntType(128)
F32, F64 = ir.FloatType(), ir.DoubleType()


def to_i64(context: Any, builder: Any, value: Any, kind: Any) -> Any:
    """An integer or boolean of any width as 64 bits, extended by its own signedness."""
    return context.cast(builder, value, kind, types.int64)


def is_integer(*kinds: Any) -> bool:
    return all(isinstance(kind, types.Integer | types.Boolean) for kind in kinds)


def _integers(result: Any, emit: Any, operands: int) -> Any:
    """An intrinsic over 64-bit words; ``emit(builder, *words)`` gives 64 bits of type ``result``."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        words = [to_i64(context, builder, v, k) for v, k in zip(values, signature.args, strict=True)]
        return emit(builder, *words)

    def unary(typing: Any, a: Any) -> Any:
        return (result(a), generate) if is_integer(a) else None

    def binary(typing: Any, a: Any, b: Any) -> Any:
        return (result(a, b), generate) if is_integer(a, b) else None

    return intrinsic(unary if operands == 1 else binary)


def _low32(b: Any, a: Any) -> Any:
    return b.zext(b.trunc(a, I32), I64)


def _signed_low32(b: Any, a: Any) -> Any:
    return b.sext(b.trunc(a, I32), I64)


def _upper(left: str, right: str) -> Any:
    """Upper half of a product; each operand is extended to 128 bits by ``sext`` or ``zext``."""

    def emit(b: Any, x: Any, y: Any) -> Any:
        product = b.mul(getattr(b, left)(x, I128), getattr(b, right)(y, I128))
        return b.trunc(b.lshr(product, ir.Constant(I128, 64)), I64)

    return emit


@intrinsic
def bits64(typing: Any, x: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(values[0], I64)

    return (types.int64(types.float64), generate) if x == types.float64 else None


@intrinsic
def from_bits64(typing: Any, bits: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.bitcast(to_i64(context, builder, values[0], signature.args[0]), F64)

    return (types.float64(bits), generate) if is_integer(bits) else None


def _call(builder: Any, name: str, *values: Any) -> Any:
    kind = values[0].type
    function = ir.FunctionType(kind, [kind] * len(values))
    return builder.call(cgutils.get_or_insert_function(builder.module, function, name), values)


def canonical(builder: Any, value: Any) -> Any:
    """``value``, or the positive quiet NaN without payload.

    The choice is made on integers: to LLVM one NaN is as good as another, so it drops a choice on floats.
    """
    word, nan = (I64, 0x7FF8 << 48) if value.type == F64 else (I32, 0x7FC00000)
    bits = builder.bitcast(value, word)
    chosen = builder.select(builder.fcmp_unordered("uno", value, value), ir.Constant(word, nan), bits)
    return builder.bitcast(chosen, value.type)


@intrinsic
def sqrt(typing: Any, x: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return canonical(builder, _call(builder, "llvm.sqrt.f64", values[0]))

    return (types.float64(types.float64), generate) if x == types.float64 else None


@intrinsic
def divide(typing: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return canonical(builder, builder.fdiv(*values))

    known = a == b == types.float64
    return (types.float64(types.float64, types.float64), generate) if known else None


@intrinsic
def fma32(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """All three binary32, or all three binary64 that hold binary32 values."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        wide = signature.args[0] == types.float64
        narrow = [builder.fptrunc(v, F32) for v in values] if wide else values
        result = _call(builder, "llvm.fma.f32", *narrow)
        return canonical(builder, builder.fpext(result, F64) if wide else result)

    known = a == b == c and a in (types.float32, types.float64)
    return (a(a, b, c), generate) if known else None


@intrinsic
def fma64(typing: Any, a: Any, b: Any, c: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return canonical(builder, _call(builder, "llvm.fma.f64", *values))

    known = a == b == c == types.float64
    return (types.float64(types.float64, types.float64, types.float64), generate) if known else None


def _round_to_single(b: Any, x: Any) -> Any:
    return canonical(b, b.fpext(b.fptrunc(x, F32), F64))


@intrinsic
def f32(typing: Any, x: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _round_to_single(builder, values[0])

    return (types.float64(types.float64), generate) if x == types.float64 else None


def _singles(emit: str) -> Any:
    """An operation on two binary32 that binary64 holds; LLVM leaves out the widening between two of them."""

    def operation(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            x, y = (builder.fptrunc(value, F32) for value in values)
            return builder.fpext(getattr(builder, emit)(x, y), F64)

        return (types.float64(a, b), generate) if a == b == types.float64 else None

    return intrinsic(operation)


@intrinsic
def bits32(typing: Any, x: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.zext(builder.bitcast(builder.fptrunc(values[0], F32), I32), I64)

    return (types.int64(types.float64), generate) if x == types.float64 else None


@intrinsic
def from_bits32(typing: Any, bits: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        word = to_i64(context, builder, values[0], signature.args[0])
        return builder.fpext(builder.bitcast(builder.trunc(word, I32), F32), F64)

    return (types.float64(bits), generate) if is_integer(bits) else None


TABLE: dict[str, Any] = {
    "u64": _integers(types.uint64, lambda b, a: a, 1),
    "s64": _integers(types.int64, lambda b, a: a, 1),
    "u32": _integers(types.int64, _low32, 1),
    "s32": _integers(types.int64, _signed_low32, 1),
    "mulh": _integers(types.int64, _upper("sext", "sext"), 2),
    "mulhu": _integers(types.int64, _upper("zext", "zext"), 2),
    "mulhsu": _integers(types.int64, _upper("sext", "zext"), 2),
    "bits64": bits64,
    "from_bits64": from_bits64,
    "sqrt": sqrt,
    "divide": divide,
    "fma32": fma32,
    "fma64": fma64,
    "f32": f32,
    "add32": _singles("fadd"),
    "mul32": _singles("fmul"),
    "bits32": bits32,
    "from_bits32": from_bits32,
}
