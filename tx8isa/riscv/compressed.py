"""The record that describes one compressed instruction: 16 bits that stand for a scalar instruction.

Source: RISC-V manual, volume I, chapter "C" (spec). A pattern is written like its diagrams: bit strings and
fields from bit 15 down to bit 0, a field of scattered bits as ``uimm[5:4|9:6|2|3]``. A quote marks a register
field of three bits, which names x8..x15 or f8..f15. A compressed instruction expands to a scalar instruction,
so it has no body of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from .format import Encoding, Field, FieldKind, TableError, make_field, runs

COMPRESSED_BYTES = 2
"""The length of a compressed instruction."""

FULL_LENGTH = 0b11
"""The low bits of an instruction of four bytes or more; compressed instructions have other low bits."""

_KINDS: dict[str, tuple[str, FieldKind]] = {
    "rd": ("rd", "register"),
    "rs1": ("rs1", "register"),
    "rs2": ("rs2", "register"),
    "fd": ("rd", "float"),
    "fs2": ("rs2", "float"),
    "imm": ("imm", "signed"),
    "upper": ("imm", "signed"),
    "uimm": ("uimm", "unsigned"),
    "shamt": ("shamt", "unsigned"),
    "target": ("target", "target"),
}
"""Word of a pattern -> name of the field, and the kind of its value.

``upper`` is the immediate of lui as it is written: 20 bits whose upper ones repeat the sign.
"""
_UPPER_MODULUS = 1 << 20
_REGISTER, _SHORT_REGISTER, _FIRST = "4:0", "2:0", 8
_WORD = re.compile(r"([a-z][a-z0-9]*)('?)(?:\[([0-9:|]+)\])?")


@dataclass(frozen=True, slots=True)
class Compressed(Encoding):
    """One compressed instruction.

    ``expansion`` is the equivalent scalar instruction over this one's fields; ``also`` has other scalar
    instructions for which an assembler chooses it. Values in ``hints`` make it a hint without effect, which
    an assembler does not choose. ``optional`` is the value of the last operand when it is not written.
    """

    expansion: str
    also: tuple[str, ...]
    hints: Mapping[str, tuple[int, ...]]
    optional: int | None

    @property
    def omitted(self) -> int | None:
        return self.optional

    def excludes(self, other: Compressed) -> bool:
        """Return True if reserved field values keep this encoding apart from another one."""
        for field in self.fields:
            bits = sum((1 << width) - 1 << at for at, _, width in field.pieces)
            if other.mask & bits == bits and any(field.insert(n) == other.match & bits for n in field.never):
                return True
        return False


def compressed(
    syntax: str,
    pattern: str,
    expansion: str,
    *,
    example: str,
    never: Mapping[str, tuple[int, ...]] | None = None,
    hints: Mapping[str, tuple[int, ...]] | None = None,
    also: tuple[str, ...] = (),
    optional: int | None = None,
) -> Compressed:
    """Make a record. ``never`` has field values that are reserved or encode other instructions.

    TableError when the pattern is not an encoding of 16 bits.
    """
    mnemonic, _, operands = syntax.partition(" ")
    mask, match, fields = _parse(mnemonic, pattern, dict(never or {}))
    excluded = "".join(f"; {name} is not {_either(values)}" for name, values in (never or {}).items())
    return Compressed(
        mnemonic=mnemonic,
        syntax=operands,
        operands=tuple(operands.split(", ")) if operands else (),
        pattern=pattern,
        mask=mask,
        match=match,
        fields=fields,
        example=example,
        doc=f"Short for `{expansion}`{excluded}.",
        size=COMPRESSED_BYTES,
        expansion=expansion,
        also=also,
        hints=dict(hints or {}),
        optional=optional,
    )


def _either(values: tuple[int, ...]) -> str:
    return " or ".join(map(str, values))


def _parse(
    mnemonic: str, pattern: str, never: dict[str, tuple[int, ...]]
) -> tuple[int, int, tuple[Field, ...]]:
    """Mask of the fixed bits, their values, and the fields of a pattern."""
    mask = match = 0
    position = 8 * COMPRESSED_BYTES
    pieces: dict[str, list[tuple[int, int, int]]] = {}
    words: dict[str, str] = {}
    for token in pattern.split():
        if not token.strip("01"):
            position -= len(token)
            mask |= (1 << len(token)) - 1 << max(position, 0)
            match |= int(token, 2) << max(position, 0)
            continue
        word = _WORD.fullmatch(token)
        if word is None or word[1] not in _KINDS:
            raise TableError(f"{mnemonic}: '{token}' is neither bits nor one of {' '.join(_KINDS)}")
        name, _ = _KINDS[word[1]]
        words[name] = word[1] + word[2]
        for high, low in runs(word[3] or (_SHORT_REGISTER if word[2] else _REGISTER)):
            position -= high - low + 1
            pieces.setdefault(name, []).append((position, low, high - low + 1))
    if position != 0:
        raise TableError(f"{mnemonic}: the pattern '{pattern}' has {16 - position} bits, not 16")
    fields = (_field(mnemonic, words[name], pieces[name], never.get(name, ())) for name in pieces)
    return mask, match, tuple(fields)


def _field(mnemonic: str, word: str, pieces: list[tuple[int, int, int]], never: tuple[int, ...]) -> Field:
    name, kind = _KINDS[word.rstrip("'")]
    field = make_field(mnemonic, name, kind, pieces, never)
    if word.endswith("'"):
        return replace(field, first=_FIRST, minimum=_FIRST, maximum=_FIRST + field.maximum)
    return replace(field, kind="unsigned", modulus=_UPPER_MODULUS) if word == "upper" else field
