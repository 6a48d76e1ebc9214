"""Program text to the words the kernel core's loop works on, one for each four bytes.

    [7:0] operation, [15:8] rd (the sink for x0), [23:16] rs1, [31:24] rs2, [63:32] immediate, signed

Operation 0 is "no instruction here": an illegal word, or the inside of a wide instruction. A wide
instruction is checked completely when it is decoded; its immediate is the record number, its rd the length
in words.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tx8isa import encoding, rv
from tx8isa.record import Instruction

from . import state, tables

NOTHING = 0
FIRST_SCALAR = 1
ENGINE = 255

Words = npt.NDArray[np.int64]


def predecode(text: bytes) -> Words:
    """Decoded words of a stretch of program text; its length is a multiple of 4."""
    words = np.frombuffer(text, dtype="<u4").astype(np.int64)
    decoded = _scalars(words)
    wide = np.flatnonzero(words & encoding.MARK == encoding.MARK)
    end = 0
    for at in wide.tolist():
        if at < end:
            continue
        end = at + _decode_wide(text, at, decoded)
    return decoded


def _decode_wide(text: bytes, at: int, decoded: Words) -> int:
    """Decode the wide instruction at word ``at``; its length in words, 1 when there is none."""
    found = encoding.decode(text, 4 * at)
    if isinstance(found, encoding.Illegal):
        return 1
    length = found.size // 4
    decoded[at : at + length] = NOTHING
    if found.worker == 0:
        decoded[at] = ENGINE | length << 8 | tables.numbers()[found.instruction.mnemonic] << 32
    return length


def _scalars(words: Words) -> Words:
    decoded = np.zeros(len(words), dtype=np.int64)
    for number, record in enumerate(rv.scalar_instructions()):
        places = np.flatnonzero(words & record.mask == record.match)
        if len(places):
            decoded[places] = _pack(FIRST_SCALAR + number, record, words[places])
    return decoded


def _pack(operation: int, record: rv.Scalar, words: Words) -> Words:
    fields = {field.name: _extract(field, words) for field in record.fields}
    zero = np.zeros(len(words), dtype=np.int64)
    rd = fields.get("rd", zero)
    rd = np.where(rd == 0, state.SINK, rd)
    immediate = zero
    for name in ("imm", "target", "shamt", "csr"):
        immediate = fields.get(name, immediate)
    second = fields.get("rs2", fields.get("zimm", zero))
    return operation | rd << 8 | fields.get("rs1", zero) << 16 | second << 24 | immediate << 32


def _extract(field: rv.Field, words: Words) -> Words:
    value = np.zeros(len(words), dtype=np.int64)
    for word_bit, value_bit, width in field.pieces:
        value |= (words >> word_bit & (1 << width) - 1) << value_bit
    return np.where(value > field.maximum, value - 2 * (field.maximum + field.unit), value)


def explain(text: bytes, offset: int) -> str:
    """Why there is no instruction at a byte offset of the text."""
    word = int.from_bytes(text[offset : offset + 4], "little")
    if encoding.is_wide(word):
        found = encoding.decode(text, offset)
        if isinstance(found, encoding.Illegal):
            return found.reason
        if found.worker:
            return f"worker {found.worker} is not emulated; expected worker 0"
    inside = _surrounding(text, offset)
    if inside:
        return f"0x{word:08x} lies inside the wide instruction {inside.mnemonic}"
    return f"0x{word:08x} is not an instruction"


def _surrounding(text: bytes, offset: int) -> Instruction | None:
    """The wide instruction that covers ``offset`` without starting there."""
    for start in range(max(0, offset - 4 * 63), offset, 4):
        found = encoding.decode(text, start)
        if isinstance(found, encoding.Decoded) and start + found.size > offset:
            return found.instruction
    return None
