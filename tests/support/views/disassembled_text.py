"""Text to image, image to text, and the comparison of both."""

from __future__ import annotations

from asm.image import Image, Segment


def text_section(code: bytes, data: bool) -> Image:
    """An image with only these bytes as code; ``data``: marked as no RISC-V instructions."""
    base = 0x8000_0000
    body = (0x13).to_bytes(4, "little") + code
    ranges = ((base + 4, base + len(body)),) if data else ()
    return Image(base, (Segment(".text", base, body, len(body), "rx"),), data_ranges=ranges)


def instruction_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.startswith("    ")]
