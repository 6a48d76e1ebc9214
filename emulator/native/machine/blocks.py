"""Transposition of square blocks of 16-byte rows: rounds of interleaving, each pair one instruction."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from emulator.native.primitives.blocks import BLOCKS, ROW_BYTES, block_name

from .primitive import I32, Emit, Primitive, constant, of_words, pointer


def _interleaved(b: Any, rows: list[Any]) -> list[Any]:
    """Interleave row r with row r + n/2, lane by lane; log2(n) such rounds transpose n rows of n lanes."""
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


TABLE: dict[str, Primitive] = {block_name(size): of_words(4, _block(size)) for size in BLOCKS}
