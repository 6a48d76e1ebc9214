"""What becomes of each node of an ONNX model: a constant, a node of the graph, or the parts of a function."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, checker, defs, helper

from compiler.evaluation.folding import CannotFold, evaluated, is_determined
from compiler.evaluation.infer import infer_node
from compiler.graph import MOST_BYTES, NEWEST_OPSET, Array, Description, GraphError, Node, Tensor
from compiler.lowering import LOWERINGS
from compiler.operators import OPERATORS
from compiler.operators.expansion.builder import computed
from compiler.operators.record import Call, resolve

from .control import written_out
from .functions import body_of
from .model import (
    OLDEST_OPSET,
    ONNX_DOMAINS,
    array_of,
    attribute,
    attributes_of,
    first_line,
    other_attributes,
    plain,
)
from .scope import Scope, Unsupported
from .versions import adapted

_DEEPEST = 20
"""Functions in functions; ONNX's own nest three deep."""

_COMPUTED_HERE = ("GatherElements",)
"""Constants of these are what the operator's own record says: ONNX's evaluator takes 32 indices at most."""


class Walk:
    """The graph so far. ``nodes`` and ``constants`` grow; every value has a unique name in ``tensors``."""

    def __init__(self, path: Path, inputs: tuple[Tensor, ...], constants: dict[str, Array]) -> None:
        self.path = path
        self.constants = constants
        self.tensors = {tensor.name: tensor for tensor in inputs}
        self.tensors |= {name: _described(name, array) for name, array in constants.items()}
        self.nodes: list[Node] = []
        self._made = 0
        # The constants are looked up while they grow; nothing else of this is read.
        self._view = Description(str(path), "", NEWEST_OPSET, inputs, (), constants, ())

    # What adapters ask: names are those of the graph (versions.Known).

    def tensor(self, name: str) -> Tensor:
        if not name:
            raise Unsupported("an operand that it needs is left away")
        return self.tensors[name]

    def value(self, name: str) -> Array | None:
        return self.constants.get(name)

    def constant(self, value: Array) -> str:
        name = self.fresh()
        self.define(name, value)
        return name

    def fresh(self) -> str:
        self._made += 1
        return f"onnx/{self._made}"

    def define(self, name: str, value: Array) -> None:
        """Add a constant."""
        self.constants[name] = value
        self.tensors[name] = _described(name, value)

    def node(self, proto: NodeProto, name: str, opset: int, scope: Scope, depth: int = 0) -> None:
        """Take a node of ``opset``; GraphError when it is not supported or wrong."""
        op = proto.op_type if proto.domain in ONNX_DOMAINS else f"{proto.domain}.{proto.op_type}"
        try:
            _stop_if_wrong(self.path, proto, name, opset)
            self._take(proto, name, opset, scope, depth)
        except Unsupported as error:
            reason = f": {error}" if str(error) else ""
            raise GraphError([f"unsupported operator {op} (node '{name}'){reason}"]) from None

    def _take(self, proto: NodeProto, name: str, opset: int, scope: Scope, depth: int) -> None:
        if proto.domain not in ONNX_DOMAINS:
            raise Unsupported()
        if _is_older(proto.op_type, opset):
            raise Unsupported(f"as opset {opset} has it; supported is what opset {OLDEST_OPSET} has")
        local = NodeProto()
        local.CopyFrom(proto)
        local.name, local.domain = name, ""
        if depth:
            _doubles_as_floats(local)
        local.input[:] = [scope.inner(item) for item in proto.input]
        for item in local.input:
            if item and item not in self.tensors:
                raise Unsupported(f"operand '{item}' is an output that is not supported")
        local.output[:] = [self._result(item, scope) for item in proto.output]
        for part in adapted(local, opset, self):
            self.place(part, opset, scope, depth)

    def _result(self, name: str, scope: Scope) -> str:
        if not name:
            return ""
        if scope.prefix:
            scope.names[name] = f"{scope.prefix}{name}"
        return scope.inner(name)

    def place(self, node: NodeProto, opset: int, scope: Scope, depth: int) -> None:
        """Take a node of the newest operator set whose names are those of the graph.

        Only what its subgraphs hold is of ``opset``, with names of ``scope``.
        """
        if written_out(self, node, opset, scope, depth) or self._fold(node):
            return
        problem = self._as_record(node)
        if problem is None:
            return
        reason = self._as_function(node, depth)
        if reason is not None:
            raise Unsupported(problem or reason)

    def same(self, name: str, value: str, node: str) -> None:
        """Let ``name`` be what ``value`` is."""
        if value in self.constants:
            self.define(name, self.constants[value])
        else:
            self.tensors[name] = Tensor(name, self.tensor(value).dtype, self.tensor(value).shape)
            self.nodes.append(Node("Identity", f"{node}/{name}", (value,), (name,), {}))

    # --- constants ------------------------------------------------------------------------

    def _fold(self, node: NodeProto) -> bool:
        """Whether the results are known; they are constants then."""
        results = self._known_results(node)
        if results is None:
            return False
        for name, value in zip(node.output, results, strict=False):
            if name:
                self.define(name, value)
        return True

    def _known_results(self, node: NodeProto) -> list[Array] | None:
        op, shapes = node.op_type, [self.tensors[name].shape for name in node.input if name]
        if op == "Shape":
            start, end = plain(node, "start", 0), plain(node, "end", len(shapes[0]))
            assert isinstance(start, int) and isinstance(end, int)
            return [np.array(shapes[0][start:end], np.int64)]
        if op == "Size":
            return [np.array(np.prod(shapes[0], dtype=np.int64))]
        if op == "Constant":
            return [self._constant_node(node)]
        operands = [self.constants.get(name) if name else None for name in node.input]
        given = zip(node.input, operands, strict=True)
        if not is_determined(op) or any(name and array is None for name, array in given):
            return None
        if op == "ConstantOfShape":
            return [self._filled(node, operands[0])]
        if op == "Identity" and operands[0] is not None:  # ONNX's evaluator takes long to be imported
            return [operands[0]]
        if op in _COMPUTED_HERE:
            return self._by_record(node)
        if not defs.has(op, NEWEST_OPSET, "") or not operands:
            return None
        try:
            return evaluated(node, operands)
        except CannotFold as error:
            raise Unsupported(f"on constants: {error}") from None

    def _by_record(self, node: NodeProto) -> list[Array] | None:
        """The results on constants by the record of the operator; None if that refuses them."""
        raw = Node(node.op_type, node.name, tuple(node.input), tuple(node.output), attributes_of(node))
        tensors = {name: self.tensors[name] for name in node.input}
        try:
            finished = infer_node(self._view, raw, tensors)
        except GraphError:
            return None  # told when it is taken as a node
        call = resolve(finished, NEWEST_OPSET, tensors, self.constants, len(node.input))
        return list(computed(finished, call, self.constants).values())

    def _constant_node(self, node: NodeProto) -> Array:
        tensor = attribute(node, "value")
        if tensor is not None:
            return array_of(tensor.t, self.path, f"constant '{node.output[0]}'")
        for name, dtype in (
            ("value_float", np.float32),
            ("value_int", np.int64),
            ("value_floats", np.float32),
            ("value_ints", np.int64),
        ):
            if attribute(node, name) is not None:
                return np.asarray(plain(node, name, 0), dtype)
        raise Unsupported("holds no tensor of numbers")

    def _filled(self, node: NodeProto, shape: Array | None) -> Array:
        """Of a ConstantOfShape."""
        if shape is None or np.any(shape < 0):
            raise Unsupported("needs a shape of no negative sizes")
        item = attribute(node, "value")
        value = np.zeros(1, np.float32) if item is None else array_of(item.t, self.path, "value")
        sizes = tuple(int(size) for size in shape)
        if value.size != 1 or math.prod(sizes) * value.itemsize > MOST_BYTES:
            found = f"{value.size} value, shape {list(sizes)}"
            raise Unsupported(f"fills at most {MOST_BYTES} bytes with one value; found {found}")
        return np.full(sizes, value.reshape(-1)[0], value.dtype)

    # --- nodes of the graph ---------------------------------------------------------------

    def _as_record(self, node: NodeProto) -> str | None:
        """None when the node is in the graph now, else why it cannot be."""
        record = OPERATORS.get(node.op_type)
        if record is None or record.internal:
            return ""
        if other_attributes(node):
            return f"attribute {other_attributes(node)[0]} is not supported"
        inputs, outputs = list(node.input), list(node.output)
        while len(outputs) > 1 and not outputs[-1]:
            outputs.pop()
        while inputs and not inputs[-1]:
            inputs.pop()
        raw = Node(node.op_type, node.name, tuple(inputs), tuple(outputs), attributes_of(node))
        tensors = {name: self.tensors[name] for name in inputs if name}
        try:
            finished = infer_node(self._view, raw, tensors)
        except GraphError as error:
            return error.messages[0]
        except (MemoryError, OverflowError) as error:
            return f"its sizes are out of all bounds: {first_line(error)}"
        call = resolve(finished, NEWEST_OPSET, tensors, self.constants, len(record.inputs))
        results = [tensors[name] for name in outputs if name]
        problem = _lowering_problem(finished, call, results)
        if problem is not None:
            return problem
        self.tensors |= tensors
        if all(tensor.size == 0 for tensor in results):
            for tensor in results:  # nothing to compute
                self.define(tensor.name, np.zeros(tensor.shape, tensor.dtype))
        else:
            self.nodes.append(finished)
        return None

    def _as_function(self, node: NodeProto, depth: int) -> str | None:
        """None when the node is written out now, else why it cannot be; the graph is as before then."""
        if depth >= _DEEPEST:
            return "functions nested too deeply"
        operands = [self.tensors[name] if name else None for name in node.input]
        found = body_of(node, operands)
        if found is None:
            return ""
        body, opset = found
        scope = Scope(dict.fromkeys(body.input, ""), f"{node.name}/")
        scope.names |= dict(zip(body.input, node.input, strict=False))
        before = len(self.nodes), dict(self.constants), dict(self.tensors)
        try:
            for index, part in enumerate(body.node):
                self.node(part, f"{node.name}/{part.op_type}_{index}", opset, scope, depth + 1)
        except GraphError as error:
            del self.nodes[before[0] :]
            self.tensors = before[2]
            self.constants.clear()
            self.constants.update(before[1])
            return f"written out it has an {error.messages[0]}"
        for name, inner in zip(node.output, body.output, strict=False):
            if name:
                self.same(name, scope.inner(inner), node.name)
        return None


def _doubles_as_floats(part: NodeProto) -> None:
    """What ONNX's own functions compute in double is computed in FP32, if their operands are no doubles."""
    for item in part.attribute:
        if part.op_type == "Cast" and item.name == "to" and item.i == TensorProto.DOUBLE:
            item.i = TensorProto.FLOAT


def _described(name: str, array: Array) -> Tensor:
    return Tensor(name, array.dtype.name, array.shape)


def _lowering_problem(node: Node, call: Call, results: list[Tensor]) -> str | None:
    """Why the compiler has no code for a call; None when it has."""
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


def _is_older(op: str, opset: int) -> bool:
    """Whether an operator set has an operator in a form that the oldest one read has no more."""
    if opset >= OLDEST_OPSET or not defs.has(op, opset, ""):
        return False
    versions = [defs.get_schema(op, at, "").since_version for at in (opset, OLDEST_OPSET)]
    return versions[0] != versions[1]


def _stop_if_wrong(path: Path, proto: NodeProto, name: str, opset: int) -> None:
    """GraphError when the node is not ONNX at all, which is another thing than not supported."""
    if proto.domain not in ONNX_DOMAINS:
        return
    if not defs.has(proto.op_type, opset, ""):
        later = [at for at in range(opset + 1, NEWEST_OPSET + 1) if defs.has(proto.op_type, at, "")]
        raise Unsupported(
            f"ONNX has it from opset {later[0]} on; the model declares {opset}" if later else ""
        )
    if proto.op_type == "Constant":
        return  # may hold all weights, which the checker would copy
    context = checker.C.CheckerContext()
    context.ir_version = helper.find_min_ir_version_for([helper.make_opsetid("", opset)])
    context.opset_imports = {"": opset}
    try:
        checker.check_node(_without_bodies(proto), context)
    except checker.ValidationError as error:
        message = f"{path}: node '{name}' ({proto.op_type}): {first_line(error)}"
        raise GraphError([message]) from None


def _without_bodies(proto: NodeProto) -> NodeProto:
    """A node whose subgraphs are empty: the checker would miss the names of the graph around them."""
    if not any(item.type == AttributeProto.GRAPH for item in proto.attribute):
        return proto
    outline = NodeProto()
    outline.CopyFrom(proto)
    for item in outline.attribute:
        if item.type == AttributeProto.GRAPH:
            item.g.CopyFrom(GraphProto(name="body"))
    return outline
