"""Directives for dynamic sizes: .dimension, .extents and .shapes."""

from __future__ import annotations

from asm.diagnostics import Fault
from asm.image.types import Dimension
from asm.place import DDR_ZERO, SECTION_GRAIN
from asm.syntax.expressions import literal, unescape
from asm.syntax.source import NAME

from .call import Call, handler
from .data import reserve

_WORD = 8
"""Bytes of a size in the shape block."""


def _number(call: Call, text: str) -> int:
    value = literal(text) if text else None
    if value is None:
        raise Fault(f"{call.name}: {text!r}: expected a number")
    return value


def _name(text: str) -> str:
    """A name, which may be quoted."""
    return unescape(text[1:-1]).decode("utf-8", "surrogateescape") if text.startswith('"') else text


@handler(".dimension")
def _dimension(call: Call) -> None:
    """``.dimension NAME, LEAST, USUAL, MOST``: a size that each run chooses in this range."""
    fields = call.fields()
    if len(fields) != 4:
        raise Fault(f"{call.name} takes NAME, LEAST, USUAL, MOST, found {len(fields)} arguments")
    least, usual, most = (_number(call, text) for text in fields[1:])
    call.assembly.dimensions.append(Dimension(_name(fields[0]), least, usual, most))


@handler(".extents")
def _extents(call: Call) -> None:
    """``.extents KIND, NAME, EXTENT, ...``: the extents of an input or output, some of them dimensions."""
    fields = call.fields()
    if len(fields) < 3 or fields[0] not in ("input", "output"):
        raise Fault(f"{call.name} takes input|output, NAME, EXTENT, ...")
    call.assembly.extents[fields[0], _name(fields[1])] = tuple(map(_name, fields[2:]))


@handler(".room")
def _room(call: Call) -> None:
    """``.room KIND, NAME, AXIS``: elements along an axis keep their places of the largest size."""
    fields = call.fields()
    if len(fields) != 3 or fields[0] not in ("input", "output"):
        raise Fault(f"{call.name} takes input|output, NAME, AXIS")
    call.assembly.room[fields[0], _name(fields[1])] = _number(call, fields[2])


@handler(".shapes")
def _shapes(call: Call) -> None:
    """``.shapes NAME, WORDS``: reserve the shape block in DDR; ``.shapes ADDRESS`` says where it is."""
    fields, assembly = call.fields(), call.assembly
    if len(fields) == 1:
        assembly.shape_block = _number(call, fields[0])
        return
    if len(fields) != 2 or not NAME.fullmatch(fields[0]):
        raise Fault(f"{call.name} takes NAME, WORDS or ADDRESS")
    words = _number(call, fields[1])
    before, section = assembly.section, assembly.open_section(DDR_ZERO, "rw", True)
    section.reserve(-section.size % SECTION_GRAIN)
    assembly.define_label(fields[0], call.source.where(call.index), call.start)
    assembly.shape_block = section.here
    reserve(call, words * _WORD)
    assembly.enter(before)
