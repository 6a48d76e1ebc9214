"""Compiles a graph: runs the passes, writes the assembly text and assembles it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

import asm
from asm.diagnostics import AsmError
from asm.image import Image, image_parts
from compiler.codegen.program import CONSTANTS_FILE, write_program
from compiler.dialect.verifier import Verifier
from compiler.evaluation.storage import STORAGE
from compiler.passes.base import Context
from compiler.passes.emit import foreign_buffers, program_text
from compiler.passes.patterns import load_patterns
from compiler.passes.report import CoreWork, Report, report_of
from tx8isa.machine.description import Machine, load_machine
from tx8isa.numbers.formats import Format
from tx8isa.tools.suggestions import hint

from .graph import Graph, GraphError
from .passes import PIPELINE
from .search import EFFORTS, SearchProgress, read_plan

DEFAULT_DTYPE = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
"""Compute formats by the graph's float dtype, used when no format is chosen."""
RESIDENCY = ("on", "off")
"""Whether values between groups may stay in the scratchpads."""
DEFAULT_TILES = 16
DEFAULT_SEARCH = "fast"
_BARRIER_TILES = 64
"""A barrier names its tiles by the bits of one register."""

AfterPass = Callable[[str, ModuleOp], None]
"""Is called after every pass with its name and the module."""


@dataclass(frozen=True, repr=False)
class Program:
    """A compiled graph. The text includes ``constants`` as the file ``prog.const``."""

    graph: Graph
    dtype: str
    tiles: int
    text: str
    constants: bytes
    image: Image
    machine: Machine
    timing: dict[str, float] = field(default_factory=dict)
    """Seconds per pass, and of the assembler."""
    report: Report | None = None
    """The decisions of the compilation; None for a program from the cache."""
    core_work: CoreWork | None = None
    """What the kernel core computes element by element, which is slow; None if that hardly counts."""

    def __repr__(self) -> str:
        size = f"{len(self.text.splitlines()):,} lines, {len(self.constants):,} bytes of constants"
        return f"<compiler.Program {self.graph.name}: {self.dtype}, {self.tiles} tiles, {size}>"

    @cached_property
    def image_file(self) -> Sequence[bytes]:
        """The bytes of prog.bin in pieces, so that large constants, which the image has, are not copied."""
        return image_parts(self.image)

    def write(
        self, folder: Path, text_only: bool = False, more: Mapping[Path, Sequence[bytes]] | None = None
    ) -> None:
        """Write prog.s, prog.const, prog.bin unless ``text_only``, and ``more`` files, given in pieces.

        Either all files are written or none.
        """
        write_program(folder, self.text, self.constants, None if text_only else self.image_file, more)


def compile_graph(
    graph: Graph,
    dtype: str | None = None,
    tiles: int | None = None,
    machine: Machine | None = None,
    after_pass: AfterPass | None = None,
    patterns: str = "default",
    search: str = DEFAULT_SEARCH,
    plan: Path | None = None,
    search_progress: SearchProgress | None = None,
    residency: str = "on",
) -> Program:
    """Compile a checked graph.

    ``dtype`` (fp32, tf32, fp16, bf16) is the format in which floats are stored and computed, by default that
    of the graph's first float input. ``tiles`` is how many tiles take part: by default 16, or all of a
    smaller machine. ``after_pass`` is called after every pass, ``search_progress`` before every candidate of
    the search. ``patterns`` names a set of patterns or a file of them (docs/groups.md); with ``none`` every
    operation has a phase of its own. ``search`` (off, fast, full) says how many ways of dividing the work are
    tried; a ``plan`` of an earlier compilation takes its place. With ``residency`` off, all values between
    groups are in DDR. GraphError for a graph that cannot be compiled.
    """
    dtype = dtype or default_dtype(graph)
    context = context_of(graph, dtype, tiles, machine, patterns, search, plan, residency)
    context.search_progress = search_progress
    machine, tiles = context.machine, context.tiles
    timing: dict[str, float] = {}
    module = _run_passes(context, timing, after_pass)
    start = time.perf_counter()
    text, constants = program_text(context, module)
    context.data.clear()  # the constants' file has them now
    image = _assemble(text, constants, machine)
    records = foreign_buffers(context, module, image)
    if records:
        # Records take no memory, so the other addresses do not change. A program needs an instruction.
        text += records
        recorded = _assemble(f"        ecall\n{records}", b"", machine).buffers
        image = replace(image, buffers=(*image.buffers, *recorded))
    timing["assemble"] = time.perf_counter() - start
    report = report_of(context, module, image)
    return Program(graph, dtype, tiles, text, constants, image, machine, timing, report, report.core_work)


def context_of(
    graph: Graph,
    dtype: str | None,
    tiles: int | None,
    machine: Machine | None,
    patterns: str = "default",
    search: str = DEFAULT_SEARCH,
    plan: Path | None = None,
    residency: str = "on",
) -> Context:
    """The context in which the passes start; the arguments are those of :func:`compile_graph`."""
    machine = machine if machine is not None else load_machine(None)
    tiles = min(DEFAULT_TILES, machine.tiles) if tiles is None else tiles
    most = min(machine.tiles, _BARRIER_TILES)
    if not 1 <= tiles <= most:
        raise GraphError([f"{tiles} tiles: expected 1 to {most} on machine {machine.name}"])
    if search not in EFFORTS:
        near = hint(search, EFFORTS)
        raise GraphError([f"unknown search '{search}'; allowed are {', '.join(EFFORTS)}{near}"])
    if residency not in RESIDENCY:
        near = hint(residency, RESIDENCY)
        raise GraphError([f"unknown residency '{residency}'; allowed are {', '.join(RESIDENCY)}{near}"])
    compute = compute_format(dtype or default_dtype(graph))
    return Context(
        graph,
        machine,
        tiles,
        compute,
        patterns=load_patterns(patterns),
        residency=residency == "on",
        effort=EFFORTS[search],
        plan=None if plan is None else read_plan(plan),
    )


def default_dtype(graph: Graph) -> str:
    """The compute format of the graph's first float tensor; fp32 if it has none."""
    names = [tensor.dtype for tensor in (*graph.inputs, *graph.outputs) if tensor.is_float]
    return DEFAULT_DTYPE[names[0]] if names else "fp32"


def compute_format(dtype: str) -> Format:
    """The format of a --dtype; GraphError for one that is not supported."""
    if dtype == "int8":
        raise GraphError(
            ["--dtype int8: no format of floats, bytes need none; allowed are " + ", ".join(STORAGE)]
        )
    if dtype not in STORAGE:
        raise GraphError([f"unknown dtype '{dtype}'; allowed are {', '.join(STORAGE)}{hint(dtype, STORAGE)}"])
    return Format.parse(dtype)


def _run_passes(context: Context, timing: dict[str, float], after_pass: AfterPass | None) -> ModuleOp:
    module, verifier = ModuleOp([]), Verifier()
    for step in PIPELINE:
        start = time.perf_counter()
        step.run(context, module)
        try:
            if step is PIPELINE[-1]:
                module.verify()
            else:
                verifier.verify(module)
        except VerifyException as error:
            raise RuntimeError(f"pass {step.name} left an invalid module: {error}") from error
        timing[step.name] = time.perf_counter() - start
        if after_pass is not None:
            after_pass(step.name, module)
    return module


def _assemble(text: str, constants: bytes, machine: Machine) -> Image:
    try:
        return asm.assemble(text, "prog.s", machine=machine, given={CONSTANTS_FILE: constants})
    except AsmError as error:
        first = str(error).partition("\n")[0]
        raise GraphError([f"internal error: the generated assembly is wrong: {first}"]) from error


def pass_names() -> Sequence[str]:
    """The names of the passes, in order."""
    return [step.name for step in PIPELINE]
