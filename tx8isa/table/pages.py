"""The pages of the manual, and the files of ``insns`` that each page describes."""

from __future__ import annotations

from dataclasses import dataclass

from tx8isa.records.record import Instruction


@dataclass(frozen=True, slots=True)
class Page:
    """Engine instructions that one page describes: the records of some files of ``insns``."""

    name: str
    """Name of the page's file, without suffix."""
    title: str
    modules: tuple[str, ...]
    sections: tuple[str, ...]
    """The sections about their behaviour, in one of the chip's pages."""
    home: str = "engines"
    """Name of that page's file, without suffix."""


@dataclass(frozen=True, slots=True)
class ScalarGroup:
    """Scalar instructions of one extension: the records of one file of ``insns/riscv``."""

    module: str
    title: str


PAGES = (
    Page("arithmetic", "Arithmetic", ("ct.arith",), ("Vector forms", "Arithmetic")),
    Page("relations", "Relations", ("ct.relation",), ("Vector forms", "Relations")),
    Page("logic", "Logic", ("ct.logic", "ct.bit2fp"), ("Vector forms", "Logic")),
    Page("functions", "Functions", ("ct.math", "ct.activation"), ("Functions",)),
    Page("reductions", "Reductions", ("ct.tensor.reduce",), ("Reductions",)),
    Page(
        "pooling",
        "Pooling and resizing",
        ("ct.tensor.pool", "ct.tensor.unpool", "ct.tensor.bilinear"),
        ("Pooling", "Unpool", "Bilinear resize"),
    ),
    Page(
        "moves",
        "Moves and fills",
        ("ct.tensor.concat", "move.td_move", "move.td_aligned", "move.td_nest"),
        ("Moves", "Loop nests"),
    ),
    Page("selection", "Masked moves and tables", ("ct.mask", "ct.lut"), ("Masked moves", "Tables")),
    Page("converts", "Converts", ("ct.convert",), ("Converts",)),
    Page("counts", "Counts, extremes and factors", ("ct.peripheral",), ("Returned values", "Factors")),
    Page("random", "Random numbers", ("ct.random",), ("Random numbers",)),
    Page(
        "matrix",
        "Matrix engine",
        ("ne.gemm", "ne.conv", "ne.dwconv", "ne.bwconv"),
        ("GEMM", "Convolution", "Depthwise convolution", "Backward convolution", "Post-processing", "INT8"),
    ),
    Page("dma", "Loads and stores", ("move.dma",), ("Loads and stores",)),
    Page("scalar", "The scalar unit", ("scalar",), ("The scalar unit",), "registers"),
    Page("dte", "Copies between tiles", ("move.dte",), ("Copies between tiles",), "tile_copies"),
    Page("waiting", "Waiting", ("move.sync",), ("Queues and order", "Barriers"), "isa"),
)

SCALAR_GROUPS = (
    ScalarGroup("i", "RV64I"),
    ScalarGroup("w", "RV64I, 32-bit operations"),
    ScalarGroup("m", "M: multiply and divide"),
    ScalarGroup("f", "F: single precision"),
    ScalarGroup("d", "D: double precision"),
    ScalarGroup("c", "C: compressed instructions"),
    ScalarGroup("zicsr", "Zicsr: control and status registers"),
    ScalarGroup("zifencei", "Zifencei"),
    ScalarGroup("priv", "Machine mode"),
    ScalarGroup("cache", "Maintenance of the data cache"),
)
"""In the order of the manual, on the one page of the kernel core."""


def page_of(instruction: Instruction) -> Page | None:
    """The page that describes an instruction; None when no page names the file of its record."""
    return next((page for page in PAGES if instruction.module in page.modules), None)
