"""One run of the assembler: lines to sections, then fix-ups, then the image."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asm.directives.table import directive, finish_source
from asm.image.types import Buffer
from asm.instructions.operands import engine_template, expression
from asm.instructions.pseudo import NAMES, scalar_or_pseudo
from asm.instructions.template import NotPlain, Template
from asm.syntax.expressions import Address, Node, Unknown, evaluate
from asm.syntax.included import Included
from asm.syntax.parse import ATOM, Operands, parse_operands
from asm.syntax.source import Source, lines_of, statements
from tx8isa.machine.description import Machine, load_machine
from tx8isa.riscv.registers import REGISTERS
from tx8isa.table import registry
from tx8isa.table.scalar import scalar_by_mnemonic
from tx8isa.tools.suggestions import did_you_mean

from .diagnostics import Diagnostic, Fault
from .directives import blocks, buffers, symbols  # noqa: F401  (they register their directives)
from .fixups import TOO_DEEP, DataFixup, Fixup, ListingRow, finish
from .place import LOCAL, Program, Section, Spot, Symbol

if TYPE_CHECKING:
    from asm.directives.blocks import Macro
    from asm.directives.table import Call

_LABEL = re.compile(r"\s*([A-Za-z_.$][\w.$]*|\d+)\s*:(?!:)")
_HEAD = re.compile(r"\s*([A-Za-z_.$][\w.$]*)")
_ASSIGN = re.compile(r"\s*=(?!=)")
_LOCAL = re.compile(r"\d+[fb]")
_SEPARATOR = "\0"
_ALIGNMENT = 4
_NOP = (0x13).to_bytes(4, "little")


class Assembler:
    """The state of a run. ``report`` collects mistakes; nothing stops before the end of the text."""

    def __init__(self, name: str, included: Included | None = None, machine: Machine | None = None) -> None:
        self.name = name
        self.machine = machine if machine is not None else load_machine(None)
        self.program = Program(self.machine)
        self.section = self.program.sections[".text"]
        self.included = included if included is not None else Included()
        self.templates: dict[str, Template] = {}
        self.shapes: dict[str, Operands] = {}
        self.fixups: list[Fixup] = []
        self.data_fixups: list[DataFixup] = []
        self.errors: dict[tuple[str, int, int, str], Diagnostic] = {}
        self.buffers: list[tuple[Buffer, Address | None]] = []
        self.tile_entries: dict[int, Address] = {}
        self.entry: Address | None = None
        self.node = ""
        self.listing: list[ListingRow] | None = None
        self.macros: dict[str, Macro] = {}
        self.expansions = 0
        self.ended = False

    def report(self, source: Source, index: int, fault: Fault, start: int = 0) -> None:
        diagnostic = source.diagnostic(index, fault, start)
        key = (diagnostic.file, diagnostic.line, diagnostic.column, diagnostic.message)
        self.errors.setdefault(key, diagnostic)

    def run(self, source: Source) -> None:
        """Assemble every line of a source."""
        lines, templates, split = source.lines, self.templates, ATOM.split
        index = 0
        while index < len(lines) and not self.ended:  # .exitm shortens the lines
            parts = split(lines[index])
            if len(parts) > 1:
                template = templates.get(parts[1] + _SEPARATOR.join(parts[2::2]))
                if template is not None:
                    try:
                        self._emit(source, index, template.encode(parts[3::2]), template)
                    except NotPlain:
                        self._line(source, index)
                    except Fault:
                        self._line(source, index)  # once more, slowly, for the column
                    index += 1
                    continue
            if parts[0] or len(parts) > 1:
                index = self._line(source, index)
            index += 1
        finish_source(self, source)

    def _emit(self, source: Source, index: int, code: bytes, template: Template) -> None:
        """Append the bytes of an instruction."""
        section = self.section
        data = section.data
        here = len(data)
        if section.flags != "rx" or section.tail or here % _ALIGNMENT:
            self._check_place(section)
            here = len(data)
        if section.file is not source.file:
            section.file = source.file
            section.row_files.append((len(section.rows), source.file))
        line = source.line if source.line >= 0 else source.first + index
        if template.wide:
            marks = section.marks
            if marks[-1] == here:
                marks[-1] = here + len(code)
            else:
                marks += (here, here + len(code))
        if template.wide or len(code) == _ALIGNMENT:
            section.rows.append(here)
            section.row_lines.append(line)
        else:
            for step in range(here, here + len(code), 4):
                section.rows.append(step)
                section.row_lines.append(line)
        data += code
        if self.listing is not None:
            self.listing.append(ListingRow(source, index, section, here, len(code)))

    def enter(self, section: Section) -> None:
        """Make a section the current one."""
        self.section = section
        self.set_node(self.node)

    def set_node(self, name: str) -> None:
        """Give the following instructions of the current section to a graph node."""
        self.node = name
        nodes = self.section.row_nodes
        if name != (nodes[-1][1] if nodes else ""):
            nodes.append((len(self.section.rows), name))

    def add_buffer(self, buffer: Buffer, at: Address | None) -> None:
        """Record a buffer; ``at``: where it stands, None when its address is final."""
        if any((other.kind, other.name) == (buffer.kind, buffer.name) for other, _ in self.buffers):
            raise Fault(f"{buffer.kind} buffer {buffer.name} is declared twice")
        self.buffers.append((buffer, at))

    def append_instruction(self, call: Call, code: bytes) -> None:
        """Append a ready scalar instruction."""
        self._check_place(self.section)
        self._emit(call.source, call.index, code, Template(len(code), 0, ()))

    def append_nops(self, call: Call, count: int) -> None:
        """Append instructions that do nothing; they belong to no line."""
        start = self.section.size
        self.section.data += _NOP * count
        self.list_data(call, self.section, start)

    def list_data(self, call: Call, section: Section, start: int) -> None:
        """Remember for the listing what a directive made."""
        if self.listing is not None and section.size > start:
            self.listing.append(ListingRow(call.source, call.index, section, start, section.size - start))

    def wait_for(
        self, call: Call, at: Address, offset: int, size: int, node: Node, atoms: Sequence[str]
    ) -> None:
        """Fill in a datum, ``offset`` bytes behind ``at``, when the addresses are final."""
        section = self.program.sections[at.section]
        where = at.offset + offset
        self.data_fixups.append(DataFixup(call.source, call.index, section, where, size, node, atoms, at))

    def _check_place(self, section: Section) -> None:
        """Fault when no instruction can stand here."""
        if section.flags != "rx":
            raise Fault(f"an instruction in section {section.name}", None, "instructions belong to .text")
        section.flatten()
        if len(section.data) % _ALIGNMENT:
            raise Fault(
                "an instruction must stand on a multiple of 4 bytes", None, "write .align 2 before it"
            )

    def _line(self, source: Source, index: int) -> int:
        """A line with whatever it holds; the index of the last line it used."""
        line = source.lines[index]
        for start, end in statements(line):
            try:
                index = self._statement(source, index, line[:end], start)
            except Fault as fault:
                blank = len(line[start:end]) - len(line[start:end].lstrip())
                self.report(source, index, fault, start + blank)
            except Unknown as unknown:
                message = f"the value must be known here, found {unknown.what}"
                help = "it decides about the length of what follows"
                self.report(source, index, Fault(message, unknown.at, help), start)
            except RecursionError:
                self.report(source, index, Fault(TOO_DEEP), start)
        return index

    def _statement(self, source: Source, index: int, text: str, start: int) -> int:
        while label := _LABEL.match(text, start):
            self.define_label(label[1], source.where(index), label.start(1))
            start = label.end()
        head = _HEAD.match(text, start)
        if head is None:
            if text[start:].strip():
                at = start + len(text[start:]) - len(text[start:].lstrip())
                raise Fault(f"a statement begins with a name, found {text[at]!r}", at)
            return index
        name, after = head[1], head.end()
        assign = _ASSIGN.match(text, after)
        if assign:
            self.assign(source, index, name, text, assign.end(), variable=True, at=head.start(1))
        elif name in self.macros:
            self.macros[name].expand(self, source, index, text, after)
        elif name.startswith("."):
            return directive(self, source, index, name, text, after, head.start(1))
        else:
            self._instruction(source, index, name, text, after, head.start(1))
        return index

    def _instruction(self, source: Source, index: int, name: str, text: str, after: int, at: int) -> None:
        parts = ATOM.split(text[after:])
        key = name + _SEPARATOR.join([*parts[0::2]])
        template = self.templates.get(key)
        if template is None:
            operands = parse_operands(text, after)
            template = self._build(name, operands, at)
            self.templates[key], self.shapes[key] = template, operands
        operands = self.shapes[key]
        atoms = [self.local(atom) for atom in parts[1::2]]
        try:
            self._resolve(source, index, at, after, template, operands, atoms)
        except Fault as fault:
            if fault.at is None:
                fault.at = at
            else:
                fault.at = operands.place_in(text, after, fault.at)
            raise

    def local(self, atom: str) -> str:
        """The unique name behind ``1f`` or ``1b``; any other atom as it is."""
        return self.program.local_name(atom) if _LOCAL.fullmatch(atom) else atom

    def _build(self, name: str, operands: Operands, at: int) -> Template:
        """The template of an instruction by its mnemonic."""
        found = registry.find(name)
        try:
            if found is not None:
                return engine_template(*found, operands, self.machine.spm.bytes)
            template = scalar_or_pseudo(name, operands)
        except Fault as fault:
            fault.at = at if fault.at is None else fault.at
            raise
        if template is None:
            raise Fault(f"unknown instruction '{name}'", at, self._near(name))
        return template

    def _near(self, name: str) -> str:
        formats = [
            full.removeprefix(name + ".") for full in registry.full_mnemonics() if full.startswith(name + ".")
        ]
        if formats:
            return f"it needs a format or form: {' '.join(formats)}"
        base = name.rpartition(".")[0]
        known = registry.by_mnemonic().get(base)
        if known is not None and known.formats:
            return f"{base} has the formats {' '.join(fmt.token for fmt in known.formats)}"
        return did_you_mean(name, [*registry.full_mnemonics(), *scalar_by_mnemonic(), *NAMES, *self.macros])

    def _resolve(
        self,
        source: Source,
        index: int,
        at: int,
        after: int,
        template: Template,
        operands: Operands,
        atoms: list[str],
    ) -> None:
        section = self.section
        self._check_place(section)
        spot = Spot(self.program, section.here)
        chosen = template.choose(atoms, spot)
        try:
            code = chosen.resolve(atoms, spot)
        except Unknown:
            code = bytes(chosen.size)
            self.fixups.append(
                Fixup(source, index, at, after, section, spot.at.offset, chosen, operands, atoms)
            )
        self._emit(source, index, code, chosen)

    def define_label(self, name: str, where: str, at: int) -> None:
        """A label at the current place."""
        if name.isdigit():
            count = self.program.counts[name] = self.program.counts.get(name, 0) + 1
            self.program.symbols[f"{LOCAL}{name}{LOCAL}{count}"] = Symbol(self.section.here, where=where)
            return
        self._define(name, where, at).value = self.section.here

    def _define(self, name: str, where: str, at: int) -> Symbol:
        """The entry of a symbol that is defined now; Fault when it may not be."""
        if name in REGISTERS:
            raise Fault(f"{name} is a register and cannot be defined", at)
        if name == ".":
            raise Fault("'.' is the current place", at, "move it with .org or .space")
        symbol = self.program.symbols.setdefault(name, Symbol())
        if symbol.defined:
            raise Fault(f"symbol {name} is defined twice", at, f"the first time at {symbol.where}")
        symbol.where = where
        return symbol

    def assign(
        self, source: Source, index: int, name: str, text: str, start: int, *, variable: bool, at: int
    ) -> None:
        """``name = expression``; ``variable``: may be given another value later."""
        operands = parse_operands(text, start)
        if len(operands.items) != 1:
            raise Fault(f"one expression is expected, found {len(operands.items)}", start)
        node = expression(operands.items[0].term, name)
        symbol = self.program.symbols.get(name)
        if symbol is None or not (variable and symbol.variable):
            symbol = self._define(name, source.where(index), at)
        atoms = [self.local(atom) for atom in operands.atoms]
        spot = Spot(self.program, self.section.here)
        symbol.variable, symbol.source, symbol.index = variable, source, index
        try:
            symbol.value = evaluate(node, atoms, spot)
        except Unknown:
            symbol.value, symbol.node, symbol.atoms, symbol.place = None, node, atoms, spot

    def define(self, name: str, value: int | str) -> None:
        """A symbol from outside (``-D``); Fault for a bad name or expression."""
        if not _HEAD.fullmatch(name):
            raise Fault(f"-D {name}: not a name")
        text = f"{name} = {value}"
        source = Source("<command line>", [text])
        self.assign(source, 0, name, text, text.index("=") + 1, variable=False, at=0)


def read_source(text: str, name: str) -> Source:
    """A file's text as a source."""
    return Source(name, lines_of(text), file=name)


def assemble_text(
    text: str,
    name: str,
    include_dirs: Sequence[str | Path],
    defines: Mapping[str, int | str],
    machine: Machine | None,
    listing: bool = False,
    given: Mapping[str, bytes] | None = None,
) -> Assembler:
    """Run the assembler over a text; AsmError with every mistake."""
    assembler = Assembler(name, Included(include_dirs, given), machine)
    if listing:
        assembler.listing = []
    for symbol, value in defines.items():
        try:
            assembler.define(symbol, value)
        except Fault as fault:
            assembler.report(Source("<command line>", [f"-D {symbol}={value}"]), 0, fault)
    assembler.run(read_source(text, name))
    finish(assembler)
    return assembler
