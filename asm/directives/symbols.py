"""Directives about symbols and the tables of the image."""

from __future__ import annotations

from asm.assembly import SizeFixup
from asm.diagnostics import Fault
from asm.instructions.operands import expression

from .call import Call, handler


@handler(".base")
def _base(call: Call) -> None:
    """Set the address of the current section's first byte, which the assembler chooses otherwise."""
    (address,) = call.numbers(1, 1)
    section = call.assembly.section
    if section.base is not None and section.base != address:
        raise Fault(f"section {section.name} already has the base {section.base:#x}")
    section.base = address


@handler(".globl", ".global", ".weak", ".local")
def _binding(call: Call) -> None:
    binding = {".weak": "weak", ".local": "local"}.get(call.name, "global")
    for name in call.symbol_names():
        entry = call.declared(name)
        if binding != "global" or entry.binding != "weak":
            entry.binding = binding
        if binding == "local":
            call.assembly.remembered.local_names.add(name)


@handler(".weakref")
def _weak_reference(call: Call) -> None:
    """``.weakref NAME, TARGET``: the name stands for a symbol that need not be defined."""
    if len(call.fields()) != 2:
        raise Fault(".weakref takes NAME, TARGET")
    _, target = call.symbol_names()
    entry = call.declared(target)
    entry.binding = "weak" if entry.binding == "local" and not entry.defined else entry.binding
    _assign(call, variable=False)


_KINDS = {
    **dict.fromkeys(("function", "func", "gnu_indirect_function"), "func"),
    **dict.fromkeys(("object", "tls_object", "common", "gnu_unique_object"), "object"),
    "notype": "notype",
}


@handler(".type")
def _type(call: Call) -> None:
    name, kind = (*call.fields(), "", "")[:2]
    word = kind.removeprefix("STT_").lower() if kind.startswith("STT_") else kind.strip('"').lstrip("@%#")
    if not kind or word not in _KINDS:
        raise Fault(f".type: {kind or 'no type'}", None, "write .type name, @function or @object or @notype")
    call.declared(name).kind = _KINDS[word]


@handler(".size")
def _size(call: Call) -> None:
    operands = call.operands()
    if len(operands.items) != 2:
        raise Fault(".size takes a name and an expression")
    node = expression(operands.items[1].term, ".size")
    waiting = SizeFixup(call.source, call.index, call.fields()[0], node, operands.atoms, call.spot)
    call.declared(waiting.name)
    call.assembly.size_fixups.append(waiting)


@handler(".equ", ".set", ".eqv")
def _set(call: Call) -> None:
    _assign(call, variable=True)


@handler(".equiv")
def _equiv(call: Call) -> None:
    _assign(call, variable=False)


def _assign(call: Call, variable: bool) -> None:
    name, comma, _ = call.text[call.start :].partition(",")
    if not comma or not name.strip():
        raise Fault(f"{call.name} takes NAME, expression")
    at = call.start + len(name) - len(name.lstrip())
    start = call.start + len(name) + 1
    call.assembly.assign(call.source, call.index, name.strip(), call.text, start, variable=variable, at=at)


@handler(".tile")
def _tile(call: Call) -> None:
    """Set the entry of a tile to the current address; tiles are numbered across all chips."""
    (tile,) = call.numbers(1, 1)
    assembly = call.assembly
    tiles = assembly.machine.tiles * assembly.machine.chip_count
    if not 0 <= tile < tiles:
        raise Fault(f"tile {tile} is outside 0..{tiles - 1} of machine {assembly.machine.name}")
    if tile in assembly.tile_entries:
        raise Fault(f"tile {tile} has an entry already")
    if assembly.section.flags != "rx":
        raise Fault(f".tile in section {assembly.section.name}", None, "a tile starts in .text")
    assembly.tile_entries[tile] = assembly.section.here


@handler(".entry")
def _entry(call: Call) -> None:
    """Set the entry of every other tile to the current address."""
    if call.arguments:
        raise Fault(".entry takes no argument")
    assembly = call.assembly
    if assembly.entry is not None:
        raise Fault("the program has an entry already")
    assembly.entry = assembly.section.here


@handler(".node")
def _node(call: Call) -> None:
    """Assign the following instructions to a node of the graph; to none with an empty name."""
    call.assembly.set_node(call.string())


@handler(".machine")
def _machine(call: Call) -> None:
    """Name the machine that the program was made for; Fault on another one."""
    name, found = call.string(), call.assembly.machine.name
    if name != found:
        raise Fault(f"the program is for machine {name}, this is {found}", None, "choose one with --machine")
