"""Atomic words and waiting, as LLVM's atomic instructions and calls of the C library."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .scalar import I32, I64, cgutils, is_integer, to_i64

_SPIN, _YIELD = 500, 1500
"""Looks in vain before the thread gives up its turn, and before it sleeps."""
_MICROSECONDS = 50
_WORD = I64.as_pointer()


@intrinsic
def atomic_add(typing: Any, address: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        words = [to_i64(context, builder, v, k) for v, k in zip(values, signature.args, strict=True)]
        return builder.atomic_rmw("add", builder.inttoptr(words[0], _WORD), words[1], "seq_cst")

    return (types.int64(address, value), generate) if is_integer(address, value) else None


@intrinsic
def atomic_load(typing: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        word = to_i64(context, builder, values[0], signature.args[0])
        return builder.load_atomic(builder.inttoptr(word, _WORD), "seq_cst", 8)

    return (types.int64(address), generate) if is_integer(address) else None


def _call(builder: Any, name: str, *arguments: Any) -> None:
    """Call a function of the C library; what it returns does not matter."""
    kind = ir.FunctionType(I32, [I32] * len(arguments))
    builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


@intrinsic
def relax(typing: Any, looks: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        word = to_i64(context, builder, values[0], signature.args[0])
        patient = builder.icmp_signed(">=", word, ir.Constant(I64, _YIELD))
        with builder.if_then(patient):
            _call(builder, "usleep", ir.Constant(I32, _MICROSECONDS))
        turn = builder.icmp_signed(">=", word, ir.Constant(I64, _SPIN))
        with builder.if_then(builder.and_(turn, builder.not_(patient))):
            _call(builder, "sched_yield")
        return ir.Constant(I64, 0)

    return (types.int64(looks), generate) if is_integer(looks) else None


TABLE: dict[str, Any] = {"atomic_add": atomic_add, "atomic_load": atomic_load, "relax": relax}
