"""Program text to the words the kernel core's loop works on, one for each two bytes.

    [7:0] operation, [15:8] rd (the sink for x0), [23:16] rs1, [31:24] rs2, [63:32] immediate, signed

Registers are positions in ``state``. All operations of the floating-point unit are FLOAT; their immediate is
[7:0] number in ``float_unit``, [10:8] rounding mode, [22:16] rs3.

An instruction may begin at every two bytes (a *parcel*). So each parcel has the word of the instruction that
begins there, even inside another instruction. A compressed instruction is decoded as its full form, with an
operation of its own that says how long it is.

NOTHING marks a place without an instruction, and the inside of a wide one. A wide instruction is checked
completely when it is decoded. Its immediate is the record number and the worker (``tables.WORKER_SHIFT``),
its rd the length in parcels.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from emulator.engines import tables
from emulator.memory import state
from tx8isa.records.record import Instruction
from tx8isa.riscv.compressed import COMPRESSED_BYTES, FULL_LENGTH
from tx8isa.riscv.float_arithmetic import DYN
from tx8isa.riscv.format import RESERVED_ROUNDING, SCALAR_BYTES, Encoding, Field, Scalar
from tx8isa.riscv.hints import ENTERS, LEAVES, hint
from tx8isa.riscv.registers import CSR_NAMES, CSRS
from tx8isa.table import compressed as rvc
from tx8isa.table import encoding
from tx8isa.table import scalar as rv

from .float_unit import float_records, host_groups, on_host

# Operations of a decoded word
NOTHING = 0  # no instruction begins here
FIRST_SCALAR = 1  # and the following ones: the scalar records in their order
FIRST_COMPRESSED = FIRST_SCALAR + len(rv.scalar_instructions())  # and the following ones: ``shortened``
HINT = 252  # a hint of ``tx8isa.riscv.hints``, its number in the immediate
TRANSLATED = 253  # an entrance to translated code, whose address is in all bits above
FLOAT = 254  # an operation of the floating-point unit
ENGINE = 255  # an engine instruction

RD_BYTE = 0xFF00  # the byte of a decoded word that names rd

Words = npt.NDArray[np.int64]

CLOCKS = frozenset(number for number, name in CSR_NAMES.items() if name in ("cycle", "mcycle", "time"))
"""Numbers of the registers that read simulated time: cycles, also ``time`` (proposed)."""


PARCEL = COMPRESSED_BYTES
"""Bytes of program text for each word."""
FULL = SCALAR_BYTES // PARCEL
"""Parcels of a scalar instruction that is not compressed."""
_OPCODE = 0x7F
_QUADRANT = 0xE003
"""Bits that decide between the scalar records, and between the compressed ones."""


@cache
def shortened() -> tuple[Scalar, ...]:
    """Return the scalar instructions that compressed ones expand to, each once."""
    return tuple({expansion.full.mnemonic: expansion.full for expansion in rvc.expansions()}.values())


@cache
def operation_records() -> dict[int, tuple[Scalar, int]]:
    """Return, for each operation of a word, its scalar instruction and its length in parcels."""
    full = enumerate(rv.scalar_instructions(), FIRST_SCALAR)
    short = enumerate(shortened(), FIRST_COMPRESSED)
    return {**{op: (record, FULL) for op, record in full}, **{op: (record, 1) for op, record in short}}


def parcels(word: int) -> int:
    """Return the length of a decoded word's instruction; without one, a scalar instruction's."""
    operation = word & 0xFF
    if operation == ENGINE:
        return word >> 8 & 0xFF
    return operation_records()[operation][1] if operation in operation_records() else FULL


def predecode(text: bytes) -> Words:
    """Decode a stretch of program text, whose length is a multiple of 2."""
    halves = np.frombuffer(text, dtype="<u2").astype(np.int64)
    words = halves.copy()
    words[:-1] |= halves[1:] << 16
    decoded = np.zeros(len(words), dtype=np.int64)
    full = words & FULL_LENGTH == FULL_LENGTH
    _decode_compressed(halves, np.flatnonzero(~full), decoded)
    full[-1:] = False  # the end cuts it off
    _decode_scalars(words, np.flatnonzero(full), decoded)
    for number in (ENTERS, LEAVES):
        decoded[full & (words == hint(number))] = HINT | number << 32
    wide = np.flatnonzero(words & encoding.MARK == encoding.MARK)
    end = 0
    for at in wide.tolist():
        if at < end:
            continue
        end = at + _decode_wide(text, at, decoded)
    return decoded


def _decode_wide(text: bytes, at: int, decoded: Words) -> int:
    """Decode the wide instruction at a parcel; return its length, 1 without one."""
    found = encoding.decode(text, PARCEL * at)
    if isinstance(found, encoding.IllegalBytes):
        return 1
    length = found.size // PARCEL
    decoded[at : at + length] = NOTHING
    record = tables.numbers()[found.instruction.mnemonic] | found.worker << tables.WORKER_SHIFT
    decoded[at] = ENGINE | length << 8 | record << 32
    return length


def _decode_scalars(words: Words, places: Words, decoded: Words) -> None:
    floats = {record.mnemonic: number for number, record in enumerate(float_records())}
    found, opcodes = words[places], words[places] & _OPCODE
    by_opcode = {opcode: np.flatnonzero(opcodes == opcode) for opcode in set(opcodes.tolist())}
    for number, record in enumerate(rv.scalar_instructions()):
        among = by_opcode.get(record.match & _OPCODE)
        if among is None:
            continue
        among = among[found[among] & record.mask == record.match]
        if len(among) and record.mnemonic in floats:
            decoded[places[among]] = _pack_float(floats[record.mnemonic], record, found[among])
        elif len(among):
            values = _values(record, found[among])
            decoded[places[among]] = _pack(FIRST_SCALAR + number, record, values)


def _decode_compressed(halves: Words, places: Words, decoded: Words) -> None:
    operations = {record.mnemonic: FIRST_COMPRESSED + n for n, record in enumerate(shortened())}
    found, quadrants = halves[places], halves[places] & _QUADRANT
    by_quadrant = {key: np.flatnonzero(quadrants == key) for key in set(quadrants.tolist())}
    for expansion in rvc.expansions():
        record = expansion.record
        among = by_quadrant.get(record.match & _QUADRANT)
        if among is None:
            continue
        among = among[found[among] & record.mask == record.match]
        values = _values(record, found[among])
        legal = np.ones(len(among), dtype=bool)
        for field in record.fields:
            legal &= ~np.isin(values[field.name], field.never)
        among = among[legal]
        if len(among):
            own = {name: value[legal] for name, value in values.items()}
            zero = np.zeros(len(among), dtype=np.int64)
            full = {
                n: own[given] if isinstance(given, str) else zero + given for n, given in expansion.fields
            }
            decoded[places[among]] = _pack(operations[expansion.full.mnemonic], expansion.full, full)


@cache
def reads_hart() -> int:
    """Return the decoded word of an instruction that only reads mhartid, with 0 in the byte of rd."""
    (read,) = (record for record in rv.scalar_instructions() if record.mnemonic == "csrrs")
    word = read.match | CSRS["mhartid"] << 20
    return int(predecode(word.to_bytes(4, "little"))[0]) & ~RD_BYTE


@cache
def host_operation(mnemonic: str) -> int:
    """Return the loop's operation for an instruction: that of the first instruction in its group; FLOAT
    without a group."""
    names = [record.mnemonic for record in rv.scalar_instructions()]
    return FIRST_SCALAR + names.index(host_groups()[mnemonic][0]) if mnemonic in host_groups() else FLOAT


def float_operations() -> list[int]:
    """Return the operations that the loop may leave to the floating-point unit."""
    return sorted({FLOAT, *(host_operation(record.mnemonic) for record in float_records())})


def _pack(operation: int, record: Scalar, values: dict[str, Words]) -> Words:
    fields = _places(record, values)
    zero = np.zeros(len(next(iter(values.values()))) if values else 1, dtype=np.int64)
    immediate = zero
    for name in ("imm", "target", "shamt", "csr"):
        immediate = fields.get(name, immediate)
    second = fields.get("rs2", fields.get("zimm", zero))
    rd, rs1 = fields.get("rd", zero + state.SINK), fields.get("rs1", zero)
    return operation | rd << 8 | rs1 << 16 | second << 24 | immediate << 32


def _pack_float(number: int, record: Scalar, words: Words) -> Words:
    """Return FLOAT, or an operation of the loop that may suffice.

    A missing operand repeats the first one, so that it does not affect the test for NaN-boxing.
    """
    fields = _places(record, _values(record, words))
    rs2, rs3 = (fields.get(name, fields["rs1"]) for name in ("rs2", "rs3"))
    mode = fields.get("rm", np.zeros(len(words), dtype=np.int64))
    operation = host_operation(record.mnemonic)
    in_loop = [code for code in range(DYN + 1) if on_host(record, code)]
    packed = np.where(np.isin(mode, in_loop), operation, FLOAT)
    packed |= fields["rd"] << 8 | fields["rs1"] << 16 | rs2 << 24 | number << 32 | mode << 40 | rs3 << 48
    return np.where(np.isin(mode, RESERVED_ROUNDING), NOTHING, packed)


def _values(record: Encoding, words: Words) -> dict[str, Words]:
    """Return field values by name."""
    return {field.name: _extract(field, words) for field in record.fields}


def _places(record: Scalar, values: dict[str, Words]) -> dict[str, Words]:
    """Return field values with registers as places in the state; writes to x0 go to a separate place."""
    fields = {}
    for field in record.fields:
        found = values[field.name]
        if field.kind == "float":
            found = found + state.F
        elif field.name == "rd":
            found = np.where(found == 0, state.SINK, found + state.X)
        fields[field.name] = found
    return fields


def _extract(field: Field, words: Words) -> Words:
    value = np.full(len(words), field.first, dtype=np.int64)
    for word_bit, value_bit, width in field.pieces:
        value += (words >> word_bit & (1 << width) - 1) << value_bit
    value = np.where(value > field.maximum, value - 2 * (field.maximum + field.unit), value)
    return value % field.modulus if field.modulus else value


def reads_clock(decoded: Words) -> bool:
    """Return True if decoded words access one of ``CLOCKS``."""
    kinds = [record.kind for record in rv.scalar_instructions()]
    operations = [FIRST_SCALAR + number for number, kind in enumerate(kinds) if kind == "csr"]
    found = decoded[np.isin(decoded & 0xFF, operations)] >> 32
    return bool(np.isin(found & 0xFFF, list(CLOCKS)).any())


def explain(text: bytes, offset: int) -> str:
    """Return the reason why no instruction begins at a byte offset of the text."""
    word = int.from_bytes(text[offset : offset + 4], "little")
    if encoding.is_wide(word):
        found = encoding.decode(text, offset)
        if isinstance(found, encoding.IllegalBytes):
            return found.reason
    shown = f"0x{word & 0xFFFF:04x}" if rvc.is_compressed(word) else f"0x{word:08x}"
    inside = _surrounding(text, offset)
    if inside:
        return f"{shown} lies inside the wide instruction {inside.mnemonic}"
    return f"{shown} is not an instruction"


def _surrounding(text: bytes, offset: int) -> Instruction | None:
    """Return the wide instruction that covers ``offset`` without starting there."""
    for start in range(max(offset % PARCEL, offset - 4 * 63), offset, PARCEL):
        found = encoding.decode(text, start)
        if isinstance(found, encoding.DecodedInstruction) and start + found.size > offset:
            return found.instruction
    return None
