"""Directives that declare the contents of the scratchpad: .live and .dead."""

from __future__ import annotations

from asm.diagnostics import Fault
from asm.image.types import LiveRange
from asm.instructions.operands import expression
from asm.syntax.expressions import evaluate, number_of, unescape

from .call import Call, handler

_USAGE = '.live takes "NAME", ROLE, ADDRESS, BYTES[, "NODE"]'


@handler(".live")
def _live(call: Call) -> None:
    """Declare what bytes of the scratchpad hold from the next instruction."""
    fields, place = call.fields(), call.assembly.section.here
    if not 4 <= len(fields) <= 5:
        raise Fault(_USAGE)
    _check_section(call)
    items, spot = call.operands(), call.spot
    nodes = [expression(item.term, ".live") for item in items.items[2:4]]
    address, size = (number_of(evaluate(node, items.atoms, spot), node.at) for node in nodes)
    name, node = _quoted(fields[0]), _quoted(fields[4]) if len(fields) == 5 else ""
    live = LiveRange(name, fields[1], node, address, size, 0, 0)
    call.assembly.occupancy.open(live, place, call.source, call.index)


@handler(".dead")
def _dead(call: Call) -> None:
    """Free the bytes that a ``.live`` named, from the next instruction."""
    name = call.string()
    _check_section(call)
    call.assembly.occupancy.close(name, call.assembly.section.here)


def _quoted(text: str) -> str:
    if len(text) < 2 or text[0] != '"':
        raise Fault(_USAGE)
    return unescape(text[1:-1]).decode("utf-8", "surrogateescape")


def _check_section(call: Call) -> None:
    section = call.assembly.section
    if section.flags != "rx":
        raise Fault(f"{call.name} in section {section.name}", None, "it stands between instructions")
