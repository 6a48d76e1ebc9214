"""The typed graph, which every importer produces and every pass reads.

An importer (graph.json, ONNX) fills a :class:`Description`: names, constants and nodes as the file has them.
:func:`compiler.evaluation.infer.build_graph` checks it and derives a :class:`Graph`, in which every value
has a shape and an element type, and the nodes are in an order in which they can be run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tx8isa.errors import Tx8Error
from tx8isa.numbers.formats import Format

Shape = tuple[int, ...]
Array = np.ndarray[Any, np.dtype[Any]]
AttrValue = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]

FLOAT_FORMATS = {"float32": Format.FP32, "float16": Format.FP16, "bfloat16": Format.BF16}
"""Formats of the float element types."""

FLOATS = tuple(FLOAT_FORMATS)
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")

DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    **{name: np.dtype(name) for name in (*INTEGERS, "bool")},
}
"""Element types that a graph may use, by the names that files and messages use."""

MOST_BYTES = 1 << 32
"""Largest size of a tensor. Larger ones are mistakes; they are refused before anything allocates them."""

NEWEST_OPSET = 28
"""The newest ONNX operator set whose operator definitions were compared with the records (onnx 1.23.2)."""


class GraphError(Tx8Error):
    """A graph that cannot be used: ``messages`` has every mistake found, ``str()`` the first and a count.

    ``causes`` are the errors that were joined in this one (:func:`joined`).
    """

    def __init__(self, messages: Sequence[str], causes: Sequence[GraphError] = ()) -> None:
        if not messages:
            raise ValueError("a GraphError needs at least one message")
        self.messages = tuple(messages)
        self.causes = tuple(causes)
        more = len(messages) - 1
        suffix = f" (and {more} more error{'s' if more > 1 else ''})" if more else ""
        super().__init__(self.messages[0] + suffix)


class CapacityError(GraphError):
    """Raised for a correct graph that needs more scratchpad or registers than a tile has."""


class RefusedNode(GraphError):
    """A node that cannot be compiled; ``reason`` is empty when nothing is known of its operator.

    ``hint`` is the end of the message that suggests another operator.
    """

    def __init__(self, op: str, node: str, reason: str = "", hint: str = "") -> None:
        self.op, self.node, self.reason, self.hint = op, node, reason, hint
        head = f"unsupported operator {op} (node '{node}')"
        super().__init__([head + (f": {reason}" if reason else "") + hint])


def joined(errors: Sequence[GraphError]) -> GraphError:
    """Several mistakes as one error."""
    if len(errors) == 1:
        return errors[0]
    return GraphError([text for error in errors for text in error.messages], errors)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named value: element type (a key of ``DTYPES``) and static shape; rank 0 is a scalar."""

    name: str
    dtype: str
    shape: Shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def zeros(self) -> Array:
        """An array of this type and shape."""
        return np.zeros(self.shape, DTYPES.get(self.dtype, self.dtype))

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def excess(self) -> str | None:
        """A message about a tensor that is too large; None for any other."""
        size = self.size * DTYPES[self.dtype].itemsize
        return f"takes {size} bytes; at most {MOST_BYTES} are supported" if size > MOST_BYTES else None


@dataclass(frozen=True, slots=True)
class Box:
    """A part of a tensor: for each axis the elements from a first one to below an end."""

    intervals: tuple[tuple[int, int], ...]

    @classmethod
    def whole(cls, shape: Shape) -> Box:
        """All of a tensor."""
        return cls(tuple((0, size) for size in shape))

    @property
    def shape(self) -> Shape:
        return tuple(max(end - begin, 0) for begin, end in self.intervals)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def slices(self) -> tuple[slice, ...]:
        """The index of the part in an array of the tensor's shape."""
        return tuple(slice(begin, end) for begin, end in self.intervals)

    def along(self, axis: int, begin: int, end: int) -> Box:
        """The box with another interval along an axis."""
        return Box((*self.intervals[:axis], (begin, end), *self.intervals[axis + 1 :]))

    def within(self, shape: Shape) -> Box:
        """The part of the box that lies in a tensor of a shape; it may be empty."""
        axes = zip(self.intervals, shape, strict=True)
        return Box(tuple((max(begin, 0), min(end, size)) for (begin, end), size in axes))

    def united(self, other: Box) -> Box:
        """The smallest box that holds both; neither may be empty."""
        axes = zip(self.intervals, other.intervals, strict=True)
        return Box(tuple((min(a, b), max(c, d)) for (a, c), (b, d) in axes))

    def __str__(self) -> str:
        return f"[{', '.join(f'{begin}:{end}' for begin, end in self.intervals)}]"


@dataclass(frozen=True, slots=True)
class Node:
    """One operator application. An empty name is an optional input or output that is omitted.

    ``bodies`` are the graphs of an operator of control flow, which executes one of them, perhaps repeatedly.
    """

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, AttrValue]
    bodies: tuple[Graph, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return f"node '{self.name}' ({self.op})"


@dataclass(frozen=True, slots=True)
class TensorSharding:
    """The sharding of an operand or result of a node over devices, as written in a model."""

    tensor: str
    shards: tuple[int, ...]
    """The number of shards along each axis."""
    devices: tuple[tuple[int, ...], ...]
    """The devices that have each shard, the last axis counting fastest."""
    problem: str = ""
    """The reason why this sharding is unsupported; empty if the compiler may try."""


@dataclass(frozen=True, slots=True)
class NodeSharding:
    """The sharding of a node over devices. ``stage``: its stage of a pipeline, None without one.

    ``parts`` are the nodes of the graph that replace it, ``text`` is its name in messages.
    """

    text: str
    parts: tuple[str, ...]
    tensors: tuple[TensorSharding, ...]
    stage: int | None


@dataclass(frozen=True, slots=True)
class Sharding:
    """One configuration of devices that a model is written for, with the nodes that say something for it."""

    name: str
    devices: int
    nodes: tuple[NodeSharding, ...]


@dataclass(frozen=True)
class Description:
    """A graph as an importer read it: nothing inferred, nodes in any order.

    ``source`` is what messages start with, usually the file name. Node names are unique and not empty.
    """

    source: str
    name: str
    opset: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, Array]
    nodes: tuple[Node, ...]
    files: tuple[Path, ...] = ()  # those that the source names: they hold constants
    internal: bool = False  # whether nodes may have internal operators: a reader has written them
    shardings: tuple[Sharding, ...] = ()
    doubles: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Graph:
    """A checked graph.

    ``nodes`` are in topological order and their attributes are complete: defaults are filled in.
    ``tensors`` describes every value by name: inputs, constants and all node outputs.
    ``constants`` may be memory-mapped and must not be written to.
    """

    name: str
    opset: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    constants: Mapping[str, Array]
    nodes: tuple[Node, ...]
    tensors: Mapping[str, Tensor]
    precise: frozenset[str] = frozenset()  # nodes that are computed in FP32 whatever the compute type
    files: tuple[Path, ...] = ()  # where constants were read from, apart from the file of the graph
    states: tuple[tuple[str, str], ...] = ()  # inputs and outputs that are the same memory, in pairs
    replaceable: frozenset[str] = frozenset()  # constants that a session may replace
    shardings: tuple[Sharding, ...] = ()  # how devices share it, as its model says
    doubles: tuple[str, ...] = ()  # nodes of the model that compute in float64, and here in float32
    near: bool = False  # results of convolutions and sums of bytes may be 1 more or less than ONNX says

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(tensor.name for tensor in some) for some in (self.inputs, self.outputs))
        return f"<Graph {self.name}: ({inputs}) -> ({outputs}), {len(self.nodes)} nodes>"
