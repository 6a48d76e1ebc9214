"""Runs a compiled program on the emulator and compares its outputs with the reference.

This is the only module of the compiler that imports the emulator.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from asm.image import read_again
from compiler.driver import Program
from compiler.evaluation.judgement import FloatModel, Judgement, judged
from compiler.evaluation.tolerance import Verdict
from compiler.graph import DTYPES, Array, Graph, GraphError, Shape, Tensor
from tx8isa.tools.command_line import named_file, note, one_line
from tx8isa.tools.files import made_folder, write_together
from tx8isa.tools.overwrite import Role
from tx8isa.tools.suggestions import hint

if TYPE_CHECKING:
    import emulator
    from compiler.quantise import Samples
    from compiler.search.chips import SharedGraph
    from emulator.chip.system import System
    from emulator.cli.verdict import HazardData
    from emulator.watch.stats.types import Report as StatsReport


_DRAWS = 8
"""Number of draws of random inputs that serve as samples if there are no data."""


class RunFault(Exception):
    """The program stopped with a fault: the message says where and why.

    ``unwritten``: messages about files of the run that could not be written.
    """

    def __init__(self, fault: emulator.Fault, unwritten: Sequence[str] = ()) -> None:
        super().__init__(str(fault))
        self.kind = fault.kind
        self.unwritten = tuple(unwritten)


class Watch(NamedTuple):
    """The observations to make during a run."""

    timed: bool = False
    """Simulate time."""
    statistics: str | None = None
    """Collect statistics as ``text`` or ``json``."""
    progress: bool = False
    """Show the progress on a terminal."""
    phases: bool = False
    """Measure the cycles of each phase."""
    title: str = "prog.bin"
    """The name of the program in page, trace and messages about hazards."""
    page: str | None = None
    """The file of a page about the run."""
    trace: str | None = None
    """The file of a trace for Perfetto."""
    strict: bool = False
    """Look for hazards, and print them."""
    gdb: int | None = None
    """The port at which a debugger controls the run; 0 for any."""
    files: Sequence[Role] = ()
    """Files that the debugger may not overwrite."""


@dataclass(frozen=True)
class Outcome:
    """The result of a run: outputs and their judgements by name, and what ``Watch`` asked for.

    ``dtype`` is the compute type. ``instructions`` counts the instructions executed on all tiles; ``cycles``
    is None if no time was simulated.
    """

    dtype: str
    outputs: Mapping[str, Array]
    judgements: Mapping[str, Judgement]
    instructions: int
    cycles: int | None = None
    cycles_range: tuple[int, int, int | None] | None = None
    """The least and the most cycles over the ranges of the figures of the model of time, and the cycles if
    the vendor's C runtime submits the commands; None for them if it does."""
    statistics: tuple[str, ...] = ()
    """Lines of the statistics (docs/stats.md)."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Simulated cycles by the name of the phase."""
    report: Mapping[str, Any] | None = None
    """The data of ``tx8emu --report FILE.json``; set if phases were measured."""
    hazards: tuple[HazardData, ...] | None = None
    """The hazards found; None if the run did not look for them."""
    unwritten: tuple[str, ...] = ()
    """Messages about files of the run that could not be written."""

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict on each output."""
        return {name: found.verdict for name, found in self.judgements.items()}

    @property
    def ok(self) -> bool:
        """True if every output is within its tolerance, and no hazard was found."""
        return all(verdict.ok for verdict in self.verdicts.values()) and not self.hazards


def execute(program: Program, inputs: Mapping[str, Array], threads: int = 1) -> tuple[dict[str, Array], int]:
    """Run a program; return its outputs by name, and the number of instructions that all tiles executed.

    RunFault when the program stops with a fault.
    """
    done = _run(program, inputs, threads, Watch())
    return done.outputs, done.instructions


class _Run(NamedTuple):
    outputs: dict[str, Array]
    instructions: int
    cycles: int | None
    cycles_range: tuple[int, int, int | None] | None
    statistics: tuple[str, ...]
    report: StatsReport | None
    hazards: tuple[HazardData, ...] | None
    unwritten: tuple[str, ...]


def _run(program: Program, inputs: Mapping[str, Array], threads: int, watch: Watch) -> _Run:
    import emulator
    from emulator.cli.watching import Views, Watching
    from emulator.timing.replay import TimeRange
    from emulator.watch.stats.result import make_report

    image = read_again(program.image, "prog.bin")
    loaded = emulator.Program(image, program.machine)
    if program.spread is not None:
        return _run_on_chips(loaded, program.spread, inputs, threads, watch)
    statistics = bool(watch.statistics or watch.phases)
    with Watching(
        Views(watch.title, statistics, watch.page, None, watch.trace), image, program.machine
    ) as views:
        wanted = TimeRange()
        sinks = [*views.sinks, wanted] if watch.timed else views.sinks
        system = loaded.start(
            inputs, threads=threads, timed=watch.timed or None, sinks=sinks, strict=watch.strict
        )
        fault = _go(system, watch)
        hazards = _hazards(system, watch)
        unwritten = tuple(views.finish(system, fault))
        if fault:
            raise RunFault(fault, unwritten)
        shown = views.lines(system, watch.statistics)
        made = make_report(views.statistics, system.tiles) if views.statistics and watch.phases else None
    instructions = sum(tile.retired for tile in system.tiles)
    outputs = loaded.results(system)
    ends = None
    if wanted.least is not None and wanted.most is not None:
        by_runtime = None if wanted.c_runtime is None else int(wanted.c_runtime)
        ends = int(wanted.least), int(wanted.most), by_runtime
    return _Run(outputs, instructions, system.cycles, ends, tuple(shown), made, hazards, unwritten)


def _run_on_chips(
    loaded: emulator.Program, spread: SharedGraph, inputs: Mapping[str, Array], threads: int, watch: Watch
) -> _Run:
    """Run all chips on inputs of the whole graph; return the outputs of the whole graph."""
    import emulator
    from emulator.cli.verdict import hazards_data
    from emulator.watch.strict.hazards import show_hazards

    mesh = loaded.start_chips(spread.dealt(inputs), threads=threads, strict=watch.strict)
    try:
        mesh.run()
    except emulator.Fault as fault:
        raise RunFault(fault) from None
    hazards = mesh.hazards() if watch.strict else None
    if hazards is not None:
        checks = [chip.sanitizer for chip in mesh.chips if chip.sanitizer]
        lost, gave_up = any(each.more for each in checks), any(each.gave_up for each in checks)
        show_hazards(hazards, lost, gave_up, watch.title)
    instructions = sum(tile.retired for chip in mesh.chips for tile in chip.tiles)
    outputs = spread.joined(loaded.results_of_chips(mesh))
    data = None if hazards is None else hazards_data(hazards)
    return _Run(outputs, instructions, mesh.cycles, None, (), None, data, ())


def _go(system: System, watch: Watch) -> emulator.Fault | None:
    """Run to the end, or under a debugger; return the fault, if there is one."""
    import emulator
    from emulator.cli.progress import show_progress
    from emulator.debug.gdb import debug

    if watch.progress and watch.gdb is None:
        show_progress(system, sys.stderr)
    try:
        if watch.gdb is None:
            system.run(None)
        else:
            debug(system, watch.gdb, files=watch.files)
    except emulator.Fault as fault:
        return fault
    return None


def _hazards(system: System, watch: Watch) -> tuple[HazardData, ...] | None:
    """Print the hazards that were found; return None if the run did not look for them."""
    if system.sanitizer is None:
        return None
    from emulator.cli.verdict import hazards_data
    from emulator.watch.strict.hazards import show_hazards

    found = system.sanitizer.hazards()
    show_hazards(found, system.sanitizer.more, system.sanitizer.gave_up, watch.title)
    return hazards_data(found)


def check(
    program: Program,
    inputs: Mapping[str, Array],
    watch: Watch | None = None,
    source: FloatModel | None = None,
) -> Outcome:
    """Run a program and compare every output with the reference, or ``source``'s if it was quantised."""
    done = _run(program, inputs, 1, watch or Watch())
    return Outcome(
        program.dtype,
        done.outputs,
        judged(program.graph, program.dtype, done.outputs, inputs, source),
        done.instructions,
        done.cycles,
        done.cycles_range,
        done.statistics,
        {} if done.report is None else {node.name: node.cycles for node in done.report.nodes},
        None if done.report is None else msgspec.to_builtins(done.report),
        done.hazards,
        done.unwritten,
    )


def random_inputs(graph: Graph, given: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """Return the given inputs, and normally distributed random ones for the others."""
    from emulator.cli.arrays import random_arrays

    wanted = [(tensor.name, tensor.shape, DTYPES[tensor.dtype]) for tensor in graph.inputs]
    inputs = random_arrays(wanted, given, seed)
    return {tensor.name: inputs[tensor.name].astype(travelling_type(tensor)) for tensor in graph.inputs}


def random_samples(graph: Graph, seed: int) -> Samples:
    """Draw samples of random inputs, for a choice of formats without data; GraphError as ``samples_of``."""
    from compiler.quantise import samples_of

    draws = [random_inputs(graph, {}, seed + at) for at in range(_DRAWS)]
    names = [tensor.name for tensor in graph.inputs]
    return samples_of(
        {name: np.stack([draw[name] for draw in draws]) for name in names}, graph, "random inputs"
    )


def read_inputs(arguments: Iterable[tuple[str, str]], graph: Graph) -> dict[str, Array]:
    """Read arrays of inputs of a graph, from pairs of a name and a .npy file.

    Tx8Error for a file without an array, and for a name, shape or type that the graph does not have.
    """
    from tx8isa.tools.arrays import read_npy

    known = {tensor.name: tensor for tensor in graph.inputs}
    inputs: dict[str, Array] = {}
    for name, file in arguments:
        if name in inputs:
            raise GraphError([f"input '{name}' is given twice"])
        if name not in known:
            names = ", ".join(known) or "none"
            raise GraphError([f"the graph has no input '{name}'; its inputs: {names}{hint(name, known)}"])
        inputs[name] = _fitting(read_npy(file), known[name])
    return inputs


def sizes_of_files(program: Program, arguments: Iterable[str]) -> dict[str, int]:
    """Return the sizes of a run with the arrays of --input; sizes that no array gives are the usual ones.

    Tx8Error for a size out of range.
    """
    from emulator.memory.shapes import known_sizes, usual_sizes
    from tx8isa.tools.arrays import read_npy

    shapes = program.image.shapes
    if shapes is None:
        return {}
    buffers = [buffer for buffer in program.image.buffers if buffer.kind == "input"]
    known = [buffer.name for buffer in buffers]
    pairs = [pair for argument in arguments if (pair := named_file(argument, known)) is not None]
    arrays = {name: read_npy(file) for name, file in pairs if name in known}
    return usual_sizes(shapes) | known_sizes(shapes, buffers, arrays)


def array_of_file(file: Path) -> Array:
    """Read the array of a .npy file; Tx8Error for a file without one."""
    from tx8isa.tools.arrays import read_npy

    return read_npy(str(file))


def _fitting(array: Array, tensor: Tensor) -> Array:
    """Return the array of an input; GraphError unless it has the input's shape and type."""
    wanted = travelling_type(tensor)
    if array.shape != tensor.shape or array.dtype != wanted:
        found = f"{_extents(array.shape)} {array.dtype}"
        raise GraphError([f"input '{tensor.name}' is {found}, expected {_extents(tensor.shape)} {wanted}"])
    return array


def travelling_type(tensor: Tensor) -> np.dtype[Any]:
    """Return the type of an input's array: NumPy files have no bfloat16, so it is passed as float32."""
    return np.dtype(np.float32) if tensor.dtype == "bfloat16" else DTYPES[tensor.dtype]


def _extents(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "scalar"


def write_arrays(folder: Path, arrays: Mapping[str, Array]) -> None:
    """Write one .npy file per array; either all files are written or none."""
    from emulator.cli.arrays import write_array

    files = array_files(folder, arrays)
    with made_folder(folder):
        write_together({files[name]: partial(write_array, array) for name, array in arrays.items()})


def array_files(folder: Path, outputs: Iterable[str]) -> dict[str, Path]:
    """Return the .npy file of each output."""
    from emulator.cli.arrays import file_names

    return {output: folder / name for output, name in file_names(outputs).items()}


def announce_compilation(program: str) -> None:
    """Print one line on a terminal when the emulator begins to compile kernels for this machine."""
    from emulator import native

    said: list[str] = []

    def announce(name: str, seconds: float | None) -> None:
        if not said and sys.stderr is not None and sys.stderr.isatty():
            note(f"{program}: compiling the emulator's kernels; later runs find them ready")
        said.append(name)

    native.on_compile = announce


def table(outcome: Outcome) -> str:
    """Format a row per output, with cycles if time was simulated; instructions, and the range of the cycles.

    Two columns have the error from rounding inputs and weights, in formats that round them. For a quantised
    network they have the error of quantising. Two more columns compare the chip with the quantised graph.
    """
    shown = {name: one_line(name) for name in outcome.judgements}
    width = max(len("output"), *map(len, shown.values()))
    time = f"{outcome.cycles:>14,}" if outcome.cycles is not None else ""
    parts = {name: _parts(found, outcome.dtype) for name, found in outcome.judgements.items()}
    head = f"{'output':<{width}}  {'shape':<16} {'max abs error':>14} {'cosine':>11}"
    head += "".join(f"   {each} {'cosine':>11}" for each in next(iter(parts.values()), ()))
    lines = [f"{head}{'cycles':>{len(time)}}  verdict" if time else f"{head}  verdict"]
    for name, found in outcome.judgements.items():
        extents = _extents(outcome.outputs[name].shape)
        columns = f"{shown[name]:<{width}}  {extents:<16} {_errors(found.verdict, 14)}"
        columns += "".join(_errors(each, len(part) + 3) for part, each in parts[name].items())
        text = "pass" if found.verdict.ok else f"FAIL: {one_line(found.verdict.text)}"
        lines.append(f"{columns}{time}  {text}")
    counted = f"{outcome.instructions:,} instructions executed on all tiles"
    if outcome.cycles_range is not None:
        least, most, by_runtime = outcome.cycles_range
        counted += f"; {least:,} to {most:,} cycles over the ranges of the model"
        counted += f", {by_runtime:,} by the C runtime" if by_runtime is not None else ""
    lines.append(counted)
    return "\n".join(lines)


def _parts(found: Judgement, dtype: str) -> dict[str, Verdict]:
    """Return the parts of an output's error, by the heads of their columns."""
    if found.quantised is not None:
        return {"quantising alone": found.quantised.alone, "chip alone": found.quantised.chip}
    return {} if dtype == "fp32" else {"rounding alone": found.rounding}


def _errors(verdict: Verdict, width: int) -> str:
    """Format the columns of an error and a cosine, the first with this width."""
    error, cosine = f"{verdict.max_abs_error:.3g}", f"{verdict.cosine:.7f}"
    return f"{error:>{width}} {cosine:>11}"
