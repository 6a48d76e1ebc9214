"""Runs a compiled program on the emulator and compares its outputs with the reference.

This is the only module of the compiler that imports the emulator.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asm.image import read_image, write_image
from compiler.driver import Program
from compiler.evaluation.reference import run_reference
from compiler.evaluation.tolerance import Kind, Verdict, judge
from compiler.graph import DTYPES, Array, Graph, GraphError
from tx8isa.tools.files import made_folder, write_together

_MOVEMENT = ("Reshape", "Flatten", "Transpose", "Concat", "Identity", "Slice", "Pad")


class RunFault(Exception):
    """The program stopped with a fault: the message says where and why."""


class Watch(NamedTuple):
    """What to observe of a run."""

    timed: bool = False
    """Simulate time."""
    statistics: str | None = None
    """Collect statistics as ``text`` or ``json``."""
    progress: bool = False
    """Show the progress on a terminal."""
    phases: bool = False
    """Measure the cycles of each phase."""


@dataclass(frozen=True)
class Outcome:
    """The result of a run: outputs and expected values by name, and what ``Watch`` asked for.

    ``instructions`` counts those executed on all tiles; ``cycles`` is None if no time was simulated.
    """

    outputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    verdicts: Mapping[str, Verdict]
    instructions: int
    cycles: int | None = None
    statistics: tuple[str, ...] = ()
    """Lines of the statistics (docs/stats.md)."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Simulated cycles by the name of the phase."""

    @property
    def ok(self) -> bool:
        return all(verdict.ok for verdict in self.verdicts.values())


def execute(program: Program, inputs: Mapping[str, Array], threads: int = 1) -> tuple[dict[str, Array], int]:
    """Run a program: its outputs by name, and how many instructions all tiles executed.

    RunFault when the program stops with a fault.
    """
    done = _run(program, inputs, threads, Watch())
    return done.outputs, done.instructions


class _Run(NamedTuple):
    outputs: dict[str, Array]
    instructions: int
    cycles: int | None
    statistics: tuple[str, ...]
    phases: dict[str, float]


def _run(program: Program, inputs: Mapping[str, Array], threads: int, watch: Watch) -> _Run:
    import emulator
    from emulator.cli.progress import show_progress
    from emulator.watch.stats.output import lines
    from emulator.watch.stats.result import make_report
    from emulator.watch.stats.sink import Statistics

    image = read_image(write_image(program.image), "prog.bin")
    loaded = emulator.Program(image, program.machine)
    sinks = [Statistics(image, program.machine)] if watch.statistics or watch.phases else []
    system = loaded.start(inputs, threads=threads, timed=watch.timed or None, sinks=sinks)
    if watch.progress:
        show_progress(system, sys.stderr)
    try:
        system.run(None)
    except emulator.Fault as fault:
        raise RunFault(str(fault)) from None
    shown = sinks if watch.statistics else []
    found = (line for sink in shown for line in lines(sink, system.tiles, watch.statistics == "json"))
    phases = {node.name: node.cycles for sink in sinks for node in make_report(sink, system.tiles).nodes}
    instructions = sum(tile.retired for tile in system.tiles)
    return _Run(loaded.results(system), instructions, system.cycles, tuple(found), phases)


def check(program: Program, inputs: Mapping[str, Array], watch: Watch | None = None) -> Outcome:
    """Run a program and compare every output with the reference on inputs rounded to the compute format."""
    done = _run(program, inputs, 1, watch or Watch())
    expected = run_reference(program.graph, inputs, storage=program.dtype)
    kind = kind_of(program.graph)
    verdicts = {
        tensor.name: judge(
            kind, program.dtype, done.outputs[tensor.name], expected[tensor.name], declared=tensor.dtype
        )
        for tensor in program.graph.outputs
    }
    return Outcome(
        done.outputs, expected, verdicts, done.instructions, done.cycles, done.statistics, done.phases
    )


def kind_of(graph: Graph) -> Kind:
    """The kind of tolerances that apply to a graph."""
    if len(graph.nodes) > 1:
        return "model"
    return "movement" if all(node.op in _MOVEMENT for node in graph.nodes) else "operator"


def random_inputs(graph: Graph, given: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """The given inputs, and normally distributed ones for those that are missing."""
    generator = np.random.default_rng(seed)
    inputs = dict(given)
    for tensor in graph.inputs:
        values = generator.standard_normal(tensor.shape)
        if tensor.name not in inputs:
            rounded = values.astype(DTYPES[tensor.dtype])
            # NumPy files have no bfloat16, so it is passed as float32.
            inputs[tensor.name] = rounded.astype(np.float32) if tensor.dtype == "bfloat16" else rounded
    return inputs


def read_inputs(arguments: Iterable[tuple[str, str]]) -> dict[str, Array]:
    """Arrays from pairs of a name and a .npy file; Tx8Error for a file that holds no array."""
    from emulator.cli.arrays import read_array

    inputs: dict[str, Array] = {}
    for name, file in arguments:
        if name in inputs:
            raise GraphError([f"input '{name}' is given twice"])
        inputs[name] = read_array(file)
    return inputs


def write_outputs(folder: Path, outputs: Mapping[str, Array]) -> None:
    """Write one .npy file per output; either all files are written or none."""
    from emulator.cli.arrays import file_names, write_array

    names = file_names(outputs)
    with made_folder(folder):
        write_together({folder / names[name]: partial(write_array, array) for name, array in outputs.items()})


def announce_compilation(program: str) -> None:
    """Print one line on a terminal when the emulator begins to compile kernels for this machine."""
    from emulator import native

    said: list[str] = []

    def announce(name: str, seconds: float | None) -> None:
        if not said and sys.stderr is not None and sys.stderr.isatty():
            print(f"{program}: compiling the emulator's kernels; later runs find them ready", file=sys.stderr)
        said.append(name)

    native.on_compile = announce


def table(outcome: Outcome) -> str:
    """A table with a row per output, with cycles if time was simulated, and the number of instructions."""
    width = max(len("output"), *(len(name) for name in outcome.verdicts))
    time = "" if outcome.cycles is None else f"{outcome.cycles:>14,}"
    head = f"{'output':<{width}}  {'shape':<16} {'max abs error':>14} {'cosine':>11}"
    lines = [f"{head}{'cycles':>{len(time)}}  verdict" if time else f"{head}  verdict"]
    for name, verdict in outcome.verdicts.items():
        shape = "x".join(map(str, outcome.outputs[name].shape)) or "scalar"
        error, cosine = f"{verdict.max_abs_error:.3g}", f"{verdict.cosine:.7f}"
        text = "pass" if verdict.ok else f"FAIL: {verdict.text}"
        lines.append(f"{name:<{width}}  {shape:<16} {error:>14} {cosine:>11}{time}  {text}")
    lines.append(f"{outcome.instructions:,} instructions executed on all tiles")
    return "\n".join(lines)
