"""Typical operands for every record of the engines, derived from the record where possible.

A vector has 128 k elements (bit vectors 4 M bits), and a tensor has as many. Together they fit into the
scratchpad and, on a present-day processor, into the caches of one core. Addresses follow from the extents of
the operands, so a row reads and writes what the record says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from tx8isa.numbers.formats import Format
from tx8isa.records.meaning import (
    Bitwise,
    Compress,
    Control,
    Convert,
    Convolution,
    CountBits,
    CountNonZero,
    Direction,
    Dropout,
    Elementwise,
    Extreme,
    Fill,
    Form,
    Gather,
    Join,
    Load,
    MaskedCopy,
    Matrix,
    Move,
    Nest,
    Pool,
    Reduce,
    Relation,
    Resize,
    ScalarFunction,
    Split,
    Store,
    Unfold,
    Uniform,
    Unpack,
    Unpool,
)
from tx8isa.records.record import Instruction, Operand
from tx8isa.table import encoding
from tx8isa.table.registry import instructions

N = 128 << 10
BITS = 4 << 20
ENTRIES = 4096
"""Entries of a table."""
SPM_BYTES = 0x2F0000
"""The bytes of the scratchpad that a program may use (docs/isa.md, Memories and addresses)."""
DDR_BYTES = 4 << 20
ROW_BYTES = 64
"""Length of the short pieces of a strided copy; the stride is twice as large."""
_ALIGN = 4096
_HALF = 0x3F000000
"""0.5 in FP32, the probability of a drop-out."""
_SCALAR = {Format.FP16: 0x3E00, Format.BF16: 0x3FC0}
"""1.5 in the 16-bit formats."""
_IMAGE = (1, 32, 64, 64)


@dataclass(frozen=True)
class Case:
    """One row of the table: an instruction with its format and operands."""

    instruction: Instruction
    format: Format | None
    note: str
    values: tuple[int, ...]
    """In the order of the record; addresses are offsets in SPM or DDR."""
    elements: int
    """The number that the rate refers to: elements of the largest operand; products in the matrix engine."""
    traffic: int
    """Bytes read and written."""

    @property
    def name(self) -> str:
        suffix = f".{self.format.token}" if self.format is not None else ""
        return f"{self.instruction.mnemonic}{suffix} {self.note}".rstrip()

    def value(self, operand: str) -> int:
        return self.values[self.instruction.index(operand)]

    def extent(self, operand: Operand) -> int:
        """The bytes that the case accesses through an address operand."""
        assert operand.extent is not None
        arguments = operand.extent.arguments
        return operand.extent.length(*encoding.argument_values(self.instruction, arguments, self.values))


Operands = dict[str, int]
Draft = tuple[Format | None, str, Operands, int, int]
"""Format, note, operands other than addresses, elements, bytes of traffic (0: what the extents say)."""


def cases(instruction: Instruction) -> list[Case]:
    """The rows of a record; LookupError for a class of meaning that this module does not know."""
    make = _TYPICAL.get(type(instruction.meaning))
    if make is None:
        raise LookupError(f"{instruction.mnemonic}: benchmarks/_operands.py has no typical operands for it")
    return [_complete(instruction, draft) for draft in make(instruction)]


def all_cases() -> list[Case]:
    """The rows of all records except those of the scalar unit and of control, which move no data."""
    measured = (i for i in instructions() if not isinstance(i.meaning, Control | ScalarFunction))
    return [case for instruction in measured for case in cases(instruction)]


def _complete(instruction: Instruction, draft: Draft) -> Case:
    """A case from a draft: operands get successive addresses, and every value, rule and range is checked."""
    fmt, note, given, elements, traffic = draft
    defaults = {o.name: o.default if isinstance(o.default, int) else 0 for o in instruction.operands}
    following = {o.name: o.default for o in instruction.operands if isinstance(o.default, str)}
    named: Operands = defaults | ({"format": int(fmt)} if fmt is not None else {}) | given
    named |= {name: named[other] for name, other in following.items() if name not in given}
    case = Case(instruction, fmt, note, tuple(named.values()), elements, traffic)
    ends = {"spm": 0, "ddr": 0}
    moved = 0
    for operand in instruction.operands:
        if operand.is_address:
            size = case.extent(operand)
            named[operand.name] = ends[operand.memory] if size else 0
            ends[operand.memory] += -(-size // _ALIGN) * _ALIGN
            moved += size * (2 if operand.role == "update" else 1)
    case = Case(instruction, fmt, note, tuple(named.values()), elements, traffic or moved)
    _check(case, ends)
    return case


def _check(case: Case, ends: dict[str, int]) -> None:
    """ValueError unless the emulator would accept the instruction; kernels do not check their operands."""
    for operand, value in zip(case.instruction.operands, case.values, strict=True):
        error = None if operand.switched_by and not value else encoding.value_error(operand, value)
        if error:
            raise ValueError(f"{case.name}: operand '{operand.name}': {error}")
    for rule in case.instruction.rules:
        if not rule.holds(*encoding.argument_values(case.instruction, rule.arguments, case.values)):
            raise ValueError(f"{case.name}: {rule.text}")
    if ends["spm"] > SPM_BYTES or ends["ddr"] > DDR_BYTES:
        raise ValueError(f"{case.name}: {ends['spm']} bytes of SPM and {ends['ddr']} of DDR are too many")


# --- typical operands by meaning ------------------------------------------------------------


def _chosen(instruction: Instruction, *wanted: Format) -> list[Format | None]:
    """The wanted formats that the record has; None for a record without formats."""
    if not instruction.formats:
        return [None]
    return [fmt for fmt in wanted or (Format.FP16, Format.FP32) if fmt in instruction.formats]


def _vector(instruction: Instruction) -> Iterator[Draft]:
    """Vectors of contiguous elements, with the operands n, unit, full, entries and scalars that exist."""
    names = {operand.name for operand in instruction.operands}
    meaning = instruction.meaning
    unary = isinstance(meaning, Elementwise) and meaning.form is Form.V
    total = BITS if isinstance(meaning, Bitwise | CountBits) else N
    for fmt in _chosen(instruction, Format.FP16, Format.FP32, *((Format.BF16,) if unary else ())):
        operands = {"n": total}
        if "unit" in names:
            operands["unit"] = 64
        if "full" in names:
            operands |= {"n": total // 8, "full": total, "full_unit": 8 * 64}
        if "entries" in names:
            operands["entries"] = ENTRIES
        if "p" in names:
            operands["p"] = _HALF
        if fmt is not None and "src1" in names and instruction.operand("src1").scalar:
            operands["src1"] = _SCALAR.get(fmt, 0x3FC00000)
        yield fmt, "", operands, total, 0


def _shape(name: str, *extents: int) -> Operands:
    return {name: encoding.pack_lanes(extents)}


def _tensor(
    instruction: Instruction, source: tuple[int, ...], result: tuple[int, ...], **others: tuple[int, ...]
) -> Iterator[Draft]:
    """Tensors with a source and a result shape, and further packed operands."""
    for fmt in _chosen(instruction):
        operands = {name: encoding.pack_lanes(lanes) for name, lanes in others.items()}
        names = {operand.name for operand in instruction.operands}
        operands |= _shape("shape", *source) if "shape" in names else {}
        operands |= _shape("dst_shape", *result) if "dst_shape" in names else {}
        yield fmt, "", operands, max(prod(source), prod(result)), 0


def _reduce(instruction: Instruction) -> Iterator[Draft]:
    codes = dict(instruction.operand("dims").choices)
    for fmt, _, operands, elements, traffic in _tensor(instruction, _IMAGE, (1, 1, 1, 1)):
        for name in ("c", "hw"):
            yield fmt, f"over {name}", operands | {"dims": codes[name]}, elements, traffic


def _pool(instruction: Instruction) -> Iterator[Draft]:
    return _tensor(instruction, _IMAGE, (1, 16, 32, 64), window=(3, 3, 2, 2), pad=(1, 1, 1, 1))


def _unpool(instruction: Instruction) -> Iterator[Draft]:
    return _tensor(instruction, (1, 16, 32, 64), _IMAGE, window=(2, 2, 2, 2))


def _resize(instruction: Instruction) -> Iterator[Draft]:
    for fmt, note, operands, elements, traffic in _tensor(instruction, (1, 16, 32, 64), _IMAGE):
        yield fmt, note, operands | {"scale_x": 0x8000, "scale_y": 0x8000}, elements, traffic


def _move(instruction: Instruction) -> Iterator[Draft]:
    turned = instruction.mnemonic in ("td.transpose", "td.rotate90", "td.rotate270")
    return _tensor(instruction, _IMAGE, (1, 64, 32, 64) if turned else _IMAGE)


def _unfold(instruction: Instruction) -> Iterator[Draft]:
    names = {operand.name for operand in instruction.operands}
    if "window" in names:
        return _tensor(instruction, (1, 16, 16, 64), (1, 9, 196, 64), window=(3, 3, 1, 1))
    if "pad" in names:
        return _tensor(instruction, _IMAGE, (1, 34, 66, 64), pad=(1, 1, 1, 1))
    return _tensor(instruction, (1, 32, 32, 128), (1, 32, 32, 128))


def _join(instruction: Instruction) -> Iterator[Draft]:
    codes = dict(instruction.operand("dims").choices)
    for fmt, _, operands, elements, traffic in _tensor(instruction, (1, 32, 32, 64), (1, 32, 32, 128)):
        yield fmt, "along c", operands | {"dims": codes["c"]}, elements, traffic


def _fill(instruction: Instruction) -> Iterator[Draft]:
    for fmt in _chosen(instruction):
        yield fmt, "", {"n": N, "value": 0x3C00}, N, 0


def _nest(instruction: Instruction) -> Iterator[Draft]:
    size, short = 4 * N, 2
    yield None, "contiguous", {"n": size}, size, 2 * size
    rows = {"src_stride0": 2 * ROW_BYTES, "dst_stride0": ROW_BYTES}
    rows |= {"src_iter0": size // ROW_BYTES, "dst_iter0": size // ROW_BYTES}
    yield None, f"rows of {ROW_BYTES} bytes", {"n": ROW_BYTES} | rows, size, 2 * size
    pieces = {"src_stride0": short, "dst_stride0": 2 * short, "src_iter0": N, "dst_iter0": N}
    yield None, f"pieces of {short} bytes", {"n": short} | pieces, N, 2 * short * N


def _dma(instruction: Instruction) -> Iterator[Draft]:
    for fmt in _chosen(instruction):
        assert fmt is not None
        size, row = N * fmt.bits // 8, ROW_BYTES * 8 // fmt.bits
        yield fmt, "contiguous", {"n": N}, N, 2 * size
        rows = {"n": row, "stride0": 2 * row, "iter0": N // row}
        yield fmt, f"rows of {ROW_BYTES} bytes", rows, N, 2 * size


_NE_FORMATS = (Format.FP16, Format.TF32, Format.INT8)


def _matrix(instruction: Instruction) -> Iterator[Draft]:
    m, k, n = 128, 512, 128
    for fmt in _chosen(instruction, *_NE_FORMATS):
        yield fmt, f"{m}x{k}x{n}", {"m": m, "k": k, "n": n, "rt": 1}, m * k * n, 0


def _convolution(instruction: Instruction) -> Iterator[Draft]:
    image, note, products = (1, 28, 28, 64), "3x3 64-64@28", 28 * 28 * 64 * 64 * 9
    result = image
    if instruction.meaning.direction is Direction.BACKWARD:
        result = (3, 3, 64, 64)
    if instruction.meaning.direction is Direction.DEPTHWISE:
        image, note, products = _IMAGE, "3x3 64@32x64", prod(_IMAGE) * 9
        result = image
    for fmt in _chosen(instruction, *_NE_FORMATS):
        operands = _shape("shape", *image) | _shape("dst_shape", *result)
        operands |= _shape("window", 3, 3, 1, 1) | _shape("pad", 1, 1, 1, 1)
        yield fmt, note, operands, products, 0


_VECTORS = (
    *(Bitwise, Compress, Convert, CountBits, CountNonZero, Dropout, Elementwise, Extreme, Gather, MaskedCopy),
    *(Relation, Split, Uniform, Unpack),
)
_TYPICAL: dict[type, Callable[[Instruction], Iterator[Draft]]] = {
    **dict.fromkeys(_VECTORS, _vector),
    Reduce: _reduce,
    Pool: _pool,
    Unpool: _unpool,
    Resize: _resize,
    Move: _move,
    Unfold: _unfold,
    Join: _join,
    Fill: _fill,
    Nest: _nest,
    Load: _dma,
    Store: _dma,
    Matrix: _matrix,
    Convolution: _convolution,
}
