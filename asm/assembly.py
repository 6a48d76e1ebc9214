"""The program during assembly: sections, symbols, and statements that wait for final addresses."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from asm.image.types import Buffer, Dimension, EntryPoint
from asm.instructions.jumps import JumpForms, shortened
from asm.instructions.operands import expression
from asm.instructions.template import Template
from asm.syntax.expressions import Address, Node, UnknownValue, evaluate
from asm.syntax.parse import Operands, parse_operands
from asm.syntax.readings import doubtful
from asm.syntax.source import NAME, IncludedFiles, Source, half_character, odd_blank, open_comment
from tx8isa.machine.description import Machine, load_machine
from tx8isa.riscv.compressed import COMPRESSED_BYTES
from tx8isa.riscv.format import SCALAR_BYTES
from tx8isa.riscv.registers import REGISTERS
from tx8isa.tools.files import Bytes

from .compression import Compression
from .diagnostics import MOST_COUNTED, MOST_SHOWN, AsmError, Diagnostic, Fault
from .occupancy import Occupancy
from .place import LOCAL, Program, Section, Spot, SymbolEntry, VolumeFault

_LOCAL = re.compile(r"\d+[fb]")
_MOST_REPORTS = 10_000
"""The assembly ends after this many mistakes; repeated mistakes count, although they are printed once."""


@dataclass(frozen=True, slots=True)
class Fixup:
    """A statement whose bytes wait for the final addresses."""

    source: Source
    index: int
    start: int
    operand_start: int
    section: Section
    offset: int
    template: Template
    operands: Operands
    atoms: Sequence[str]
    jump: tuple[int, JumpForms] | None = None
    """A jump whose length depends on its target: its number and its forms (``Compression``)."""


@dataclass(frozen=True, slots=True)
class DataFixup:
    """A datum that waits for the final addresses: one operand of a data directive, which is at ``at``.

    ``variable``: the number of a datum of variable length (``Compression.size``), -1 for fixed lengths.
    """

    source: Source
    index: int
    section: Section
    offset: int
    size: int
    node: Node
    atoms: Sequence[str]
    at: Address
    variable: int = -1
    signed: bool = False


@dataclass(frozen=True, slots=True)
class SizeFixup:
    """The size of a symbol, which waits for the end of the text."""

    source: Source
    index: int
    name: str
    node: Node
    atoms: Sequence[str]
    spot: Spot


@dataclass(frozen=True, slots=True)
class ListingRow:
    """The addresses and bytes that one line of the text became."""

    source: Source
    index: int
    section: Section
    offset: int
    size: int


@dataclass(eq=False)
class Remembered:
    """State that directives keep for later directives."""

    previous: Section | None = None
    """The section before the current one, to which .previous goes."""
    saved: list[tuple[Section, Section | None]] = field(default_factory=list)
    """Pairs of the section to which .popsection returns, and the section before it."""
    commons: dict[str, tuple[bool, int, int]] = field(default_factory=dict)
    """Symbols that get a place in .bss: (whether local to this file, size, alignment)."""
    local_names: set[str] = field(default_factory=set)
    """The names that .local has declared."""
    files: dict[int, str] = field(default_factory=dict)
    """The files that .loc names by numbers."""
    alternate: bool = False
    """True while .altmacro is on."""


Place = Address | int | str
"""An address in a section, a constant number, or a symbol, which may be defined later."""

PlainLine = tuple[bytes, Template]
"""The bytes of a line that holds one instruction without symbols, and the template of its shape."""

Macro = Callable[[Source, int, str, int], None]
"""Assembles the expansion of a macro: (source, index of the line that calls it, text of the line, where its
arguments begin in the text)."""


class Assembly:
    """A program while its text is read; ``name`` replaces the text's name in messages.

    Mistakes are collected by ``report``, so that all of them are found. ``run`` assembles the lines of a
    source: directives call it for the lines that macros, repetitions and included files bring in.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[Source], None],
        included: IncludedFiles | None = None,
        machine: Machine | None = None,
        compression: Compression | None = None,
    ) -> None:
        self.name = name
        self.run = run
        self.compression = compression if compression is not None else Compression()
        self.machine = machine if machine is not None else load_machine(None)
        self.program = Program(self.machine)
        self.section = self.program.sections[".text"]
        self.included = included if included is not None else IncludedFiles()
        self.fixups: list[Fixup] = []
        self.data_fixups: list[DataFixup] = []
        self.size_fixups: list[SizeFixup] = []
        self.remembered = Remembered()
        self.errors: dict[tuple[str, int, int, str], partial[Diagnostic]] = {}
        self.warnings: dict[tuple[str, int, int, str], Diagnostic] = {}
        self.buffers: list[tuple[Buffer, Place]] = []
        self.entry_points: list[tuple[EntryPoint, Place, int]] = []
        """The networks of the program, and the number of buffers declared before each."""
        self.dimensions: list[Dimension] = []
        self.extents: dict[tuple[str, str], tuple[str, ...]] = {}
        self.room: dict[tuple[str, str], int] = {}
        """The axis along which an input or output reserves memory for its largest extent."""
        self.shape_block: Address | int | None = None
        self.tile_entries: dict[int, Address] = {}
        self.entry: Address | None = None
        self.node = ""
        self.occupancy = Occupancy(self.machine.spm.bytes)
        self.listing: list[ListingRow] | None = None
        self.macros: dict[str, Macro] = {}
        self.expansions = 0
        self.reports = 0
        self.brought: dict[Path, int] = {}
        """Bytes taken from each included file so far."""
        self.ended = False

    def report(self, source: Source, index: int, fault: Fault, start: int = 0) -> None:
        """Record a mistake in a line of a source; ``start`` is its column when the fault names none.

        Raises AsmError, which ends the assembly, when the program is too large or has too many mistakes.
        """
        diagnostic = source.diagnostic(index, fault, start, helped=False)
        key = (diagnostic.file, diagnostic.line, diagnostic.column, diagnostic.message)
        self.errors.setdefault(key, partial(source.diagnostic, index, fault, start))
        self.reports += 1
        many = len(self.errors) >= MOST_COUNTED or self.reports >= _MOST_REPORTS
        if many or isinstance(fault, VolumeFault):
            raise self.mistakes()

    def mistakes(self) -> AsmError:
        """Return all mistakes so far in the order of the text. Only shown mistakes get a suggestion."""
        found = [self.errors[key] for key in sorted(self.errors)]
        return AsmError([report(helped=at < MOST_SHOWN) for at, report in enumerate(found)])

    def warn(self, source: Source, index: int, doubt: Fault) -> None:
        """Record a warning about a line of a source, once for each place, up to the limit of mistakes."""
        if len(self.warnings) < MOST_COUNTED:
            diagnostic = replace(source.diagnostic(index, doubt, 0), kind="warning")
            key = (diagnostic.file, diagnostic.line, diagnostic.column, diagnostic.message)
            self.warnings.setdefault(key, diagnostic)

    # --- sections -------------------------------------------------------------------------

    def open_section(self, name: str, flags: str, nobits: bool) -> Section:
        """Make a section the current one; it is created when it does not exist."""
        sections = self.program.sections
        if name not in sections:
            sections[name] = Section(name, flags, nobits, volume=self.program.volume)
        self.enter(sections[name])
        return self.section

    def enter(self, section: Section) -> None:
        """Make an existing section the current one."""
        if section is not self.section:
            self.remembered.previous = self.section
        self.section = section
        self.set_node(self.node)

    def set_node(self, name: str) -> None:
        """Assign the following instructions of the current section to a graph node."""
        self.node = name
        nodes = self.section.row_nodes
        if name != (nodes[-1][1] if nodes else ""):
            nodes.append((len(self.section.rows), name))

    def check_place(self) -> None:
        """Raise a fault if no instruction may begin at the end of the current section."""
        section = self.section
        if section.flags != "rx":
            raise Fault(f"an instruction in section {section.name}", None, "instructions belong to .text")
        section.flatten()
        if len(section.data) % COMPRESSED_BYTES:
            message = f"an instruction must stand on a multiple of {COMPRESSED_BYTES} bytes"
            raise Fault(message, None, "write .align 1 before it")

    def append(self, source: Source, index: int, code: bytes, template: Template) -> None:
        """Append the bytes of an instruction to the current section."""
        section = self.section
        data = section.data
        steps: Sequence[int] = template.steps or range(0, len(code), SCALAR_BYTES)
        if self.compression.on and not template.fixed:
            code, steps = shortened(code, template.allowed)
        if section.flags != "rx" or section.tail or len(data) % COMPRESSED_BYTES:
            self.check_place()
        here = len(data)
        self._begin_rows(source)
        if template.wide:
            section.mark_data(len(code), here)
        self.compression.used |= bool(here % SCALAR_BYTES or len(code) % SCALAR_BYTES)
        section.rows += [here + step for step in steps]
        section.row_lines += [source.row_line(index)] * len(steps)
        data += code
        if self.listing is not None:
            self.listing.append(ListingRow(source, index, section, here, len(code)))

    def _begin_rows(self, source: Source) -> None:
        """The next instructions of the current section are lines of this source's file."""
        section = self.section
        if section.file is not source.file:
            section.file = source.file
            section.row_files.append((len(section.rows), source.file))

    def append_plain(self, source: Source, indices: Sequence[int], lines: Sequence[PlainLine]) -> bool:
        """Append the instructions of several lines at once; False where each line needs a closer look."""
        section = self.section
        here = used = len(section.data)
        if section.flags != "rx" or section.tail or here % COMPRESSED_BYTES:
            return False
        if self.compression.on or self.listing is not None:
            return False
        self._begin_rows(source)
        rows, row_lines, line_of = section.rows, section.row_lines, source.row_line
        for index, (code, template) in zip(indices, lines, strict=True):
            size = len(code)
            rows.append(here)
            row_lines.append(line_of(index))
            if size != SCALAR_BYTES:
                used |= size
                if template.wide:
                    section.mark_data(size, here)
                else:
                    more = (template.steps or range(0, size, SCALAR_BYTES))[1:]
                    rows += [here + step for step in more]
                    row_lines += [line_of(index)] * len(more)
            here += size
        self.compression.used |= bool(used % SCALAR_BYTES)
        section.data += b"".join([code for code, _ in lines])
        return True

    def list_data(self, source: Source, index: int, section: Section, start: int) -> None:
        """Record for the listing what a directive appended to a section from ``start``."""
        if self.listing is not None and section.size > start:
            self.listing.append(ListingRow(source, index, section, start, section.size - start))

    def parse_counter(self, source: Source) -> Callable[[int], None] | None:
        """The function that counts the symbols of expanded lines that the grammar parses; None for lines of a
        file."""
        return self.program.volume.parse if source.expanded else None

    def operands(self, source: Source, index: int, text: str, start: int, *, truth: bool = False) -> Operands:
        """Parse the operands from ``start`` of a text on, with unique names for local labels; record
        warnings.

        ``truth``: the directive only tests whether the values are 0.
        """
        parsed = parse_operands(text, start, self.parse_counter(source))
        operands = replace(parsed, atoms=tuple(map(self.local, parsed.atoms)))
        for doubt in doubtful(operands, operands.atoms, Spot(self.program, self.section.here), truth):
            self.warn(source, index, doubt)
        return operands

    def check_text(self, source: Source, text: str) -> None:
        """Report a block comment that never ends, and blanks that only look like a space."""
        if opened := open_comment(text):
            shown = replace(source, lines=text.replace("\r\n", "\n").split("\n"))
            self.report(
                shown, opened[0], Fault("/* without */: the rest of the file is a comment", opened[1])
            )
        for index, line in enumerate(source.lines if not text.isascii() else ()):
            if (at := half_character(line)) is not None:
                fault = Fault(
                    f"U+{ord(line[at]):04X} is half of a surrogate pair, which no file can hold", at
                )
                raise AsmError([source.diagnostic(index, fault, 0)])
            if (at := odd_blank(line)) is not None:
                self.report(
                    source,
                    index,
                    Fault(f"U+{ord(line[at]):04X} is a blank that the assembler does not read", at),
                )

    def bring(self, path: Path, data: Bytes, size: int) -> None:
        """Count ``size`` bytes that the image takes from a file; bytes beyond the file's length count as a
        fill."""
        before = self.brought.get(path, 0)
        self.brought[path] = before + size
        self.program.volume.fill(max(0, before + size - len(data)) - max(0, before - len(data)))

    def add_buffer(self, buffer: Buffer, at: Place) -> None:
        """Record a buffer that is placed at ``at``."""
        common, since = (self.entry_points[i][2] if self.entry_points else 0 for i in (0, -1))
        known = (*self.buffers[:common], *self.buffers[since:])  # another network may have the same names
        if any((other.kind, other.name) == (buffer.kind, buffer.name) for other, _ in known):
            raise Fault(f"{buffer.kind} buffer {buffer.name} is declared twice")
        self.buffers.append((buffer, at))

    # --- symbols --------------------------------------------------------------------------

    def local(self, atom: str) -> str:
        """Replace a local label, ``1f`` or ``1b``, by its unique name; return other atoms unchanged."""
        return self.program.local_name(atom) if atom[-1] in "fb" and _LOCAL.fullmatch(atom) else atom

    def define_label(self, name: str, where: str, at: int) -> None:
        """Define a label at the end of the current section."""
        if name.isdigit():
            count = self.program.counts[name] = self.program.counts.get(name, 0) + 1
            entry = SymbolEntry(self.section.here, where=where)
            self.program.symbols[f"{LOCAL}{name}{LOCAL}{count}"] = entry
            return
        self._define(name, where, at).value = self.section.here

    def _define(self, name: str, where: str, at: int) -> SymbolEntry:
        """Return the entry of a symbol defined here; Fault for a forbidden definition."""
        if name in REGISTERS:
            raise Fault(f"{name} is a register and cannot be defined", at)
        if name == ".":
            raise Fault("'.' is the current place", at, "move it with .org or .space")
        symbol = self.program.symbols.setdefault(name, SymbolEntry())
        if symbol.defined or name in self.remembered.commons:
            raise Fault(f"symbol {name} is defined twice", at, f"the first time at {symbol.where}")
        symbol.where = where
        return symbol

    def assign(
        self, source: Source, index: int, name: str, text: str, start: int, *, variable: bool, at: int
    ) -> None:
        """Define a symbol by ``name = expression``; a ``variable`` one may get another value later."""
        operands = self.operands(source, index, text, start)
        if len(operands.items) != 1:
            raise Fault(f"one expression is expected, found {len(operands.items)}", start)
        node = expression(operands.items[0].term, name)
        symbol = self.program.symbols.get(name)
        if symbol is None or not (variable and symbol.variable):
            symbol = self._define(name, source.where(index), at)
        spot = Spot(self.program, self.section.here)
        symbol.variable, symbol.source, symbol.index = variable, source, index
        try:
            symbol.value = evaluate(node, operands.atoms, spot)
        except UnknownValue:
            symbol.value, symbol.node, symbol.atoms, symbol.place = None, node, operands.atoms, spot

    def define(self, name: str, value: int | str) -> None:
        """Define a symbol from outside (``-D``); Fault for a bad name or expression."""
        if not NAME.fullmatch(name):
            raise Fault(f"-D {name}: not a name")
        text = f"{name} = {value}"
        source = Source("<command line>", [text])
        self.assign(source, 0, name, text, text.index("=") + 1, variable=False, at=0)
