"""A compilation: the context in which the passes start, the passes in order, the text and its image."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

import asm
from asm.diagnostics import AsmError
from asm.image import Image
from compiler.codegen import CONSTANTS_FILE, DEFAULT_TILES
from compiler.codegen.program import checksums
from compiler.dialect.verifier import Verifier
from compiler.evaluation.storage import STORAGE
from compiler.graph import Graph, GraphError
from compiler.passes.ddr.chip_constants import same_code, with_chips
from compiler.passes.patterns import load_patterns
from compiler.search import EFFORTS, read_plan
from tx8isa.machine.description import Machine, load_machine
from tx8isa.numbers.formats import Format
from tx8isa.tools.files import Bytes
from tx8isa.tools.suggestions import hint

from . import PIPELINE
from .base import Context, Pass, RangedSource
from .emit import entry_record, foreign_buffers, program_text
from .graph_operations import with_constants_as_inputs

DEFAULT_DTYPE = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
"""Compute formats by the graph's float dtype, used when no format is chosen."""
RESIDENCY = ("on", "off")
"""Whether values between groups may stay in the scratchpads."""
_BARRIER_TILES = 64
"""A barrier names its tiles by the bits of one register."""

AfterPass = Callable[[str, ModuleOp], None]
"""Is called after every pass with its name and the module."""


def context_of(
    graph: Graph,
    dtype: str | None,
    tiles: int | None,
    machine: Machine | None,
    patterns: str = "default",
    search: str = "fast",
    plan: Path | None = None,
    residency: str = "on",
    spread: bool = False,
    ranges: RangedSource | None = None,
) -> Context:
    """The context in which the passes start; the arguments are those of ``compiler.driver.compile_graph``.

    ``ranges``: the sizes that a run decides. ``spread``: the graph is what each of several chips computes,
    with the exchanges between them.
    """
    machine = machine if machine is not None else load_machine(None)
    tiles = min(DEFAULT_TILES, machine.tiles) if tiles is None else tiles
    most = min(machine.tiles, _BARRIER_TILES)
    if not 1 <= tiles <= most:
        raise GraphError([f"{tiles} tiles: expected 1 to {most} on machine {machine.name}"])
    if machine.chip_count > 1 and not spread:
        ways = "--parallel says how they share the work, such as tp=2"
        raise GraphError([f"machine {machine.name} has {machine.chip_count} chips: {ways}"])
    if search not in EFFORTS:
        near = hint(search, EFFORTS)
        raise GraphError([f"unknown search '{search}'; allowed are {', '.join(EFFORTS)}{near}"])
    if residency not in RESIDENCY:
        near = hint(residency, RESIDENCY)
        raise GraphError([f"unknown residency '{residency}'; allowed are {', '.join(RESIDENCY)}{near}"])
    compute = compute_format(dtype or default_dtype(graph))
    return Context(
        with_constants_as_inputs(graph),
        machine,
        tiles,
        compute,
        patterns=load_patterns(patterns),
        residency=residency == "on",
        effort=EFFORTS[search],
        plan=None if plan is None else read_plan(plan),
        replaceable={name: graph.constants[name] for name in sorted(graph.replaceable)},
        ranges=ranges,
    )


def default_dtype(graph: Graph) -> str:
    """The compute format of the graph's first float tensor; fp32 if it has none."""
    names = [tensor.dtype for tensor in (*graph.inputs, *graph.outputs) if tensor.is_float]
    return DEFAULT_DTYPE[names[0]] if names else "fp32"


def compute_format(dtype: str) -> Format:
    """The format of a --dtype; GraphError for one that is not supported."""
    if dtype == "int8":
        wanted = "ranges of values, from samples of the inputs: --calibrate FILE.npz"
        raise GraphError([f"--dtype int8: {wanted}; formats of floats are {', '.join(STORAGE)}"])
    if dtype == "auto":
        raise GraphError(["--dtype auto: formats are chosen by tx8cc and tx8.compile, before they compile"])
    if dtype not in STORAGE:
        allowed = f"{', '.join(STORAGE)}, auto, and int8 with samples of the inputs"
        near = hint(dtype, (*STORAGE, "auto", "int8"))
        raise GraphError([f"unknown dtype '{dtype}'; allowed are {allowed}{near}"])
    return Format.parse(dtype)


def run_passes(context: Context, timing: dict[str, float], after_pass: AfterPass | None) -> ModuleOp:
    """The module after all passes, which is verified after each; ``timing`` gets the seconds of each."""
    module, verifier = ModuleOp([]), Verifier()
    for step in PIPELINE:
        start = time.perf_counter()
        run_pass(step, context, module)
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


def run_pass(step: Pass, context: Context, module: ModuleOp) -> None:
    """A pass on a module, and before on those of the graphs that control flow executes."""
    for _, inner, body in list(context.regions(module)):
        run_pass(step, inner, body)
    step.run(context, module)


def written(context: Context, module: ModuleOp) -> tuple[str, Bytes, Image]:
    """The text of a program whose passes have run, the bytes of its constants' file, and its image."""
    text, constants = program_text([(context, module)])
    context.data.clear()  # the constants' file has them now
    image = assembled(text, constants, context.machine)
    text = sealed(text, constants)
    records = foreign_buffers(context, module, image)
    if records:
        text += records
        image = replace(image, buffers=(*image.buffers, *recorded(records, context.machine).buffers))
    return text, constants, image


def written_together(networks: Mapping[str, tuple[Context, ModuleOp]]) -> tuple[str, Bytes, Image]:
    """The text of a program of several networks by name, whose passes have run, with the results of
    ``written``; the contexts have different scopes. GraphError when they cannot share their states."""
    text, constants = program_text([*networks.values()])
    for context, _ in networks.values():
        context.data.clear()
    machine = next(iter(networks.values()))[0].machine
    image = assembled(text, constants, machine)
    records = "".join(
        f"{entry_record(name, image)}\n{foreign_buffers(context, module, image)}"
        for name, (context, module) in networks.items()
    )
    made = recorded(records, machine)
    image = replace(image, entry=made.entry, entry_points=made.entry_points)
    return sealed(text, constants) + records, constants, image


def sealed(text: str, constants: Bytes) -> str:
    """A text that names the checksum of its constants; the assembler need not compute it here once more."""
    return "".join(f"{line}\n" for line in (text.rstrip("\n"), *checksums(constants)))


def recorded(records: str, machine: Machine) -> Image:
    """An image with nothing but these buffers and entry points.

    They take no memory, so they change no address of the program. A program needs an instruction.
    """
    return assembled(f"        ecall\n{records}", b"", machine)


def written_for_chips(
    parts: Mapping[tuple[int, ...], tuple[str, Bytes, Image]], machine: Machine
) -> tuple[str, Bytes, Image]:
    """The program of all chips, from those of the chips that have the same constants, chip 0 first.

    GraphError if their texts differ: constants of special values make other code.
    """
    (_, (text, constants, image)), *others = parts.items()
    for chips, (other, _, _) in others:
        if not same_code(text, other):
            what = "some of its constants are alike, or zeros, only there"
            raise GraphError([f"chip {chips[0]} would need other code than chip 0: {what}"])
    if not others:
        return text, constants, image
    made = {chips: part[2] for chips, part in others}
    text, constants = with_chips(text, constants, image, made)
    return text, constants, assembled(text, constants, machine)


def assembled(text: str, constants: Bytes, machine: Machine) -> Image:
    try:
        return asm.assemble(text, "prog.s", machine=machine, given={CONSTANTS_FILE: constants})
    except AsmError as error:
        first = str(error).partition("\n")[0]
        raise GraphError([f"internal error: the generated assembly is wrong: {first}"]) from error


def pass_names() -> Sequence[str]:
    """The names of the passes, in order."""
    return [step.name for step in PIPELINE]
