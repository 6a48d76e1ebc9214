"""Proves a program: it computes its graph in prime fields, element for element (docs/proving.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits
from xdsl.dialects.builtin import ModuleOp

from asm.image import Image
from compiler.driver import Program, compile_graph
from compiler.evaluation.field.run import FieldGraph
from compiler.evaluation.field.twin import factors_of, twin_of
from compiler.evaluation.storage import compute_format
from compiler.graph import Array, Graph, GraphError, Node, Tensor
from compiler.operators import OPERATORS, is_known
from compiler.passes import PIPELINE
from compiler.passes.base import RangedContext, Twin
from compiler.passes.compilation import context_of
from compiler.passes.ranges.sizes import rewritten_at
from compiler.search.plan import PlanMisfit
from compiler.tools.run import random_inputs
from tx8isa.numbers.prime_field import Elements, PrimeField
from tx8isa.tools.command_line import one_line

from .field_run import FieldOutcome, run_in_field
from .graft import grafted
from .terms import TermSearch

_REWRITES = 2
"""The passes up to the one that rewrites the graph."""
_RECIPES = (1 << 12, 1 << 16)
"""Elements of a program that computes one function: for few and for many."""
_VALUE = re.compile(r"\b[cv]\.\d+\b")
"""The symbol of a value without a name of its own; its number depends on how many constants are equal."""
_SCALAR = re.compile(r"\b(src1=)(-?\d[\d.e+-]*)")
"""A number that an instruction holds."""
_SAMPLE = 32
"""Elements of a value that are looked for among the results of instructions."""


@dataclass(frozen=True)
class Difference:
    """The first element of an output that differs from the graph's."""

    output: str
    index: tuple[int, ...]
    count: int
    """Number of elements that differ."""
    size: int
    by: str = ""
    """The instruction that computed it."""
    instead: str = ""
    """The program's value there, if it is 0 or one other element of the graph."""


@dataclass(frozen=True)
class Proof:
    """The findings of a proof."""

    proved: Mapping[str, int]
    """Outputs that are right, with the number of their elements."""
    differences: tuple[Difference, ...]
    unknown: Mapping[str, int]
    """Outputs with elements about which nothing is known, and the number of these."""
    reserves: Mapping[str, int]
    """Instructions that were executed only in real numbers, with their counts."""
    not_followed: Mapping[str, str]
    """Nodes without a meaning in the field, and what they do."""
    by_recipe: frozenset[str]
    """Operators whose meaning is that of their own programs."""
    same_code: bool
    """True if the twin's program, which was run, has the instructions of the given one."""
    blamed: Node | None = None
    """The first node whose result no instruction computes, though its operands are there."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The sizes of the run, for a program of a range."""
    mistake: str = ""
    """The missing or surplus terms of the first wrong sum, if such a mistake explains the wrong output."""

    @property
    def holds(self) -> bool:
        """Return True if every output of floats is proved."""
        return self.same_code and not self.differences and not self.unknown

    def __str__(self) -> str:
        return "\n".join(lines(self))


def prove(
    program: Program, seed: int = 1, image: Image | None = None, sizes: Mapping[str, int] | None = None
) -> Proof:
    """Compare a program with its graph in prime fields; the arguments are those of ``Prover``.

    ``sizes``: those of a run, for a program of a range; by default the usual ones.
    """
    return Prover(program, seed, image).at(sizes)


class Prover:
    """Compares a program with its graph in prime fields, at one size or at several.

    ``image``: another program of this graph, from a file, whose code is proved instead. GraphError for an
    image that the graph cannot have, for states that grow, and for programs of several chips.
    """

    def __init__(self, program: Program, seed: int = 1, image: Image | None = None) -> None:
        if program.spread is not None:
            raise GraphError(["--prove takes programs of one chip"])
        if program.ranges is not None and program.ranges.growing:
            raise GraphError(["--prove takes no programs with states that grow"])
        self.program, self.seed, self._compute = program, seed, compute_format(program.dtype)
        twin = _twin_program(program, partial(twin_of, compute=self._compute))
        self._made = twin
        self._twin = twin if image is None else replace(twin, image=grafted(image, program.image, twin.image))

    @property
    def points(self) -> list[dict[str, int]]:
        """The sizes of a range to prove it at: the smallest, odd and largest ones."""
        source = self.program.ranges
        if source is None:
            return [{}]
        ranges = source.ranges
        found = [ranges.least, ranges.odd, ranges.most]
        return [point for at, point in enumerate(found) if point not in found[:at]]

    def at(self, sizes: Mapping[str, int] | None = None) -> Proof:
        """The proof at some sizes, by default the usual ones.

        GraphError for sizes that the program cannot run; emulator.Fault when it stops.
        """
        program, source, point = self.program, self.program.ranges, dict[str, int]()
        if source is not None:
            point = source.ranges.point_of(sizes or {})
            program = replace(program, graph=source.graph_at(point))
        elif sizes:
            raise GraphError([f"the program has one size, not {', '.join(sizes)}"])
        given = rewritten(program, point)
        graph = twin_of(given, self._compute)
        field = PrimeField(self.seed, has_exponentials(self._made), self._compute)
        wanted = FieldGraph(graph, self._compute, field, _Recipes(field, program).computed)
        proof = self._compared(wanted, random_inputs(program.graph, {}, self.seed))
        same = same_code(self.program, self._made, factors_of(given, graph))
        return replace(proof, same_code=same, sizes={name: point[name] for name in self._names})

    @property
    def _names(self) -> tuple[str, ...]:
        """The dimensions of a range."""
        return () if self.program.ranges is None else self.program.ranges.ranges.names

    def _compared(self, wanted: FieldGraph, real: Mapping[str, Array]) -> Proof:
        """Run graph and program; ``real`` has numbers for all inputs."""
        graph, field = wanted.graph, wanted.field
        elements = {t.name: field.random(t.name, t.shape) for t in graph.inputs if t.is_float}
        run = partial(run_in_field, self._twin, field, elements, real)
        # Threads of OpenBLAS wait for each other busily: on a host that does other things a product takes up
        # to thirty times the processor time.
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(1) as pool:
            running = pool.submit(run)
            values = wanted.run({**real, **elements})
            got = running.result()
        proof = replace(
            _compared(graph, field, got.outputs, values),
            reserves=got.not_followed,
            not_followed=wanted.not_followed,
            by_recipe=frozenset(wanted.by_recipe),
        )
        if not proof.differences:
            return proof
        return _explained(proof, TermSearch(wanted, values, run(keep_results=True)))


def rewritten(program: Program, sizes: Mapping[str, int]) -> Graph:
    """The graph of a program, at sizes of a range, as the rewrites leave it."""
    context = context_of(program.graph, program.dtype, program.tiles, program.machine, ranges=program.ranges)
    if isinstance(context, RangedContext):
        return rewritten_at(context, sizes)
    module = ModuleOp([])
    for step in PIPELINE[:_REWRITES]:
        step.run(context, module)
    return context.graph


def _explained(proof: Proof, search: TermSearch) -> Proof:
    """A proof that has found differences, with what the results of instructions say about them."""
    first, wanted = proof.differences[0], search.wanted
    named = tuple(
        replace(each, by=_computed_by(search.run, each), instead=search.instead(each.output, each.index))
        for each in proof.differences
    )
    return replace(
        proof,
        differences=named,
        blamed=_blamed(wanted.graph, wanted.field, search.values, search.run.computed),
        mistake=search.explanation(first.output, first.index),
    )


def _twin_program(program: Program, twin: Twin) -> Program:
    """The program of the twin, by the decisions of the given one."""
    assert program.again is not None, "the compiler made the program"
    try:
        return program.again(twin=twin)
    except PlanMisfit:  # equal constants, such as a scale and a shift, become different ones
        return program.again(twin=twin, plan=None)


def _computed_by(run: FieldOutcome, difference: Difference) -> str:
    """The instruction that computed the first wrong element; empty where it is a constant, or an input."""
    return run.instruction(int(run.writers[difference.output][difference.index]))


def has_exponentials(program: Program) -> bool:
    """True if a program has exponentials."""
    return any(line.lstrip().startswith("ct.exp") for line in program.text.splitlines())


def same_code(program: Program, twin: Program, factors: Mapping[float, float]) -> bool:
    """True if a program has the instructions of its twin; ``factors``: the twin's factor in place of each."""

    def factor(found: re.Match[str]) -> str:
        return f"{found[1]}{factors.get(float(np.float32(found[2])), found[2])}"

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


def _compared(
    graph: Graph, field: PrimeField, got: Mapping[str, Elements], values: Mapping[str, Any]
) -> Proof:
    proved, unknown, differences = dict[str, int](), dict[str, int](), list[Difference]()
    for tensor in graph.outputs:
        if not tensor.is_float or not tensor.size:
            continue
        found, wanted = (field.canonical(each) for each in (got[tensor.name], values[tensor.name]))
        nothing = np.isnan(found).any(0) | np.isnan(wanted).any(0)
        wrong = (found != wanted).any(0) & ~nothing
        if nothing.any():
            unknown[tensor.name] = int(nothing.sum())
        if wrong.any():
            index = tuple(int(at) for at in np.argwhere(wrong)[0])
            differences.append(Difference(tensor.name, index, int(wrong.sum()), tensor.size))
        elif not nothing.any():
            proved[tensor.name] = tensor.size
    return Proof(proved, tuple(differences), unknown, {}, {}, frozenset(), True)


def _blamed(graph: Graph, field: PrimeField, values: Mapping[str, Any], results: Any) -> Node | None:
    """The first node whose result is computed nowhere although its operands are."""
    there = {tensor.name for tensor in graph.inputs} | set(graph.constants)
    for node in graph.nodes:
        made = [name for name in node.outputs if name and graph.tensors[name].is_float]
        if OPERATORS[node.op].moves or all(_is_there(field, values[name], results) for name in made):
            there.update(node.outputs)
        elif all(not name or name in there or is_known(node, at) for at, name in enumerate(node.inputs)):
            return node
    return None


def _is_there(field: PrimeField, value: Elements, results: Any) -> bool:
    """True if instructions have computed the elements of a value, as far as a sample shows."""
    flat = value.reshape(value.shape[0], -1)
    step = max(1, flat.shape[1] // _SAMPLE)
    return bool(results.have(field.keys(flat[:, ::step])).all())


class _Recipes:
    """Programs of single functions, which define these in the field."""

    def __init__(self, field: PrimeField, program: Program) -> None:
        self._field, self._dtype, self._machine = field, program.dtype, program.machine
        self._programs: dict[Any, Program] = {}

    def computed(self, graph: Graph, node: Node, operands: Sequence[Elements | None]) -> Elements:
        """The result of a node, a part of its elements at a time."""
        shape = graph.tensors[node.outputs[0]].shape
        count = _RECIPES[int(np.prod(shape)) > _RECIPES[0]]
        program = self._program(graph, node, count)
        varied = [None if is_known(node, at) else x for at, x in enumerate(operands)]
        flat = [None if x is None else _spread(x, shape) for x in varied]
        size = int(np.prod(shape))
        parts = [
            self._part(program, count, [None if x is None else x[:, at : at + count] for x in flat])
            for at in range(0, size, count)
        ]
        return np.concatenate(parts, 1).reshape(-1, *shape)

    def _part(self, program: Program, length: int, operands: Sequence[Elements | None]) -> Elements:
        inputs, count = dict[str, Elements](), 0
        for at, operand in enumerate(operands):
            if operand is not None:
                count = operand.shape[1]
                inputs[f"x{at}"] = np.zeros((operand.shape[0], length))
                inputs[f"x{at}"][:, :count] = operand
        found = run_in_field(program, self._field, inputs, random_inputs(program.graph, {}, 1))
        return found.outputs["y"][:, :count]

    def _program(self, graph: Graph, node: Node, length: int) -> Program:
        precise = node.name in graph.precise
        known = tuple(graph.constants[name].tobytes() for name in _known(node).values())
        key = length, node.op, repr(sorted(node.attrs.items())), len(node.inputs), precise, known
        if key not in self._programs:
            dtype = "fp32" if precise else self._dtype
            self._programs[key] = compile_graph(_alone(graph, node, length), dtype, 1, self._machine)
        return self._programs[key]


def _spread(operand: Elements, shape: Sequence[int]) -> Elements:
    """Elements broadcast to a shape, side by side."""
    filled = operand.reshape(operand.shape[0], *(1,) * (len(shape) + 1 - operand.ndim), *operand.shape[1:])
    return np.broadcast_to(filled, (operand.shape[0], *shape)).reshape(operand.shape[0], -1)


def _known(node: Node) -> dict[str, str]:
    """The operands that must be known when compiling, by their names in the graph of the node alone."""
    return {f"x{at}": name for at, name in enumerate(node.inputs) if name and is_known(node, at)}


def _alone(graph: Graph, node: Node, length: int) -> Graph:
    """The graph of one node, for vectors; what must be known when compiling stays a constant."""
    names = [f"x{at}" if name else "" for at, name in enumerate(node.inputs)]
    known = {own: graph.constants[name] for own, name in _known(node).items()}
    vector = Tensor("", "float32", (length,))
    tensors = {name: replace(vector, name=name) for name in (*names, "y") if name}
    tensors |= {name: Tensor(name, array.dtype.name, array.shape) for name, array in known.items()}
    return replace(
        graph,
        inputs=tuple(tensors[name] for name in names if name and name not in known),
        outputs=(tensors["y"],),
        nodes=(replace(node, inputs=tuple(names), outputs=("y",)),),
        tensors=tensors,
        constants=known,
        precise=frozenset(),
        states=(),
        replaceable=frozenset(),
    )


def lines(proof: Proof) -> list[str]:
    """The findings of a proof as lines for people."""
    found = [f"proved: {name}, {count:,} elements" for name, count in proof.proved.items()]
    for each in proof.differences:
        place = f"{each.output}[{', '.join(map(str, each.index))}]"
        found.append(
            f"WRONG: {each.count:,} of {each.size:,} elements of {each.output}; the first is {place}"
            + (f", which is {each.instead}" if each.instead else "")
            + (f", computed by {each.by}" if each.by else "")
        )
    if proof.mistake:
        found.append(proof.mistake)
    elif proof.blamed is not None:
        found.append(f"{proof.blamed}: no instruction computes its result, though all its operands are there")
    found += [
        f"open: {name}, nothing is known of {count:,} elements" for name, count in proof.unknown.items()
    ]
    found += [f"node '{name}' is not followed: {what}" for name, what in proof.not_followed.items()]
    found += [f"but for {what}, {count:,} times" for what, count in proof.reserves.items()]
    if proof.by_recipe:
        found.append(f"functions as their own programs compute them: {', '.join(sorted(proof.by_recipe))}")
    if not proof.same_code:
        found.append("open: with short constants the program has other instructions")
    at = ", ".join(f"{name}={size}" for name, size in proof.sizes.items())
    return [one_line(f"at {at}: {line}" if at else line) for line in found]
