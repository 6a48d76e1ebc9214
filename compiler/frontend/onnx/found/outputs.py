"""Outputs with found sizes: the last node of each leaves no gaps and reports the size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compiler.evaluation.infer import infer_node
from compiler.frontend.onnx.partial import PartialGraph, Scope
from compiler.graph import Node
from compiler.operators.reductions.found import SIZED


def report_sizes(graph: PartialGraph, outputs: Iterable[str], scope: Scope) -> None:
    """Add a node for each output of data-dependent size; each count has a word of the shape block."""
    words: dict[str, int] = {}
    for output in dict.fromkeys(outputs):
        value = scope.inner(output)
        counts = graph.bounded.get(value)
        if not counts:
            continue
        if value == output:
            value = f"{output}/found"
            _rename(graph, output, value)
        for name in counts.values():
            words.setdefault(name, len(words))
        axes, names = tuple(counts), tuple(counts.values())
        attrs = {"axes": axes, "words": tuple(words[name] for name in names)}
        node = Node(SIZED, f"{output}/sized", (value, *names), (output,), attrs)
        graph.nodes.append(infer_node(graph.description, node, graph.tensors))
        scope.names.pop(output, None)


def _rename(graph: PartialGraph, name: str, other: str) -> None:
    """Give a value of the graph another name."""
    tensor = graph.tensors[name]
    graph.tensors[other] = replace(tensor, name=other)

    def new(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(other if each == name else each for each in names)

    graph.nodes[:] = [replace(n, inputs=new(n.inputs), outputs=new(n.outputs)) for n in graph.nodes]
    if name in graph.constants:
        graph.constants[other] = graph.constants.pop(name)
    graph.bounded[other] = graph.bounded.pop(name)
