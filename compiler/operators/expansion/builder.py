"""Making the nodes that replace a call, and computing operators on constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from compiler.graph import FLOAT_FORMATS, FLOATS, Array, AttrValue, GraphError, Node, Shape, Tensor
from compiler.operators.record import OPERATORS, Call, resolve
from tx8isa.numbers.rounding import rounded


@dataclass
class Builder:
    """Collects nodes; values are referred to by name. A builder is called to add an operator.

    Nodes and values are named ``prefix`` and a number. ``tensors`` and ``constants`` describe all values of
    the graph so far and grow.
    """

    prefix: str
    opset: int
    tensors: dict[str, Tensor]
    constants: dict[str, Array]
    nodes: list[Node] = field(default_factory=list)
    fold: bool = True  # compute operators whose operands are all constants at once
    precise: bool = False  # set by an expansion: compute this call in FP32, as Operator.precise does for all
    count: int = 0  # names made so far

    def shape(self, name: str) -> Shape:
        return self.tensors[name].shape

    def dtype(self, name: str) -> str:
        return self.tensors[name].dtype

    def _name(self) -> str:
        self.count += 1
        while (name := f"{self.prefix}.{self.count}") in self.tensors:  # a value of the model itself
            self.count += 1
        return name

    def constant(self, value: Array, dtype: str) -> str:
        """A constant of a dtype; values are rounded to it."""
        name = self._name()
        array = np.asarray(value)
        self.constants[name] = _stored(array, dtype)
        self.tensors[name] = Tensor(name, dtype, array.shape)
        return name

    def ints(self, *values: int) -> str:
        """A constant vector of int64."""
        return self.constant(np.array(values, np.int64), "int64")

    def like(self, name: str, value: float) -> str:
        """A constant scalar of the dtype of another value."""
        return self.constant(np.array(value), self.dtype(name))

    def __call__(self, op: str, *inputs: str, **attrs: AttrValue) -> str:
        """Add an operator; the name of its first result. A composite one is expanded later.

        GraphError if the call violates a rule of the operator, or its result is too large.
        """
        return self._added(op, inputs, attrs, 1, self.fold)[0]

    def several(self, op: str, count: int, *inputs: str, **attrs: AttrValue) -> tuple[str, ...]:
        """Add a node as a call does; gives the names of its first ``count`` results."""
        return self._added(op, inputs, attrs, count, self.fold)

    def kept(self, op: str, *inputs: str, **attrs: AttrValue) -> str:
        """Add a node as a call does, even on constants: rewrites look for it."""
        return self._added(op, inputs, attrs, 1, False)[0]

    def _added(
        self, op: str, inputs: tuple[str, ...], attrs: Mapping[str, AttrValue], count: int, fold: bool
    ) -> tuple[str, ...]:
        record = OPERATORS[op]
        complete: dict[str, AttrValue] = {
            a.name: a.default for a in record.attributes if a.default is not None and a.until is None
        }
        names = tuple(self._name() for _ in range(count))
        node = Node(op, names[0], inputs, names, {**complete, **attrs})
        call = resolve(node, self.opset, self.tensors, self.constants, len(record.inputs))
        for item in record.rules:
            found = item.check(call)
            if found is not None:
                raise GraphError([f"is computed with {op}: {item.text}; found {found}"])
        for tensor in record.infer(call):
            if tensor.excess:
                raise GraphError([f"is computed with {op}: its result {tensor.excess}"])
            self.tensors[tensor.name] = tensor
        if fold and all(not operand or operand in self.constants for operand in inputs):
            self.constants |= computed(node, call, self.constants)
        else:
            self.nodes.append(node)
        return names


def computed(node: Node, call: Call, constants: Mapping[str, Array]) -> dict[str, Array]:
    """The results of a node whose operands are all constants, by name, rounded to their dtypes."""
    record = OPERATORS[node.op]
    operands = [widened(constants[name]) if name else None for name in node.inputs]
    with np.errstate(all="ignore"):
        results = record.reference(call, *operands)
    tensors = {tensor.name: tensor for tensor in record.infer(call)}
    named = {name: array for name, array in zip(node.outputs, results, strict=False) if name}
    return {name: _stored(np.asarray(array), tensors[name].dtype) for name, array in named.items()}


def _stored(array: Array, dtype: str) -> Array:
    """Values in an element type, to which floats are rounded."""
    return rounded(array, FLOAT_FORMATS[dtype]) if dtype in FLOATS else array.astype(dtype)


def widened(array: Array) -> Array:
    """Floats in binary64, as references take them; integers and truth values as they are."""
    return array.astype(np.float64) if array.dtype.name in FLOATS else np.asarray(array)
