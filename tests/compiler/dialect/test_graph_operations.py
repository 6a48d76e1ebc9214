"""Graphs as operations of a module: a graph that is put there and read back is equal, also through text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from compiler.graph import Array, Graph, GraphError
from compiler.passes import PIPELINE
from compiler.passes.compilation import context_of
from compiler.passes.graph_operations import graph_of
from compiler.passes.layouts.import_graph import ImportPass
from compiler.passes.rewrite import RewritePass
from compiler.tools.opt_text import read_text_file
from compiler_harness import NodeSpec, draw, graph, ints
from ir_text import after, written

EMPTY = np.zeros(0, np.float32)
GRAPHS: dict[str, tuple[list[NodeSpec], dict[str, tuple[int, ...]], dict[str, Array]]] = {
    "several results": (
        [("Split", ["x", "sizes"], ["a", "b"], {"axis": 1}), ("Add", ["a", "b"], ["y"], {})],
        {"x": (2, 6)},
        {"sizes": ints(3, 3)},
    ),
    "a result that nobody wants": (
        [("LSTM", ["x", "w", "r"], ["", "y"], {"hidden_size": 2})],
        {"x": (3, 1, 4)},
        {"w": draw(1, 8, 4), "r": draw(1, 8, 2)},
    ),
    "an operand omitted": ([("Clip", ["x", "", "k"], ["y"], {})], {"x": (5,)}, {"k": draw(1)[0]}),
    "a constant without elements": (
        [("Resize", ["x", "roi", "scales"], ["y"], {"mode": "nearest"})],
        {"x": (1, 1, 2, 3)},
        {"roi": EMPTY, "scales": np.array([1, 1, 2, 2], np.float32)},
    ),
    "one constant as data and as a shape": (
        [("Reshape", ["x", "k"], ["h"], {}), ("Add", ["k", "k"], ["e"], {}), ("Neg", ["e"], ["y"], {})],
        {"x": (2, 3)},
        {"k": ints(3, 2)},
    ),
    "names like those that are made": (
        [("Reshape", ["x", "k"], ["n0/1"], {}), ("Reshape", ["n0/1", "k"], ["y"], {})],
        {"x": (2, 3)},
        {"k": ints(3, 2)},
    ),
    "odd names": ([("Relu", ['x\n"\\'], ["é→ {"], {}), ("Exp", ["é→ {"], ["y"], {})], {'x\n"\\': (2, 3)}, {}),
    "strings and numbers": (
        [("Gelu", ["x"], ["h"], {"approximate": "tanh"}), ("LeakyRelu", ["h"], ["y"], {"alpha": 1e-30})],
        {"x": (7,)},
        {},
    ),
}


def meaning(found: Graph) -> list[object]:
    """The nodes with the values of constants instead of their names, which may differ."""

    def operand(name: str) -> object:
        array = found.constants.get(name)
        return name if array is None else (array.dtype.name, array.shape, array.tobytes())

    results = [[found.tensors[name] for name in node.outputs if name] for node in found.nodes]
    return [
        (node.op, node.name, [operand(name) for name in node.inputs], node.outputs, dict(node.attrs), made)
        for node, made in zip(found.nodes, results, strict=True)
    ]


def made(name: str) -> Graph:
    nodes, inputs, constants = GRAPHS[name]
    return graph(nodes, inputs, constants)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_comes_back(name: str, tmp_path: Path) -> None:
    wanted = made(name)
    context, module = context_of(wanted, "fp16", 4, None), ModuleOp([])
    after(module, context, ImportPass())
    file = written(tmp_path / "a.mlir", context, module, ["import"])
    for source in ((context, module), read_text_file(file, context.machine, {})[:2]):
        found = graph_of(*source)
        assert meaning(found) == meaning(wanted)
        assert [tensor.name for tensor in found.outputs] == [tensor.name for tensor in wanted.outputs]


def test_an_output_may_read_another_value() -> None:
    """The module is as in a text that a user has edited."""
    wanted = graph([("Relu", ["x"], ["h"], {}), ("Exp", ["h"], ["y"], {})], {"x": (5,)})
    context, module = context_of(wanted, "fp16", 4, None), ModuleOp([])
    after(module, context, ImportPass())
    relu, last = (list(module.body.block.first_op.regions[0].block.ops)[at] for at in (1, -1))  # type: ignore[union-attr]
    last.operands[0] = relu.results[0]
    assert graph_of(context, module).nodes[-1].inputs == ("h",)
    assert graph_of(context, module).nodes[-1].outputs == ("y",)


NAMES = [step.name for step in PIPELINE]
CAST = NAMES.index("cast")


@pytest.mark.parametrize("count", range(CAST + 1, len(PIPELINE)), ids=NAMES[CAST:-1])
def test_what_is_no_graph_any_more_is_refused(count: int) -> None:
    nodes: list[NodeSpec] = [
        ("Conv", ["x", "w"], ["c"], {}),
        ("Relu", ["c"], ["r"], {}),
        ("Softmax", ["r"], ["y"], {}),
    ]
    context = context_of(graph(nodes, {"x": (1, 2, 5, 5)}, {"w": draw(3, 2, 3, 3)}), "fp16", 4, None)
    module = after(ModuleOp([]), context, *PIPELINE[:count])
    before = str(module)
    with pytest.raises(GraphError, match=r"^the module is not a graph any more: found tx8be\."):
        RewritePass().run(context, module)
    assert str(module) == before
