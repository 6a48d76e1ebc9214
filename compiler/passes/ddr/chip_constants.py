"""Constants of several chips in one program: what each chip has in the place of the constants of the first.

All chips run the same text. Their programs differ in the bytes of ``.ddr``, which the joined one has once for
every chip with constants of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from asm.image import Image, Segment, section_of_chips
from asm.image.chips import REPLACED
from compiler.codegen import CONSTANTS_FILE
from compiler.codegen.program import checksums
from compiler.graph import GraphError
from tx8isa.tools.files import Bytes

_CHECKSUM = ".checksum "


def same_code(one: str, other: str) -> bool:
    """Whether two texts differ in nothing but the constants' file."""
    return _without_checksum(one) == _without_checksum(other)


def _without_checksum(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.lstrip().startswith(_CHECKSUM)]


def with_chips(
    text: str, constants: Bytes, image: Image, others: Mapping[tuple[int, ...], Image]
) -> tuple[str, Bytes]:
    """Text and constants of a program for the first chips, with those of other chips behind them."""
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


def _segment(image: Image) -> Segment | None:
    return next((segment for segment in image.segments if segment.section == REPLACED), None)
