"""Views over raw addresses and indirect calls."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.np import arrayobj

from .intrinsics import (
    I64,
    cgutils,
    constant,
    declared,
    intrinsic,
    is_integer,
    of_words,
    pointer,
    to_words,
    types,
)

populate_array: Any = arrayobj.populate_array


def _view(kind: Any) -> Any:
    """A contiguous array over raw memory."""
    result, size = types.Array(kind, 1, "C"), constant(kind.bitwidth // 8)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        address, n = to_words(context, builder, signature, values)
        array = context.make_array(result)(context, builder)
        populate_array(
            array,
            data=pointer(builder, address, context.get_data_type(kind)),
            shape=cgutils.pack_array(builder, [n]),
            strides=cgutils.pack_array(builder, [size]),
            itemsize=size,
            meminfo=None,
        )
        return array._getvalue()

    return intrinsic(2, lambda *kinds: result(*kinds) if is_integer(*kinds) else None, generate)


def _word(b: Any, table: Any, at: Any) -> Any:
    """Pointer to word ``at`` of the table."""
    return b.gep(pointer(b, table, I64), [at])


def _copy(b: Any, target: Any, source: Any, size: Any) -> None:
    """The C library's memmove picks the widest moves this processor has."""
    b.call(declared(b, I64, [I64] * 3, "memmove"), [target, source, size])


def _call(b: Any, address: Any, *arguments: Any) -> Any:
    """Call the compiled kernel at an address."""
    return b.call(pointer(b, address, ir.FunctionType(I64, [I64] * len(arguments))), arguments)


TABLE: dict[str, Any] = {
    "view_u8": _view(types.uint8),
    "view_u16": _view(types.uint16),
    "view_u32": _view(types.uint32),
    "view_u64": _view(types.uint64),
    "view_i64": _view(types.int64),
    "view_f32": _view(types.float32),
    "view_f64": _view(types.float64),
    "get": of_words(2, lambda b, table, at: b.load(_word(b, table, at))),
    "put": of_words(3, lambda b, table, at, value: b.store(value, _word(b, table, at)), types.void),
    "copy_bytes": of_words(3, _copy, types.void),
    "call_kernel": of_words(3, _call),
    "call_loop": of_words(2, _call),
}
