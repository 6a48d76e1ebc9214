"""Segments of some chips only, such as their shards of constants.

``.ddr.chips.1.3`` replaces ``.ddr`` on chips 1 and 3, at the same addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from .types import Image, Segment

REPLACED = ".ddr"
"""The section that another one replaces on some chips."""
OF_CHIPS = ".ddr.chips."
"""The prefix of the replacing sections; the numbers of the chips follow, with dots between them."""
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


def section_of(chips: tuple[int, ...]) -> str:
    """Return the name of the section for these chips."""
    return OF_CHIPS + ".".join(map(str, chips))


def chips_of(section: str) -> tuple[int, ...]:
    """Return the chips that a section is for; empty for a section of all chips."""
    numbers = section.removeprefix(OF_CHIPS)
    if numbers == section or not _NUMBERS.fullmatch(numbers):
        return ()
    return tuple(map(int, numbers.split(".")))


def image_of_chip(image: Image, chip: int) -> Image:
    """Select the segments of one chip; returns the same object if all chips have the same segments."""
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
