"""Products with sums in vector registers, written as LLVM vector code.

LLVM keeps the accumulators in registers and selects the instructions. The data flow fixes the order of the
sums: one fused multiply-add per element and step, steps ascending. So the bits do not depend on the width of
the processor's vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from emulator.native.primitives.float32 import NAN_FP32
from emulator.native.primitives.products import PRODUCTS, ROW_COLUMNS, TAP_ROWS, product_name

from .primitive import F16, F32, I16, I32, I64, Primitive, constant, declared, of_words, pointer

LANES = 16
VECTOR = ir.VectorType(F32, LANES)
INTEGERS = ir.VectorType(I32, LANES)
HALVES = ir.VectorType(F16, LANES)
Step = Callable[[Any, Any, Any, Any], Any]
"""(builder, vector of A, vector of B, sums) -> sums."""
Following = Callable[[Any, Any, list[Any]], list[Any]]
"""(step, pointer, sums) -> sums."""


def _load(b: Any, pointer: Any, kind: Any = VECTOR, align: int = 4) -> Any:
    return b.load(b.bitcast(pointer, kind.as_pointer()), align=align)


def _store(b: Any, value: Any, pointer: Any, align: int = 4) -> None:
    b.store(value, b.bitcast(pointer, value.type.as_pointer()), align=align)


def _shuffle(b: Any, x: Any, y: Any, lanes: list[int]) -> Any:
    return b.shuffle_vector(x, y, ir.Constant(ir.VectorType(I32, len(lanes)), lanes))


def _broadcast(b: Any, scalar: Any) -> Any:
    undefined = ir.Constant(ir.VectorType(scalar.type, LANES), ir.Undefined)
    return _shuffle(b, b.insert_element(undefined, scalar, I32(0)), undefined, [0] * LANES)


def _fma(b: Any, x: Any, y: Any, z: Any) -> Any:
    return b.call(declared(b, VECTOR, [VECTOR] * 3, f"llvm.fma.v{LANES}f32"), [x, y, z])


def _canonical(b: Any, sums: Any) -> Any:
    """Make the NaN of sums canonical; integers stay unchanged."""
    if sums.type != VECTOR:
        return sums
    nan = b.bitcast(ir.Constant(INTEGERS, [I32(NAN_FP32)] * LANES), VECTOR)
    return b.select(b.fcmp_unordered("uno", sums, sums), nan, sums)


def multiply_add(b: Any, x: Any, y: Any, z: Any) -> Any:
    """Multiply and add modulo 2**32."""
    return b.add(b.mul(x, y), z)


def _emit_product(b: Any, rows: int, vectors: int, words: Sequence[Any], kind: Any, advance: Step) -> None:
    """Load the accumulators, run the loop over k, store them."""
    index, lda, a, ka, bb, ldb, c, ldc, k = words
    a, bb, c = (pointer(b, address, kind.element) for address in (a, bb, c))
    positions = pointer(b, index, I64)
    a_rows = [b.gep(a, [b.mul(b.load(b.gep(positions, [constant(i)])), lda)]) for i in range(rows)]
    corners = [(i, LANES * j) for i in range(rows) for j in range(vectors)]
    cells = [b.gep(c, [b.add(b.mul(constant(i), ldc), constant(j))]) for i, j in corners]
    start, before = [_load(b, cell, kind) for cell in cells], b.block
    loop, done = b.append_basic_block("k"), b.append_basic_block("stored")
    b.branch(loop)
    b.position_at_end(loop)
    step, a_at, b_at = b.phi(I64), b.phi(I64), b.phi(bb.type)
    sums = [b.phi(kind) for _ in cells]
    columns = [_load(b, b.gep(b_at, [constant(LANES * j)]), kind) for j in range(vectors)]
    scalars = [_broadcast(b, b.load(b.gep(row, [a_at]), align=4)) for row in a_rows]
    ends = [advance(b, scalars[n // vectors], columns[n % vectors], total) for n, total in enumerate(sums)]
    following = [b.add(step, constant(1)), b.add(a_at, ka), b.gep(b_at, [ldb])]
    for phi, first, later in zip(
        [step, a_at, b_at, *sums], [constant(0), constant(0), bb, *start], [*following, *ends], strict=True
    ):
        phi.add_incoming(first, before)
        phi.add_incoming(later, loop)
    b.cbranch(b.icmp_signed("<", following[0], k), loop, done)
    b.position_at_end(done)
    for end, cell in zip(ends, cells, strict=True):
        _store(b, _canonical(b, end), cell)


def make_product(rows: int, columns: int, kind: Any, advance: Step) -> Any:
    """Make the function of one product; ``kind`` is the vector type of its sums."""

    def emit(b: Any, *words: Any) -> Any:
        _emit_product(b, rows, columns // LANES, words, kind, advance)
        return constant(0)

    return of_words(9, emit)


def _row_fp16(b: Any, a: Any, halves: Any, c: Any, k: Any) -> Any:
    """Keep one row of sums in registers and widen B as it is read, by an instruction of F16C."""
    a, halves, c = pointer(b, a, F32), pointer(b, halves, F16), pointer(b, c, F32)
    cells = [b.gep(c, [constant(j)]) for j in range(0, ROW_COLUMNS, LANES)]

    def following(step: Any, at: Any, sums: list[Any]) -> list[Any]:
        scalar = _broadcast(b, b.load(b.gep(a, [step]), align=4))
        columns = [_load(b, b.gep(at, [constant(j)]), HALVES, 2) for j in range(0, ROW_COLUMNS, LANES)]
        return [_fma(b, scalar, b.fpext(x, VECTOR), total) for x, total in zip(columns, sums, strict=True)]

    _accumulate(b, k, (halves, constant(ROW_COLUMNS)), cells, VECTOR, following)
    return constant(0)


def _accumulate(
    b: Any, count: Any, walk: tuple[Any, Any], cells: list[Any], kind: Any, following: Following
) -> None:
    """Add to the sums in ``cells``, vectors that stay in registers, in ``count`` steps, at least one.

    ``walk`` is a pointer and its increment a step, in elements. ``following`` computes the sums after a step
    from its number, the pointer and the sums before it.
    """
    first_at, distance = walk
    start, before = [_load(b, cell, kind) for cell in cells], b.block
    loop, done = b.append_basic_block("step"), b.append_basic_block("stored")
    b.branch(loop)
    b.position_at_end(loop)
    step, at = b.phi(I64), b.phi(first_at.type)
    sums = [b.phi(kind) for _ in cells]
    ends = following(step, at, sums)
    moved = [b.add(step, constant(1)), b.gep(at, [distance])]
    for phi, first, later in zip(
        [step, at, *sums], [constant(0), first_at, *start], [*moved, *ends], strict=True
    ):
        phi.add_incoming(first, before)
        phi.add_incoming(later, loop)
    b.cbranch(b.icmp_signed("<", moved[0], count), loop, done)
    b.position_at_end(done)
    for end, cell in zip(ends, cells, strict=True):
        _store(b, _canonical(b, end), cell)


def _emit_taps(b: Any, words: Sequence[Any], kind: Any, advance: Step) -> None:
    """Keep four rows of sums in registers and add one tap after another."""
    index, x, offsets, w, ldw, c, ldc, taps = words
    x, w, c = (pointer(b, address, kind.element) for address in (x, w, c))
    positions, moves = (pointer(b, address, I64) for address in (index, offsets))
    rows = [b.gep(x, [b.load(b.gep(positions, [constant(i)]))]) for i in range(TAP_ROWS)]
    cells = [b.gep(c, [b.mul(constant(i), ldc)]) for i in range(TAP_ROWS)]

    def following(step: Any, at: Any, sums: list[Any]) -> list[Any]:
        weights, move = _load(b, at, kind), b.load(b.gep(moves, [step]))
        values = [_load(b, b.gep(row, [move]), kind) for row in rows]
        return [advance(b, value, weights, total) for value, total in zip(values, sums, strict=True)]

    _accumulate(b, taps, (w, ldw), cells, kind, following)


def _make_taps(kind: Any, advance: Step) -> Any:
    def emit(b: Any, *words: Any) -> Any:
        _emit_taps(b, words, kind, advance)
        return constant(0)

    return of_words(8, emit)


def _transposed(b: Any, rows: list[Any]) -> list[Any]:
    """Transpose in four rounds; round d exchanges blocks of d lanes between rows that are d apart."""
    for distance in (1, 2, 4, 8):
        # Lane l of the first row of a pair: its own, or, in the odd blocks, the even block of its partner.
        low = [lane if not lane & distance else LANES + lane - distance for lane in range(LANES)]
        high = [lane + distance if not lane & distance else LANES + lane for lane in range(LANES)]
        result = list(rows)
        for first in range(LANES):
            if not first & distance:
                x, y = rows[first], rows[first + distance]
                result[first], result[first + distance] = _shuffle(b, x, y, low), _shuffle(b, x, y, high)
        rows = result
    return rows


def _make_transpose(kind: Any, align: int) -> Any:
    """Make the transposition of 16 vectors of a type."""

    def emit(b: Any, source: Any, lds: Any, target: Any, ldt: Any) -> Any:
        of, to = pointer(b, source, kind.element), pointer(b, target, kind.element)
        rows = [_load(b, b.gep(of, [b.mul(constant(i), lds)]), kind, align) for i in range(LANES)]
        for i, row in enumerate(_transposed(b, rows)):
            _store(b, row, b.gep(to, [b.mul(constant(i), ldt)]), align)
        return constant(0)

    return of_words(4, emit)


HALF = LANES // 2
_PAIRED = [
    [of + half + lane + row for half in (0, HALF) for lane in range(4) for row in (0, LANES)] for of in (0, 4)
]
"""Lanes of two rows that are interleaved: the first, and the last four of each half. Each takes one
instruction, also on AVX2, whose vectors have halves."""


def _in_columns(b: Any, rows: list[Any]) -> list[Any]:
    """Transpose eight rows to eight vectors: vector ``c`` has column ``c``, then column ``c + 8``."""
    for _ in range(3):
        pairs = [(rows[r], rows[r + 4]) for r in range(4)]
        rows = [_shuffle(b, x, y, lanes) for x, y in pairs for lanes in _PAIRED]
    return rows


def _make_wide_transpose(widened: Callable[[Any, Any], Any]) -> Any:
    """Make the transposition of 16 rows of 16 bits; ``widened`` converts eight lanes to binary32."""

    def emit(b: Any, source: Any, lds: Any, target: Any, ldt: Any) -> Any:
        of, to = pointer(b, source, I16), pointer(b, target, F32)
        kind = ir.VectorType(I16, LANES)
        rows = [_load(b, b.gep(of, [b.mul(constant(i), lds)]), kind, 2) for i in range(LANES)]
        for first in (0, HALF):
            for c, column in enumerate(_in_columns(b, rows[first : first + HALF])):
                for half in (0, HALF):
                    lanes = _shuffle(b, column, column, list(range(half, half + HALF)))
                    at = b.add(b.mul(constant(half + c), ldt), constant(first))
                    _store(b, widened(b, lanes), b.gep(to, [at]))
        return constant(0)

    return of_words(4, emit)


def _of_fp16(b: Any, lanes: Any) -> Any:
    """Widen FP16 lanes by the instruction of F16C."""
    return b.fpext(b.bitcast(lanes, ir.VectorType(F16, HALF)), ir.VectorType(F32, HALF))


def _of_bf16(b: Any, lanes: Any) -> Any:
    words = b.zext(lanes, ir.VectorType(I32, HALF))
    shift = ir.Constant(words.type, [I32(16)] * HALF)
    return b.bitcast(b.shl(words, shift), ir.VectorType(F32, HALF))


_HOST_LINE, _INTO_SECOND_LEVEL = 64, 2
"""Bytes of a line of the host's caches, and LLVM's degree of locality for the second-level cache."""


def _bring_near(b: Any, address: Any, size: Any) -> Any:
    """Prefetch each line of the host's caches."""
    kind = pointer(b, address, ir.IntType(8)).type
    prefetch = declared(b, ir.VoidType(), [kind, I32, I32, I32], "llvm.prefetch.p0")
    before, loop, done = b.block, b.append_basic_block("near"), b.append_basic_block("asked")
    b.cbranch(b.icmp_signed(">", size, constant(0)), loop, done)
    b.position_at_end(loop)
    at = b.phi(I64)
    b.call(prefetch, [b.inttoptr(b.add(address, at), kind), I32(0), I32(_INTO_SECOND_LEVEL), I32(1)])
    following = b.add(at, constant(_HOST_LINE))
    at.add_incoming(constant(0), before)
    at.add_incoming(following, loop)
    b.cbranch(b.icmp_signed("<", following, size), loop, done)
    b.position_at_end(done)
    return constant(0)


TABLE: dict[str, Primitive] = {
    **{product_name(*shape): make_product(*shape, VECTOR, _fma) for shape in PRODUCTS},
    "bring_near": of_words(2, _bring_near),
    "product_row_fp16": of_words(4, _row_fp16),
    "taps_f32": _make_taps(VECTOR, _fma),
    "taps_i32": _make_taps(INTEGERS, multiply_add),
    "transpose_16x16": _make_transpose(VECTOR, 4),
    "transpose_16x16_fp16": _make_wide_transpose(_of_fp16),
    "transpose_16x16_bf16": _make_wide_transpose(_of_bf16),
    "transpose_16x16_halves": _make_transpose(ir.VectorType(I16, LANES), 2),
}
