"""The vocabulary of lowerings: phases of code, index expressions, registers, scratchpad buffers.

It knows engine instructions and no operator of a graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tx8isa.tools.files import Bytes, made_folder, write_together

CONSTANTS_FILE = "prog.const"
"""File with the data of the constants, which the assembly text of a program includes."""
DEFAULT_TILES = 16
"""Default number of tiles of a program; all tiles of a machine that has fewer."""


def write_program(
    folder: Path,
    text: str,
    constants: Bytes,
    image: Sequence[Bytes] | None,
    more: Mapping[Path, Sequence[Bytes]] | None = None,
) -> None:
    """Write prog.s, prog.const, prog.bin if there is an ``image``, and ``more`` files, given in pieces.

    Either all files are written or none.
    """
    files: dict[Path, Sequence[Bytes]] = {
        folder / CONSTANTS_FILE: [constants],
        folder / "prog.s": [text.encode()],
    }
    if image is not None:
        files[folder / "prog.bin"] = image
    with made_folder(folder):
        write_together({**files, **(more or {})})
