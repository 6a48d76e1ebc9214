"""Proves a program: it computes its graph in prime fields, element for element (docs/proving.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from asm.image import Image
from compiler.driver import Program
from compiler.evaluation.field.run import FieldGraph, held_numbers, only_finds
from compiler.evaluation.field.twin import factors_of, long_factors, part_of_twin, twin_of
from compiler.evaluation.sizes.growth import GrowingState
from compiler.evaluation.sizes.ranges import Ranges
from compiler.evaluation.storage import compute_format
from compiler.graph import Array, Graph, GraphError
from compiler.passes import PIPELINE
from compiler.passes.base import RangedContext, Twin
from compiler.passes.compilation import context_of
from compiler.passes.ranges.sizes import rewritten_at
from compiler.search.plan import PlanMisfit
from tx8isa.numbers.prime_field import PrimeField

from .findings import Proof
from .graft import grafted
from .recipes import Recipes, one_chip
from .session import ProofSession
from .tables import NO_FUNCTIONS, functions_of

Numbers = Mapping[str, Array]
"""Arrays of inputs, by name."""
STEPS = 3
"""Steps of a program with states."""
_REWRITES = 2
"""The passes up to the one that rewrites the graph."""
_TABLE = "ct.lut16 "
"""The instruction that reads a table of a function."""
_VALUE = re.compile(r"\b[cv]\.\d+\b")
"""The symbol of a value without a name of its own; its number depends on how many constants are equal."""
_SCALAR = re.compile(r"\b(src1=|q[01]=)(-?\d[\d.e+-]*)")
"""A number that an instruction holds, or a shift of the matrix engine that follows from a scale."""


def prove(
    program: Program,
    seed: int = 1,
    image: Image | None = None,
    sizes: Mapping[str, int] | None = None,
    steps: int | Sequence[Numbers] = STEPS,
    explain: bool = True,
) -> Proof:
    """Compare a program with its graph in prime fields; the arguments are those of ``Prover`` and ``at``."""
    return Prover(program, seed, image, explain).at(sizes, steps)


class Prover:
    """Compares a program with its graph in prime fields, at one size or at several.

    ``image``: another program of this graph, from a file, whose code is proved instead. GraphError for an
    image that the graph cannot have. ``explain``: look for what makes an output wrong, which may take a
    hundred times as long as the proof.
    """

    def __init__(
        self, program: Program, seed: int = 1, image: Image | None = None, explain: bool = True
    ) -> None:
        self.program, self.seed, self._compute = program, seed, compute_format(program.dtype)
        self._explain = explain
        self._kept: tuple[dict[str, int], tuple[Graph, Graph]] | None = None
        self._twin_of = twin_maker(program)
        twin = twin_program(program, self._twin_of)
        self._made = twin
        self._twin = twin if image is None else replace(twin, image=grafted(image, program.image, twin.image))

    @property
    def points(self) -> list[dict[str, int]]:
        """The sizes of a range to prove it at: the smallest, odd and largest ones.

        If states grow, the last step has the largest ones.
        """
        source = self.program.ranges
        if source is None:
            return [{}]
        ranges = source.ranges
        found = [ranges.least, ranges.odd, _before(ranges.most, ranges, source.growing, STEPS - 1)]
        return [point for at, point in enumerate(found) if point not in found[:at]]

    def at(self, sizes: Mapping[str, int] | None = None, steps: int | Sequence[Numbers] = STEPS) -> Proof:
        """The proof at some sizes of a run, by default the usual ones.

        Of a program with states it is the proof of the last of ``steps`` steps, or of the first wrong one,
        with those before it; ``sizes`` are then those of the first step. Fewer steps are proved if states
        have no room for more. Integers decide which elements are read or hidden: instead of a number,
        ``steps`` may have arrays of such inputs for each step. GraphError for sizes that the program cannot
        run; emulator.Fault when it stops.
        """
        given = [dict[str, Array]()] * steps if isinstance(steps, int) else steps
        source, point = self.program.ranges, dict[str, int]()
        if source is not None:
            point = source.ranges.point_of(sizes or {})
        elif sizes:
            raise GraphError([f"the program has one size, not {', '.join(sizes)}"])
        held = held_numbers(self._graphs(point)[1])
        field = PrimeField(self.seed, has_exponentials(self._made), self._compute, held)
        recipes, before = Recipes(field, self.program), list[Proof]()
        functions = NO_FUNCTIONS
        if _TABLE in self._made.text:
            functions = functions_of(self._graphs(point)[1], self._compute, field, recipes.computed)
        finds = only_finds(self._graphs(point)[1])
        session = ProofSession(self._twin, field, self.seed, self._explain, functions, finds)
        for numbers in given:
            proof = self._step(session, recipes, point, numbers)
            if not session.has_states:
                return proof
            before.append(replace(proof, step=session.steps))
            later = point if source is None else _after(point, source.ranges, source.growing)
            if proof.differences or later is None:
                break
            point = later
        return replace(before[-1], before=tuple(before[:-1]))

    def _step(
        self, session: ProofSession, recipes: Recipes, point: Mapping[str, int], numbers: Numbers
    ) -> Proof:
        """The proof of the next step, at a point."""
        source = self.program.ranges
        given, graph = self._graphs(point)
        wanted = FieldGraph(graph, self._compute, session.field, recipes.computed)
        proof = session.step(self._program_at(point).graph, wanted, numbers)
        alike = [node.op for node in given.nodes] == [node.op for node in graph.nodes]
        same = alike and same_code(self.program, self._made, factors_of(given, graph))
        names = () if source is None else source.ranges.names
        return replace(proof, same_code=same, sizes={name: point[name] for name in names})

    def _program_at(self, point: Mapping[str, int]) -> Program:
        """The program with the graph that it has at a point."""
        source = self.program.ranges
        return self.program if source is None else replace(self.program, graph=source.graph_at(point))

    def _graphs(self, point: Mapping[str, int]) -> tuple[Graph, Graph]:
        """The graph at a point, as the rewrites leave it, and its twin; those of the last point are kept."""
        if self._kept is None or self._kept[0] != point:
            self._kept = dict(point), self._rewritten(point)
        return self._kept[1]

    def _rewritten(self, point: Mapping[str, int]) -> tuple[Graph, Graph]:
        """The graphs that ``_graphs`` returns."""
        program = self._program_at(point)
        given = rewritten(program, point)
        if program.spread is None:
            return given, self._twin_of(given)
        # chips get parts of the model's constants, before anything is rewritten
        graph = rewritten(replace(program, graph=self._twin_of(program.graph)), point)
        for factor, node in long_factors(graph).items():
            raise GraphError(
                [f"--prove: {node} has the factor {factor:g}: on several chips it must be a power of two"]
            )
        return given, graph


def _after(
    point: Mapping[str, int], ranges: Ranges, growing: Sequence[GrowingState]
) -> dict[str, int] | None:
    """The sizes of the step after one; None where a state has no room for it."""
    longer = {state.before: point[state.before] + _rows(state, point) for state in growing}
    fits = all(length <= ranges.most[name] for name, length in longer.items())
    return ranges.point_of({**point, **longer}) if fits else None


def _before(
    point: Mapping[str, int], ranges: Ranges, growing: Sequence[GrowingState], steps: int
) -> dict[str, int]:
    """The sizes some steps before those of a point, or as many as there can be."""
    rows = {state.before: _rows(state, point) for state in growing}
    count = min([steps, *((point[name] - ranges.least[name]) // more for name, more in rows.items())])
    shorter = {name: point[name] - count * more for name, more in rows.items()}
    return ranges.point_of({**point, **shorter})


def _rows(state: GrowingState, point: Mapping[str, int]) -> int:
    """The rows that a step at a point adds to a state."""
    return int(state.new) if state.new.isdigit() else point[state.new]


def rewritten(program: Program, sizes: Mapping[str, int]) -> Graph:
    """The graph of a program, at sizes of a range, as the rewrites leave it."""
    machine = one_chip(program.machine)
    context = context_of(program.graph, program.dtype, program.tiles, machine, ranges=program.ranges)
    if isinstance(context, RangedContext):
        return rewritten_at(context, sizes)
    module = ModuleOp([])
    for step in PIPELINE[:_REWRITES]:
        step.run(context, module)
    return context.graph


def twin_maker(program: Program) -> Twin:
    """Return the function that makes the twin of a program's graph."""
    factors = () if program.spread is None else long_factors(rewritten(program, {}))
    twin = partial(twin_of, compute=compute_format(program.dtype), factors=factors)
    if program.ranges is None or program.spread is not None:
        return twin
    largest = rewritten(program, program.ranges.ranges.most)
    return partial(part_of_twin, twin=twin, whole=largest, twin_of_whole=twin(largest))


def twin_program(program: Program, twin: Twin) -> Program:
    """The program of the twin, by the decisions of the given one."""
    assert program.again is not None, "the compiler made the program"
    try:
        return program.again(twin=twin)
    except PlanMisfit:  # equal constants, such as a scale and a shift, become different ones
        return program.again(twin=twin, plan=None)


def has_exponentials(program: Program) -> bool:
    """True if a program has exponentials, of e or of 2."""
    return any(line.lstrip().startswith(("ct.exp", "ct.pow2")) for line in program.text.splitlines())


def same_code(program: Program, twin: Program, factors: Mapping[float, float] | None) -> bool:
    """True if a program has the instructions of its twin.

    ``factors``: the twin's factor in place of each; None if instructions may hold any other numbers.
    """

    def factor(found: re.Match[str]) -> str:
        return (
            found[1] if factors is None else f"{found[1]}{factors.get(float(np.float32(found[2])), found[2])}"
        )

    return [_SCALAR.sub(factor, line) for line in code_of(program)] == [
        _SCALAR.sub(factor, line) for line in code_of(twin)
    ]


def code_of(program: Program) -> list[str]:
    """The instructions of a program; values and constants are numbered in the order in which they occur."""
    numbers: dict[str, int] = {}

    def numbered(name: re.Match[str]) -> str:
        return f"v.{numbers.setdefault(name[0], len(numbers))}"

    lines = (line.partition("#")[0].strip() for line in program.text.splitlines())
    return [_VALUE.sub(numbered, line) for line in lines if line and not line.startswith(".")]
