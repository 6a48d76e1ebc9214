"""One operation during import: its operands, attributes, results, and methods that add nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, zip_longest
from typing import Any

import numpy as np
from onnx import helper
from xdsl.ir import Attribute, Operation, Region

from compiler.frontend.onnx.model import onnx_node
from compiler.frontend.onnx.nodes import NodeImporter
from compiler.frontend.onnx.partial import Scope, Unsupported
from compiler.graph import NEWEST_OPSET, Array, Shape

from .attributes import integer, integers, numpy_type, tensor_type, word


@dataclass(frozen=True)
class Value:
    """The tensor ``name`` of the graph, repeated to ``shape`` as ONNX broadcasts.

    Repetitions are only written out for operators that do not broadcast by themselves. With an ``order`` the
    tensor has all elements, with its axes in another order: its axis i is axis ``order[i]`` of the value. So
    images between convolutions keep their channels in front, while JAX has them last.
    """

    name: str
    shape: Shape
    order: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass
class SharedValues:
    """Values that all operations of a module share.

    The axis and the parts of concatenated values, by name; the results of transposes, by operand and order.
    """

    parts: dict[str, tuple[int, tuple[Value, ...]]] = field(default_factory=dict)
    moved: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)


class Site:
    """An operation of the module and the graph that its nodes are added to.

    ``name`` is unique in the graph; nodes and values that are made here are named after it.
    """

    def __init__(
        self,
        importer: NodeImporter,
        op: Operation,
        name: str,
        operands: Sequence[Value],
        shared: SharedValues,
    ) -> None:
        self.importer, self.op, self.name, self.operands = importer, op, name, tuple(operands)
        self.graph = importer.graph
        self._shared = shared
        self.attributes: Mapping[str, Attribute] = {**op.attributes, **op.properties}
        self._made = 0

    # --- the operation ---------------------------------------------------------------------

    @property
    def results(self) -> list[tuple[str, Shape]]:
        """Element type and shape of each result."""
        return [tensor_type(result.type) for result in self.op.results]

    @property
    def shape(self) -> Shape:
        """The shape of the first result."""
        return self.results[0][1]

    @property
    def dtype(self) -> str:
        """The element type of the first result."""
        return self.results[0][0]

    def operand(self, index: int) -> Value:
        """Return an operand; Unsupported if there is none at this position."""
        if index >= len(self.operands):
            raise Unsupported(f"has {len(self.operands)} operands; operand {index} is missing")
        return self.operands[index]

    def region(self, index: int = 0) -> Region:
        """Return a region with one block; Unsupported for any other."""
        if index >= len(self.op.regions) or len(self.op.regions[index].blocks) != 1:
            raise Unsupported(f"region {index} must have one block")
        return self.op.regions[index]

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return a list of integers; Unsupported if it is absent and has no default."""
        if name in self.attributes:
            return integers(self.attributes[name])
        if default is None:
            raise Unsupported(f"has no {name}")
        return tuple(default)

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer or truth value; Unsupported if it is absent and has no default."""
        if name in self.attributes:
            return integer(self.attributes[name])
        if default is None:
            raise Unsupported(f"has no {name}")
        return default

    def word(self, name: str, default: str = "") -> str:
        """Return a string, symbol or entry of an enumeration."""
        return word(self.attributes[name]) if name in self.attributes else default

    # --- the graph ------------------------------------------------------------------------

    def type_of(self, value: Value) -> str:
        """Return the element type of a value."""
        return self.graph.tensors[value.name].dtype

    def known(self, value: Value) -> Array | None:
        """Return the elements of a value that is known at compile time, else None."""
        array = self.graph.value(value.name)
        return None if array is None else np.broadcast_to(array, value.shape)

    def constant(self, array: Array) -> Value:
        """Add a constant."""
        array = np.asarray(array)  # NumPy makes a number of some arrays of rank 0
        self._made += 1
        name = f"{self.name}/c{self._made}"
        self.graph.define(name, array)
        return Value(name, array.shape)

    def number(self, number: float, like: Value) -> Value:
        """Add a constant scalar of the element type of another value."""
        return self.constant(np.array(number, numpy_type(self.type_of(like))))

    def _ints(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64)).name

    def nodes(self, op: str, names: Sequence[str], results: int = 1, **attrs: Any) -> list[Value]:
        """Add an operator of ONNX on tensors of the graph as they are; return all its results."""
        self._made += 1
        name = f"{self.name}/{op}{self._made}"
        outputs = [name if at == 0 else f"{name}:{at}" for at in range(results)]
        node = onnx_node(op, names, outputs, name, **attrs)
        self.importer.place(node, NEWEST_OPSET, Scope(), 0)
        return [Value(output, self.graph.tensors[output].shape) for output in outputs]

    def node(self, op: str, *operands: Value, **attrs: Any) -> Value:
        """Add an operator of ONNX on written-out values; return its first result."""
        return self.nodes(op, [self.full(value) for value in operands], **attrs)[0]

    def pointwise(self, op: str, *operands: Value, **attrs: Any) -> Value:
        """Add an operator that computes each element by itself; operands keep their short form."""
        shape = broadcast(*(value.shape for value in operands))
        order = next((value.order for value in operands if value.order), ())
        (made,) = self.nodes(op, [self._in_order(value, order) for value in operands], **attrs)
        return Value(made.name, shape, order)

    def _in_order(self, value: Value, order: tuple[int, ...]) -> str:
        """Return the name of a value's short form, with its axes in an order."""
        if value.order == order or not value.shape:
            return value.name
        plain = Value(self.full(value), value.shape) if value.order else value
        held = self._reshaped(plain.name, self.short(plain))
        return self._moved(held, order).name

    def _moved(self, value: Value, order: Sequence[int]) -> Value:
        """Permute the axes of a tensor of the graph: axis i is its axis ``order[i]``."""
        shape = tuple(value.shape[axis] for axis in order)
        long = [axis for axis in order if value.shape[axis] != 1]
        if long == sorted(long):
            return self._reshaped(value.name, shape)
        key = value.name, tuple(order)
        if key not in self._shared.moved:
            self._shared.moved[key] = self.nodes("Transpose", [value.name], perm=key[1])[0].name
        return Value(self._shared.moved[key], shape)

    def full(self, value: Value) -> str:
        """Return the name of a value with repetitions written out and axes in their order."""
        if value.order:
            return self._moved(Value(value.name, self._held(value)), inverse(value.order)).name
        if self.graph.tensors[value.name].shape == value.shape:
            return value.name
        return self.nodes("Expand", [value.name, self._ints(*value.shape)])[0].name

    def short(self, value: Value) -> Shape:
        """Return the shape in which a value is held, with an extent for each of its axes."""
        if value.order:
            return value.shape
        held = self.graph.tensors[value.name].shape
        return (1,) * (value.rank - len(held)) + held

    def cast(self, value: Value, dtype: str) -> Value:
        """Convert a value to another element type."""
        if self.type_of(value) == dtype:
            return value
        return self.pointwise("Cast", value, to=helper.np_dtype_to_tensor_dtype(numpy_type(dtype)))

    # --- shapes ---------------------------------------------------------------------------

    def reshape(self, value: Value, *shape: int) -> Value:
        """Reshape a value."""
        if value.shape == shape:
            return value
        if all(extent == 1 for extent in self.short(value)) and len(shape) >= len(self._held(value)):
            return Value(value.name, shape)
        return self._reshaped(self.full(value), shape)

    def held_as(self, value: Value, *shape: int) -> Value:
        """Reshape the short form of a value, without its repetitions."""
        return self._reshaped(self.full(value) if value.order else value.name, shape)

    def _held(self, value: Value) -> Shape:
        return self.graph.tensors[value.name].shape

    def _reshaped(self, name: str, shape: Shape) -> Value:
        if self.graph.tensors[name].shape == shape:
            return Value(name, shape)
        return self.nodes("Reshape", [name, self._ints(*shape)], allowzero=1)[0]

    def transpose(self, value: Value, *order: int) -> Value:
        """Permute the axes; a value that broadcasts implicitly stays so."""
        if order == tuple(range(value.rank)):
            return value
        if sorted(order) != list(range(value.rank)):
            raise Unsupported(f"{list(order)} is not an order of {value.rank} axes")
        if value.order:
            return self.transposed_later(value, *order)
        shape = tuple(value.shape[axis] for axis in order)
        held = self.short(value)
        if all(extent == 1 for extent in held):
            return Value(value.name, shape)
        return Value(self._moved(self._reshaped(value.name, held), order).name, shape)

    def transposed_later(self, value: Value, *order: int) -> Value:
        """Transpose a value without repetitions, with a node only where the order matters."""
        if self.graph.value(value.name) is not None:
            return self.transpose(value, *order)  # constants are computed at once
        shape, back = tuple(value.shape[axis] for axis in order), inverse(order)
        held = tuple(back[axis] for axis in value.order or range(value.rank))
        return Value(value.name, shape, () if held == tuple(range(value.rank)) else held)

    def slice(
        self, value: Value, starts: Sequence[int], ends: Sequence[int], steps: Sequence[int] = ()
    ) -> Value:
        """Slice a value: from ``starts`` to before ``ends``, along every axis."""
        steps = steps or (1,) * value.rank
        ranges = zip(starts, ends, steps, value.shape, strict=True)
        cut = [axis for axis, (a, b, step, n) in enumerate(ranges) if (a, b, step) != (0, n, 1)]
        if not cut:
            return value
        if all(extent == 1 for extent in self.short(value)):
            return Value(
                value.name, tuple(len(range(*line)) for line in zip(starts, ends, steps, strict=True))
            )
        if len(cut) == 1 and steps[cut[0]] == 1:
            parts = self._parts_between(value, cut[0], starts[cut[0]], ends[cut[0]])
            if parts:
                return self.concat(parts, cut[0])
        bounds = [self._ints(*(numbers[axis] for axis in cut)) for numbers in (starts, ends)]
        rest = [self._ints(*cut), self._ints(*(steps[axis] for axis in cut))]
        return self.nodes("Slice", [self.full(value), *bounds, *rest])[0]

    def mirror(self, value: Value, axes: Sequence[int]) -> Value:
        """Reverse some axes of a value."""
        if not axes:
            return value
        ends = [-1 - value.shape[axis] for axis in axes]
        bounds = [self._ints(*(-1 for _ in axes)), self._ints(*ends)]
        steps = [self._ints(*axes), self._ints(*(-1 for _ in axes))]
        return self.nodes("Slice", [self.full(value), *bounds, *steps])[0]

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        """Concatenate values along an axis, except those without elements."""
        some = [part for part in parts if part.shape[axis]] or parts[:1]
        order = some[0].order
        if order and all(part.order == order for part in some):
            (held,) = self.nodes("Concat", [part.name for part in some], axis=order.index(axis))
            shape = tuple(held.shape[at] for at in inverse(order))
            return Value(held.name, shape, order)
        flat = [piece for part in some for piece in self._parts(part, axis)]
        if len(flat) == 1:
            return flat[0]
        made = self.node("Concat", *flat, axis=axis)
        self._shared.parts[made.name] = axis, tuple(flat)
        return made

    def _parts(self, value: Value, axis: int) -> tuple[Value, ...]:
        """Return the parts that a value was concatenated from along an axis: itself, if it was not."""
        found = self._shared.parts.get(value.name)
        return found[1] if found is not None and found[0] == axis else (value,)

    def _parts_between(self, value: Value, axis: int, start: int, end: int) -> list[Value]:
        """Return the parts that a slice consists of; none if it begins or ends within one.

        A loop that fills a tensor row by row is thus one concatenation.
        """
        places = list(accumulate((part.shape[axis] for part in self._parts(value, axis)), initial=0))
        if start >= end or start not in places or end not in places:
            return []
        return list(self._parts(value, axis)[places.index(start) : places.index(end)])

    def pad(self, value: Value, before: Sequence[int], after: Sequence[int], fill: Value | None) -> Value:
        """Add a margin of ``fill`` (a scalar; zeros if None) to a value; a negative margin cuts off."""
        if not any(before) and not any(after):
            return value
        scalar = () if fill is None else (self.full(fill),)
        return self.nodes("Pad", [self.full(value), self._ints(*before, *after), *scalar])[0]

    def spread(self, value: Value, gaps: Sequence[int], fill: Value | None) -> Value:
        """Insert ``gaps`` elements of ``fill`` between the elements of a value along each axis."""
        if not any(gaps):
            return value
        pairs = [part for extent in value.shape for part in (extent, 1)]
        after = [part for gap in gaps for part in (0, gap)]
        wide = self.pad(self.reshape(value, *pairs), [0] * len(pairs), after, fill)
        extents = [extent * (gap + 1) for extent, gap in zip(value.shape, gaps, strict=True)]
        ends = [extent - gap for extent, gap in zip(extents, gaps, strict=True)]
        return self.slice(self.reshape(wide, *extents), [0] * value.rank, ends)


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """Return the order of axes that undoes an order."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def broadcast(*shapes: Shape) -> Shape:
    """Return the shape that shapes broadcast to. Unsupported if they do not."""
    found = []
    for extents in zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1):
        others = {extent for extent in extents if extent != 1}
        if len(others) > 1:
            raise Unsupported(f"operands of shapes {', '.join(str(list(shape)) for shape in shapes)}")
        found.append(others.pop() if others else 1)
    return tuple(found[::-1])


Rewriter = Callable[[Site], Value | Sequence[Value]]
"""Adds the nodes of an operation; returns the values of its results."""
