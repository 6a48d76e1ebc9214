"""Assembler, disassembler and program image of tx8.

    asm.assemble(text) -> Image        asm.disassemble(image) -> str

The modules that need the instruction records are imported on first use, so that ``import asm`` costs little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asm.diagnostics import Diagnostic
    from asm.image.types import Image
    from tx8isa.machine.description import Machine
    from tx8isa.tools.files import Bytes

__all__ = ["assemble", "assemble_file", "disassemble"]


def assemble(
    text: str,
    name: str = "<text>",
    include_dirs: Sequence[str | Path] = (),
    defines: Mapping[str, int | str] | None = None,
    machine: Machine | None = None,
    given: Mapping[str, Bytes] | None = None,
    short_branches: bool = False,
) -> Image:
    """Assemble a program.

    ``name`` stands for the text in messages and in the line table. ``include_dirs`` are searched by .include,
    .incbin and .const. ``defines`` are symbols. ``machine`` None is the TX81. ``given`` has, by name, the
    bytes of included files that need not exist. With ``short_branches`` a branch that does not reach its
    label is a mistake; otherwise it becomes the opposite branch around a jump. Raises AsmError with all
    mistakes of the text. Doubtful statements are reported as ``AsmWarning`` through the module ``warnings``.
    """
    from .assembler import assemble_text
    from .output import image_of

    assembly = assemble_text(
        text, name, include_dirs, defines or {}, machine, given=given, short_branches=short_branches
    )
    if assembly.warnings:
        _tell(assembly.warnings.values())
    return image_of(assembly)


def _tell(doubts: Iterable[Diagnostic]) -> None:
    """Issue doubts as Python warnings that name the line which called ``assemble``."""
    import warnings

    from .diagnostics import AsmWarning

    for doubt in sorted(doubts):
        warnings.warn("; ".join((doubt.head, *doubt.notes)), AsmWarning, stacklevel=3)


def assemble_file(
    path: str | Path,
    include_dirs: Sequence[str | Path] = (),
    defines: Mapping[str, int | str] | None = None,
    machine: Machine | None = None,
) -> Image:
    """Assemble a file as ``assemble`` assembles a text; Tx8Error when the file cannot be read."""
    from tx8isa.tools.files import read_text

    return assemble(read_text(path), str(path), include_dirs, defines, machine)


def disassemble(image: Image | bytes) -> str:
    """Return text that assembles to the same image; ImageError if the bytes are not an image."""
    from .disassembler import disassemble_image
    from .image import read_image

    return disassemble_image(read_image(image, "<bytes>") if isinstance(image, bytes) else image)
