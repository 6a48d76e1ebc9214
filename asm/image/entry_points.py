"""Images of several networks, and the selection of one.

The networks share one memory, so that one network reads the states that another one wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tx8isa.tools.suggestions import hint

from .types import Image, ImageError


def image_of_entry(image: Image, name: str) -> Image:
    """Select the entry and the buffers of one network; ImageError for an unknown name."""
    for found in image.entry_points:
        if found.name == name:
            buffers = (*image.buffers, *found.buffers)
            return replace(image, entry=found.address, buffers=buffers, entry_points=())
    names = [found.name for found in image.entry_points]
    known = f"its entries: {', '.join(names)}{hint(name, names)}" if names else "it has no named entries"
    raise ImageError(f"the program has no entry '{name}'; {known}")


def problems_of_entries(image: Image) -> Iterator[str]:
    """A message for each mistake in the list of networks, as ``check.problem`` words them."""
    if image.entry_points and image.entry != image.entry_points[0].address:
        first = image.entry_points[0]
        yield f"entry {image.entry:#x} is not that of the first entry point {first.name}, {first.address:#x}"
    if image.entry_points and image.tile_entries:
        yield "a program with entry points has entries of single tiles"
    inputs = [buffer.name for buffer in image.buffers if buffer.kind != "constant"]
    if image.entry_points and inputs:
        yield f"buffer {inputs[0]}: in a program with entry points an input or output belongs to one of them"
