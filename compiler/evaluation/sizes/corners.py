"""Constants that grow along several axes, such as causal masks: corners of the largest constant.

Stored compactly, such a constant is not the beginning of the largest one. So the program has the largest one,
and a Slice takes the corner that a run needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from compiler.graph import Array, Graph, Node, Tensor
from compiler.operators import is_known


def is_beginning(array: Array, whole: Array) -> bool:
    """True if a constant equals another, or the beginning of its elements."""
    if array.dtype != whole.dtype or array.size > whole.size:
        return False
    return array.tobytes() == whole.reshape(-1)[: array.size].tobytes()


def with_corners(graphs: Sequence[Graph]) -> list[Graph]:
    """Graphs of one structure, the last one at the largest sizes, with a Slice for each constant that is a
    corner of the largest one."""
    found = list(graphs)
    for names in _corners(graphs):
        whole = graphs[-1].constants[names[-1]]
        found = [with_slice(graph, name, whole) for graph, name in zip(found, names, strict=True)]
    return found


def _corners(graphs: Sequence[Graph]) -> Iterator[tuple[str, ...]]:
    """For each such constant, its name in each graph."""
    return (names for names, arrays in constants_of_all(graphs) if are_corners(arrays))


def constants_of_all(graphs: Sequence[Graph]) -> Iterator[tuple[tuple[str, ...], list[Array]]]:
    """Operands that are constants in all graphs: the names that each has there, and its values.

    Operands whose value an operator must know when compiling are left out.
    """
    seen: set[tuple[str, ...]] = set()
    for nodes in zip(*(graph.nodes for graph in graphs), strict=True):
        for at, names in enumerate(zip(*(node.inputs for node in nodes), strict=True)):
            if names in seen or not names[0] or is_known(nodes[0], at):
                continue
            seen.add(names)
            if all(name in graph.constants for graph, name in zip(graphs, names, strict=True)):
                yield names, [graph.constants[name] for graph, name in zip(graphs, names, strict=True)]


def are_corners(arrays: Sequence[Array]) -> bool:
    """True if arrays are corners of the last one, and not all of them its beginning."""
    if len({array.shape for array in arrays}) == 1:  # large weights need no comparison here
        return False
    if all(is_beginning(array, arrays[-1]) for array in arrays):
        return False
    return all(_is_corner(array, arrays[-1]) for array in arrays)


def _is_corner(array: Array, whole: Array) -> bool:
    if array.dtype != whole.dtype or array.ndim != whole.ndim:
        return False
    corner = whole[tuple(map(slice, array.shape))]
    return corner.shape == array.shape and corner.tobytes() == array.tobytes()


def with_slice(graph: Graph, name: str, whole: Array, start: Sequence[int] | None = None) -> Graph:
    """The graph with a constant computed as a part of ``whole``, by default its corner."""
    part = graph.constants[name]
    starts = np.array(start if start is not None else [0] * part.ndim, np.int64)
    ends = starts + np.array(part.shape, np.int64)
    made = {f"{name}.whole": whole, f"{name}.starts": starts, f"{name}.ends": ends}
    types = graph.tensors[name].dtype, "int64", "int64"
    tensors = {key: Tensor(key, dtype, made[key].shape) for key, dtype in zip(made, types, strict=True)}
    constants = {key: array for key, array in graph.constants.items() if key != name} | made
    node = Node("Slice", f"{name}.corner", tuple(made), (name,), {})
    return replace(
        graph, nodes=(node, *graph.nodes), tensors={**graph.tensors, **tensors}, constants=constants
    )
