"""Flags in bytes to bits and back, as one vector of 64 lanes: LLVM knows the instructions for it."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .scalar import I64, is_integer, to_i64

LANES = 64
BYTES = ir.VectorType(ir.IntType(8), LANES)
BITS = ir.VectorType(ir.IntType(1), LANES)


@intrinsic
def pack_flags(typing: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        word = to_i64(context, builder, values[0], signature.args[0])
        flags = builder.load(builder.inttoptr(word, BYTES.as_pointer()), align=1)
        return builder.bitcast(builder.icmp_unsigned("!=", flags, ir.Constant(BYTES, None)), I64)

    return (types.int64(address), generate) if is_integer(address) else None


@intrinsic
def spread_flags(typing: Any, word: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        words = [to_i64(context, builder, v, k) for v, k in zip(values, signature.args, strict=True)]
        flags = builder.zext(builder.bitcast(words[0], BITS), BYTES)
        builder.store(flags, builder.inttoptr(words[1], BYTES.as_pointer()), align=1)
        return ir.Constant(I64, 0)

    return (types.int64(word, address), generate) if is_integer(word, address) else None


TABLE: dict[str, Any] = {"pack_flags": pack_flags, "spread_flags": spread_flags}
