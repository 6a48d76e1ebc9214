"""Constants of several chips in one program: each chip finds its own where the first chip has its constants.

All chips run the same text. Their programs differ in the bytes of ``.ddr``. The joined program has these once
for every chip with constants of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asm.image import Image, Segment, section_of_chips
from asm.image.chips import REPLACED
from compiler.codegen import CONSTANTS_FILE
from compiler.codegen.program import checksums
from compiler.graph import GraphError
from tx8isa.tools.files import Bytes

_CHECKSUM = ".checksum "
BEGIN = "chips.constants"
"""The symbol of the place where constants of stages begin."""


def same_code(one: str, other: str) -> bool:
    """True if two texts differ only in the constants' file."""
    return _without_checksum(one) == _without_checksum(other)


def _without_checksum(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.lstrip().startswith(_CHECKSUM)]


def with_chips(
    text: str, constants: Bytes, image: Image, others: Mapping[tuple[int, ...], Image]
) -> tuple[str, Bytes]:
    """Return text and constants of a program for the first chips, followed by the constants of other
    chips."""
    own = _segment(image)
    pieces: list[Bytes] = [constants]
    lines = _without_checksum(text)
    for chips, other in others.items():
        replaced = _segment(other)
        if (own is None) != (replaced is None) or (own and replaced and own.size != replaced.size):
            raise GraphError([f"internal error: chips {list(chips)} have another layout of constants"])
        if own is None or replaced is None or own.data == replaced.data:
            continue
        at = sum(map(len, pieces))
        pieces.append(replaced.data)
        lines += [
            f"        .section {section_of_chips(chips)}",
            f'        .incbin "{CONSTANTS_FILE}", {at}, {len(replaced.data)}',
        ]
        if replaced.size > len(replaced.data):
            lines.append(f"        .space {replaced.size - len(replaced.data)}")
    blob = b"".join(pieces)
    return "\n".join([*lines, *checksums(blob)]) + "\n", blob


@dataclass(frozen=True)
class PlacedConstants:
    """Constants of a chip: the offset of each symbol, and the bytes from the beginning of a bank."""

    places: Mapping[str, int]
    data: bytes
    bank: int


def with_overlaid(stages: Sequence[Mapping[tuple[int, ...], PlacedConstants]]) -> tuple[list[str], bytes]:
    """Lines that declare the constants of all stages of a pipeline at the same place, and their bytes.

    ``stages`` has, for each stage, the chips with the same constants. Chip 0 uses the first set.
    """
    sets = [each for stage in stages for each in stage.items()]
    size = max(len(own.data) for _, own in sets)
    pieces: list[bytes] = []
    lines: list[str] = []
    for number, (chips, own) in enumerate(sets):
        section = section_of_chips(chips) if number else REPLACED
        lines.append(f"        .section {section}")
        if not number:
            lines += [f"        .balign {own.bank}", f"{BEGIN}:"]
        at = sum(map(len, pieces))
        lines.append(f'        .incbin "{CONSTANTS_FILE}", {at}, {len(own.data)}')
        if size > len(own.data):
            lines.append(f"        .space {size - len(own.data)}")
        pieces.append(own.data)
    places = [next(iter(stage.values())).places for stage in stages]
    lines += [f"        .equ {name}, {BEGIN}{at:+#x}" for each in places for name, at in each.items()]
    return lines, b"".join(pieces)


def _segment(image: Image) -> Segment | None:
    return next((segment for segment in image.segments if segment.section == REPLACED), None)
