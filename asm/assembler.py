"""One run of the assembler: lines to sections, then fix-ups, then the image."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from asm.directives.blocks import finish_source
from asm.directives.call import directive
from asm.instructions.jumps import JumpForms, jump_forms, jump_target
from asm.instructions.operands import engine_template
from asm.instructions.pseudo import NAMES, scalar_or_pseudo
from asm.instructions.template import SymbolicLine, Template
from asm.syntax.expressions import UnknownValue
from asm.syntax.parse import ATOM, Operands, parse_operands
from asm.syntax.readings import doubtful
from asm.syntax.source import IncludedFiles, Source, divided, lines_of, statements
from tx8isa.machine.description import Machine
from tx8isa.table import registry
from tx8isa.table.compressed import compressed_by_mnemonic
from tx8isa.table.scalar import scalar_by_mnemonic
from tx8isa.tools.files import Bytes
from tx8isa.tools.suggestions import did_you_mean

from .assembly import Assembly, Fixup, PlainLine
from .compression import Compression
from .diagnostics import AsmError, Fault
from .directives import (  # noqa: F401  (they register directives)
    blocks,
    buffers,
    compilers,
    data,
    insn,
    macros,
    scratchpad,
    sections,
    shapes,
    symbols,
)
from .fixups import TOO_DEEP, finish
from .place import Spot

LABEL = re.compile(r"\s*([A-Za-z_.$][\w.$]*|\d+)\s*:(?!:)")
HEAD = re.compile(r"\s*([A-Za-z_.$][\w.$]*)")
_ASSIGN = re.compile(r"\s*==?(?!=)")
_SEPARATOR = "\n"  # in no line

NumberedJump = tuple[int, JumpForms]
"""A jump whose length depends on later text: its number and its forms."""


class Assembler:
    """Reads the lines of a program into an ``Assembly``; mistakes do not stop it before the end of the
    text."""

    def __init__(
        self,
        name: str,
        included: IncludedFiles | None = None,
        machine: Machine | None = None,
        compression: Compression | None = None,
    ) -> None:
        self.assembly = Assembly(name, self.run, included, machine, compression)
        self.templates: dict[str, Template] = {}
        """Template of each shape of a statement seen so far: its mnemonic and the text between its atoms."""
        self.shapes: dict[str, Operands] = {}
        """The operands of the first statement of each shape."""
        self.plain: dict[str, PlainLine] = {}
        """The lines seen so far whose bytes depend on nothing but their text."""

    def run(self, source: Source) -> None:
        """Assemble every line of a source; plain lines are appended together, before the next other line."""
        lines, known, assembly = source.lines, self.plain, self.assembly
        indices, taken = list[int](), list[PlainLine]()
        index = 0
        while index < len(lines) and not assembly.ended:  # .exitm removes lines
            line = lines[index]
            plain = known.get(line) or self._plain(line)
            if plain is not None:
                indices.append(index)
                taken.append(plain)
            else:
                if taken:
                    self._append(source, indices, taken)
                    indices, taken = [], []
                index = self._line(source, index)
            index += 1
        if taken:
            self._append(source, indices, taken)
        finish_source(assembly, source)

    def _plain(self, line: str) -> PlainLine | None:
        """The bytes of a line of a known shape without symbols; None for another line, or a mistake."""
        parts = ATOM.split(line)
        if len(parts) == 1 or not (parts[0] == "" or parts[0].isspace()):
            return None
        template = self.templates.get(parts[1] + _SEPARATOR.join(parts[2::2]))
        if template is None:
            return None
        try:
            found = self.plain[line] = template.encode(parts[3::2]), template
        except (SymbolicLine, Fault):  # assembled once more, slowly, to find the column of a fault
            return None
        return found

    def _append(self, source: Source, indices: Sequence[int], taken: Sequence[PlainLine]) -> None:
        """Append plain lines; where no instruction may stand, each line reports that."""
        if self.assembly.append_plain(source, indices, taken):
            return
        for index, (code, template) in zip(indices, taken, strict=True):
            try:
                self.assembly.append(source, index, code, template)
            except Fault:
                self._line(source, index)

    def _line(self, source: Source, index: int) -> int:
        """Assemble the statements of a line; returns the index of the last line that they used."""
        line = source.lines[index]
        for start, end in statements(line):
            try:
                index = self._statement(source, index, line[:end], start)
            except Fault as fault:
                blank = len(line[start:end]) - len(line[start:end].lstrip())
                self.assembly.report(source, index, fault, start + blank)
            except UnknownValue as unknown:
                message = f"the value must be known here, found {unknown.what}"
                help = "it decides about the length of what follows"
                self.assembly.report(source, index, Fault(message, unknown.at, help), start)
            except RecursionError:
                self.assembly.report(source, index, Fault(TOO_DEEP), start)
        return index

    def _statement(self, source: Source, index: int, text: str, start: int) -> int:
        while label := LABEL.match(text, start):
            self.assembly.define_label(label[1], source.where(index), label.start(1))
            start = label.end()
        head = HEAD.match(text, start)
        if head is None:
            if text[start:].strip():
                at = start + len(text[start:]) - len(text[start:].lstrip())
                raise Fault(f"a statement begins with a name, found {text[at]!r}", at)
            return index
        name, after = head[1], head.end()
        assign = _ASSIGN.match(text, after)
        if assign:
            if name == ".":
                return directive(self.assembly, source, index, ".org", text, assign.end(), head.start(1))
            once = text[assign.end() - 2] == "="
            self.assembly.assign(source, index, name, text, assign.end(), variable=not once, at=head.start(1))
        elif (name := name.lower()) in self.assembly.macros:
            self.assembly.macros[name](source, index, text, after)
        elif name.startswith("."):
            return directive(self.assembly, source, index, name, text, after, head.start(1))
        else:
            self._instruction(source, index, name, text, after, head.start(1))
        return index

    def _instruction(self, source: Source, index: int, name: str, text: str, after: int, at: int) -> None:
        parts = ATOM.split(text[after:])
        key = name + _SEPARATOR.join([*parts[0::2]])
        template = self.templates.get(key)
        if template is None:
            operands = parse_operands(text, after, self.assembly.parse_counter(source))
            template = self._build(name, operands, at)
            self.templates[key], self.shapes[key] = template, operands
        operands = self.shapes[key]
        atoms = tuple(self.assembly.local(atom) for atom in parts[1::2])
        try:
            spot = Spot(self.assembly.program, self.assembly.section.here)
            self._resolve(source, index, at, after, template, operands, atoms)
            for doubt in chain(template.doubts(atoms), doubtful(operands, atoms, spot)):
                doubt.at = operands.offset_in(text, after, doubt.at or 0)
                self.assembly.warn(source, index, doubt)
        except Fault as fault:
            if fault.at is None:
                fault.at = at
            else:
                fault.at = operands.offset_in(text, after, fault.at)
            raise

    def _build(self, name: str, operands: Operands, at: int) -> Template:
        """Build the template of an instruction from its mnemonic."""
        found = registry.find(name)
        try:
            if found is not None:
                return engine_template(*found, operands, self.assembly.machine)
            template = scalar_or_pseudo(name, operands)
        except Fault as fault:
            fault.at = at if fault.at is None else fault.at
            raise
        if template is None:
            raise Fault(f"unknown instruction '{name}'", at, partial(self._near, name))
        return template

    def _near(self, name: str) -> str:
        """Suggest a known mnemonic for an unknown one; empty when none is similar."""
        formats = [
            full.removeprefix(name + ".") for full in registry.full_mnemonics() if full.startswith(name + ".")
        ]
        if formats:
            return f"it needs a format or form: {' '.join(formats)}"
        base = name.rpartition(".")[0]
        record = registry.by_mnemonic().get(base)
        if record is not None and record.formats:
            return f"{base} has the formats {' '.join(fmt.token for fmt in record.formats)}"
        known = [*registry.full_mnemonics(), *scalar_by_mnemonic(), *NAMES, *self.assembly.macros]
        known += compressed_by_mnemonic()
        return did_you_mean(name, known)

    def _resolve(
        self,
        source: Source,
        index: int,
        at: int,
        after: int,
        template: Template,
        operands: Operands,
        atoms: Sequence[str],
    ) -> None:
        assembly, section = self.assembly, self.assembly.section
        assembly.check_place()
        spot = Spot(assembly.program, section.here)
        chosen, code, jump = self._encoded(template, atoms, spot)
        if code is None:
            code = bytes(chosen.size)
            assembly.fixups.append(
                Fixup(source, index, at, after, section, spot.at.offset, chosen, operands, atoms, jump)
            )
        assembly.append(source, index, code, chosen)

    def _encoded(
        self, template: Template, atoms: Sequence[str], spot: Spot
    ) -> tuple[Template, bytes | None, NumberedJump | None]:
        """Choose a statement's form at its place and encode it; None for bytes that wait for later text."""
        chosen, jump = template.choose(atoms, spot), None
        if chosen.label is not None:
            chosen, jump = self._jump(chosen, atoms, spot)
        try:
            return chosen, chosen.resolve(atoms, spot), jump
        except UnknownValue:
            return chosen, None, jump

    def _jump(
        self, template: Template, atoms: Sequence[str], spot: Spot
    ) -> tuple[Template, NumberedJump | None]:
        """Choose the form of a jump to a label; returns the jump's number too if later text decides its
        length."""
        compression = self.assembly.compression
        forms = jump_forms(template, atoms, spot, compression.on, compression.reverse)
        if forms is None:
            return template, None
        try:
            target = jump_target(forms.target, atoms, spot)
        except Fault:
            return template, None  # reported where the statement is resolved
        except UnknownValue:
            number, index = compression.choose(forms, spot.at)
            return forms.templates[index], (number, forms)
        return forms.templates[forms.form(target, spot.at)], None


MakeAssembler = Callable[[str, IncludedFiles, Machine | None, Compression], Assembler]
"""Makes the assembler of one reading of a text."""


def read_source(text: str, name: str) -> Source:
    """Make a ``Source`` from a file's text."""
    return divided(Source(name, lines_of(text), file=name))


def assemble_text(
    text: str,
    name: str,
    include_dirs: Sequence[str | Path],
    defines: Mapping[str, int | str],
    machine: Machine | None,
    listing: bool = False,
    given: Mapping[str, Bytes] | None = None,
    short_branches: bool = False,
    make: MakeAssembler | None = None,
) -> Assembly:
    """Assemble a text; AsmError with every mistake.

    ``short_branches``: a branch that does not reach its label is a mistake, and not reversed around a jump.
    ``make`` makes the assembler of each reading; None for ``Assembler``.
    """
    compression = Compression(reverse=not short_branches)
    while True:
        assembler = (make or Assembler)(name, IncludedFiles(include_dirs, given), machine, compression)
        try:
            _read(assembler, text, name, defines, listing)
        except AsmError:
            if compression.settled:
                raise
        if compression.settled:
            return assembler.assembly
        compression = Compression(compression)


def _read(
    assembler: Assembler, text: str, name: str, defines: Mapping[str, int | str], listing: bool
) -> None:
    """Assemble a text once."""
    assembly = assembler.assembly
    if listing:
        assembly.listing = []
    for symbol, value in defines.items():
        try:
            assembly.define(symbol, value)
        except Fault as fault:
            assembly.report(Source("<command line>", [f"-D {symbol}={value}"]), 0, fault)
    source = read_source(text, name)
    assembly.check_text(source, text)
    assembler.run(source)
    finish(assembly)
