"""Programs of single functions, which define these in the field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from compiler.driver import Program, compile_graph
from compiler.graph import Graph, Node, Tensor
from compiler.operators import is_known
from tx8isa.machine.description import Machine
from tx8isa.numbers.prime_field import Elements, PrimeField

from .field_run import FieldSteps

_RECIPES = (1 << 12, 1 << 16)
"""Elements of a program that computes one function: for few and for many."""


class Recipes:
    """Programs of single functions, which define these in the field."""

    def __init__(self, field: PrimeField, program: Program) -> None:
        self._field, self._dtype, self._machine = field, program.dtype, program.machine
        self._programs: dict[Any, FieldSteps] = {}

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

    def _part(self, program: FieldSteps, length: int, operands: Sequence[Elements | None]) -> Elements:
        inputs, count = dict[str, Elements](), 0
        for at, operand in enumerate(operands):
            if operand is not None:
                count = operand.shape[1]
                inputs[f"x{at}"] = np.zeros((operand.shape[0], length))
                inputs[f"x{at}"][:, :count] = operand
        real = {name: np.zeros(length, np.float32) for name in inputs}
        return program.step(inputs, real).outputs["y"][:, :count]

    def _program(self, graph: Graph, node: Node, length: int) -> FieldSteps:
        precise = node.name in graph.precise
        known = tuple(graph.constants[name].tobytes() for name in _known(node).values())
        key = length, node.op, repr(sorted(node.attrs.items())), len(node.inputs), precise, known
        if key not in self._programs:
            dtype = "fp32" if precise else self._dtype
            made = compile_graph(_alone(graph, node, length), dtype, 1, one_chip(self._machine))
            self._programs[key] = FieldSteps(made, self._field)
        return self._programs[key]


def one_chip(machine: Machine) -> Machine:
    """A machine with one of its chips."""
    return machine if machine.chip_count == 1 else machine.of_chips(1, 1)


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
