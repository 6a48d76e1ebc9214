"""Imports one node of an ONNX model: as a constant, a node of the graph, or the nodes of a function."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, checker, defs, helper

from compiler.evaluation.infer import infer_node
from compiler.graph import NEWEST_OPSET, GraphError, Node, RefusedNode, Tensor
from compiler.lowering import LOWERINGS
from compiler.operators import OPERATORS
from compiler.operators.record import Call, resolve
from tx8isa.tools.budget import NODE

from .control import CONTROL_FLOW, write_out
from .found.consumers import SOURCES, take_found
from .functions import body_of
from .known import ALWAYS_KNOWN, known_results
from .model import OLDEST_OPSET, ONNX_DOMAINS, attributes_of, first_line, other_attributes
from .partial import PartialGraph, Scope, Unsupported
from .sequences import SEQUENCES, take_sequence
from .versions import adapted, is_adapted

_TREES = "write its trees as TreeEnsembleRegressor or TreeEnsembleClassifier (ai.onnx.ml before version 5)"
_OUTSIDE = {
    "ai.onnx.ml.TreeEnsemble": _TREES,
    "ai.onnx.ml.ZipMap": "there are no dictionaries on the chip; convert with options={'zipmap': False}",
}
"""Reasons why operators of other domains are not supported, if there is more to say."""
_OF_ONNXRUNTIME = ("SimplifiedLayerNormalization",)
"""Operators that onnxruntime writes into models as if they were ONNX's own."""
_SAME_AS = {f"com.microsoft.{name}": name for name in ("QuantizeLinear", "DequantizeLinear")}
"""Operators of other domains that are operators of ONNX under another name."""
_EARLIER = ("LayerNormalization",)
"""Operators of ONNX that onnxruntime writes into models of operator sets that do not have them yet."""
_RENEWED = ("GroupNormalization",)
"""Operators whose first version ONNX has withdrawn; onnxruntime still runs models that have it."""
_DEEPEST = 20
"""Functions within functions are written out to this depth; ONNX's own nest three deep."""


class NodeImporter:
    """Adds the nodes of a model to a graph, one after another.

    ``bounds``: the most steps of loops, and the most elements that nodes find, by the names of the nodes;
    ``limited``: the names of nodes met so far that can have one.
    """

    def __init__(self, graph: PartialGraph, bounds: Mapping[str, int] | None = None) -> None:
        self.graph, self.bounds = graph, bounds or {}
        self.limited: set[str] = set()

    def inside(self, graph: PartialGraph) -> NodeImporter:
        """Return an importer for a graph that control flow executes."""
        inner = NodeImporter(graph, self.bounds)
        inner.limited = self.limited
        return inner

    def add(self, proto: NodeProto, name: str, opset: int, scope: Scope, depth: int = 0) -> None:
        """Add a node of ``opset`` with names of ``scope``; GraphError when it is not supported or wrong.

        BudgetError when the written-out code, nested to ``depth``, is too much.
        """
        if depth:
            self.graph.budget.work(NODE)
        try:
            _stop_if_wrong(self.graph.path, proto, name, opset)
            self._add(proto, name, opset, scope, depth)
        except Unsupported as error:
            raise RefusedNode(qualified(proto), name, str(error)) from None

    def glance(self, proto: NodeProto, name: str, opset: int) -> None:
        """Raise GraphError for a node that is refused whatever its operands are."""
        try:
            _stop_if_wrong(self.graph.path, proto, name, opset)
            if not _is_known(qualified(proto)):
                raise Unsupported()
        except Unsupported as error:
            raise RefusedNode(qualified(proto), name, str(error)) from None

    def _add(self, proto: NodeProto, name: str, opset: int, scope: Scope, depth: int) -> None:
        local = NodeProto()
        local.CopyFrom(proto)
        local.name, local.op_type, local.domain = name, qualified(proto), ""
        local.input[:] = [scope.inner(item) for item in proto.input]
        for item in local.input:
            if item and not self.graph.knows(item):
                raise Unsupported(f"operand '{item}' is an output that is not supported")
        local.output[:] = [_result_name(item, scope) for item in proto.output]
        for part in adapted(local, opset, self.graph):
            self.place(part, opset, scope, depth)

    def place(self, node: NodeProto, opset: int, scope: Scope, depth: int) -> None:
        """Add a node of the newest operator set whose names are those of the graph.

        Only the nodes of its subgraphs are of ``opset``, with names of ``scope``.
        """
        if write_out(self, node, opset, scope, depth) or take_sequence(self, node, opset, scope, depth):
            return
        if not take_found(self, node, opset, scope, depth):
            self.place_plain(node, depth)

    def place_plain(self, node: NodeProto, depth: int) -> None:
        """Add such a node as for tensors of known sizes."""
        if self._as_constants(node):
            return
        self._compute_in_single(node, depth)
        problem = self._as_record(node)
        if problem is None:
            return
        reason = self._as_function(node, depth)
        if reason is not None:
            raise Unsupported(problem or reason)

    def _as_constants(self, node: NodeProto) -> bool:
        """Add the results as constants if they are known; return True if so."""
        results = known_results(self.graph, node)
        if results is None:
            return False
        for name, value in zip(node.output, results, strict=False):
            if name:
                self.graph.define(name, value)
        return True

    def _compute_in_single(self, node: NodeProto, depth: int) -> None:
        """Replace float64 by float32 in constants and attributes of a node; record a node of the model."""
        before = node.SerializeToString()
        node.input[:] = [self.graph.single(name) for name in node.input]
        for item in node.attribute:
            if item.name in ("to", "dtype") and item.i == TensorProto.DOUBLE:
                item.i = TensorProto.FLOAT
        if not depth and node.SerializeToString() != before:
            self.graph.doubles.append(node.name)

    def _as_record(self, node: NodeProto) -> str | None:
        """Add the node to the graph and return None, or return why it cannot be added."""
        record = OPERATORS.get(node.op_type)
        if record is None or record.internal:
            return ""
        if other_attributes(node):
            return f"attribute {other_attributes(node)[0]} is not supported"
        raw = _without_trailing_names(node)
        tensors = {name: self.graph.tensors[name] for name in raw.inputs if name}
        try:
            finished = infer_node(self.graph.description, raw, tensors)
        except GraphError as error:
            return error.messages[0]
        except (MemoryError, OverflowError) as error:
            return f"its sizes are out of all bounds: {first_line(error)}"
        call = resolve(finished, NEWEST_OPSET, tensors, self.graph.constants, len(record.inputs))
        results = [tensors[name] for name in raw.outputs if name]
        problem = _lowering_problem(finished, call, results)
        if problem is not None:
            return problem
        self.graph.tensors |= tensors
        if all(tensor.size == 0 for tensor in results):
            for tensor in results:  # nothing to compute
                self.graph.define(tensor.name, tensor.zeros)
        else:
            self.graph.nodes.append(finished)
        return None

    def _as_function(self, node: NodeProto, depth: int) -> str | None:
        """Add the nodes of the function that defines the operator in ONNX and return None.

        Otherwise return why they cannot be added, and leave the graph unchanged.
        """
        if depth >= _DEEPEST:
            return "functions nested too deeply"
        graph = self.graph
        found = body_of(node, [graph.tensors[name] if name else None for name in node.input])
        if found is None:
            return ""
        body, opset = found
        scope = Scope(dict.fromkeys(body.input, ""), f"{node.name}/")
        scope.names |= dict(zip(body.input, node.input, strict=False))
        before = graph.saved()
        try:
            for index, part in enumerate(body.node):
                self.add(part, f"{node.name}/{part.op_type}_{index}", opset, scope, depth + 1)
        except GraphError as error:
            graph.restore(before)
            return f"written out it has an {error.messages[0]}"
        for name, inner in zip(node.output, body.output, strict=False):
            if name:
                graph.alias(name, scope.inner(inner), node.name)
        return None


def _result_name(name: str, scope: Scope) -> str:
    """Return the name in the graph of a result, and record it in the scope."""
    if not name:
        return ""
    if scope.prefix:
        scope.names[name] = f"{scope.prefix}{name}"
    return scope.inner(name)


def _without_trailing_names(node: NodeProto) -> Node:
    """Make a node of the graph without the empty names at the end of its operands and results."""
    inputs, outputs = list(node.input), list(node.output)
    while len(outputs) > 1 and not outputs[-1]:
        outputs.pop()
    while inputs and not inputs[-1]:
        inputs.pop()
    return Node(node.op_type, node.name, tuple(inputs), tuple(outputs), attributes_of(node))


def _lowering_problem(node: Node, call: Call, results: list[Tensor]) -> str | None:
    """Return why the compiler has no code for a call; None when it has."""
    record, entry = OPERATORS[node.op], LOWERINGS.get(node.op)
    if record.expansion is not None or all(tensor.size == 0 for tensor in results):
        return None
    if entry is None:
        return ""
    computed = [
        tensor
        for at, tensor in enumerate(call.inputs)
        if tensor is not None and not record.inputs[min(at, len(record.inputs) - 1)].constant
    ]
    for tensor in (*computed, *results):
        if tensor.dtype not in entry.types:
            return f"computed are {', '.join(entry.types)}; '{tensor.name}' is {tensor.dtype}"
    return entry.check(call) if entry.check else None


def qualified(proto: NodeProto) -> str:
    """Return the operator of a node, with its domain unless that is ONNX's own."""
    if proto.domain in ONNX_DOMAINS and proto.op_type not in _OF_ONNXRUNTIME:
        return proto.op_type
    domain = "com.microsoft" if proto.domain in ONNX_DOMAINS else proto.domain
    name = f"{domain}.{proto.op_type}"
    return _SAME_AS.get(name, name)


def _is_known(op: str) -> bool:
    """Return True if nodes with an operator of ONNX can be supported."""
    record = OPERATORS.get(op)
    if (
        op in (*ALWAYS_KNOWN, *CONTROL_FLOW, *SEQUENCES, *SOURCES)
        or is_adapted(op)
        or (record and not record.internal)
    ):
        return True
    schema: Any = defs.get_schema(op, NEWEST_OPSET, "") if defs.has(op, NEWEST_OPSET, "") else None
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def _is_older(op: str, opset: int) -> bool:
    """Return True if an operator set has an older form of an operator than the oldest set that is read."""
    if opset >= OLDEST_OPSET or not defs.has(op, opset, ""):
        return False
    versions = [defs.get_schema(op, at, "").since_version for at in (opset, OLDEST_OPSET)]
    return versions[0] != versions[1]


def _stop_if_wrong(path: Path, proto: NodeProto, name: str, opset: int) -> None:
    """Raise GraphError for a node that is not valid ONNX, Unsupported if its operator set lacks it."""
    if proto.domain not in ONNX_DOMAINS or proto.op_type in _OF_ONNXRUNTIME:
        if not _is_known(qualified(proto)):
            raise Unsupported(_OUTSIDE.get(qualified(proto), ""))
        return  # its record checks it
    if proto.op_type in _EARLIER and not defs.has(proto.op_type, opset, ""):
        return
    if proto.op_type in _RENEWED and defs.has(proto.op_type, opset, ""):
        return
    if not defs.has(proto.op_type, opset, ""):
        later = [at for at in range(opset + 1, NEWEST_OPSET + 1) if defs.has(proto.op_type, at, "")]
        raise Unsupported(
            f"ONNX has it from opset {later[0]} on; the model declares {opset}" if later else ""
        )
    if _is_older(proto.op_type, opset):
        raise Unsupported(f"as opset {opset} has it; supported is what opset {OLDEST_OPSET} has")
    if proto.op_type == "Constant":
        return  # may hold all weights, which the checker would copy
    context = checker.C.CheckerContext()
    known = max(opset, OLDEST_OPSET)  # onnx knows no version for the sets 2 to 4; it is that of 6
    context.ir_version = helper.find_min_ir_version_for([helper.make_opsetid("", known)])
    context.opset_imports = {"": opset}
    try:
        checker.check_node(_without_bodies(proto), context)
    except checker.ValidationError as error:
        message = f"{path}: node '{name}' ({proto.op_type}): {first_line(error)}"
        raise GraphError([message]) from None


def _without_bodies(proto: NodeProto) -> NodeProto:
    """Return a node with empty subgraphs: the checker does not know the names of the graph around them."""
    if not any(item.type == AttributeProto.GRAPH for item in proto.attribute):
        return proto
    outline = NodeProto()
    outline.CopyFrom(proto)
    for item in outline.attribute:
        if item.type == AttributeProto.GRAPH:
            item.g.CopyFrom(GraphProto(name="body"))
    return outline
