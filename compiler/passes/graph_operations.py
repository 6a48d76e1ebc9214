"""Converts a graph to the operations of a module, and back.

A value of the graph is a result of an operation whose attribute ``values`` has its name. Inputs and outputs
without elements have no operation; the program only declares them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue

from compiler.dialect.attributes import decoded, decoded_array, encoded, encoded_array
from compiler.dialect.ops import (
    NODE_OPERATIONS,
    ControlOperation,
    InputOp,
    LoadConstOp,
    NodeOperation,
    OutputOp,
    SubgraphOp,
    TensorOperation,
)
from compiler.dialect.orders import Order
from compiler.dialect.types import DTYPE_FORMATS, order_of, shape_of, tensor_type
from compiler.graph import Array, Graph, GraphError, Node, Tensor
from compiler.operators import is_known
from tx8isa.tools.suggestions import hint

from .base import Context, operations


def put_graph(context: Context, module: ModuleOp, more: Mapping[str, Attribute] | None = None) -> None:
    """Replace the content of a module by ``context.graph``, and the context's constants by those of the
    graph.

    ``more`` are additional attributes of the subgraph.
    """
    graph, block = context.graph, Block()
    context.constants = {}
    bodies = {op.node.data: op for op in operations(module) if isinstance(op, ControlOperation)}
    _Writer(context, block, bodies).run()
    attributes = {"graph": StringAttr(graph.name), "opset": IntegerAttr(graph.opset, i64), **(more or {})}
    for old in module.ops:
        old.detach()
    module.body.block.add_op(SubgraphOp.create(regions=[Region(block)], attributes=attributes))


def with_replaceable(graph: Graph, names: Collection[str]) -> Graph:
    """Return the graph with constants that a session may replace; GraphError, with every mistake, for other
    constants.

    The program treats them like inputs: the compiler computes nothing from them.
    """
    problems = [problem for name in names if (problem := _unreplaceable(graph, name))]
    if problems:
        raise GraphError(problems)
    return replace(graph, replaceable=graph.replaceable | frozenset(names))


def _unreplaceable(graph: Graph, name: str) -> str | None:
    """The reason why a constant cannot be replaced; None if it can."""
    inside = next((n for n in graph.nodes if any(name in body.constants for body in n.bodies)), None)
    if inside is not None:
        return f"constant '{name}' cannot be replaced: {inside} computes with its value"
    if name not in graph.constants:
        known = f"{', '.join(graph.constants) or 'none'}{hint(name, graph.constants)}"
        return f"the graph has no constant '{name}' to be replaced; its constants: {known}"
    knows = (n for n in graph.nodes for at, used in enumerate(n.inputs) if used == name and is_known(n, at))
    node = next(knows, None)
    return None if node is None else f"constant '{name}' cannot be replaced: {node} is compiled for its value"


def with_constants_as_inputs(graph: Graph) -> Graph:
    """The graph in which constants that may be replaced are inputs, after the others."""
    kept = {name: array for name, array in graph.constants.items() if name not in graph.replaceable}
    more = tuple(graph.tensors[name] for name in graph.constants if name in graph.replaceable)
    return replace(graph, inputs=(*graph.inputs, *more), constants=kept) if more else graph


class _Writer:
    def __init__(self, context: Context, block: Block, bodies: Mapping[str, ControlOperation]) -> None:
        self.context, self.graph, self.block = context, context.graph, block
        self.bodies = bodies
        """The present operations of control flow, whose graphs stay unchanged."""
        self.values: dict[str, SSAValue] = {}

    def run(self) -> None:
        for tensor in self.graph.inputs:
            if tensor.size:
                self.values[tensor.name] = self._source(InputOp, tensor)
        for node in self.graph.nodes:
            self._node(node)
        states = {present: past for past, present in self.graph.states}
        for tensor in self.graph.outputs:
            if tensor.size:
                attributes: dict[str, Attribute] = {"node": StringAttr(tensor.name)}
                if tensor.name in states:
                    attributes["state"] = StringAttr(states[tensor.name])
                made = OutputOp.create(operands=[self._value(tensor.name)], attributes=attributes)
                self.block.add_op(made)

    def _source(self, kind: type[InputOp] | type[LoadConstOp], tensor: Tensor) -> SSAValue:
        made = kind.create(result_types=[_type(tensor)], attributes={"node": StringAttr(tensor.name)})
        self.block.add_op(made)
        return made.results[0]

    def _value(self, name: str) -> SSAValue:
        if name not in self.values:
            kind: type[InputOp] | type[LoadConstOp] = InputOp
            if name in self.graph.constants:
                kind, self.context.constants[name] = LoadConstOp, self.graph.constants[name]
            self.values[name] = self._source(kind, self.graph.tensors[name])
        return self.values[name]

    def _node(self, node: Node) -> None:
        runtime = [(at, name) for at, name in enumerate(node.inputs) if name and not is_known(node, at)]
        attributes: dict[str, Attribute] = {
            "node": StringAttr(node.name),
            "values": encoded(node.outputs),
            "onnx": DictionaryAttr({name: encoded(value) for name, value in node.attrs.items()}),
            "operands_at": DenseArrayBase.from_list(i64, [at for at, _ in runtime]),
            "dtypes": self._dtypes(node),
        }
        if known := self._known(node):
            attributes["known"] = known
        results = [name for name in node.outputs if name]
        made = NODE_OPERATIONS[node.op].create(
            operands=[self._value(name) for _, name in runtime],
            result_types=[_type(self.graph.tensors[name]) for name in results],
            attributes=attributes,
            regions=[Region(Block([module])) for module in self._modules(node)],
        )
        self.block.add_op(made)
        self.values |= zip(results, made.results, strict=True)

    def _modules(self, node: Node) -> Iterator[ModuleOp]:
        """The modules of the graphs that a node executes."""
        if node.name in self.bodies:
            for module in self.bodies[node.name].modules:
                module.detach()  # type: ignore[no-untyped-call]  # xdsl does not annotate it
                yield module
        elif node.bodies:
            number = len(self.context.bodies)
            found = self.context.bodies[node.name] = [
                self.context.inside(node, at, f"{self.context.prefix}v.b{number}.{at}.")
                for at in range(len(node.bodies))
            ]
            for context in found:
                module = ModuleOp([])
                put_graph(context, module)
                yield module

    def _dtypes(self, node: Node) -> ArrayAttr[StringAttr]:
        """Element types of the operands and of the results in the specification."""
        names = (*node.inputs, *node.outputs)
        return ArrayAttr([StringAttr(self.graph.tensors[name].dtype if name else "") for name in names])

    def _known(self, node: Node) -> DictionaryAttr | None:
        """The values of the operands that the operation does not have as operands, by position."""
        values: dict[str, Attribute] = {
            str(at): encoded_array(self.graph.constants[name])
            for at, name in enumerate(node.inputs)
            if name and is_known(node, at)
        }
        return DictionaryAttr(values) if values else None


def _type(tensor: Tensor) -> Attribute:
    return tensor_type(DTYPE_FORMATS[tensor.dtype], tensor.shape)


def graph_of(context: Context, module: ModuleOp) -> Graph:
    """The graph in a module since :func:`put_graph`; GraphError if later passes have changed it."""
    reader = _Reader(context, module)
    for operation in operations(module):
        if isinstance(operation, NodeOperation) and operation.values is not None and _is_plain(operation):
            reader.node(operation)
        elif isinstance(operation, OutputOp):
            reader.output(operation)
        elif isinstance(operation, InputOp | LoadConstOp):
            reader.source(operation)
        else:
            found = f"found {operation.name} of node '{operation.node.data}'"
            raise GraphError([f"the module is not a graph any more: {found}"])
    return replace(
        context.graph, nodes=tuple(reader.nodes), tensors=reader.tensors, constants=reader.constants
    )


def _is_plain(operation: NodeOperation) -> bool:
    """True if no pass after ``rewrite`` has written attributes of an operation."""
    plain = all(order_of(result.type) is Order.PLAIN for result in operation.results)
    return plain and operation.dev_info is None


class _Reader:
    def __init__(self, context: Context, module: ModuleOp) -> None:
        self.context = context
        self.taken = {name for operation in operations(module) for name in _names(operation)}
        self.nodes: list[Node] = []
        self.names: dict[SSAValue, str] = {}
        self.constants: dict[str, Array] = {}
        self.tensors = {t.name: t for t in (*context.graph.inputs, *context.graph.outputs)}

    def source(self, operation: TensorOperation) -> None:
        """Add an input, which the context describes, or a constant."""
        name = self.names[operation.results[0]] = operation.node.data
        if isinstance(operation, LoadConstOp):
            self._constant(name, self.context.constants[name])

    def output(self, operation: OutputOp) -> None:
        value, name = self.names[operation.operands[0]], operation.node.data
        if value != name:
            self.nodes.append(Node("Identity", f"output {name}", (value,), (name,), {}))

    def node(self, operation: NodeOperation) -> None:
        dtypes = [text.data for text in operation.dtypes or ()]
        outputs: tuple[str, ...] = decoded(operation.values) if operation.values is not None else ()
        inputs = [""] * (len(dtypes) - len(outputs))
        positions = operation.operands_at.get_values() if operation.operands_at is not None else ()
        for at, value in zip(positions, operation.operands, strict=True):
            inputs[int(at)] = self.names[value]
        name = operation.node.data
        for key, attribute in (operation.known.data if operation.known is not None else {}).items():
            inputs[int(key)] = self._free(f"{name}/{key}")
            self._constant(inputs[int(key)], decoded_array(attribute))
        wanted = [each for each in zip(outputs, dtypes[len(inputs) :], strict=True) if each[0]]
        for (output, dtype), result in zip(wanted, operation.results, strict=True):
            self.names[result] = output
            self.tensors[output] = Tensor(output, dtype, shape_of(result.type))
        attributes = operation.attributes_of_node or DictionaryAttr({})
        attrs = {key: decoded(value) for key, value in attributes.data.items()}
        bodies = tuple(context.graph for context in self.context.bodies.get(name, ()))
        self.nodes.append(Node(operation.operator, name, tuple(inputs), outputs, attrs, bodies))

    def _free(self, name: str) -> str:
        """``name``, with underscores appended until no other value has the name."""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def _constant(self, name: str, array: Array) -> None:
        self.constants[name] = array
        self.tensors[name] = Tensor(name, array.dtype.name, array.shape)


def _names(operation: TensorOperation) -> tuple[str, ...]:
    """The names of the values that an operation makes."""
    if isinstance(operation, NodeOperation) and operation.values is not None:
        return tuple(decoded(operation.values))
    return (operation.node.data,)
