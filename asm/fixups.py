"""What waits for the final addresses, and filling it in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asm.directives.table import integer_bytes
from asm.instructions.template import Template
from asm.syntax.expressions import Address, Node, evaluate, number_of
from asm.syntax.parse import Operands
from asm.syntax.source import Source

from .diagnostics import AsmError, Fault
from .place import Section, Spot

if TYPE_CHECKING:
    from .assembler import Assembler


TOO_DEEP = "the expression is nested too deeply"


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


@dataclass(frozen=True, slots=True)
class DataFixup:
    """A datum that waits for the final addresses; ``item`` is one operand of a data directive."""

    source: Source
    index: int
    section: Section
    offset: int
    size: int
    node: Node
    atoms: Sequence[str]
    at: Address


@dataclass(frozen=True, slots=True)
class ListingRow:
    """What one line of the text became."""

    source: Source
    index: int
    section: Section
    offset: int
    size: int


def finish(assembler: Assembler) -> None:
    """Final addresses, then everything that waited for them; AsmError when the text has mistakes."""
    assembler.program.lay_out()
    late = [fixup for fixup in assembler.fixups if not _fix(assembler, fixup, first=True)]
    for fixup in late:
        _fix(assembler, fixup, first=False)
    for datum in assembler.data_fixups:
        _fix_datum(assembler, datum)
    _check_symbols(assembler)
    if assembler.errors:
        raise AsmError(sorted(assembler.errors.values()))


def _fix(assembler: Assembler, fixup: Fixup, first: bool) -> bool:
    """Fill in a statement; False to try again when every %pcrel_hi is known."""
    if first and "%pcrel_lo" in fixup.operands.text:
        return False
    spot = Spot(assembler.program, Address(fixup.section.name, fixup.offset))
    try:
        code = fixup.template.resolve(fixup.atoms, spot)
    except Fault as fault:
        text = fixup.source.lines[fixup.index]
        if fault.at is not None:
            fault.at = fixup.operands.place_in(text, fixup.operand_start, fault.at)
        assembler.report(fixup.source, fixup.index, fault, fixup.start)
    except RecursionError:
        assembler.report(fixup.source, fixup.index, Fault(TOO_DEEP), fixup.start)
    else:
        fixup.section.data[fixup.offset : fixup.offset + len(code)] = code
    return True


def _fix_datum(assembler: Assembler, datum: DataFixup) -> None:
    try:
        value = number_of(evaluate(datum.node, datum.atoms, Spot(assembler.program, datum.at)))
        code = integer_bytes(value, datum.size, datum.node.at)
        datum.section.data[datum.offset : datum.offset + datum.size] = code
    except Fault as fault:
        assembler.report(datum.source, datum.index, fault)
    except RecursionError:
        assembler.report(datum.source, datum.index, Fault(TOO_DEEP, datum.node.at))


def _check_symbols(assembler: Assembler) -> None:
    """Report every symbol without a value, used or not."""
    for name, symbol in assembler.program.symbols.items():
        source = symbol.source
        if source is None or symbol.value is not None:
            continue
        try:
            if symbol.node is None:
                raise Fault(f"symbol {name} is declared and never defined")
            assembler.program.value_behind(symbol)
        except Fault as fault:
            line = source.lines[symbol.index]
            assembler.report(source, symbol.index, fault, len(line) - len(line.lstrip()))
        except RecursionError:
            assembler.report(source, symbol.index, Fault(TOO_DEEP))
