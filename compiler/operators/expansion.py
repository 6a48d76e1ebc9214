"""Operators written in terms of others: the nodes that stand for a call, and graphs without such calls.

A composite operator needs no code of its own: its shapes and its reference follow from its expansion, and the
compiler replaces its nodes before it makes the module. Operators on constants are computed here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from compiler.graph import DTYPES, FLOATS, Array, AttrValue, Graph, GraphError, Node, Shape, Tensor, rounded

from .record import OPERATORS, Call, Operator, call_of, register, resolve
from .spelled_out import put_together


@dataclass
class Builder:
    """Collects the nodes that stand for one call; values are referred to by name.

    ``tensors`` and ``constants`` describe the values so far. The nodes of ``prefix`` are numbered behind it.
    """

    prefix: str
    opset: int
    tensors: dict[str, Tensor]
    constants: dict[str, Array]
    nodes: list[Node] = field(default_factory=list)
    fold: bool = True
    """Compute operators whose operands are all constants at once."""
    precise: bool = False
    """Whether this call is computed in FP32, as all calls of an operator are whose record says so."""
    made: int = 0

    def shape(self, name: str) -> Shape:
        return self.tensors[name].shape

    def dtype(self, name: str) -> str:
        return self.tensors[name].dtype

    def _name(self) -> str:
        self.made += 1
        return f"{self.prefix}.{self.made}"

    def constant(self, value: Array, dtype: str) -> str:
        """A constant of a dtype; values are rounded to it."""
        name = self._name()
        array = np.asarray(value)
        self.constants[name] = rounded(array, dtype) if dtype in FLOATS else array.astype(dtype)
        self.tensors[name] = Tensor(name, dtype, array.shape)
        return name

    def ints(self, *values: int) -> str:
        """A vector of int64."""
        return self.constant(np.array(values, np.int64), "int64")

    def like(self, name: str, value: float) -> str:
        """A scalar of the dtype of a value."""
        return self.constant(np.array(value), self.dtype(name))

    def __call__(self, op: str, *inputs: str, **attrs: AttrValue) -> str:
        """The first result of an operator; a part that is itself composite is expanded later."""
        record = OPERATORS[op]
        complete: dict[str, AttrValue] = {
            a.name: a.default for a in record.attributes if a.default is not None and a.until is None
        }
        node = Node(op, self._name(), inputs, (f"{self.prefix}.{self.made}",), {**complete, **attrs})
        call = resolve(node, self.opset, self.tensors, self.constants, len(record.inputs))
        for item in record.rules:
            found = item.check(call)
            if found is not None:
                raise GraphError([f"is computed with {op}: {item.text}; found {found}"])
        for tensor in record.infer(call):
            if tensor.excess:
                raise GraphError([f"is computed with {op}: its result {tensor.excess}"])
            self.tensors[tensor.name] = tensor
        if self.fold and all(not name or name in self.constants for name in inputs):
            self.constants |= computed(node, call, self.constants)
        else:
            self.nodes.append(node)
        return node.outputs[0]


def computed(node: Node, call: Call, constants: Mapping[str, Array]) -> dict[str, Array]:
    """The results of a node whose operands are all constants, by name, rounded to their dtypes."""
    operands = [_wide(constants[name]) if name else None for name in node.inputs]
    with np.errstate(all="ignore"):
        results = OPERATORS[node.op].reference(call, *operands)
    tensors = {tensor.name: tensor for tensor in OPERATORS[node.op].infer(call)}
    named = {name: array for name, array in zip(node.outputs, results, strict=False) if name}
    return {
        name: rounded(array, tensors[name].dtype) if tensors[name].is_float else np.asarray(array)
        for name, array in named.items()
    }


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.name in FLOATS else np.asarray(array)


Expansion = Callable[[Builder, Call], tuple[str, ...] | None]


def expansion_of(call: Call, expansion: Expansion, fold: bool = False) -> tuple[Builder, tuple[str, ...]]:
    """The parts of one call by itself, and the names of its results."""
    tensors = {tensor.name: tensor for tensor in call.inputs if tensor is not None}
    known = zip(call.inputs, call.values, strict=False)
    constants = {t.name: value for t, value in known if t is not None and value is not None}
    prefix = "part"
    while any(name.startswith(f"{prefix}.") for name in tensors):  # a call that is itself a part
        prefix += "+"
    builder = Builder(prefix, call.opset, tensors, constants, fold=fold)
    results = expansion(builder, call)
    if results is None:
        raise ValueError("an operator without a lowering must be expanded")
    return builder, results


def composite(record: Operator) -> Operator:
    """Register an operator whose reference is that of its expansion, shapes and dtypes too if it has none.

    An operator whose expansion makes arrays that its operands do not bound must have both: they are asked
    before the size of the result is checked.
    """
    expansion = record.expansion
    assert expansion is not None

    def shapes(call: Call) -> tuple[Shape, ...]:
        if record.shapes is not not_inferred:
            return record.shapes(call)
        builder, results = expansion_of(call, expansion)
        return tuple(builder.shape(name) if name else () for name in results)

    def dtypes(call: Call) -> tuple[str, ...]:
        if record.dtypes is not None:
            return record.dtypes(call)
        builder, results = expansion_of(call, expansion)
        return tuple(builder.dtype(name) if name else "" for name in results)

    def reference(call: Call, *operands: Array | None) -> tuple[Array, ...]:
        builder, results = expansion_of(call, expansion)
        values = {name: _wide(array) for name, array in builder.constants.items()}
        given = zip(call.inputs, operands, strict=False)
        values |= {tensor.name: array for tensor, array in given if tensor is not None and array is not None}
        for node in builder.nodes:
            part = resolve(
                node, call.opset, builder.tensors, builder.constants, len(OPERATORS[node.op].inputs)
            )
            found = OPERATORS[node.op].reference(part, *[values[n] if n else None for n in node.inputs])
            values |= dict(zip(node.outputs, found, strict=False))
        return tuple(values[name] if name else np.zeros(()) for name in results)

    return register(replace(record, shapes=shapes, dtypes=dtypes, reference=reference))


def not_computed(call: Call, *operands: Array | None) -> tuple[Array, ...]:
    """Stands where :func:`composite` puts the reference."""
    raise AssertionError("a composite operator has the reference of its expansion")


def not_inferred(call: Call) -> tuple[Shape, ...]:
    """Stands where :func:`composite` puts the inference."""
    raise AssertionError("a composite operator has the shapes of its expansion")


def expand_graph(graph: Graph) -> Graph:
    """The same graph of operators that have lowerings; nodes whose operands are all constants are gone.

    The parts of node ``n`` are named ``n.1``, ``n.2`` and so on.
    """
    graph = put_together(graph)
    expander = _Expander(graph)
    for node in graph.nodes:
        expander.node(node)
    return replace(
        graph,
        nodes=tuple(expander.nodes),
        tensors=expander.tensors,
        constants=expander.constants,
        precise=graph.precise | expander.precise,
    )


class _Expander:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.tensors = dict(graph.tensors)
        self.constants = dict(graph.constants)
        self.precise: set[str] = set()

    def node(self, node: Node, precise: bool = False) -> None:
        """Take a node apart. Parts of a precise node are precise."""
        record = OPERATORS[node.op]
        state = replace(self.graph, tensors=self.tensors, constants=self.constants)
        call = call_of(state, node)
        if node.inputs and all(not name or name in self.constants for name in node.inputs):
            self.constants |= computed(node, call, self.constants)
            return
        made = [self.tensors[name] for name in node.outputs if name]
        if all(tensor.size == 0 for tensor in made):
            self.constants |= {tensor.name: np.zeros(tensor.shape, DTYPES[tensor.dtype]) for tensor in made}
            return
        builder = Builder(node.name, self.graph.opset, self.tensors, self.constants)
        try:
            results = record.expansion(builder, call) if record.expansion else None
        except GraphError as error:
            head = f"unsupported operator {node.op} (node '{node.name}')"
            raise GraphError([f"{head}: {text}" for text in error.messages]) from None
        if results is None:
            self._keep(node, precise)
            return
        precise = precise or record.precise or builder.precise
        for part in builder.nodes:
            self.node(part, precise)
        for name, result in zip(node.outputs, results, strict=False):
            if name and result in self.constants:
                self.constants[name] = self.constants[result]
            elif name:
                self._keep(Node("Identity", f"{node.name}/{name}", (result,), (name,), {}), precise)

    def _keep(self, node: Node, precise: bool) -> None:
        """Arithmetic of single numbers is precise too: shorter formats would save nothing there."""
        self.nodes.append(node)
        floats = [self.tensors[n] for n in (*node.inputs, *node.outputs) if n and self.tensors[n].is_float]
        if precise or all(tensor.size == 1 for tensor in floats):
            self.precise.add(node.name)
