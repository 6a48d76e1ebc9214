"""Asserts that rewritten graphs have the expected operators and equal results in binary64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from compiler.evaluation.reference import run_reference
from compiler.graph import Array, Graph
from compiler.rewrite import rewrite_graph
from compiler_harness import NodeSpec, draw, graph

Shapes = Mapping[str, tuple[int, ...]]


def number(value: float) -> Array:
    return np.array(value, np.float32)


def ops(found: Graph) -> list[str]:
    return [node.op for node in found.nodes]


def assert_same(before: Graph, after: Graph, tolerance: float = 1e-6) -> None:
    """Assert that both graphs give the same outputs on random inputs, up to the rounding of folded
    constants."""
    inputs = {tensor.name: draw(*tensor.shape, seed=at) for at, tensor in enumerate(before.inputs)}
    expected, found = run_reference(before, inputs), run_reference(after, inputs)
    assert [tensor.name for tensor in before.outputs] == [tensor.name for tensor in after.outputs]
    for name, value in expected.items():
        assert found[name].shape == value.shape
        np.testing.assert_allclose(found[name], value, rtol=tolerance, atol=tolerance)


def becomes(
    nodes: Sequence[NodeSpec], inputs: Shapes, constants: Mapping[str, Array], wanted: list[str], **more: Any
) -> Graph:
    """The graph is rewritten to these operators, and computes the same."""
    before = graph(nodes, inputs, constants, **more)
    after = rewrite_graph(before)
    assert_same(before, after)
    assert ops(after) == wanted, ops(after)
    return after


def stays(nodes: Sequence[NodeSpec], inputs: Shapes, constants: Mapping[str, Array], **more: Any) -> None:
    becomes(nodes, inputs, constants, [spec[0] for spec in nodes], **more)


def placed(nodes: Sequence[NodeSpec], prefix: str, names: Mapping[str, str]) -> list[NodeSpec]:
    """The nodes in a larger graph: names of their results begin with ``prefix``, or are in ``names``."""
    made = {name: f"{prefix}{name}" for _, _, outputs, _ in nodes for name in outputs} | dict(names)
    return [
        (op, [made.get(name, name) for name in inputs], [made[name] for name in outputs], attrs)
        for op, inputs, outputs, attrs in nodes
    ]


#: Numbers of GELU and its like.
HALF = {
    "half": number(0.5),
    "one": number(1),
    "two": number(2),
    "three": number(3),
    "six": number(6),
    "zero": number(0),
    "sixth": number(1 / 6),
    "root2": number(np.sqrt(2)),
    "root_half": number(np.sqrt(0.5)),
    "cubic": number(0.044715),
    "tanh_scale": number(np.sqrt(2 / np.pi)),
}
