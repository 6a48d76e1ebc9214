"""Directives for named tensors in DDR: .input, .output, .const and .buffer."""

from __future__ import annotations

import re
from dataclasses import dataclass

from asm.diagnostics import Fault
from asm.image.types import Buffer, EntryPoint
from asm.place import DDR, DDR_ZERO, SECTION_GRAIN
from asm.syntax.expressions import literal, unescape
from asm.syntax.source import NAME
from tx8isa.errors import Tx8Error
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout, place

from .call import Call, handler
from .data import include, reserve

_KINDS = {".input": "input", ".output": "output", ".const": "constant"}


@dataclass(frozen=True, slots=True)
class Tensor:
    """Format, shape and layout as written, and the tensor's size in bytes."""

    format: str
    shape: tuple[int, ...]
    layout: str
    size: int


def tensor(fmt: str, shape: str, layout: str) -> Tensor:
    """Read ``fp16``, ``4x129x112x2`` or ``scalar``, ``ncx``; Fault for a tensor that cannot be placed."""
    if shape == "scalar":
        extents: tuple[int, ...] = ()
    elif re.fullmatch(r"\d+(x\d+)*", shape):
        extents = tuple(int(extent) for extent in shape.split("x"))
    else:
        raise Fault(f"shape {shape!r}: expected extents, as 4x129x112x2, or scalar")
    layout = layout or ("ntensor" if len(extents) > 1 and extents[0] > 1 else "tensor")
    try:
        placed = place(Format.parse(fmt), extents, Layout.parse(layout))
    except Tx8Error as error:
        raise Fault(str(error)) from None
    return Tensor(fmt, extents, layout, placed.total_bytes)


def _open(call: Call, fields: list[str], usage: str, most: int) -> tuple[str, Tensor]:
    """Read name and tensor of a buffer directive; the buffer starts at the current place."""
    if not 3 <= len(fields) <= most:
        raise Fault(f"{call.name} takes {usage}, found {len(fields)} arguments")
    name, fmt, shape, layout = (*fields, "")[:4]
    if not NAME.fullmatch(name):
        raise Fault(f"{call.name}: {name!r} is not a name")
    return name, tensor(fmt, shape, layout)


def _begin(call: Call, name: str, made: Tensor, kind: str, dtype: str | None) -> None:
    """Enter the section of a buffer, align it, define the symbol and record the buffer."""
    assembly = call.assembly
    constant = kind == "constant"
    section = call.assembly.open_section(DDR if constant else DDR_ZERO, "rw", not constant)
    start = section.size
    section.reserve(-section.size % SECTION_GRAIN)
    at = call.start + len(call.text[call.start :]) - len(call.text[call.start :].lstrip())
    try:
        assembly.define_label(name, call.source.where(call.index), at)
    except Fault:
        section.tail -= section.size - start
        raise
    symbol = assembly.program.symbols[name]
    symbol.kind, symbol.size = "object", made.size
    buffer = Buffer(name, kind, 0, made.format, made.shape, made.layout, dtype)
    assembly.add_buffer(buffer, section.here)


@handler(".input", ".output")
def _interface(call: Call) -> None:
    """``.input NAME, FORMAT, SHAPE[, LAYOUT[, DTYPE]]``: zeros in DDR that a caller fills or reads."""
    fields = call.fields()
    name, made = _open(call, fields, "NAME, FORMAT, SHAPE[, LAYOUT[, DTYPE]]", 5)
    dtype = fields[4] if len(fields) == 5 else None
    if dtype is not None and dtype not in DTYPES:
        raise Fault(f"{call.name}: dtype {dtype!r}: expected one of {' '.join(DTYPES)}")
    before = call.assembly.section
    _begin(call, name, made, _KINDS[call.name], dtype)
    reserve(call, made.size)
    call.assembly.enter(before)


DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
)
"""The dtypes of host arrays that a buffer directive may name."""


def _number(text: str, what: str, expected: str = "a number") -> int:
    value = literal(text) if text else None
    if value is None:
        raise Fault(f"{what} {text!r}: expected {expected}")
    return value


def _place(call: Call, text: str) -> int | str:
    """An address as a number or as a symbol, which may be defined later."""
    if not NAME.fullmatch(text):
        return _number(text, f"{call.name}: address", "a number or a symbol")
    call.declared(text)
    return text


@handler(".const")
def _constant(call: Call) -> None:
    """``.const NAME, FORMAT, SHAPE[, LAYOUT], "file"[, offset]``: bytes of a file in .ddr."""
    fields = call.fields()
    quoted = next((index for index, text in enumerate(fields) if text.startswith('"')), -1)
    if quoted < 1:
        raise Fault('.const takes NAME, FORMAT, SHAPE[, LAYOUT], "file"[, offset]')
    name, made = _open(call, fields[:quoted], "NAME, FORMAT, SHAPE[, LAYOUT]", 4)
    path, data = call.included(fields[quoted].strip('"'))
    rest = fields[quoted + 1 :]
    if len(rest) > 1:
        raise Fault(f".const: {', '.join(rest)!r} after the file: expected a byte offset")
    offset = _number(rest[0], ".const: byte offset") if rest else 0
    if offset + made.size > len(data) or (not rest and made.size != len(data)):
        found = f"{path} has {len(data)} bytes"
        raise Fault(f".const {name}: {found}, bytes {offset}..{offset + made.size} are needed")
    call.assembly.bring(path, data, made.size)
    before = call.assembly.section
    _begin(call, name, made, "constant", None)
    include(call, data, offset, made.size)
    call.assembly.enter(before)


@handler(".buffer")
def _buffer(call: Call) -> None:
    """``.buffer KIND, NAME, FORMAT, SHAPE, LAYOUT, DTYPE, ADDRESS``: record a buffer at a place."""
    fields = call.fields()
    if len(fields) != 7 or fields[0] not in _KINDS.values():
        usage = ".buffer takes input|output|constant, NAME, FORMAT, SHAPE, LAYOUT, DTYPE or -, ADDRESS"
        raise Fault(usage)
    kind, name, fmt, shape, layout, dtype, address = fields
    made = tensor(fmt, shape, layout)
    where = _place(call, address)
    buffer = Buffer(
        _spelt(name), kind, 0, made.format, made.shape, made.layout, None if dtype == "-" else dtype
    )
    call.assembly.add_buffer(buffer, where)


@handler(".entry_point")
def _entry_point(call: Call) -> None:
    """``.entry_point "NAME", ADDRESS``: one of several networks, to which the buffers after it belong."""
    fields = call.fields()
    if len(fields) != 2:
        raise Fault(f'.entry_point takes "NAME", ADDRESS, found {len(fields)} arguments')
    name, assembly = _spelt(fields[0]), call.assembly
    if any(other.name == name for other, _, _ in assembly.entry_points):
        raise Fault(f"entry point {name} is declared twice")
    found, where = EntryPoint(name, 0), _place(call, fields[1])
    assembly.entry_points.append((found, where, len(assembly.buffers)))


def _spelt(name: str) -> str:
    """A name that may be quoted."""
    return unescape(name[1:-1]).decode("utf-8", "surrogateescape") if name.startswith('"') else name
