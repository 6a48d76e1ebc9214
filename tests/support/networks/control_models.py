"""Random models of nested control flow on tensors of 4x8 float32."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

node = helper.make_node
SHAPE = (4, 8)
_DEEPEST = 2


def declared(name: str, shape: Sequence[int | str] | None = SHAPE, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def count(name: str) -> Any:
    """A declared scalar of int64."""
    return declared(name, (), TensorProto.INT64)


def truth(name: str) -> Any:
    """A declared scalar of bool."""
    return declared(name, (), TensorProto.BOOL)


def constant(name: str, value: Any) -> Any:
    return numpy_helper.from_array(np.asarray(value), name)


def made(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    known: Sequence[Any] = (),
    opset: int = 21,
) -> Any:
    """A model that onnxruntime reads too."""
    graph = helper.make_graph(nodes, "made", inputs, outputs, known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


class ControlModel:
    """A model of inputs ``x`` and ``y``, and of the counts ``n`` and ``k`` of steps; it has some of the
    ``outputs``.

    Conditions are sums that are larger than zero; loops have computed counts, some of them also conditions.
    """

    def __init__(self, seed: int) -> None:
        self._chance, self._names = random.Random(seed), 0
        self._known = [constant("zero", np.float32(0)), constant("two", 2)]
        nodes, values = self._block(["x", "y"], 0, 6)
        self.outputs = []
        for value in [each for each in values[-3:] if each not in "xy"]:
            self.outputs.append(self._name("out"))
            nodes.append(node("Identity", [value], [self.outputs[-1]]))
        inputs = [declared("x"), declared("y"), count("n"), count("k")]
        self.proto = made(nodes, inputs, [declared(name) for name in self.outputs], self._known)
        self.operators = {each.op_type for each in nodes}

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"

    def _block(self, floats: Sequence[str], depth: int, length: int) -> tuple[list[Any], list[str]]:
        """Some nodes, and the known values after them."""
        nodes, values = list[Any](), list(floats)
        kinds = [self._unary, self._binary, self._binary, self._product]
        for _ in range(length):
            deep = [self._if, self._loop, self._loop, self._scan] if depth < _DEEPEST else []
            self._chance.choice([*kinds, *deep])(nodes, values, depth)
        return nodes, values

    def _unary(self, nodes: list[Any], values: list[str], depth: int) -> None:
        op = self._chance.choice(["Relu", "Tanh", "Neg", "Sigmoid", "Identity"])
        values.append(self._name("u"))
        nodes.append(node(op, [self._chance.choice(values[:-1])], values[-1:]))

    def _binary(self, nodes: list[Any], values: list[str], depth: int) -> None:
        op, operands = self._chance.choice(["Add", "Sub", "Min", "Max"]), self._chance.choices(values, k=2)
        values.append(self._name("b"))
        nodes.append(node(op, operands, values[-1:]))

    def _product(self, nodes: list[Any], values: list[str], depth: int) -> None:
        weights, size = self._name("w"), SHAPE[-1]
        drawn = np.random.default_rng(self._names).standard_normal((size, size)) * 0.3
        self._known.append(constant(weights, drawn.astype(np.float32)))
        operand = self._chance.choice(values)
        values.append(self._name("m"))
        nodes.append(node("MatMul", [operand, weights], values[-1:]))

    def _condition(self, nodes: list[Any], values: list[str]) -> str:
        total, holds = self._name("s"), self._name("holds")
        nodes.append(node("ReduceSum", [self._chance.choice(values)], [total], keepdims=0))
        nodes.append(node("Greater", [total, "zero"], [holds]))
        return holds

    def _if(self, nodes: list[Any], values: list[str], depth: int) -> None:
        results = [self._name("f") for _ in range(self._chance.choice([1, 2]))]
        holds = self._condition(nodes, values)
        branches = {
            name: self._branch(values, depth, len(results)) for name in ("then_branch", "else_branch")
        }
        nodes.append(node("If", [holds], results, self._name("if"), **branches))
        values += results

    def _branch(self, values: list[str], depth: int, results: int) -> Any:
        nodes, known = self._block(values, depth + 1, self._chance.choice([0, 1, 2]))
        names = [self._name("r") for _ in range(results)]
        nodes += [
            node(self._chance.choice(["Identity", "Neg"]), [self._chance.choice(known)], [r]) for r in names
        ]
        return helper.make_graph(nodes, "branch", [], [declared(name) for name in names])

    def _loop(self, nodes: list[Any], values: list[str], depth: int) -> None:
        carried = [self._name("c") for _ in range(self._chance.choice([1, 2]))]
        step, before, after = self._name("i"), self._name("go"), self._name("go")
        body, known = self._block([*values, *carried], depth + 1, self._chance.choice([1, 2]))
        following = [self._name("d") for _ in carried]
        for name in following:
            operand = self._chance.choice([*known[-3:], *carried])
            body.append(node(self._chance.choice(["Tanh", "Identity"]), [operand], [name]))
        again = self._condition(body, known) if self._chance.random() < 0.5 else before
        body.append(node("Identity", [again], [after]))
        takes = [count(step), truth(before), *map(declared, carried)]
        graph = helper.make_graph(body, "body", takes, [truth(after), *map(declared, following)])
        first = [self._chance.choice(values) for _ in carried]
        results = [self._name("l") for _ in carried]
        operands = [self._chance.choice(["n", "k", "two"]), "", *first]
        nodes.append(node("Loop", operands, results, self._name("loop"), body=graph))
        values += results

    def _scan(self, nodes: list[Any], values: list[str], depth: int) -> None:
        total, row, more, result = (self._name("s") for _ in range(4))
        parts = [node("Add", [total, row], [more]), node("Tanh", [more], [result])]
        flat = [declared(name, SHAPE[1:]) for name in (total, row, more, result)]
        start, operand = self._name("z"), self._chance.choice(values)
        self._known.append(constant(start, np.zeros(SHAPE[1:], np.float32)))
        values.append(self._name("v"))
        body = helper.make_graph(parts, "body", flat[:2], flat[2:])
        outputs = [self._name("e"), values[-1]]
        nodes.append(
            node("Scan", [start, operand], outputs, self._name("scan"), body=body, num_scan_inputs=1)
        )
