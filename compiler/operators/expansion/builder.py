"""Builds the nodes that replace a call, and computes operators on constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from compiler.graph import (
    DTYPES,
    FLOAT_FORMATS,
    FLOATS,
    Array,
    AttrValue,
    Box,
    GraphError,
    Node,
    Shape,
    Tensor,
)
from compiler.operators.record import OPERATORS, Call, Operator, resolve
from tx8isa.errors import BudgetError
from tx8isa.numbers.rounding import rounded
from tx8isa.tools.budget import COMPUTED_IN_A_STEP, PRODUCTS_IN_A_STEP, Budget

_WIDE = 8
"""Bytes of an element in binary64, the type of all computations."""


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
    budget: Budget | None = None  # for operators whose operands are all constants; None computes none
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
        """Add a constant of a dtype; values are rounded to it."""
        name = self._name()
        array = np.asarray(value)
        self.constants[name] = _stored(array, dtype)
        self.tensors[name] = Tensor(name, dtype, array.shape)
        return name

    def ints(self, *values: int) -> str:
        """Add a constant vector of int64."""
        return self.constant(np.array(values, np.int64), "int64")

    def like(self, name: str, value: float) -> str:
        """Add a constant scalar of the dtype of another value."""
        return self.constant(np.array(value), self.dtype(name))

    def __call__(self, op: str, *inputs: str, **attrs: AttrValue) -> str:
        """Add an operator and return the name of its first result; a composite one is expanded later.

        GraphError if the call violates a rule of the operator, or its result is too large.
        """
        return self._added(op, inputs, attrs, 1, self.budget)[0]

    def several(self, op: str, count: int, *inputs: str, **attrs: AttrValue) -> tuple[str, ...]:
        """Add a node that computes a call; return the names of its first ``count`` results."""
        return self._added(op, inputs, attrs, count, self.budget)

    def kept(self, op: str, *inputs: str, **attrs: AttrValue) -> str:
        """Add a node as a call does, even on constants: rewrites look for it."""
        return self._added(op, inputs, attrs, 1, None)[0]

    def _added(
        self,
        op: str,
        inputs: tuple[str, ...],
        attrs: Mapping[str, AttrValue],
        count: int,
        budget: Budget | None,
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
        if budget is not None and all(not operand or operand in self.constants for operand in inputs):
            self.constants |= computed(node, call, self.constants, budget)
        else:
            self.nodes.append(node)
        return names


def computed(node: Node, call: Call, constants: Mapping[str, Array], budget: Budget) -> dict[str, Array]:
    """Compute the results of a node with constant operands, by name, rounded to their dtypes.

    GraphError when they are beyond the budget.
    """
    record = OPERATORS[node.op]
    try:
        _take(budget, record, call)
    except BudgetError as error:
        raise GraphError([f"on constants: {error}"]) from None
    operands = [widened(constants[name]) if name else None for name in node.inputs]
    with np.errstate(all="ignore"):
        results = record.reference(call, *operands)
    tensors = {tensor.name: tensor for tensor in record.infer(call)}
    named = {name: array for name, array in zip(node.outputs, results, strict=False) if name}
    return {name: _stored(np.asarray(array), tensors[name].dtype) for name, array in named.items()}


def _take(budget: Budget, record: Operator, call: Call) -> None:
    """Charge the budget for the results of a call on constants, which are computed in binary64."""
    results = record.infer(call)
    elements = sum(tensor.size for tensor in (*results, *call.inputs) if tensor is not None)
    scratch = record.scratch(call)
    kept = sum(tensor.size * DTYPES[tensor.dtype].itemsize for tensor in results)
    budget.hold(kept, _WIDE * (elements + scratch.held))
    steps = (elements + scratch.computed) // COMPUTED_IN_A_STEP
    budget.work(steps + _products(record, call, results) // PRODUCTS_IN_A_STEP)


def _products(record: Operator, call: Call, results: Sequence[Tensor]) -> int:
    """Estimate the number of operand elements that all results are computed from.

    Counts the elements for one result in the middle, and multiplies by the number of results.
    """
    if record.needs is None or not results or not results[0].size:
        return 0
    middle = Box(tuple((size // 2, size // 2 + 1) for size in results[0].shape))
    boxes = record.needed(call, [middle, *[None] * (len(call.outputs) - 1)])
    return results[0].size * sum(box.size for box in boxes if box is not None)


def _stored(array: Array, dtype: str) -> Array:
    """Return values in an element type; floats are rounded to it."""
    return rounded(array, FLOAT_FORMATS[dtype]) if dtype in FLOATS else array.astype(dtype)


def budget_of(constants: Mapping[str, Array]) -> Budget:
    """Return the budget of a graph with these constants."""
    return Budget(sum(array.nbytes for array in constants.values()))


def widened(array: Array) -> Array:
    """Return floats in binary64, as references take them; integers and truth values unchanged."""
    return array.astype(np.float64) if array.dtype.name in FLOATS else np.asarray(array)
