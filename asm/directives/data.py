"""Directives that define or place data."""

from __future__ import annotations

import struct
from dataclasses import replace
from math import isinf

from asm.assembly import DataFixup
from asm.diagnostics import Fault
from asm.instructions.operands import expression
from asm.instructions.template import single_atom
from asm.place import SECTION_GRAIN
from asm.syntax.expressions import Node, Unary, UnknownValue, Value, evaluate, fraction, number_of, unescape
from asm.syntax.parse import String
from asm.syntax.source import checksum
from tx8isa.riscv.compressed import COMPRESSED_BYTES
from tx8isa.riscv.format import SCALAR_BYTES
from tx8isa.table.compressed import compressed_by_mnemonic
from tx8isa.table.scalar import scalar_by_mnemonic
from tx8isa.tools.files import Bytes

from .call import Call, Handler, handler, text_of

_NOP = scalar_by_mnemonic()["addi"].match.to_bytes(SCALAR_BYTES, "little")
_SHORT_NOP = compressed_by_mnemonic()["c.nop"].match.to_bytes(COMPRESSED_BYTES, "little")


def integer_bytes(value: int, size: int, at: int | None) -> bytes:
    """A signed or unsigned number as ``size`` bytes; Fault when it does not fit."""
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
        operands, spot, assembly = call.operands(), call.spot, call.assembly
        code, waiting = bytearray(), list[tuple[int, Node]]()
        for item in operands.items:
            node = expression(item.term, call.name)
            try:
                value: Value = evaluate(node, operands.atoms, spot)
                code += integer_bytes(number_of(value), size, node.at)
            except UnknownValue:
                waiting.append((len(code), node))
                code += bytes(size)
        emit(call, bytes(code))
        section, at = assembly.section, spot.at
        for offset, node in waiting:
            where, atoms = at.offset + offset, operands.atoms
            datum = DataFixup(call.source, call.index, section, where, size, node, atoms, at)
            assembly.data_fixups.append(datum)

    return place


@handler(".dtprelword", ".dtpreldword")
def _thread_offset(call: Call) -> None:
    """Append the offset of a thread's variable, for debuggers; sections with this datum are not loaded."""
    if call.assembly.section.flags:
        raise Fault(f"{call.name} in section {call.assembly.section.name}", None, "it belongs to .debug_info")
    emit(call, bytes(8 if call.name == ".dtpreldword" else 4))


for _names, _size in (
    ((".byte", ".1byte"), 1),
    ((".half", ".short", ".2byte", ".hword"), 2),
    ((".word", ".long", ".int", ".4byte"), 4),
    ((".dword", ".quad", ".8byte"), 8),
    ((".octa",), 16),
):
    handler(*_names)(_integers(_size))


def variable_bytes(value: int, signed: bool, at: int | None) -> bytes:
    """Encode a number as LEB128: seven bits a byte, the lowest first; Fault for a negative unsigned one."""
    if value < 0 and not signed:
        raise Fault(f"{value} is negative", at, "use .sleb128")
    code = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        if value == (-(low >> 6) if signed else 0):
            return bytes((*code, low))
        code.append(low | 0x80)


@handler(".uleb128", ".sleb128")
def _variable(call: Call) -> None:
    assembly, operands, signed = call.assembly, call.operands(), call.name == ".sleb128"
    for item in operands.items:
        node, at = expression(item.term, call.name), call.spot.at
        try:
            emit(call, variable_bytes(number_of(evaluate(node, operands.atoms, call.spot)), signed, node.at))
        except UnknownValue:
            number, size = assembly.compression.size()
            where = (assembly.section, at.offset, size)
            datum = DataFixup(call.source, call.index, *where, node, operands.atoms, at, number, signed)
            emit(call, bytes(size))
            assembly.data_fixups.append(datum)


def emit(call: Call, data: Bytes) -> None:
    """Append data to the current section."""
    section = call.assembly.section
    start = section.size
    section.append(data)
    call.assembly.list_data(call.source, call.index, section, start)


def include(call: Call, file: Bytes, begin: int, size: int) -> None:
    """Append bytes of an included file to the current section."""
    section = call.assembly.section
    start = section.size
    section.include(file, begin, size)
    call.assembly.list_data(call.source, call.index, section, start)


def reserve(call: Call, size: int) -> None:
    """Append zero bytes to the current section; Fault when they do not fit DDR."""
    section = call.assembly.section
    start = section.size
    limit = call.assembly.machine.ddr.bytes
    if not 0 <= size <= limit:
        raise Fault(f"{call.name}: size {size} is outside 0..{limit}")
    section.reserve(size)
    call.assembly.list_data(call.source, call.index, section, start)


@handler(".float", ".single")
def _float(call: Call) -> None:
    _fractions(call, "f")


@handler(".double")
def _double(call: Call) -> None:
    _fractions(call, "d")


def _fractions(call: Call, code: str) -> None:
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
            if isinf(number) and text != "inf":  # a literal beyond the range of float
                raise OverflowError
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


def _limited(call: Call, size: int) -> None:
    if size < 0:
        raise Fault(f"{call.name}: size {size} is negative")
    call.assembly.program.volume.fill(size)


@handler(".fill")
def _fill(call: Call) -> None:
    given = call.numbers(1, 3)
    repeat, size, value = (*given, *(1, 0)[len(given) - 1 :])
    if not 0 <= size <= 8:
        raise Fault(f".fill: size {size} is outside 0..8")
    _limited(call, repeat * size)
    emit(call, (value & (1 << 8 * size) - 1).to_bytes(size, "little") * repeat)


def _alignment(call: Call) -> list[int]:
    """Return the numbers of an alignment, whose fill is optional: ``.p2align 4,,15``."""
    before, _, after = call.text[call.start :].partition(",")
    filled = after.lstrip().startswith(",")
    shown = replace(call, text=f"{call.text[: call.start]}{before},0{after}") if filled else call
    return shown.numbers(1, 3)


@handler(".align", ".p2align")
def _align(call: Call) -> None:
    power, *rest = _alignment(call)
    if not 0 <= power <= 12:
        raise Fault(
            f"{call.name} {power} is outside 0..12 (a power of two; sections start on {SECTION_GRAIN} bytes)"
        )
    _pad(call, 1 << power, rest)


@handler(".balign")
def _balign(call: Call) -> None:
    alignment, *rest = _alignment(call)
    if not 1 <= alignment <= SECTION_GRAIN or alignment & (alignment - 1):
        raise Fault(f".balign {alignment}: expected a power of two up to {SECTION_GRAIN}")
    _pad(call, alignment, rest)


def _pad(call: Call, alignment: int, rest: list[int]) -> None:
    section = call.assembly.section
    size = -section.size % alignment
    if len(rest) == 2 and size > rest[1]:
        return
    if rest and rest[0]:
        emit(call, bytes([rest[0] & 0xFF]) * size)
    elif section.flags == "rx" and size:
        section.flatten()
        emit(call, bytes(size % COMPRESSED_BYTES))
        _append_nops(call, size - size % COMPRESSED_BYTES)
    else:
        reserve(call, size)


def _append_nops(call: Call, size: int) -> None:
    """Append no-operation instructions, at most one of them compressed; they belong to no source line."""
    section = call.assembly.section
    start = section.size
    count, odd = divmod(size, len(_NOP))
    section.data += (_SHORT_NOP if odd else b"") + _NOP * count
    call.assembly.compression.used |= odd > 0
    call.assembly.list_data(call.source, call.index, section, start)


@handler(".org")
def _org(call: Call) -> None:
    operands = call.operands()
    if not 1 <= len(operands.items) <= 2:
        raise Fault(f".org takes an offset and perhaps a fill byte, found {len(operands.items)} arguments")
    section = call.assembly.section
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
    call.assembly.bring(path, data, count)
    include(call, data, skip, count)


@handler(".checksum")
def _checksum(call: Call) -> None:
    """``.checksum "file", "digest"``: Fault when the included file has another checksum."""
    items = call.operands().items
    texts = [text_of(item.term) for item in items if isinstance(item.term, String)]
    if len(items) != 2 or len(texts) != 2:
        raise Fault('.checksum takes "file", "digest"')
    path, data = call.included(texts[0])
    found, wanted = checksum(data), texts[1]
    if found != wanted:
        message = f"{path} is not the file that this program was written with: checksum {found}, not {wanted}"
        raise Fault(message, items[0].at, "write both again")
