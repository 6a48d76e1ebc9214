"""Proves the steps of a program one after another: states keep their elements from step to step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from compiler.driver import Program
from compiler.evaluation.field.byte_rules import byte_inputs
from compiler.evaluation.field.rules import is_elements
from compiler.evaluation.field.run import FieldGraph, Value
from compiler.evaluation.reference import run_reference
from compiler.graph import Array, Graph, Node
from compiler.operators import OPERATORS, is_known
from compiler.tools.run import random_inputs
from tx8isa.numbers.prime_field import Elements, PrimeField

from .field_run import FieldOutcome, FieldSteps
from .findings import Difference, Proof, compared
from .tables import NO_FUNCTIONS, Functions
from .terms import TermSearch

_SAMPLE = 32
"""Elements of a value that are looked for among the results of instructions."""
_Given = tuple[dict[str, Elements], dict[str, Array]]
"""Elements of the floats, and numbers of all inputs that a step is given."""


class ProofSession:
    """Steps of a program and of its graph; ``seed`` draws the inputs.

    ``explain``: look for what makes an output wrong. ``functions``: those that the program may read from
    tables. ``finds``: the graph only finds integers in floats.
    The first step begins with random states. Each later step begins with the states of the step before: the
    program with its memory, the graph with its own values.
    """

    def __init__(
        self,
        twin: Program,
        field: PrimeField,
        seed: int,
        explain: bool = True,
        functions: Functions = NO_FUNCTIONS,
        finds: bool = False,
    ) -> None:
        self._twin, self.field, self._seed, self._explain = twin, field, seed, explain
        self._fresh = partial(FieldSteps, twin, field, functions, finds)
        self._running = self._fresh()
        self._given: list[_Given] = []
        self._carried: dict[str, Value] = {}

    @property
    def steps(self) -> int:
        """Number of the last step."""
        return len(self._given)

    @property
    def has_states(self) -> bool:
        """Return True if something stays from step to step."""
        return bool(self._twin.graph.states)

    def step(self, graph: Graph, wanted: FieldGraph, numbers: Mapping[str, Array]) -> Proof:
        """Compare the next step. ``graph`` is the model's; in that of ``wanted`` states may have room.

        ``numbers``: arrays of inputs whose numbers decide something, such as places.
        """
        elements, real = given = self._drawn(graph, wanted.graph, numbers)
        self._given.append(given)
        room = {tensor.name: tensor.shape for tensor in wanted.graph.inputs}
        inputs = {name: _in_room(x, room[name], 0) for name, x in real.items()}
        inputs |= {name: _in_room(x, room[name], 1) for name, x in elements.items()}
        # Threads of OpenBLAS wait for each other busily: on a host that does other things a product takes up
        # to thirty times the processor time.
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(1) as pool:
            running = pool.submit(self._running.step, elements, real)
            decide = partial(run_reference, inputs=real, storage=wanted.compute.token)
            values = wanted.run({**inputs, **self._carried}, decide if self.steps == 1 else None)
            got = running.result()
        self._carried = {past: values[present] for past, present in graph.states}
        proof = replace(
            _as_numbers_allow(compared(graph.outputs, self.field, got, values), wanted.decided),
            reserves=got.not_followed + Counter(f"{node}: finds integers" for node in wanted.by_numbers),
            not_followed=wanted.not_followed,
            by_recipe=frozenset(wanted.by_recipe),
        )
        if not proof.differences or not self._explain:
            return proof
        return _explained(proof, wanted, values, self._again())

    def _drawn(self, graph: Graph, rewritten: Graph, numbers: Mapping[str, Array]) -> _Given:
        """Random inputs of a step, but for given ones; states are inputs of the first step."""
        number, states = self.steps + 1, dict(graph.states)
        drawn = [each for each in graph.inputs if number == 1 or each.name not in states]
        every = random_inputs(graph, numbers, self._seed + number - 1)
        of_step = "" if number == 1 else f" of step {number}"
        free = byte_inputs(rewritten) - numbers.keys()
        random = [t for t in drawn if t.is_float or t.name in free]
        elements = {t.name: self.field.random(f"{t.name}{of_step}", t.shape) for t in random}
        return elements, {tensor.name: every[tensor.name] for tensor in drawn}

    def _again(self) -> FieldOutcome:
        """Run the last step once more, after those before it, and keep the results of its instructions."""
        running = self._fresh()
        for given in self._given[:-1]:
            running.step(*given)
        return running.step(*self._given[-1], keep_results=True)


def _as_numbers_allow(proof: Proof, decided: Collection[str]) -> Proof:
    """A proof in which outputs that follow from found integers are open instead of wrong.

    A program rounds numbers, so it may find other integers where two are nearly equal.
    """
    wrong = tuple(each for each in proof.differences if each.output not in decided)
    others = {each.output: each.count for each in proof.differences if each.output in decided}
    return replace(proof, differences=wrong, unknown={**proof.unknown, **others})


def _in_room(x: Array, shape: tuple[int, ...], axis: int) -> Array:
    """An array at the beginning of zeros whose axes from ``axis`` on have a shape."""
    if x.shape[axis:] == shape:
        return x
    whole = np.zeros((*x.shape[:axis], *shape), x.dtype)
    whole[tuple(map(slice, x.shape))] = x
    return whole


def _explained(proof: Proof, wanted: FieldGraph, values: Mapping[str, Value], run: FieldOutcome) -> Proof:
    """A proof that has found differences, with evidence from the results of instructions."""
    search = TermSearch(wanted, values, run)
    named = tuple(
        replace(each, by=_computed_by(run, each), instead=search.instead(each.output, each.index))
        if is_elements(values[each.output])
        else each
        for each in proof.differences
    )
    first = next((each for each in named if is_elements(values[each.output])), None)
    return replace(
        proof,
        differences=named,
        blamed=_blamed(wanted.graph, wanted.field, values, run.computed),
        mistake="" if first is None else search.explanation(first.output, first.index),
    )


def _computed_by(run: FieldOutcome, difference: Difference) -> str:
    """The instruction that computed the first wrong element; empty where it is a constant, or an input."""
    return run.instruction(int(run.writers[difference.output][difference.index]))


def _blamed(graph: Graph, field: PrimeField, values: Mapping[str, Any], results: Any) -> Node | None:
    """The first node whose result is computed nowhere although its operands are."""
    there = {tensor.name for tensor in graph.inputs} | set(graph.constants)
    for node in graph.nodes:
        made = [name for name in node.outputs if name and is_elements(values[name])]
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
