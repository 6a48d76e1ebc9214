"""Graphs in Python: inputs, operators as functions, constants as arrays.

    graph = GraphBuilder("mlp")
    x = graph.input("x", "float32", (16, 64))
    hidden = graph.Relu(x @ weights + bias)
    graph.output(graph.Softmax(hidden, axis=-1), "probabilities")

Every operator of docs/operators.md is a method of its ONNX name. Operands are values of the graph, arrays, or
numbers; attributes are keywords. A mistake raises GraphError at the line that makes it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.evaluation.infer import build_graph, infer_node
from compiler.graph import (
    DTYPES,
    NEWEST_OPSET,
    Array,
    AttrValue,
    Description,
    Graph,
    GraphError,
    Node,
    Tensor,
)
from compiler.operators import OPERATORS
from tx8isa.tools.suggestions import hint


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of a graph; ``+ - * / @`` and unary ``-`` are Add, Sub, Mul, Div, MatMul and Neg."""

    graph: GraphBuilder
    name: str

    @property
    def dtype(self) -> str:
        """Element type, as ONNX and NumPy spell it."""
        return self.graph.tensors[self.name].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents; () for a scalar."""
        return self.graph.tensors[self.name].shape

    def __add__(self, other: Operand) -> Value:
        return self.graph.value("Add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return self.graph.value("Add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return self.graph.value("Sub", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return self.graph.value("Sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        return self.graph.value("Mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return self.graph.value("Mul", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return self.graph.value("Div", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return self.graph.value("Div", other, self)

    def __matmul__(self, other: Operand) -> Value:
        return self.graph.value("MatMul", self, other)

    def __rmatmul__(self, other: Operand) -> Value:
        return self.graph.value("MatMul", other, self)

    def __neg__(self) -> Value:
        return self.graph.value("Neg", self)

    # NumPy arrays on the left leave the operation to us instead of applying it to each element.
    __array_ufunc__ = None

    def __repr__(self) -> str:
        return f"<tx8.Value {self.name}: {self.dtype} {'x'.join(map(str, self.shape)) or 'scalar'}>"


Operand = Value | Array | Sequence[Any] | float | int | bool | None


class GraphBuilder:
    """A graph under construction; ``tx8.compile`` takes it as a model."""

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.tensors: dict[str, Tensor] = {}
        """Every value so far, by name."""
        self._inputs: list[Tensor] = []
        self._outputs: list[str] = []
        self._constants: dict[str, Array] = {}
        self._nodes: list[Node] = []
        self._numbers = itertools.count(1)

    def input(self, name: str, dtype: str, shape: Sequence[int]) -> Value:
        """Add an input to the graph; ``dtype`` is one of ``compiler.graph.DTYPES``."""
        if dtype not in DTYPES:
            allowed = ", ".join(DTYPES) + hint(dtype, DTYPES)
            raise GraphError([f"input '{name}': unknown dtype '{dtype}'; allowed are {allowed}"])
        tensor = Tensor(name, dtype, tuple(int(extent) for extent in shape))
        self._declare(tensor)
        self._inputs.append(tensor)
        return Value(self, name)

    def constant(self, values: Any, name: str = "", dtype: str | None = None) -> Value:
        """Add a constant to the graph; ``dtype`` None is the array's (float64: float32)."""
        array = np.asarray(values, None if dtype is None else DTYPES[dtype])
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        name = name or self._free_name("constant")
        if array.dtype.name not in DTYPES:
            raise GraphError(
                [f"constant '{name}': dtype {array.dtype} is not supported: {', '.join(DTYPES)}"]
            )
        self._declare(Tensor(name, array.dtype.name, array.shape))
        self._constants[name] = array
        return Value(self, name)

    def output(self, value: Value, name: str = "") -> Value:
        """Make a value an output, under another name if one is given."""
        if name and name != value.name:
            value = self.node("Identity", value, name=f"output {name}", result=name)
        self._outputs.append(value.name)
        return value

    def node(
        self,
        op: str,
        *operands: Operand,
        name: str = "",
        outputs: int = 1,
        result: str = "",
        **attributes: Any,
    ) -> Any:
        """Apply an operator; returns its Value, or a tuple of them when ``outputs`` is more than 1."""
        if op not in OPERATORS or OPERATORS[op].internal:
            near = hint(op, (known for known in OPERATORS if not OPERATORS[known].internal))
            raise GraphError([f"unsupported operator {op}{near}"])
        name = name or self._free_name(op.lower())
        inputs = tuple(self._operand(operand, operands) for operand in operands)
        results = (result,) if result else self._results(name, outputs)
        values = {key: _attribute(value) for key, value in attributes.items()}
        node = Node(op, name, inputs, results, values)
        try:
            infer_node(self._description(), node, self.tensors)
        except GraphError as error:
            raise GraphError([f"{self.name}: {node}: {text}" for text in error.messages]) from None
        self._nodes.append(node)
        made = tuple(Value(self, each) for each in results)
        return made if outputs > 1 else made[0]

    def value(self, op: str, *operands: Operand) -> Value:
        """Apply an operator without attributes; returns its one result."""
        result: Value = self.node(op, *operands)
        return result

    def __getattr__(self, op: str) -> Callable[..., Any]:
        """Return the operator of this ONNX name as a method."""
        if not op[:1].isupper():
            raise AttributeError(f"GraphBuilder has no attribute '{op}'")
        return lambda *operands, **options: self.node(op, *operands, **options)

    def build(self) -> Graph:
        """Check the graph and return it; GraphError when it has no output."""
        if not self._outputs:
            raise GraphError([f"{self.name}: the graph has no output; declare one with output()"])
        return build_graph(self._description())

    def _description(self) -> Description:
        return Description(
            source=self.name,
            name=self.name,
            opset=NEWEST_OPSET,
            inputs=tuple(self._inputs),
            outputs=tuple(self._outputs),
            constants=self._constants,
            nodes=tuple(self._nodes),
        )

    def _declare(self, tensor: Tensor) -> None:
        if tensor.name in self.tensors:
            raise GraphError([f"{self.name}: a tensor '{tensor.name}' exists already; names must differ"])
        self.tensors[tensor.name] = tensor

    def _results(self, name: str, count: int) -> tuple[str, ...]:
        return (name,) if count == 1 else tuple(f"{name}.{index}" for index in range(count))

    def _free_name(self, stem: str) -> str:
        return next(name for n in self._numbers if (name := f"{stem}_{n}") not in self.tensors)

    def _operand(self, operand: Operand, beside: Sequence[Operand]) -> str:
        if operand is None:
            return ""  # an optional operand that is omitted, as in ONNX
        if isinstance(operand, Value):
            if operand.graph is not self:
                raise GraphError(
                    [f"{self.name}: value '{operand.name}' belongs to graph '{operand.graph.name}'"]
                )
            return operand.name
        dtype = None
        if isinstance(operand, int | float) and not isinstance(operand, bool):
            # a bare number has the type of the values it is combined with
            dtype = next((other.dtype for other in beside if isinstance(other, Value)), None)
        return self.constant(operand, dtype=dtype).name

    def __repr__(self) -> str:
        return f"<tx8.GraphBuilder {self.name}: {len(self._nodes)} nodes>"


def _attribute(value: Any) -> AttrValue:
    """Convert a keyword to the value of a node's attribute: lists to tuples, NumPy's numbers to Python's."""
    if isinstance(value, list | tuple | np.ndarray):
        return tuple(_attribute(item) for item in value)  # type: ignore[return-value]
    if isinstance(value, np.generic):
        return value.item()  # type: ignore[no-any-return]
    return int(value) if isinstance(value, bool) else value
