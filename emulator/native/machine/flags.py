"""Converts flags in bytes to bits and back, as vectors of 64 lanes, for which LLVM has instructions."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from .primitive import I8, I64, Primitive, constant, of_words, pointer

LANES = 64
BYTES = ir.VectorType(I8, LANES)
BITS = ir.VectorType(ir.IntType(1), LANES)


def _pack(b: Any, address: Any) -> Any:
    flags = b.load(pointer(b, address, BYTES), align=1)
    return b.bitcast(b.icmp_unsigned("!=", flags, ir.Constant(BYTES, None)), I64)


def _spread(b: Any, word: Any, address: Any) -> Any:
    b.store(b.zext(b.bitcast(word, BITS), BYTES), pointer(b, address, BYTES), align=1)
    return constant(0)


TABLE: dict[str, Primitive] = {"pack_flags": of_words(1, _pack), "spread_flags": of_words(2, _spread)}
