"""Views over raw addresses and indirect calls."""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils as numba_cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from .scalar import I64, is_integer, to_i64

types: Any = numba.types
cgutils: Any = numba_cgutils
populate_array: Any = arrayobj.populate_array


def _view(kind: Any) -> Any:
    """A contiguous array over raw memory, as an intrinsic: compiling a function costs far more than this."""
    result, size = types.Array(kind, 1, "C"), kind.bitwidth // 8

    def view(typing: Any, address: Any, n: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            words = [to_i64(context, builder, v, k) for v, k in zip(values, signature.args, strict=True)]
            array = context.make_array(result)(context, builder)
            item = ir.Constant(I64, size)
            populate_array(
                array,
                data=builder.inttoptr(words[0], context.get_data_type(kind).as_pointer()),
                shape=cgutils.pack_array(builder, [words[1]]),
                strides=cgutils.pack_array(builder, [item]),
                itemsize=item,
                meminfo=None,
            )
            return array._getvalue()

        return (result(address, n), generate) if is_integer(address, n) else None

    return intrinsic(view)


@intrinsic
def copy_bytes(typing: Any, target: Any, source: Any, size: Any) -> Any:
    """A call of the C library's memmove: it picks the widest moves this processor has."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        words = [to_i64(context, builder, v, k) for v, k in zip(values, signature.args, strict=True)]
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(I64, [I64, I64, I64]), "memmove"
        )
        builder.call(function, words)
        return context.get_dummy_value()

    return (types.void(target, source, size), generate) if is_integer(target, source, size) else None


@intrinsic
def call_kernel(typing: Any, address: Any, fields: Any, state: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        words = [to_i64(context, builder, v, k) for v, k in zip(values, signature.args, strict=True)]
        function = ir.FunctionType(I64, [I64, I64]).as_pointer()
        return builder.call(builder.inttoptr(words[0], function), words[1:])

    known = is_integer(address, fields, state)
    return (types.int64(address, fields, state), generate) if known else None


@intrinsic
def call_loop(typing: Any, address: Any, state: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        words = [to_i64(context, builder, v, k) for v, k in zip(values, signature.args, strict=True)]
        function = ir.FunctionType(I64, [I64]).as_pointer()
        return builder.call(builder.inttoptr(words[0], function), words[1:])

    return (types.int64(address, state), generate) if is_integer(address, state) else None


def _word(builder: Any, table: Any, at: Any) -> Any:
    """Pointer to word ``at`` of the table."""
    return builder.gep(builder.inttoptr(table, I64.as_pointer()), [at])


@intrinsic
def get(typing: Any, table: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        words = [to_i64(context, builder, v, k) for v, k in zip(values, signature.args, strict=True)]
        return builder.load(_word(builder, *words))

    return (types.int64(table, at), generate) if is_integer(table, at) else None


@intrinsic
def put(typing: Any, table: Any, at: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        words = [to_i64(context, builder, v, k) for v, k in zip(values, signature.args, strict=True)]
        builder.store(words[2], _word(builder, *words[:2]))
        return context.get_dummy_value()

    return (types.void(table, at, value), generate) if is_integer(table, at, value) else None


TABLE: dict[str, Any] = {
    "view_u8": _view(types.uint8),
    "view_u16": _view(types.uint16),
    "view_u32": _view(types.uint32),
    "view_u64": _view(types.uint64),
    "view_i64": _view(types.int64),
    "view_f32": _view(types.float32),
    "view_f64": _view(types.float64),
    "get": get,
    "put": put,
    "copy_bytes": copy_bytes,
    "call_kernel": call_kernel,
    "call_loop": call_loop,
}
