"""Excerpts: some nodes of a graph as a graph of its own, and files from which it can be compiled alone."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from compiler.evaluation.folding import needed, selected
from compiler.graph import DTYPES, Array, Graph, Node, Tensor
from tx8isa.tools.files import write_whole

GRAPH_FILE, CONSTANTS_FILE = "graph.json", "constants.npz"


@dataclass(frozen=True)
class Excerpt:
    """Some nodes of a graph as a graph with inputs ``in0``, ``in1`` ... and outputs ``out0``, ``out1`` ...

    ``origin`` maps the names of its tensors to those in the whole graph.
    """

    graph: Graph
    origin: Mapping[str, str]


def with_outputs(graph: Graph, names: Iterable[str]) -> Graph:
    """The graph with these tensors as outputs, without nodes and constants that they do not need."""
    wanted = tuple(dict.fromkeys(names))
    nodes, reads = needed(graph.nodes, wanted)
    constants = selected(graph.constants, reads | set(wanted))
    outputs = tuple(graph.tensors[name] for name in wanted)
    states = tuple(pair for pair in graph.states if pair[1] in wanted)
    return replace(graph, outputs=outputs, nodes=tuple(nodes), constants=constants, states=states)


def excerpt(graph: Graph, nodes: Sequence[Node]) -> Excerpt:
    """An excerpt of these nodes, which are in topological order.

    Its outputs are the results that other nodes of the graph, or no node at all, use.
    """
    made = [name for node in nodes for name in node.outputs if name]
    read = dict.fromkeys(name for node in nodes for name in node.inputs if name)
    chosen = {node.name for node in nodes}
    outside = {name for node in graph.nodes if node.name not in chosen for name in node.inputs}
    outside |= {tensor.name for tensor in graph.outputs}
    short: dict[str, str] = {}
    for name in read:
        if name not in made:
            kind = "const" if name in graph.constants or not graph.tensors[name].size else "in"
            short[name] = f"{kind}{sum(other.startswith(kind) for other in short.values())}"
    for name in made:
        kind = "out" if name in outside or name not in read else "v"
        short[name] = f"{kind}{sum(other.startswith(kind) for other in short.values())}"
    return Excerpt(_renamed(graph, nodes, short), {new: old for old, new in short.items()})


def _renamed(graph: Graph, nodes: Sequence[Node], short: Mapping[str, str]) -> Graph:
    tensors = {new: replace(graph.tensors[old], name=new) for old, new in short.items()}
    return Graph(
        name="_".join(node.name for node in (nodes[0], nodes[-1])) if len(nodes) > 1 else nodes[0].name,
        opset=graph.opset,
        inputs=tuple(tensor for name, tensor in tensors.items() if name.startswith("in")),
        outputs=tuple(tensor for name, tensor in tensors.items() if name.startswith("out")),
        constants={new: _constant(graph, old) for old, new in short.items() if new.startswith("const")},
        nodes=tuple(
            replace(
                node,
                inputs=tuple(short[name] if name else "" for name in node.inputs),
                outputs=tuple(short[name] if name else "" for name in node.outputs),
            )
            for node in nodes
        ),
        tensors=tensors,
    )


def _constant(graph: Graph, name: str) -> Array:
    """The value of a constant; a tensor without elements becomes one, because it cannot be a graph input."""
    tensor = graph.tensors[name]
    return graph.constants.get(name, np.zeros(tensor.shape, DTYPES[tensor.dtype]))


def write_excerpt(folder: Path, graph: Graph, inputs: Mapping[str, Array]) -> list[Path]:
    """Write graph.json, constants.npz and one .npy file per input; returns the paths of the .npy files."""
    folder.mkdir(parents=True, exist_ok=True)
    if graph.constants:
        buffer = io.BytesIO()
        np.savez(buffer, **{name: np.asarray(array) for name, array in graph.constants.items()})  # type: ignore[arg-type]
        write_whole(folder / CONSTANTS_FILE, buffer.getvalue())
    paths = []
    for tensor in graph.inputs:
        buffer = io.BytesIO()
        np.save(buffer, inputs[tensor.name], allow_pickle=False)
        paths.append(folder / f"{tensor.name}.npy")
        write_whole(paths[-1], buffer.getvalue())
    text = json.dumps(_as_json(graph), indent=1, ensure_ascii=False)
    write_whole(folder / GRAPH_FILE, f"{text}\n".encode())
    return paths


def _as_json(graph: Graph) -> dict[str, Any]:
    """The graph in the format of docs/graph_json.md."""
    return {
        "name": graph.name,
        "opset": graph.opset,
        "inputs": [_declared(tensor) for tensor in graph.inputs],
        "outputs": [tensor.name for tensor in graph.outputs],
        "constants": {
            name: {"dtype": graph.tensors[name].dtype, "file": CONSTANTS_FILE, "key": name}
            for name in graph.constants
        },
        "nodes": [
            {
                "op": node.op,
                "name": node.name,
                "inputs": list(node.inputs),
                "outputs": list(node.outputs),
                "attrs": dict(node.attrs),
            }
            for node in graph.nodes
        ],
    }


def _declared(tensor: Tensor) -> dict[str, Any]:
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": list(tensor.shape)}
