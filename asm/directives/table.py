"""Directives: a table of names, and those that make or place data."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asm.diagnostics import Fault
from asm.instructions.operands import expression
from asm.instructions.template import single_atom
from asm.place import PAGE, Section, Spot
from asm.syntax.expressions import Node, Unary, Unknown, Value, evaluate, fraction, number_of, unescape
from asm.syntax.parse import Operands, String, parse_operands
from asm.syntax.source import Source
from tx8isa.tools.suggestions import did_you_mean

if TYPE_CHECKING:
    from asm.assembler import Assembler


@dataclass(frozen=True, slots=True)
class Call:
    """A directive as it stands in the text; its arguments begin at ``start``."""

    assembler: Assembler
    source: Source
    index: int
    name: str
    text: str
    start: int

    @property
    def arguments(self) -> str:
        return self.text[self.start :].strip()

    def operands(self) -> Operands:
        """The arguments as expressions and strings."""
        operands = parse_operands(self.text, self.start)
        local = tuple(self.assembler.local(atom) for atom in operands.atoms)
        return Operands(operands.text, operands.start, operands.items, local)

    def fields(self) -> list[str]:
        """The arguments as texts between commas; commas in strings and brackets do not count."""
        return split_arguments(self.arguments)

    def included(self, name: str) -> tuple[Path, bytes]:
        """Path and bytes of a file that is named; Fault when there is none."""
        return self.assembler.included.find(name, Path(self.source.name).parent)

    @property
    def spot(self) -> Spot:
        return Spot(self.assembler.program, self.assembler.section.here)

    def numbers(self, least: int, most: int) -> list[int]:
        """The arguments as numbers that are known here."""
        operands = self.operands()
        if not least <= len(operands.items) <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}"
            raise Fault(f"{self.name} takes {wanted} arguments, found {len(operands.items)}")
        spot = self.spot
        nodes = [expression(item.term, self.name) for item in operands.items]
        return [number_of(evaluate(node, operands.atoms, spot), node.at) for node in nodes]

    def string(self) -> str:
        """The one quoted argument."""
        match = _STRING.fullmatch(self.text, self.start)
        if match is None:
            raise Fault(f'{self.name} takes one string, as {self.name} "text"')
        return text_of(String(match[1], match.start(1) - 1))

    def symbol_names(self) -> list[str]:
        names = self.fields()
        for name in names:
            if not re.fullmatch(r"[A-Za-z_.$][\w.$]*", name):
                raise Fault(f"{self.name}: {name!r} is not a name" if name else f"{self.name} takes names")
        return names


Handler = Callable[[Call], None]
BlockHandler = Callable[[Call], int]
HANDLERS: dict[str, Handler] = {}
BLOCKS: dict[str, BlockHandler] = {}
"""Directives that use several lines; they return the index of the last one."""

_STRING = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*')
_ARGUMENT = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:\\.|[^\'\\])\'|[(\[]|[)\]]|,|[^"\'(\[)\],]+|.')


def split_arguments(text: str) -> list[str]:
    """``a, f(b, c), "d,e"`` -> its three arguments; none for a blank text."""
    if not text.strip():
        return []
    parts, depth = [""], 0
    for token in _ARGUMENT.findall(text):
        depth += (token in "([") - (token in ")]")
        if token == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts]


def text_of(string: String) -> str:
    """A string's characters."""
    return unescape(string.body, string.at + 1).decode("utf-8", "surrogateescape")


def handler(*names: str) -> Callable[[Handler], Handler]:
    """Decorator: what a directive does."""

    def register(function: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, function))
        return function

    return register


def block(*names: str) -> Callable[[BlockHandler], BlockHandler]:
    """Decorator: what a directive of several lines does."""

    def register(function: BlockHandler) -> BlockHandler:
        BLOCKS.update(dict.fromkeys(names, function))
        return function

    return register


def directive(
    assembler: Assembler, source: Source, index: int, name: str, text: str, start: int, at: int
) -> int:
    """Carry out a directive; the index of the last line it used."""
    call = Call(assembler, source, index, name, text, start)
    try:
        if name in BLOCKS:
            return BLOCKS[name](call)
        if name not in HANDLERS:
            raise Fault(f"unknown directive {name}", at, did_you_mean(name, [*HANDLERS, *BLOCKS]))
        HANDLERS[name](call)
    except Fault as fault:
        fault.at = at if fault.at is None else fault.at
        raise
    return index


def integer_bytes(value: int, size: int, at: int | None) -> bytes:
    """A number of ``size`` bytes, signed or unsigned."""
    bits = 8 * size
    if not -(1 << bits - 1) <= value < 1 << bits:
        raise Fault(
            f"{value} does not fit {size} byte{'s' if size > 1 else ''}",
            at,
            f"allowed: {-(1 << bits - 1)}..{(1 << bits) - 1}",
        )
    return (value & (1 << bits) - 1).to_bytes(size, "little")


def _integers(size: int) -> Handler:
    def place(call: Call) -> None:
        operands, spot, assembler = call.operands(), call.spot, call.assembler
        code, waiting = bytearray(), list[tuple[int, Node]]()
        for item in operands.items:
            node = expression(item.term, call.name)
            try:
                value: Value = evaluate(node, operands.atoms, spot)
                code += integer_bytes(number_of(value), size, node.at)
            except Unknown:
                waiting.append((len(code), node))
                code += bytes(size)
        emit(call, bytes(code))
        for offset, node in waiting:
            assembler.wait_for(call, spot.at, offset, size, node, operands.atoms)

    return place


for _names, _size in (
    ((".byte", ".1byte"), 1),
    ((".half", ".short", ".2byte", ".hword"), 2),
    ((".word", ".long", ".int", ".4byte"), 4),
    ((".dword", ".quad", ".8byte"), 8),
):
    handler(*_names)(_integers(_size))


def emit(call: Call, data: bytes | memoryview) -> None:
    """Append data that a directive made."""
    section = call.assembler.section
    start = section.size
    section.append(data)
    call.assembler.list_data(call, section, start)


def reserve(call: Call, size: int) -> None:
    """Append zero bytes."""
    section = call.assembler.section
    start = section.size
    limit = call.assembler.machine.ddr.bytes
    if not 0 <= size <= limit:
        raise Fault(f"{call.name}: size {size} is outside 0..{limit}")
    section.reserve(size)
    call.assembler.list_data(call, section, start)


@handler(".float", ".single")
def _float(call: Call) -> None:
    _fractions(call, "f")


@handler(".double")
def _double(call: Call) -> None:
    _fractions(call, "d")


def _fractions(call: Call, code: str) -> None:
    import struct

    operands, data = call.operands(), b""
    for item in operands.items:
        node = expression(item.term, call.name)
        index, negative = single_atom(node.operand if isinstance(node, Unary) and node.op == "+" else node)
        text = operands.atoms[index] if index is not None else ""
        number = fraction(text) if text else None
        if number is None:
            number = float(number_of(evaluate(node, operands.atoms, call.spot), node.at))
        elif negative:
            number = -number
        try:
            data += struct.pack("<" + code, number)
        except OverflowError:
            raise Fault(
                f"{text} does not fit {call.name}", node.at, "write inf if infinity is meant"
            ) from None
    emit(call, data)


@handler(".ascii", ".asciz", ".string")
def _string(call: Call) -> None:
    data = b""
    items = call.operands().items
    if not items:
        raise Fault(f'{call.name} takes strings, as {call.name} "text"')
    for item in items:
        if not isinstance(item.term, String):
            raise Fault(f"{call.name} takes strings in double quotes", item.at)
        data += unescape(item.term.body, item.term.at + 1) + (b"" if call.name == ".ascii" else b"\0")
    emit(call, data)


@handler(".space", ".skip", ".zero")
def _space(call: Call) -> None:
    size, fill = (*call.numbers(1, 2), 0)[:2]
    if not 0 <= fill <= 255:
        raise Fault(f"{call.name}: fill {fill} is outside 0..255")
    if fill:
        _limited(call, size)
        emit(call, bytes([fill]) * size)
    else:
        reserve(call, size)


_MOST_FILLED = 1 << 30


def _limited(call: Call, size: int) -> None:
    if not 0 <= size <= _MOST_FILLED:
        raise Fault(f"{call.name}: {size} bytes are outside 0..{_MOST_FILLED}")


@handler(".fill")
def _fill(call: Call) -> None:
    given = call.numbers(1, 3)
    repeat, size, value = (*given, *(1, 0)[len(given) - 1 :])
    if not 0 <= size <= 8:
        raise Fault(f".fill: size {size} is outside 0..8")
    _limited(call, repeat * size)
    emit(call, (value & (1 << 8 * size) - 1).to_bytes(size, "little") * repeat)


@handler(".align", ".p2align")
def _align(call: Call) -> None:
    power, *rest = call.numbers(1, 3)
    if not 0 <= power <= 12:
        raise Fault(f"{call.name} {power} is outside 0..12 (a power of two; sections start on {PAGE} bytes)")
    _pad(call, 1 << power, rest)


@handler(".balign")
def _balign(call: Call) -> None:
    alignment, *rest = call.numbers(1, 3)
    if not 1 <= alignment <= PAGE or alignment & (alignment - 1):
        raise Fault(f".balign {alignment}: expected a power of two up to {PAGE}")
    _pad(call, alignment, rest)


def _pad(call: Call, alignment: int, rest: list[int]) -> None:
    section = call.assembler.section
    size = -section.size % alignment
    if len(rest) == 2 and size > rest[1]:
        return
    if rest and rest[0]:
        emit(call, bytes([rest[0] & 0xFF]) * size)
    elif section.flags == "rx" and size:
        section.flatten()
        emit(call, bytes(size % 4))
        call.assembler.append_nops(call, size // 4)
    else:
        reserve(call, size)


@handler(".org")
def _org(call: Call) -> None:
    operands = call.operands()
    if not 1 <= len(operands.items) <= 2:
        raise Fault(f".org takes an offset and perhaps a fill byte, found {len(operands.items)} arguments")
    section = call.assembler.section
    values = [evaluate(expression(i.term, ".org"), operands.atoms, call.spot) for i in operands.items]
    target = values[0] if isinstance(values[0], int) else values[0].offset
    if not isinstance(values[0], int) and values[0].section != section.name:
        raise Fault(f".org to a place in {values[0].section} from section {section.name}")
    if target < section.size:
        raise Fault(f".org {target} goes back: {section.size} bytes of {section.name} are used")
    fill = number_of(values[1]) if len(values) == 2 else 0
    if fill:
        _limited(call, target - section.size)
        emit(call, bytes([fill & 0xFF]) * (target - section.size))
    else:
        reserve(call, target - section.size)


@handler(".incbin")
def _incbin(call: Call) -> None:
    items = call.operands()
    if not items.items or not isinstance(items.items[0].term, String) or len(items.items) > 3:
        raise Fault('.incbin takes "file"[, skip[, count]]')
    path, data = call.included(text_of(items.items[0].term))
    numbers = [
        number_of(evaluate(expression(i.term, ".incbin"), items.atoms, call.spot)) for i in items.items[1:]
    ]
    skip, count = (*numbers, *(0, len(data))[len(numbers) :])
    count = min(count, len(data) - skip) if len(numbers) < 2 else count
    if skip < 0 or count < 0 or skip + count > len(data):
        raise Fault(f".incbin: bytes {skip}..{skip + count} are not in {path}, which has {len(data)}")
    emit(call, memoryview(data)[skip : skip + count])


def section_of(call: Call, name: str, flags: str, nobits: bool) -> Section:
    """Make a section the current one."""
    sections = call.assembler.program.sections
    if name not in sections:
        sections[name] = Section(name, flags, nobits)
    section = sections[name]
    call.assembler.enter(section)
    return section


def finish_source(assembler: Assembler, source: Source) -> None:
    """What must be closed at the end of a file."""
    for index, _ in source.conditions:
        assembler.report(
            source,
            index,
            Fault(".if without .endif", len(source.lines[index]) - len(source.lines[index].lstrip())),
        )
