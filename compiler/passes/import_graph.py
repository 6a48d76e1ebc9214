"""Pass ``import``: the graph as a module, once every node is known to have a lowering."""

from __future__ import annotations

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

from compiler.dialect.attributes import encoded, encoded_array
from compiler.dialect.ops import NODE_OPERATIONS, InputOp, LoadConstOp, OutputOp, SubgraphOp
from compiler.dialect.types import DTYPE_FORMATS, tensor_type
from compiler.graph import Graph, GraphError, Node, Tensor
from compiler.lowering import LOWERINGS
from compiler.operators import OPERATORS, call_of
from compiler.operators.expansion import expand_graph
from compiler.passes.base import Context
from compiler.rewrite import REWRITES, Rewriting


class ImportPass:
    """Fills an empty module; GraphError for a node that cannot be compiled."""

    name = "import"

    def run(self, context: Context, module: ModuleOp) -> None:
        rewriting = Rewriting(context.graph)
        graph = context.graph = expand_graph(rewriting.run(REWRITES))
        problems = [problem for node in graph.nodes if (problem := _node_problem(graph, node))]
        if problems:
            raise GraphError(problems)
        block = Block()
        _Importer(context, block).run()
        attributes: dict[str, Attribute] = {
            "graph": StringAttr(graph.name),
            "opset": IntegerAttr(graph.opset, i64),
        }
        if rewriting.applied:
            lines = [StringAttr(f"{name}: {node}") for name, node in rewriting.applied]
            attributes["rewrites"] = ArrayAttr(lines)
        module.body.block.add_op(SubgraphOp.create(regions=[Region(block)], attributes=attributes))


class _Importer:
    def __init__(self, context: Context, block: Block) -> None:
        self.context, self.graph, self.block = context, context.graph, block
        self.values: dict[str, SSAValue] = {}

    def run(self) -> None:
        """Inputs and outputs without elements need no operation; the program only declares them."""
        for tensor in self.graph.inputs:
            if tensor.size:
                self.values[tensor.name] = self._source(InputOp, tensor)
        for node in self.graph.nodes:
            self._node(node)
        for tensor in self.graph.outputs:
            if tensor.size:
                attributes: dict[str, Attribute] = {"node": StringAttr(tensor.name)}
                made = OutputOp.create(operands=[self._value(tensor.name)], attributes=attributes)
                self.block.add_op(made)

    def _source(self, kind: type[InputOp] | type[LoadConstOp], tensor: Tensor) -> SSAValue:
        made = kind.create(result_types=[_type(tensor)], attributes={"node": StringAttr(tensor.name)})
        self.block.add_op(made)
        return made.results[0]

    def _value(self, name: str) -> SSAValue:
        if name not in self.values:
            self.context.constants[name] = self.graph.constants[name]
            self.values[name] = self._source(LoadConstOp, self.graph.tensors[name])
        return self.values[name]

    def _node(self, node: Node) -> None:
        runtime = [(at, name) for at, name in enumerate(node.inputs) if name and not _is_known(node, at)]
        attributes: dict[str, Attribute] = {
            "node": StringAttr(node.name),
            "onnx": DictionaryAttr({name: encoded(value) for name, value in node.attrs.items()}),
            "operands_at": DenseArrayBase.from_list(i64, [at for at, _ in runtime]),
            "dtypes": self._dtypes(node),
        }
        if known := self._known(node):
            attributes["known"] = known
        made = NODE_OPERATIONS[node.op].create(
            operands=[self._value(name) for _, name in runtime],
            result_types=[_type(self.graph.tensors[node.outputs[0]])],
            attributes=attributes,
        )
        self.block.add_op(made)
        self.values[node.outputs[0]] = made.results[0]

    def _dtypes(self, node: Node) -> ArrayAttr[StringAttr]:
        """Element types of the operands and of the result in the specification."""
        names = (*node.inputs, node.outputs[0])
        return ArrayAttr([StringAttr(self.graph.tensors[name].dtype if name else "") for name in names])

    def _known(self, node: Node) -> DictionaryAttr | None:
        """The values of the operands that are no operands of the operation, by position."""
        values: dict[str, Attribute] = {
            str(at): encoded_array(self.graph.constants[name])
            for at, name in enumerate(node.inputs)
            if name and _is_known(node, at)
        }
        return DictionaryAttr(values) if values else None


def _is_known(node: Node, position: int) -> bool:
    """Whether the operator's record wants this operand when compiling."""
    inputs = OPERATORS[node.op].inputs
    return inputs[min(position, len(inputs) - 1)].constant


def _type(tensor: Tensor) -> Attribute:
    return tensor_type(DTYPE_FORMATS[tensor.dtype], tensor.shape)


def _node_problem(graph: Graph, node: Node) -> str | None:
    """Why a node cannot be compiled; None when it can."""
    head = f"unsupported operator {node.op} (node '{node.name}')"
    entry = LOWERINGS.get(node.op)
    if entry is None:
        return head
    computed = [name for at, name in enumerate(node.inputs) if name and not _is_known(node, at)]
    for name in (*computed, node.outputs[0]):
        tensor = graph.tensors[name]
        if tensor.dtype not in entry.types:
            allowed = ", ".join(entry.types)
            return f"{head} on {tensor.dtype}: computed are {allowed}; found '{name}'"
        if not tensor.size:
            return f"{head}: tensors without elements are not supported; found '{name}' {list(tensor.shape)}"
    found = entry.check(call_of(graph, node)) if entry.check else None
    return f"{head}: {found}" if found else None
