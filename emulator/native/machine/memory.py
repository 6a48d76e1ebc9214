"""Views over raw addresses and indirect calls."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from .primitive import I64, Elements, Primitive, declared, of_words, pointer


def _word(b: Any, table: Any, at: Any) -> Any:
    """Pointer to word ``at`` of the table."""
    return b.gep(pointer(b, table, I64), [at])


def _copy(b: Any, target: Any, source: Any, size: Any) -> None:
    """The C library's memmove picks the widest moves this processor has."""
    b.call(declared(b, I64, [I64] * 3, "memmove"), [target, source, size])


def _call(b: Any, address: Any, *arguments: Any) -> Any:
    """Call the compiled kernel at an address."""
    return b.call(pointer(b, address, ir.FunctionType(I64, [I64] * len(arguments))), arguments)


TABLE: dict[str, Primitive | Elements] = {
    "view_u8": Elements(8, "u"),
    "view_u16": Elements(16, "u"),
    "view_u32": Elements(32, "u"),
    "view_u64": Elements(64, "u"),
    "view_i64": Elements(64, "i"),
    "view_f32": Elements(32, "f"),
    "view_f64": Elements(64, "f"),
    "get": of_words(2, lambda b, table, at: b.load(_word(b, table, at))),
    "put": of_words(3, lambda b, table, at, value: b.store(value, _word(b, table, at)), ""),
    "copy_bytes": of_words(3, _copy, ""),
    "call_kernel": of_words(3, _call),
    "call_loop": of_words(2, _call),
}
