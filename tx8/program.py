"""A program ready to run: made from a model, from assembly, or read from an image on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asm
import emulator
from asm.image import Buffer, Image, image_of_entry, image_parts, names_nodes, read_again
from compiler.evaluation.integers import with_integers
from emulator.memory.buffers import check_array
from tx8.inputs.arrays import Trees, bind
from tx8.inputs.chips import bind_to_chips, whole
from tx8.inputs.quantising import Quantisation, Samples
from tx8isa.errors import Tx8Error
from tx8isa.machine.description import Machine, load_machine
from tx8isa.tools.files import made_folder, write_together

from .models import Constants, Shapes, check_ranges, graph_of, kept_between_runs, known_dims, opened, trees_of
from .run import Options, Origin, Run, start, start_on_chips
from .views.text import signature

if TYPE_CHECKING:
    from compiler.driver import Program as Compiled
    from compiler.evaluation.judgement import FloatModel
    from compiler.evaluation.sizes.ranges import Ranges
    from compiler.graph import Graph
    from compiler.passes.base import RangedSource
    from compiler.quantise import Chosen, DecisionTable, Settings
    from compiler.search.chips import Degrees, SharedGraph
    from compiler.tools.verification.findings import Proof
    from emulator.memory.shapes import Sizes
    from emulator.session.order import OrderProof
    from emulator.session.runs import RepeatedRuns


class Program:
    """A program image with named inputs and outputs; every run starts from the reset state of the chip."""

    def __init__(
        self,
        image: Image,
        machine: Machine,
        name: str,
        compiled: Compiled | None = None,
        formats: DecisionTable | None = None,
        spreads: Mapping[str, SharedGraph] | None = None,
        trees: Trees | None = None,
        source: FloatModel | None = None,
    ) -> None:
        self.image, self.machine, self.name = image, machine, name
        self.spreads = {"": compiled.spread} if compiled and compiled.spread else spreads
        """Sharing of each network by the chips, by entry; None on one chip or for a program of a file."""
        self.formats = formats
        """The format of each node; None for a program that was not quantised here."""
        self.trees = trees
        """The trees of arguments and results of a function of JAX; None for another model."""
        self.source = source
        """The network of floats that was quantised here; None for any other program."""
        self.compiled = compiled
        """The compiler's decisions, with its text and graph; None for a program that it did not make."""
        self.emulated = emulator.Program(read_again(image, name), machine)
        """The program as the emulator runs it."""

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        """The inputs in the order of the model. On several chips they are undivided, if the program was
        compiled here."""
        found, spread = self.emulated.inputs, self._spread
        return found if spread is None else whole(found, spread.graph.inputs)

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """The outputs in the order of the model, as for ``inputs``."""
        found, spread = self.emulated.outputs, self._spread
        return found if spread is None else whole(found, spread.graph.outputs)

    @property
    def _spread(self) -> SharedGraph | None:
        """Return how several chips share the only network; None if that is not known."""
        return None if self.spreads is None else self.spreads.get("")

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of the program's networks; empty for a single one (docs/sessions.md)."""
        return self.emulated.entries

    def entry(self, name: str) -> Program:
        """Return one network as a program with its own inputs and outputs; ImageError for an unknown name."""
        image, own = image_of_entry(self.image, name), self.spreads and {"": self.spreads[name]}
        found = Program(image, self.machine, f"{self.name}.{name}", spreads=own)
        found.emulated.file = self.emulated.file
        return found

    @property
    def states(self) -> tuple[tuple[str, str], ...]:
        """Pairs of an input and an output in the same memory, by name (docs/sessions.md)."""
        return tuple((past.name, present.name) for past, present in self.emulated.states)

    @property
    def text(self) -> str:
        """Return the program as assembly: the compiler's text, or the disassembled image."""
        return self.compiled.text if self.compiled else asm.disassemble(self.image)

    def run(
        self,
        *inputs: Any,
        threads: int | None = None,
        timed: bool = True,
        data: bool = True,
        max_instructions: int | None = None,
        **named: Any,
    ) -> Run:
        """Run the program to the end.

        Inputs are given by position, by name, or as one mapping; a function of JAX also takes the arguments
        with which it was traced. Sequences of numbers, tensors of PyTorch and other float types are
        converted. On several chips a program from a file takes inputs of the chips: ``chip1.x`` for chip 1,
        ``x`` for every chip.

        ``threads`` is the number of host threads, by default that of its processors, at most eight, or one
        for a short program. Results do not depend on it. ``timed`` records events, from which time is
        simulated when cycles or statistics are read. Without it the run is somewhat faster, and reading them
        repeats it. Without ``data`` engines compute and move nothing. Cycles and statistics are the same,
        there are no outputs, and it is several times faster. Fault for a program that depends on results of
        engines.

        InputError for inputs that do not fit, Fault when the program stops.
        """
        if self.entries:
            raise Tx8Error(
                f"the program has the entries {', '.join(self.entries)}: run entry(NAME), or a session"
            )
        chips, spread = self.emulated.chips, self._spread
        if chips > 1 and spread is None:
            arrays = bind_to_chips(self.inputs, chips, inputs, named)
        else:
            arrays = bind(self.inputs, inputs, named, self.trees)
        for buffer in self.inputs if spread is not None else ():
            check_array(buffer, arrays[buffer.name])  # before chips get their parts
        options = Options(threads, max_instructions, timed, data)
        if chips > 1:
            run = start_on_chips(self.emulated, self.name, arrays, options, spread)
        else:
            run = start(self._repeated, self.name, arrays, options)
        run.origin = Origin(self.compiled, self.source, self.trees)
        return run

    @cached_property
    def _repeated(self) -> RepeatedRuns:
        from emulator.session.runs import RepeatedRuns  # imported here, because compiling does not need it

        return RepeatedRuns(self.emulated)

    def prove(
        self,
        model: Any = None,
        *,
        seed: int = 0,
        sizes: Sizes | None = None,
        steps: int | Sequence[Mapping[str, Any]] = 3,
        **options: Any,
    ) -> Proof:
        """Prove in prime fields that the program computes its graph, at the usual ``sizes`` or given ones.

        ``steps`` of a program with states: their number, or arrays of integers for each. A program from a
        file needs ``model``, and options of ``compile`` if it was compiled from a graph. Fault when it stops.
        """
        from compiler.tools.verification import images, prove

        if model is not None and not names_nodes(self.image):
            return images.prove_image(self, graph_of(model, (), None, **options), seed)
        made = self if model is None else compile(model, machine=self.machine, **options)
        if made.compiled is None:
            raise Tx8Error("the program was not compiled here: prove(model) takes its model and options")
        return prove.prove(made.compiled, seed, None if made is self else self.image, sizes, steps)

    def prove_order(self, sizes: Mapping[str, int] | None = None) -> OrderProof:
        """Prove that accesses which nothing orders share no bytes, at every size or at the given ones."""
        from emulator.session.order import prove_order

        return prove_order(self.emulated, sizes)

    def save(self, folder: str | Path) -> Path:
        """Write ``prog.bin`` and the compiler's other files into a folder: all files or none."""
        folder = Path(folder)
        if self.compiled:
            self.compiled.write(folder)
        else:
            with made_folder(folder):
                write_together({folder / "prog.bin": list(image_parts(self.image))})
        return folder / "prog.bin"

    def __repr__(self) -> str:
        inputs, outputs = (signature(buffers, self.image) for buffers in (self.inputs, self.outputs))
        return f"<tx8.Program {self.name}: {inputs} -> {outputs}>"

    def _repr_html_(self) -> str:
        from .views.html import program_page

        facts = [f"machine {self.machine.name}"]
        if made := self.compiled:
            facts += [f"{len(made.graph.nodes)} nodes", made.dtype, f"{made.tiles} tiles"]
            facts.append(f"{len(made.constants):,} bytes of constants")
        return program_page(self.name, facts, self.inputs, self.outputs)


def compile(
    model: Any,
    examples: Sequence[Any] = (),
    *,
    dtype: str | None = None,
    tiles: int | None = None,
    shapes: Shapes | None = None,
    constants: Constants | None = None,
    dims: Mapping[str, Sequence[int] | str | int] | None = None,
    bounds: Mapping[str, int] | None = None,
    state: Mapping[str, str] | None = None,
    replaceable: Sequence[str] = (),
    machine: Machine | str | Path | None = None,
    patterns: str = "default",
    search: str = "fast",
    residency: str = "on",
    calibrate: Samples | None = None,
    calibration: str | Settings = "mse",
    max_loss: float | None = None,
    metric: Callable[[dict[str, Any]], float] | None = None,
    formats: str | Path | None = None,
    integers: str | None = None,
    chips: tuple[int, int] | None = None,
    parallel: str | None = None,
) -> Program:
    """Compile a model; ``tx8.models.graph_of`` lists the kinds of model and explains ``examples``.

    ``dtype``: fp32, tf32, fp16 or bf16, by default the model's own. ``tiles``: the number of tiles used.
    ``shapes``: extents of inputs with free dimensions, by name. ``constants``: fixed values of inputs,
    numbers or arrays by name. ``dims``: for free dimensions by name one size, or least, usual and most size,
    as in ``{"seq": (1, 128, 512)}``. The program then runs all sizes in between (docs/dynamic_shapes.md). Or
    a sum, ``{"total": "past+new"}``. ``bounds``: the most steps of loops that collect results, and the most
    elements that nodes such as NonZero find, by the names of the nodes. ``state``: inputs that share their
    memory with outputs, ``{"past": "present"}``, which may grow. ``replaceable``: constants that sessions may
    replace (docs/sessions.md). ``machine``: a description or the path of one, by default the TX81.
    ``patterns``, ``search`` and ``residency`` are as the options of tx8cc. ``chips``: their number along x
    and y; ``parallel``: the sharding, ``"dp=2,tp=2"``, by default the best by estimate (docs/parallel.md).

    With ``dtype="int8"`` nodes compute with bytes and the others in fp16. With ``"auto"`` the formats are the
    fastest ones that lose at most ``max_loss``. ``calibrate``: samples of the inputs, arrays by name or a
    .npz file, which also show the values that a format of floats cannot hold. ``calibration``: a method or
    ``compiler.quantise.Settings``. ``max_loss``, a share, ``metric`` and ``formats``, and ``integers``
    (``"exact"`` or ``"near"``), are as the options of tx8cc.

    GraphError for what cannot be compiled.
    """
    from compiler.driver import compile_graph

    options: dict[str, Any] = {"tiles": tiles, "patterns": patterns, "search": search, "residency": residency}
    model, options["machine"] = opened(model, examples), _machine(machine, chips)
    known = known_dims(dims, state)

    def graph_at(sizes: Mapping[str, int] | None) -> Graph:
        graph = graph_of(model, examples, shapes, constants, sizes, bounds)
        return kept_between_runs(graph, state or {}, replaceable, bool(known.dimensions))

    graph, ranges = _sized(known, model, graph_at, dtype, calibrate is None and formats is None, bool(state))
    made = Quantisation(calibrate, calibration, max_loss, metric, formats).applied(graph, dtype, options)
    options["parallel"] = _degrees(parallel, options["machine"], made.table is None and ranges is None)
    program = compile_graph(with_integers(made.graph, integers), made.dtype, ranges=ranges, **options)
    return _with_choices(program, graph.name, made, trees_of(model, graph))


def _with_choices(program: Compiled, name: str, made: Chosen, trees: Trees | None) -> Program:
    """Return the program with the formats that were chosen before it was compiled."""
    if made.wide is not None:
        program = replace(program, wide=made.wide.joined(program.wide))
    return Program(program.image, program.machine, name, program, made.table, trees=trees, source=made.source)


def _sized(
    known: Ranges,
    model: Any,
    graph_at: Callable[[Mapping[str, int] | None], Graph],
    dtype: str | None,
    floats: bool,
    states: bool,
) -> tuple[Graph, RangedSource | None]:
    """Return the graph at its usual sizes, and the ranges of the program; None for a program of one size.

    GraphError for a program of bytes, and for ranges that the model cannot have.
    ``floats``: no samples or formats make nodes compute with bytes; ``states``: the program has states.
    """
    from compiler.graph import GraphError
    from compiler.passes.base import RangedSource

    if not known.dimensions:
        return graph_at(dict(known.constants) or None), None
    if not floats or dtype in ("int8", "auto"):
        raise GraphError(["dims= is for formats of floats: a program of bytes runs one size"])
    check_ranges(model, known)
    source = RangedSource(known, lambda point: graph_at(known.model_sizes(point)))
    source = source.with_growth() if states else source
    return source.graph_at(known.usual), source


def compile_entries(
    models: Mapping[str, Any],
    *,
    dtype: str | None = None,
    tiles: int | None = None,
    state: Mapping[str, str] | None = None,
    machine: Machine | str | Path | None = None,
    patterns: str = "default",
    search: str = "fast",
    residency: str = "on",
    chips: tuple[int, int] | None = None,
    parallel: str | None = None,
) -> Program:
    """Compile several models into one program, whose entries have the names of ``models``.

    Equal constants are stored once. A ``state`` belongs to every model with such an input and output, and all
    of them share its memory. Models and the other arguments are those of ``compile``. GraphError names the
    entry that cannot be compiled, or states that differ.
    """
    from compiler.driver import compile_entries

    graphs = {name: graph_of(model, (), None) for name, model in models.items()}
    options: dict[str, Any] = {"tiles": tiles, "patterns": patterns, "search": search, "residency": residency}
    target = _machine(machine, chips)
    options |= {"machine": target, "parallel": _degrees(parallel, target, True)}
    program = compile_entries(graphs, state or {}, dtype=dtype, **options)
    return Program(program.image, program.machine, "_".join(graphs), spreads=program.spreads)


def _degrees(parallel: str | None, machine: Machine, plain: bool) -> Degrees | None:
    """Parse the sharding over chips; GraphError for a text that cannot be parsed.

    ``plain``: the program has one size and a format of floats. GraphError for another one on several chips.
    """
    from compiler.graph import GraphError
    from compiler.search.chips import parsed_degrees

    if not plain and (parallel is not None or machine.chip_count > 1):
        raise GraphError(["programs for several chips have one size and a format of floats for all nodes"])
    return None if parallel is None else parsed_degrees(parallel)


def assemble(
    text: str,
    *,
    machine: Machine | str | Path | None = None,
    name: str = "program",
    defines: Mapping[str, int | str] | None = None,
) -> Program:
    """Assemble a program from text; ``defines`` are symbols for it. AsmError holds every mistake."""
    if not isinstance(text, str):
        raise Tx8Error(f"a program is assembled from text, not from {type(text).__name__}")
    described = _machine(machine)
    return Program(asm.assemble(text, f"{name}.s", (), defines, described), described, name)


def assemble_file(
    path: str | Path,
    *,
    machine: Machine | str | Path | None = None,
    defines: Mapping[str, int | str] | None = None,
) -> Program:
    """Assemble a file; included files are found in its folder. Tx8Error when it cannot be read."""
    described, path = _machine(machine), _path(path, "assembly")
    return _from_file(asm.assemble_file(path, (), defines, described), described, path)


def load(path: str | Path, *, machine: Machine | str | Path | None = None) -> Program:
    """Read a program image; ImageError when the file is not an image or was damaged."""
    path = _path(path, "a program image")
    loaded = emulator.load(path, None if machine is None else _machine(machine))
    return _from_file(loaded.image, loaded.machine, path)


def _from_file(image: Image, machine: Machine, path: Path) -> Program:
    """Make the program of a file; its runs never overwrite that file."""
    found = Program(image, machine, path.stem)
    found.emulated.file = path
    return found


def _path(path: object, what: str) -> Path:
    if not isinstance(path, str | PathLike):
        raise Tx8Error(f"{what} is read from a path, not from {type(path).__name__}")
    return Path(path)


def _machine(machine: Machine | str | Path | None, chips: tuple[int, int] | None = None) -> Machine:
    if chips is not None and not (isinstance(chips, tuple) and len(chips) == 2):
        raise Tx8Error(f"chips is {chips!r}; expected their columns and rows, such as (2, 1)")
    found = machine if isinstance(machine, Machine) else load_machine(machine)
    return found if chips is None else found.of_chips(*chips)
