"""Fills in the statements and data that waited for the final addresses."""

from __future__ import annotations

from collections.abc import Iterator

from asm.directives.data import integer_bytes, variable_bytes
from asm.directives.sections import place_commons
from asm.instructions.jumps import jump_target
from asm.syntax.expressions import Address, UnknownValue, evaluate, number_of

from .assembly import Assembly, DataFixup, Fixup, SizeFixup
from .diagnostics import Fault
from .place import Spot

TOO_DEEP = "the expression is nested too deeply"


def finish(assembly: Assembly) -> None:
    """Choose the final addresses and complete the statements that wait for them; AsmError if the text has
    mistakes."""
    _check_circles(assembly)
    place_commons(assembly)
    _define_weak(assembly)
    _note_targets(assembly)
    assembly.program.lay_out()
    late = [fixup for fixup in assembly.fixups if not _fix(assembly, fixup, first=True)]
    for fixup in late:
        _fix(assembly, fixup, first=False)
    for datum in assembly.data_fixups:
        _fix_datum(assembly, datum)
    for size in assembly.size_fixups:
        _fix_size(assembly, size)
    _check_symbols(assembly)
    if not assembly.errors:
        _check_live_ranges(assembly)
    if assembly.errors:
        raise assembly.mistakes()


def _check_live_ranges(assembly: Assembly) -> None:
    for live in assembly.occupancy.unended():
        line = live.source.lines[live.index]
        fault = Fault(f".live: {live.known.name!r} has no .dead", len(line) - len(line.lstrip()))
        assembly.report(live.source, live.index, fault)


def _note_targets(assembly: Assembly) -> None:
    """Record the targets of jumps, which decide their lengths."""
    for fixup in assembly.fixups:
        if fixup.jump is None:
            continue
        (number, forms), spot = fixup.jump, Spot(assembly.program, Address(fixup.section.name, fixup.offset))
        try:
            assembly.compression.targets[number] = jump_target(forms.target, fixup.atoms, spot)
        except (Fault, UnknownValue, RecursionError):
            assembly.compression.targets[number] = None


def _fix(assembly: Assembly, fixup: Fixup, first: bool) -> bool:
    """Complete a statement; False to try again when every %pcrel_hi is known."""
    if first and "%pcrel_lo" in fixup.operands.text:
        return False
    spot = Spot(assembly.program, Address(fixup.section.name, fixup.offset))
    try:
        code = fixup.template.resolve(fixup.atoms, spot)
    except Fault as fault:
        text = fixup.source.lines[fixup.index]
        if fault.at is not None:
            fault.at = fixup.operands.offset_in(text, fixup.operand_start, fault.at)
        assembly.report(fixup.source, fixup.index, fault, fixup.start)
    except RecursionError:
        assembly.report(fixup.source, fixup.index, Fault(TOO_DEEP), fixup.start)
    else:
        fixup.section.data[fixup.offset : fixup.offset + len(code)] = code
    return True


def _fix_datum(assembly: Assembly, datum: DataFixup) -> None:
    try:
        value = number_of(evaluate(datum.node, datum.atoms, Spot(assembly.program, datum.at)))
        if datum.variable < 0:
            code = integer_bytes(value, datum.size, datum.node.at)
        else:
            code = variable_bytes(value, datum.signed, datum.node.at)
            assembly.compression.sizes[datum.variable] = len(code)
            code = code[: datum.size].ljust(datum.size, b"\0")  # the next reading gives it another length
        datum.section.data[datum.offset : datum.offset + datum.size] = code
    except Fault as fault:
        assembly.report(datum.source, datum.index, fault)
    except RecursionError:
        assembly.report(datum.source, datum.index, Fault(TOO_DEEP, datum.node.at))


def _fix_size(assembly: Assembly, waiting: SizeFixup) -> None:
    try:
        size = number_of(evaluate(waiting.node, waiting.atoms, waiting.spot))
        if size < 0:
            raise Fault(f".size {waiting.name}: {size} is negative")
        assembly.program.symbols[waiting.name].size = size
    except Fault as fault:
        assembly.report(waiting.source, waiting.index, fault)
    except RecursionError:
        assembly.report(waiting.source, waiting.index, Fault(TOO_DEEP, waiting.node.at))


def _define_weak(assembly: Assembly) -> None:
    """Define undefined weak symbols as 0."""
    for symbol in assembly.program.symbols.values():
        if symbol.binding == "weak" and not symbol.defined:
            symbol.value = 0


def _check_circles(assembly: Assembly) -> None:
    """Report each cycle of symbols that are defined by one another once; its symbols then count as 0."""
    symbols = assembly.program.symbols
    waiting = {name for name, symbol in symbols.items() if symbol.value is None and symbol.node is not None}
    finished: set[str] = set()
    for start in list(symbols):
        way: dict[str, Iterator[str]] = {start: iter(symbols[start].atoms)} if start in waiting else {}
        while way:
            name = next(reversed(way))
            after = next((atom for atom in way[name] if atom in waiting and atom not in finished), None)
            if after is None:
                finished.add(name)
                del way[name]
            elif after in way:
                names = list(way)
                circle = names[names.index(after) :]
                _report_circle(assembly, circle)
                finished.update(circle)
            else:
                way[after] = iter(symbols[after].atoms)


def _report_circle(assembly: Assembly, circle: list[str]) -> None:
    symbols = [assembly.program.symbols[name] for name in circle]
    first = min(range(len(circle)), key=lambda number: symbols[number].where)
    through = " -> ".join((*circle[first:], *circle[: first + 1]))
    source = symbols[first].source
    if source is not None:
        line = source.lines[symbols[first].index]
        fault = Fault(f"symbol {circle[first]} is defined by itself: {through}", line.find(circle[first]))
        assembly.report(source, symbols[first].index, fault)
    for symbol in symbols:
        symbol.value = 0


def _check_symbols(assembly: Assembly) -> None:
    """Report every symbol without a value, used or not."""
    for name, symbol in assembly.program.symbols.items():
        source = symbol.source
        if source is None or symbol.value is not None:
            continue
        try:
            if symbol.node is None:
                raise Fault(f"symbol {name} is declared and never defined")
            assembly.program.defined_value(symbol)
        except Fault as fault:
            line = source.lines[symbol.index]
            assembly.report(source, symbol.index, fault, len(line) - len(line.lstrip()))
        except RecursionError:
            assembly.report(source, symbol.index, Fault(TOO_DEEP))
