"""Converts an ONNX model to the typed graph, node by node, with shapes and constants where they are known.

Each node is converted to the newest operator set. It is computed at once if its operands are known, added
unchanged if it has a record and a lowering, and otherwise replaced by the function that defines it in ONNX.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from compiler.evaluation.folding import needed
from compiler.evaluation.infer import build_graph, ordered_nodes
from compiler.evaluation.survey import Fate, Survey
from compiler.frontend.sharding import shardings_of
from compiler.graph import NEWEST_OPSET, Array, Description, Graph, GraphError, Node, Tensor
from tx8isa.errors import BudgetError
from tx8isa.tools.budget import Budget

from .binding import Binding
from .found.outputs import report_sizes
from .model import (
    array_of,
    dtype_name,
    external_files,
    input_of,
    is_known,
    opset_of,
    option_of,
    parse_model,
    read_model,
)
from .nodes import NodeImporter, qualified
from .partial import PartialGraph, Scope, finished_description


def load_onnx(path: Path | str, binding: Binding | None = None, survey: Survey | None = None) -> Graph:
    """Read and check an ONNX model. GraphError names the file, or the operators that are not supported.

    ``survey`` receives the fate of each node.
    """
    path = Path(path)
    return build_graph(describe(read_model(path), path, binding or Binding(), survey))


def graph_of_bytes(data: bytes, source: str, binding: Binding | None = None) -> Graph:
    """Read a model without external data from its bytes, as ``load_onnx`` does; messages name ``source``."""
    path = Path(source)
    return build_graph(describe(parse_model(data, path), path, binding or Binding()))


def describe(model: ModelProto, path: Path, binding: Binding, survey: Survey | None = None) -> Description:
    """Return the model as a description of the newest operator set: folded, without unneeded nodes.

    GraphError with everything that is refused.
    """
    graph, opset = model.graph, opset_of(model, path)
    survey = Survey() if survey is None else survey
    initializers = {item.name: item for item in graph.initializer}
    infos = [info for info in graph.input if info.name not in initializers]
    binding.extents(infos, path)
    _settle_free(infos, survey, path)
    initializers |= binding.initializers(infos, path)
    infos = [info for info in infos if info.name not in initializers]
    inputs = _inputs(infos, path, survey)
    outputs = tuple(info.name for info in graph.output)
    protos, reads = _reachable(path, graph, [info.name for info in infos], initializers, outputs)
    constants = _arrays(path, initializers, reads)
    budget = Budget(model.ByteSize() + sum(array.nbytes for array in constants.values()))
    partial = PartialGraph(path, inputs, constants, budget)
    empty = (tensor for tensor in inputs if not tensor.size)
    scope = Scope({t.name: partial.constant(t.zeros) for t in empty})
    blocked = {info.name for info in infos} - {tensor.name for tensor in inputs}
    importer = NodeImporter(partial, binding.bounds)
    try:
        _import_nodes(importer, protos, opset, scope, blocked, survey)
    except BudgetError as error:
        survey.fates.clear()  # values that they name are gone
        raise GraphError([f"{path}: written out, with its loops and functions, it {error}"]) from None
    binding.check_bounds(importer.limited, path)
    survey.tensors, survey.constants, survey.opset = partial.tensors, partial.constants, NEWEST_OPSET
    survey.stop_if_refused()
    _check_outputs(graph, partial, scope)
    report_sizes(partial, outputs, scope)
    made = finished_description(graph.name, partial, scope, inputs, outputs)
    shardings = shardings_of(model, protos, _parts_of(survey, made), partial.tensors, path)
    files, doubles = external_files(graph, path), tuple(partial.doubles)
    return replace(made, files=files, shardings=shardings, doubles=doubles)


def _parts_of(survey: Survey, made: Description) -> dict[str, tuple[str, ...]]:
    """Return the nodes of the graph that each node of the model has become, by its name."""
    kept = {node.name for node in made.nodes}
    return {fate.node: tuple(part.name for part in fate.parts if part.name in kept) for fate in survey.fates}


def _settle_free(infos: Iterable[ValueInfoProto], survey: Survey, path: Path) -> None:
    """Give free dimensions the survey's size, or record each as a problem if it has none.

    Equal names of dimensions are one dimension in all inputs.
    """
    seen: set[str] = set()
    for info in infos:
        dims = info.type.tensor_type.shape.dim
        for axis in [axis for axis, dim in enumerate(dims) if not is_known(dim)]:
            name = dims[axis].dim_param
            if not name or name not in seen:
                found = f"'{name}'" if name else "unknown"
                what = f"input '{info.name}': axis {axis} is {found}"
                advice = option_of(info, axis)
                if survey.free is None:
                    survey.problems.append(GraphError([f"{path}: {what}; shapes must be static: {advice}"]))
                else:
                    survey.assumed.append(f"{what}, checked at {survey.free}: {advice}")
            seen.add(name)
    for info in infos if survey.free is not None else ():
        for dim in info.type.tensor_type.shape.dim:
            if not is_known(dim):
                dim.dim_value = survey.free or 0


def _inputs(infos: Iterable[ValueInfoProto], path: Path, survey: Survey) -> tuple[Tensor, ...]:
    """Return the inputs that a graph can have; record the problems of the others in the survey."""
    found = []
    for info in infos:
        if not all(map(is_known, info.type.tensor_type.shape.dim)):
            continue  # a recorded problem
        try:
            found.append(input_of(info, path))
        except GraphError as error:
            survey.problems.append(error)
    return tuple(found)


def _import_nodes(
    importer: NodeImporter,
    protos: Iterable[tuple[str, NodeProto]],
    opset: int,
    scope: Scope,
    blocked: set[str],
    survey: Survey,
) -> None:
    """Add the nodes to the graph, except refused ones and users of their results.

    ``blocked`` are the inputs that were refused.
    """
    nodes = importer.graph.nodes
    for name, proto in protos:
        before, refusal = len(nodes), None
        examined = blocked.isdisjoint((*proto.input, *captured(proto)))
        try:
            if examined:
                importer.add(proto, name, opset, scope)
            else:
                importer.glance(proto, name, opset)
        except GraphError as error:
            refusal = error
            del nodes[before:]
        if refusal is not None or not examined:
            blocked = blocked | set(proto.output)
        survey.fates.append(Fate(qualified(proto), name, refusal, examined, tuple(nodes[before:])))


def _reachable(
    path: Path,
    graph: GraphProto,
    inputs: Iterable[str],
    initializers: Mapping[str, TensorProto],
    outputs: tuple[str, ...],
) -> tuple[list[tuple[str, NodeProto]], set[str]]:
    """Return the named nodes that the outputs need, in an order to run them, and the names they read."""
    names = node_names(graph.node)
    by_name = dict(zip(names, graph.node, strict=True))
    outline = Description(
        source=str(path),
        name=graph.name,
        opset=NEWEST_OPSET,
        inputs=tuple(Tensor(name, "float32", ()) for name in inputs),
        outputs=outputs,
        constants=dict.fromkeys(initializers, np.zeros(0)),
        nodes=tuple(_outline(name, proto) for name, proto in by_name.items()),
    )
    nodes, reads = needed(ordered_nodes(outline), outputs)
    return [(node.name, by_name[node.name]) for node in nodes], reads


def _outline(name: str, proto: NodeProto) -> Node:
    """Return a node of the graph with the names that a node and its subgraphs read and define."""
    return Node(qualified(proto), name, (*proto.input, *captured(proto)), tuple(proto.output), {})


def captured(proto: NodeProto) -> list[str]:
    """Return the names that a node's subgraphs read of the graph around it."""
    found: list[str] = []
    for item in proto.attribute:
        for graph in (item.g, *item.graphs):
            own = {v.name for v in graph.input} | {v.name for v in graph.initializer}
            own |= {name for node in graph.node for name in node.output}
            reads = [name for node in graph.node for name in (*node.input, *captured(node))]
            reads += [v.name for v in graph.output]
            found += [name for name in reads if name and name not in own]
    return list(dict.fromkeys(found))


def node_names(nodes: Iterable[NodeProto]) -> list[str]:
    """Return a unique name for each node: the given one, else operator and position."""
    names: list[str] = []
    taken = {node.name for node in nodes if node.name}
    used: set[str] = set()
    for index, node in enumerate(nodes):
        name = node.name or f"{node.op_type}_{index}"
        while name in used or (not node.name and name in taken):
            name += "_"
        used.add(name)
        names.append(name)
    return names


def _arrays(path: Path, initializers: Mapping[str, TensorProto], reads: set[str]) -> dict[str, Array]:
    wanted = {name: item for name, item in initializers.items() if name in reads}
    return {name: array_of(item, path, f"initializer '{name}'") for name, item in wanted.items()}


def _check_outputs(model: GraphProto, graph: PartialGraph, scope: Scope) -> None:
    """Stop at an output of another type than declared.

    Shapes may differ, as in onnxruntime: many files declare shapes that were right for an older version.
    """
    for info in model.output:
        kind = info.type.WhichOneof("value") or "tensor_type"
        if kind != "tensor_type":
            found = f"output '{info.name}' is {kind.removesuffix('_type')}"
            raise GraphError([f"{graph.path}: {found}; only tensors are supported"])
        declared = info.type.tensor_type.elem_type
        if scope.inner(info.name) not in graph.tensors:
            raise GraphError([f"{graph.path}: output '{info.name}' is a result that is not supported"])
        found = graph.tensors[scope.inner(info.name)].dtype
        if declared and dtype_name(declared) != found:
            head = f"{graph.path}: output '{info.name}' is declared as {dtype_name(declared)}"
            advice = ": add a Cast to float32" if declared == TensorProto.DOUBLE else ""
            raise GraphError([f"{head}; the nodes give {found}{advice}"])
