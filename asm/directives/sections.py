"""Directives that choose a section, or reserve room in .bss."""

from __future__ import annotations

from asm.assembly import Assembly
from asm.diagnostics import Fault
from asm.place import SECTION_GRAIN, Section, SymbolEntry
from asm.syntax.source import NAME, SECTION_NAME

from .call import Call, handler

_CODE, _DATA, _CONSTANT, _ZEROS = ("rx", False), ("rw", False), ("r", False), ("rw", True)
_STANDARD = {
    **dict.fromkeys((".text", ".init", ".fini"), _CODE),
    **dict.fromkeys((".data", ".sdata", ".tdata", ".ddr"), _DATA),
    **dict.fromkeys((".preinit_array", ".init_array", ".fini_array"), _DATA),
    **dict.fromkeys((".rodata", ".srodata"), _CONSTANT),
    **dict.fromkeys((".bss", ".sbss", ".tbss", ".ddr.bss"), _ZEROS),
}
_UNLOADED = (".debug", ".comment", ".note", ".stab", ".gnu.", ".riscv.attributes")
"""Prefixes of the names of sections that only tools read."""
_LETTERS = "awxMSTGoeR?"
_TYPES = ("progbits", "nobits", "note", "init_array", "fini_array", "preinit_array")


@handler(".text", ".data", ".bss", ".rodata")
def _standard(call: Call) -> None:
    if call.arguments not in ("", "0"):
        raise Fault(f"{call.name} takes no argument, found {call.arguments}", None, "subsections are unknown")
    call.assembly.open_section(call.name, *_STANDARD[call.name])


def _usual(name: str) -> tuple[str, bool]:
    """Return the flags of a section whose name begins with a standard one, as .text.init."""
    for known in sorted(_STANDARD, key=len, reverse=True):
        if name == known or name.startswith(known + "."):
            return _STANDARD[known]
    return ("", False) if name.startswith(_UNLOADED) else _CONSTANT


@handler(".section")
def _section(call: Call) -> None:
    name, *rest = call.fields() or [""]
    _open(call, name, rest)


@handler(".pushsection")
def _push(call: Call) -> None:
    name, *rest = call.fields() or [""]
    if rest and rest[0].isdigit():
        number, *rest = rest
        if number != "0":
            raise Fault(f".pushsection: subsection {number}", None, "subsections are unknown: write 0")
    call.assembly.remembered.saved.append((call.assembly.section, call.assembly.remembered.previous))
    _open(call, name, rest)


@handler(".popsection")
def _pop(call: Call) -> None:
    if not call.assembly.remembered.saved:
        raise Fault(".popsection without .pushsection")
    section, previous = call.assembly.remembered.saved.pop()
    call.assembly.enter(section)
    call.assembly.remembered.previous = previous


@handler(".previous")
def _previous(call: Call) -> None:
    if call.assembly.remembered.previous is None:
        raise Fault(".previous without a section before this one")
    call.assembly.enter(call.assembly.remembered.previous)


def _open(call: Call, name: str, rest: list[str]) -> None:
    """Enter a section; ``rest``: flags, type, and arguments for linkers, which are ignored."""
    name = name.strip('"')
    if not SECTION_NAME.fullmatch(name) or len(rest) > 5:
        raise Fault(f'{call.name} takes NAME[, "flags"[, @progbits or @nobits]]')
    flags, nobits = _usual(name)
    if rest:
        flags = _access(rest[0])
    if len(rest) > 1:
        if rest[1][:1] not in ("@", "%") or rest[1][1:] not in _TYPES:
            raise Fault(f"{call.name}: type {rest[1]}", None, f"allowed: @{' @'.join(_TYPES)}")
        nobits = rest[1][1:] == "nobits"
    known: Section | None = call.assembly.program.sections.get(name)
    if known is not None and rest and (known.flags, known.nobits) != (flags, nobits):
        raise Fault(f"section {name} was opened with other flags", None, f"its flags are {known.flags}")
    call.assembly.open_section(name, flags, nobits)


def _access(text: str) -> str:
    """Map section flags to access rights; the loader skips a section without access rights."""
    letters = text.strip('"')
    if text[:1] != '"' or not set(letters) <= set(_LETTERS) or {"w", "x"} <= set(letters):
        allowed = f'"a", "aw", "ax", and for linkers {" ".join(_LETTERS[3:])}'
        raise Fault(f".section: flags {text}", None, f"allowed: {allowed}")
    if "a" not in letters:
        return ""
    return "rx" if "x" in letters else "rw" if "w" in letters else "r"


@handler(".comm", ".lcomm")
def _common(call: Call) -> None:
    """``NAME, SIZE[, ALIGNMENT]``: zeros in .bss."""
    fields = call.fields()
    if not 2 <= len(fields) <= 3 or not NAME.fullmatch(fields[0]):
        raise Fault(f"{call.name} takes NAME, SIZE[, ALIGNMENT]")
    (name, *_), assembly = fields, call.assembly
    size, *given = call.after_comma().numbers(1, 2)
    alignment = given[0] if given else min(8, 1 << max(size, 1).bit_length() - 1)
    if not 0 <= size <= assembly.machine.ddr.bytes:
        raise Fault(f"{call.name} {name}: size {size} is outside 0..{assembly.machine.ddr.bytes}")
    if not 1 <= alignment <= SECTION_GRAIN or alignment & alignment - 1:
        raise Fault(
            f"{call.name} {name}: alignment {alignment}: expected a power of two up to {SECTION_GRAIN}"
        )
    entry = assembly.program.symbols.setdefault(name, SymbolEntry(source=call.source, index=call.index))
    private, before = (
        call.name == ".lcomm" or name in assembly.remembered.local_names,
        assembly.remembered.commons.get(name),
    )
    if entry.defined or (before is not None and (private or before[1:] != (size, alignment))):
        raise Fault(f"symbol {name} is defined twice", None, f"the first time at {entry.where}")
    if not private:
        entry.binding = "global"
    assembly.remembered.commons[name] = private, size, alignment
    entry.where = call.source.where(call.index)


def place_commons(assembly: Assembly) -> None:
    """Place the symbols of .comm and .lcomm at the end of .bss, the file's own symbols first."""
    for name, (_, size, alignment) in sorted(
        assembly.remembered.commons.items(), key=lambda item: not item[1][0]
    ):
        section, entry = assembly.open_section(".bss", *_ZEROS), assembly.program.symbols[name]
        section.reserve(-section.size % alignment)
        entry.value, entry.size, entry.kind = section.here, entry.size or size, "object"
        section.reserve(size)
