"""Compiled graphs as data. The passes are not needed here; they are imported to compile a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from asm.image import Image, image_parts
from compiler.codegen import write_program
from tx8isa.machine.description import Machine
from tx8isa.tools.files import Bytes

if TYPE_CHECKING:
    from compiler.evaluation.remarks import CoreWork, WideValues
    from compiler.graph import Graph
    from compiler.passes.base import RangedSource
    from compiler.passes.report import Report
    from compiler.search.chips import SharedGraph, TriedDegrees

Written = tuple[str, Bytes, Image]
"""The assembly text, the bytes of the constants and the image."""


@dataclass(frozen=True, repr=False)
class Program:
    """A compiled graph. The text includes ``constants`` as the file ``prog.const``."""

    graph: Graph
    dtype: str
    tiles: int
    text: str
    constants: Bytes
    image: Image
    machine: Machine
    timing: dict[str, float] = field(default_factory=dict)
    """Seconds per pass, and of the assembler."""
    report: Report | None = None
    """The decisions of the compilation; None for a program from the cache."""
    states: tuple[str, ...] = ()
    """A line for each state of the graph: the operation that writes its new value, or why that is copied."""
    core_work: CoreWork | None = None
    """The work that the kernel core does element by element; None if it hardly counts."""
    wide: WideValues | None = None
    """Values that stay in FP32 because constants show that FP16 cannot hold them."""
    spread: SharedGraph | None = None
    """The sharing of the graph by several chips; None on one."""
    tried: tuple[TriedDegrees, ...] = ()
    """The degrees of parallelism that a search has tried."""
    again: Callable[..., Program] | None = field(default=None, compare=False)
    """Compiles the graph once more by the decisions of this program; ``twin`` as in ``compile_graph``."""
    ranges: RangedSource | None = field(default=None, compare=False)
    """The ranges of dynamic sizes, and the reader of the graph at other sizes; None for one size."""

    def __repr__(self) -> str:
        size = f"{len(self.text.splitlines()):,} lines, {len(self.constants):,} bytes of constants"
        return f"<compiler.Program {self.graph.name}: {self.dtype}, {self.tiles} tiles, {size}>"

    @cached_property
    def image_file(self) -> Sequence[Bytes]:
        """Return prog.bin in pieces: large constants, which the image holds, are not copied."""
        return image_parts(self.image)

    def write(
        self, folder: Path, text_only: bool = False, more: Mapping[Path, Sequence[Bytes]] | None = None
    ) -> None:
        """Write prog.s, prog.const, prog.bin unless ``text_only``, and ``more`` files, given in pieces.

        Either all files are written or none.
        """
        write_program(folder, self.text, self.constants, None if text_only else self.image_file, more)


@dataclass(frozen=True, repr=False)
class EntryProgram:
    """Several compiled graphs in one image, by name, which share constants and states."""

    graphs: Mapping[str, Graph]
    dtype: str
    tiles: int
    text: str
    constants: Bytes
    image: Image
    machine: Machine
    states: tuple[str, ...]
    """A line for each state of each graph, as ``Program.states``."""
    spreads: Mapping[str, SharedGraph] | None = None
    """The sharing of the graphs by several chips, by entry; None on one."""
    tried: tuple[TriedDegrees, ...] = ()
    """The degrees of parallelism that were tried, with estimates; empty if the degrees were given."""

    def __repr__(self) -> str:
        return f"<compiler.EntryProgram {', '.join(self.graphs)}: {self.dtype}, {self.tiles} tiles>"

    def write(self, folder: Path, text_only: bool = False) -> None:
        """Write prog.s, prog.const, and prog.bin unless ``text_only``; either all files or none."""
        write_program(folder, self.text, self.constants, None if text_only else image_parts(self.image))
