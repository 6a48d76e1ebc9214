"""Segments for some chips only: what a chip has in its DDR in place of what the others have there.

``.ddr.chips.1.3`` is the content of ``.ddr`` on chips 1 and 3, at the same addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from .types import Image, Segment

REPLACED = ".ddr"
"""The section in whose place another one is on some chips."""
OF_CHIPS = ".ddr.chips."
"""Such sections begin with this; the numbers of the chips follow, with dots between them."""
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


def section_of(chips: tuple[int, ...]) -> str:
    """The name of the section of some chips."""
    return OF_CHIPS + ".".join(map(str, chips))


def chips_of(section: str) -> tuple[int, ...]:
    """The chips that a section is for; empty for one of all chips."""
    numbers = section.removeprefix(OF_CHIPS)
    if numbers == section or not _NUMBERS.fullmatch(numbers):
        return ()
    return tuple(map(int, numbers.split(".")))


def image_of_chip(image: Image, chip: int) -> Image:
    """The image with the segments that a chip has; the same object if all chips have the same."""
    if not any(segment.section.startswith(OF_CHIPS) for segment in image.segments):
        return image
    own = [segment for segment in image.segments if chip in chips_of(segment.section)]
    common = (segment for segment in image.segments if not segment.section.startswith(OF_CHIPS))
    kept = (segment for segment in common if not own or segment.section != REPLACED)
    return replace(image, segments=(*kept, *own))


def problems_of_chips(image: Image) -> Iterator[str]:
    """A message for each mistake in the segments that single chips have, as ``check.problem`` words them."""
    replaced = next((segment for segment in image.segments if segment.section == REPLACED), None)
    seen: set[int] = set()
    for segment in image.segments:
        if not segment.section.startswith(OF_CHIPS):
            continue
        chips = chips_of(segment.section)
        if not chips:
            yield f"segment {segment.section}: expected numbers of chips after {OF_CHIPS}, such as 1.3"
        if seen & set(chips) or len(set(chips)) < len(chips):
            yield f"segment {segment.section}: a chip has two segments in place of {REPLACED}"
        seen |= set(chips)
        if replaced is None or _place(replaced) != _place(segment):
            yield f"segment {segment.section}: expected the address, size and flags of {REPLACED}"


def _place(segment: Segment) -> tuple[int, int, str]:
    return segment.address, segment.size, segment.flags
