"""Shows inputs and outputs as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from asm.image import SUM, Buffer, Image
from emulator.memory.buffers import travel_dtype
from emulator.memory.shapes import extents_of


def signature(buffers: Sequence[Buffer], image: Image) -> str:
    """Return names, types and extents of buffers: ``(x: float32 4x8)``."""
    extents = {buffer: "x".join(_extents(buffer, image)) or "scalar" for buffer in buffers}
    return f"({', '.join(f'{b.name}: {travel_dtype(b)} {shape}' for b, shape in extents.items())})"


def _extents(buffer: Buffer, image: Image) -> Iterator[str]:
    """Yield the extents of an input or output as text; for a computed extent, its upper bound."""
    for extent, most in zip(extents_of(image.shapes, buffer), buffer.shape, strict=True):
        yield f"<={most}" if extent.startswith("@") else f"({extent})" if SUM in extent else extent
