"""Atomic words and waiting, as LLVM's atomic instructions and calls of the C library."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from emulator.native.primitives.threads import MICROSECONDS, SLEEP, YIELD

from .primitive import I32, I64, Primitive, constant, declared, of_words, pointer


def _add(b: Any, address: Any, value: Any) -> Any:
    return b.atomic_rmw("add", pointer(b, address, I64), value, "seq_cst")


def _load(b: Any, address: Any) -> Any:
    return b.load_atomic(pointer(b, address, I64), "seq_cst", 8)


def _call(b: Any, name: str, *arguments: Any) -> None:
    """Call a function of the C library and ignore its result."""
    b.call(declared(b, I32, [I32] * len(arguments), name), arguments)


def _relax(b: Any, looks: Any) -> Any:
    patient = b.icmp_signed(">=", looks, constant(SLEEP))
    with b.if_then(patient):
        _call(b, "usleep", ir.Constant(I32, MICROSECONDS))
    turn = b.icmp_signed(">=", looks, constant(YIELD))
    with b.if_then(b.and_(turn, b.not_(patient))):
        _call(b, "sched_yield")
    return constant(0)


TABLE: dict[str, Primitive] = {
    "atomic_add": of_words(2, _add),
    "atomic_load": of_words(1, _load),
    "relax": of_words(1, _relax),
}
