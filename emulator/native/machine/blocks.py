"""Transposition of square blocks: rounds of interleaving, each pair one instruction."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from emulator.native.primitives.blocks import BLOCKS, ROW_BYTES, WIDE_ROWS, block_name

from .float32 import widened_bf16, widened_fp16
from .primitive import F32, I16, I32, Emit, Primitive, constant, of_words, pointer


def _interleaved(b: Any, rows: list[Any]) -> list[Any]:
    """Row r with row r + n/2, lane by lane, as two rows: log2(n) such rounds transpose n rows of n lanes."""
    n = len(rows)
    lanes = [lane for k in range(n) for lane in (k, n + k)]
    masks = [ir.Constant(ir.VectorType(I32, n), half) for half in (lanes[:n], lanes[n:])]
    pairs = [(rows[r], rows[r + n // 2]) for r in range(n // 2)]
    return [b.shuffle_vector(x, y, mask) for x, y in pairs for mask in masks]


def _block(size: int) -> Emit:
    """The emitter of the transposition of elements of ``size`` bytes."""
    n = ROW_BYTES // size
    row = ir.VectorType(ir.IntType(8 * size), n)

    def emit(b: Any, target: Any, target_pitch: Any, source: Any, source_pitch: Any) -> Any:
        def place(base: Any, pitch: Any, k: int) -> Any:
            return pointer(b, b.add(base, b.mul(pitch, constant(k))), row)

        rows = [b.load(place(source, source_pitch, k), align=1) for k in range(n)]
        for _ in range(n.bit_length() - 1):
            rows = _interleaved(b, rows)
        for k, value in enumerate(rows):
            b.store(value, place(target, target_pitch, k), align=1)
        return constant(0)

    return emit


_HALF = WIDE_ROWS // 2


def _shuffled(b: Any, x: Any, y: Any, lanes: list[int]) -> Any:
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, len(lanes)), lanes))


def _interleaved_halves(b: Any, rows: list[Any]) -> list[Any]:
    """``_interleaved`` of eight rows of sixteen 16-bit lanes, each half of the lanes for itself.

    That is one instruction for each result also where vectors have halves (AVX2).
    """
    low, high = (
        [lane for half in (0, _HALF) for k in range(4) for lane in (half + of + k, half + of + k + 16)]
        for of in (0, 4)
    )
    pairs = [(rows[r], rows[r + 4]) for r in range(4)]
    return [_shuffled(b, x, y, lanes) for x, y in pairs for lanes in (low, high)]


def _wide(widened: Emit) -> Emit:
    """The emitter of the transposition of sixteen rows that makes binary32 of 16 bits."""
    stored, wide = ir.VectorType(I16, WIDE_ROWS), ir.VectorType(F32, WIDE_ROWS)

    def emit(b: Any, source: Any, source_pitch: Any, target: Any, target_pitch: Any) -> Any:
        def place(base: Any, pitch: Any, k: int, size: int, kind: Any) -> Any:
            return pointer(b, b.add(base, b.mul(pitch, constant(size * k))), kind)

        rows = [b.load(place(source, source_pitch, k, 2, stored), align=2) for k in range(WIDE_ROWS)]
        above, below = rows[:_HALF], rows[_HALF:]
        for _ in range(3):
            above, below = _interleaved_halves(b, above), _interleaved_halves(b, below)
        for half in (0, _HALF):
            lanes = [*range(half, half + _HALF), *range(16 + half, 16 + half + _HALF)]
            for k, (x, y) in enumerate(zip(above, below, strict=True)):
                value = widened(b, _shuffled(b, x, y, lanes))
                b.store(value, place(target, target_pitch, half + k, 4, wide), align=4)
        return constant(0)

    return emit


TABLE: dict[str, Primitive] = {
    **{block_name(size): of_words(4, _block(size)) for size in BLOCKS},
    "transpose_fp16": of_words(4, _wide(widened_fp16)),
    "transpose_bf16": of_words(4, _wide(widened_bf16)),
}
