"""INT8 products as LLVM vector code.

Every version gives the same exact integers. The byte products are one instruction each and exist where the
processor has AVX-512 VNNI; the 16-bit ones are written so that LLVM finds the multiply-and-add-pairs
instruction of whatever vectors the processor has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from llvmlite import ir

from emulator.native.primitives.int8 import BYTES, HALVES, bytes_name, halves_name

from .primitive import I8, I16, I32, I64, Primitive, constant, declared, of_words, pointer
from .products import INTEGERS, LANES, Step, make_product

QUADS = ir.VectorType(I8, 4 * LANES)
PAIRS = ir.VectorType(I16, 2 * LANES)


def _lanes(numbers: Any) -> Any:
    numbers = list(numbers)
    return ir.Constant(ir.VectorType(I32, len(numbers)), numbers)


def _add_byte_products(b: Any, x: Any, y: Any, total: Any) -> Any:
    dot = declared(b, INTEGERS, [INTEGERS, QUADS, QUADS], "llvm.x86.avx512.vpdpbusd.512")
    return b.call(dot, [total, b.bitcast(x, QUADS), b.bitcast(y, QUADS)])


def _add_half_products(b: Any, x: Any, y: Any, total: Any) -> Any:
    wide = ir.VectorType(I32, 2 * LANES)
    left, right = (b.sext(b.bitcast(v, PAIRS), wide) for v in (x, y))
    products = b.mul(left, right, flags=("nsw",))
    low, high = (b.shuffle_vector(products, products, _lanes(range(i, 2 * LANES, 2))) for i in (0, 1))
    return b.add(total, b.add(low, high))


def _splat(b: Any, word: Any) -> Any:
    narrow = b.trunc(word, I32)
    undefined = ir.Constant(INTEGERS, ir.Undefined)
    return b.shuffle_vector(b.insert_element(undefined, narrow, I32(0)), undefined, _lanes([0] * LANES))


def _load_row(b: Any, source: Any, pitch: Any, row: int) -> Any:
    address = b.add(source, b.mul(pitch, constant(row)))
    return b.load(pointer(b, address, ir.VectorType(I8, LANES)), align=1)


def _store_words(b: Any, value: Any, target: Any) -> Any:
    b.store(value, pointer(b, target, INTEGERS), align=4)
    return constant(0)


def _interleave_bytes(b: Any, source: Any, pitch: Any, target: Any, flip: Any) -> Any:
    rows = [_load_row(b, source, pitch, r) for r in range(4)]
    pairs = [
        b.shuffle_vector(x, y, _lanes(lane for i in range(LANES) for lane in (i, i + LANES)))
        for x, y in (rows[:2], rows[2:])
    ]
    quads = b.shuffle_vector(
        *pairs,
        _lanes(lane for i in range(0, 2 * LANES, 2) for lane in (i, i + 1, i + 2 * LANES, i + 2 * LANES + 1)),
    )
    return _store_words(b, b.xor(b.bitcast(quads, INTEGERS), _splat(b, flip)), target)


def _interleave_halves(b: Any, source: Any, pitch: Any, target: Any, zero: Any) -> Any:
    rows = [_load_row(b, source, pitch, r) for r in range(2)]
    bytes_ = b.shuffle_vector(*rows, _lanes(lane for i in range(LANES) for lane in (i, i + LANES)))
    zeros = b.bitcast(_splat(b, b.mul(b.and_(zero, constant(0xFFFF)), constant(0x10001))), PAIRS)
    return _store_words(b, b.bitcast(b.sub(b.sext(bytes_, PAIRS), zeros), INTEGERS), target)


def _same(kind: Any, number: int) -> Any:
    """Return a number, or a vector of equal numbers."""
    return ir.Constant(kind, [number] * kind.count if isinstance(kind, ir.VectorType) else number)


def _clip(b: Any, value: Any, low: int, high: int) -> Any:
    least, most = _same(value.type, low), _same(value.type, high)
    value = b.select(b.icmp_signed("<", value, least), least, value)
    return b.select(b.icmp_signed(">", value, most), most, value)


def _chain(b: Any, o32: Any, q1: Any, scale: Any, q0: Any, least: Any, zero: Any) -> Any:
    """Write the chain for 32-bit numbers or vectors; ``least``: the lowest result before the zero point."""
    o16 = _clip(b, b.ashr(o32, q1), -32768, 32767)
    o9 = _clip(b, b.ashr(b.mul(o16, scale), q0), -256, 255)
    o9 = b.select(b.icmp_signed("<", o9, least), least, o9)
    return _clip(b, b.add(o9, zero), -128, 127)


def _least(b: Any, relu: Any) -> Any:
    return b.select(b.icmp_signed("!=", relu, constant(0)), constant(0), constant(-256))


def _requantise(b: Any, o32: Any, q1: Any, s16: Any, q0: Any, relu: Any, zero: Any) -> Any:
    words = (b.trunc(word, I32) for word in (o32, q1, q0, _least(b, relu), zero))
    total, first, second, least, point = words
    scale = b.sext(b.trunc(s16, I16), I32)
    return b.sext(_chain(b, total, first, scale, second, least, point), I64)


def _requantise_row(b: Any, sums: Any, above: Any, below: Any, target: Any, *words: Any) -> Any:
    q1, q0, relu, zero = words
    total = b.load(pointer(b, sums, INTEGERS), align=4)
    shorts = ir.VectorType(I16, LANES)
    positive, negative = (b.load(pointer(b, at, shorts), align=2) for at in (above, below))
    is_negative = b.icmp_signed("<", total, _same(INTEGERS, 0))
    scale = b.sext(b.select(is_negative, negative, positive), INTEGERS)
    first, second, least, point = (_splat(b, word) for word in (q1, q0, _least(b, relu), zero))
    found = _chain(b, total, first, scale, second, least, point)
    b.store(b.trunc(found, ir.VectorType(I8, LANES)), pointer(b, target, ir.VectorType(I8, LANES)), align=1)
    return constant(0)


def _tiles(
    shapes: Iterable[tuple[int, int]], name: Callable[[int, int], str], advance: Step
) -> dict[str, Any]:
    return {name(*shape): make_product(*shape, INTEGERS, advance) for shape in shapes}


TABLE: dict[str, Primitive] = {
    **_tiles(BYTES, bytes_name, _add_byte_products),
    **_tiles(HALVES, halves_name, _add_half_products),
    "interleave_bytes": of_words(4, _interleave_bytes),
    "interleave_halves": of_words(4, _interleave_halves),
    "requantise": of_words(6, _requantise),
    "requantise_row": of_words(8, _requantise_row),
}
