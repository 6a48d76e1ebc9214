"""Directives about sections, symbols and the tables of the image."""

from __future__ import annotations

import re

from asm.diagnostics import Fault
from asm.instructions.operands import expression
from asm.instructions.template import Template
from asm.place import SymbolEntry
from asm.syntax.expressions import evaluate, number_of
from asm.syntax.parse import String
from asm.syntax.source import SECTION_NAME
from tx8isa.table.compressed import length

from .call import Call, handler, text_of

_STANDARD = {
    ".text": ("rx", False),
    ".data": ("rw", False),
    ".rodata": ("r", False),
    ".bss": ("rw", True),
    ".ddr.bss": ("rw", True),
    ".ddr": ("rw", False),
}
_FLAGS = {"a": "r", "aw": "rw", "ax": "rx", "wa": "rw", "xa": "rx", "": ""}
_TYPES = ("@progbits", "@nobits", "%progbits", "%nobits")


@handler(".text", ".data", ".bss", ".rodata")
def _standard(call: Call) -> None:
    if call.arguments:
        raise Fault(f"{call.name} takes no argument, found {call.arguments}")
    call.assembly.open_section(call.name, *_STANDARD[call.name])


def _usual(name: str) -> tuple[str, bool]:
    """Flags of a section whose name begins with a standard one, as .text.init."""
    for known, properties in _STANDARD.items():
        if name == known or name.startswith(known + "."):
            return properties
    return "r", False


@handler(".section")
def _section(call: Call) -> None:
    name, *rest = call.fields() or [""]
    name = name.strip('"')
    if not SECTION_NAME.fullmatch(name) or len(rest) > 2:
        raise Fault('.section takes NAME[, "flags"[, @progbits or @nobits]]')
    flags, nobits = _usual(name)
    if rest:
        letters = rest[0].strip('"')
        if letters not in _FLAGS:
            raise Fault(f".section: flags {rest[0]}", None, 'allowed: "a", "aw", "ax"')
        flags = _FLAGS[letters] or flags
    if len(rest) == 2:
        if rest[1] not in _TYPES:
            raise Fault(f".section: type {rest[1]}", None, f"allowed: {' '.join(_TYPES)}")
        nobits = rest[1].endswith("nobits")
    known = call.assembly.program.sections.get(name)
    if known is not None and rest and (known.flags, known.nobits) != (flags, nobits):
        raise Fault(f"section {name} has other flags than before", None, f"before: {known.flags}")
    call.assembly.open_section(name, flags, nobits)


@handler(".base")
def _base(call: Call) -> None:
    """Address of the current section's first byte; otherwise the assembler chooses it."""
    (address,) = call.numbers(1, 1)
    section = call.assembly.section
    if section.base is not None and section.base != address:
        raise Fault(f"section {section.name} already has the base {section.base:#x}")
    section.base = address


def _declared(call: Call, name: str) -> SymbolEntry:
    """The entry of a symbol that may be defined later."""
    return call.assembly.program.symbols.setdefault(name, SymbolEntry(source=call.source, index=call.index))


@handler(".globl", ".global")
def _global(call: Call) -> None:
    for name in call.symbol_names():
        _declared(call, name).binding = "global"


@handler(".local")
def _local(call: Call) -> None:
    for name in call.symbol_names():
        _declared(call, name).binding = "local"


_KINDS = {"function": "func", "object": "object", "notype": "notype"}


@handler(".type")
def _type(call: Call) -> None:
    name, kind = (*call.fields(), "", "")[:2]
    if kind[:1] not in ("@", "%") or kind[1:] not in _KINDS:
        raise Fault(f".type: {kind or 'no type'}", None, "write .type name, @function or @object or @notype")
    _declared(call, name).kind = _KINDS[kind[1:]]


@handler(".size")
def _size(call: Call) -> None:
    operands = call.operands()
    if len(operands.items) != 2:
        raise Fault(".size takes a name and an expression")
    name = call.fields()[0]
    size = number_of(evaluate(expression(operands.items[1].term, ".size"), operands.atoms, call.spot))
    if size < 0:
        raise Fault(f".size {name}: {size} is negative")
    _declared(call, name).size = size


@handler(".equ", ".set")
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
    """Set the entry of a tile to the current address; those of several chips are numbered through."""
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
    """The following instructions belong to this node of the graph; an empty name ends that."""
    call.assembly.set_node(call.string())


@handler(".loc")
def _loc(call: Call) -> None:
    """``.loc "file" line``: the source of the following instructions; without arguments they have none."""
    match = re.fullmatch(r'("(?:[^"\\]|\\.)*")\s+(\d+)', call.arguments)
    if call.arguments and not match:
        raise Fault('.loc takes "file" line, or nothing')
    source = call.source
    if match:
        source.file, source.line = text_of(String(match[1][1:-1], call.start)), int(match[2])
    else:
        source.file, source.line = None, 0


@handler(".insn")
def _insn(call: Call) -> None:
    """An instruction by its bits, perhaps after its length, which the lowest bits say too."""
    *given, word = call.numbers(1, 2)
    size = length(word)
    if not 0 <= word < 1 << 8 * size:
        raise Fault(f".insn: {word:#x} does not fit {8 * size} bits")
    if given not in ([], [size]):
        raise Fault(f".insn: {word:#x} has {size} bytes by its lowest bits, found the length {given[0]}")
    call.assembly.check_place()
    template = Template(size, 0, ())
    template.fixed = True
    call.assembly.append(call.source, call.index, word.to_bytes(size, "little"), template)


_OPTIONS = ("rvc", "norvc", "push", "pop", "nopic", "norelax")


@handler(".option")
def _option(call: Call) -> None:
    """Whether instructions are compressed; other GNU options ask for what this assembler always does."""
    compression = call.assembly.compression
    if call.arguments not in _OPTIONS:
        raise Fault(f".option {call.arguments}", None, f"accepted: {' '.join(_OPTIONS)}")
    if call.arguments in ("rvc", "norvc"):
        compression.on = call.arguments == "rvc"
    elif call.arguments == "push":
        compression.push()
    elif call.arguments == "pop":
        compression.pop()


@handler(".file")
def _file(call: Call) -> None:
    """Accepted because compilers write it; the line table names the files that were read."""
    call.string()


@handler(".error")
def _error(call: Call) -> None:
    raise Fault(call.string())


@handler(".machine")
def _machine(call: Call) -> None:
    """The machine that the program was made for; Fault on another."""
    name, found = call.string(), call.assembly.machine.name
    if name != found:
        raise Fault(f"the program is for machine {name}, this is {found}", None, "choose one with --machine")
