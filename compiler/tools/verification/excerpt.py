"""Excerpts: some nodes of a graph as a graph of its own, and files from which it can be compiled."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from compiler.evaluation.folding import needed, selected
from compiler.graph import Array, Graph, Node, Tensor
from tx8isa.tools.files import Content, made_folder, write_together

GRAPH_FILE, CONSTANTS_FILE = "graph.json", "constants.npz"


@dataclass(frozen=True)
class Excerpt:
    """Some nodes of a graph as a graph with inputs ``in0``, ``in1`` ... and outputs ``out0``, ``out1`` ...

    ``origin`` maps the names of its tensors to those in the whole graph.
    """

    graph: Graph
    origin: Mapping[str, str]


def with_outputs(graph: Graph, names: Iterable[str]) -> Graph:
    """Return the graph with these tensors as outputs, without unneeded nodes and constants."""
    wanted = tuple(dict.fromkeys(names))
    nodes, reads = needed(graph.nodes, wanted)
    constants = selected(graph.constants, reads | set(wanted))
    outputs = tuple(graph.tensors[name] for name in wanted)
    states = tuple(pair for pair in graph.states if pair[1] in wanted)
    return replace(graph, outputs=outputs, nodes=tuple(nodes), constants=constants, states=states)


def excerpt(graph: Graph, nodes: Sequence[Node]) -> Excerpt:
    """Cut out these nodes, which are in topological order.

    The outputs are the results that other nodes of the graph use, or that no node uses.
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
    """Return the value of a constant; also of a tensor without elements, which cannot be a graph input."""
    tensor = graph.tensors[name]
    return graph.constants.get(name, tensor.zeros)


def write_excerpt(folder: Path, graph: Graph, inputs: Mapping[str, Array]) -> list[Path]:
    """Write graph.json, constants.npz and one .npy file per input, all or none.

    Returns the paths of the .npy files.
    """
    arrays = {folder / f"{tensor.name}.npy": inputs[tensor.name] for tensor in graph.inputs}
    files: dict[Path, Content] = {file: partial(_write_npy, array) for file, array in arrays.items()}
    if graph.constants:
        files[folder / CONSTANTS_FILE] = [npz_bytes(graph.constants)]
    text = json.dumps(_as_json(graph), indent=1, ensure_ascii=False)
    files[folder / GRAPH_FILE] = [f"{text}\n".encode()]
    with made_folder(folder):
        write_together(files)
    return list(arrays)


def npz_bytes(arrays: Mapping[str, Array]) -> bytes:
    """Return an .npz file. Unlike ``np.savez`` it takes any names, and its bytes contain no time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            entry = io.BytesIO()
            _write_npy(array, entry)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), entry.getvalue())
    return buffer.getvalue()


def _write_npy(array: Array, file: IO[bytes]) -> None:
    np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)


def _as_json(graph: Graph) -> dict[str, Any]:
    """Return the graph in the format of docs/graph_json.md."""
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
