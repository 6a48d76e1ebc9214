"""Transposition of square blocks of 16-byte rows: rounds of interleaving, each pair one instruction."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from emulator.native.primitives.blocks import BLOCKS, ROW_BYTES, block_name

from .scalar import I32, I64, is_integer, to_i64


def _interleaved(b: Any, rows: list[Any]) -> list[Any]:
    """Row r with row r + n/2, lane by lane, as two rows: log2(n) such rounds transpose n rows of n lanes."""
    n = len(rows)
    lanes = [lane for k in range(n) for lane in (k, n + k)]
    masks = [ir.Constant(ir.VectorType(I32, n), half) for half in (lanes[:n], lanes[n:])]
    pairs = [(rows[r], rows[r + n // 2]) for r in range(n // 2)]
    return [b.shuffle_vector(x, y, mask) for x, y in pairs for mask in masks]


def _emit(b: Any, size: int, words: list[Any]) -> None:
    target, target_pitch, source, source_pitch = words
    n = ROW_BYTES // size
    row = ir.VectorType(ir.IntType(8 * size), n).as_pointer()

    def place(base: Any, pitch: Any, k: int) -> Any:
        return b.inttoptr(b.add(base, b.mul(pitch, ir.Constant(I64, k))), row)

    rows = [b.load(place(source, source_pitch, k), align=1) for k in range(n)]
    for _ in range(n.bit_length() - 1):
        rows = _interleaved(b, rows)
    for k, value in enumerate(rows):
        b.store(value, place(target, target_pitch, k), align=1)


def _block(size: int) -> Any:
    def transpose(typing: Any, target: Any, target_pitch: Any, source: Any, source_pitch: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kinds = signature.args
            words = [to_i64(context, builder, v, kind) for v, kind in zip(values, kinds, strict=True)]
            _emit(builder, size, words)
            return ir.Constant(I64, 0)

        arguments = (target, target_pitch, source, source_pitch)
        return (types.int64(*arguments), generate) if is_integer(*arguments) else None

    return intrinsic(transpose)


TABLE: dict[str, Any] = {block_name(size): _block(size) for size in BLOCKS}
