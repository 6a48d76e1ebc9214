"""Operators on found values: finds the data-dependent extents of results, and checks the padding.

The operator computes the padding too. So the valid part of a result must need only the valid parts of the
operands. The record of the operator says which part of an operand is needed. Extents follow from inference at
several sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from compiler.evaluation.infer import infer_node
from compiler.frontend.onnx.model import attributes_of, plain
from compiler.frontend.onnx.partial import Unsupported
from compiler.graph import NEWEST_OPSET, Box, GraphError, Node, Shape, Tensor
from compiler.operators import OPERATORS
from compiler.operators.boxes.forms import broadcast_from
from compiler.operators.record import Call, Operator, resolve
from compiler.operators.types import axis_from_front

from .site import FoundSite

_MOVING = (
    *("Cast", "Identity", "Transpose", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "Slice", "Split"),
    *("Gather", "GatherElements", "GatherND", "Concat", "Expand", "Tile"),
)
_BY_LANES = (
    *("MatMul", "Gemm", "Softmax", "LogSoftmax", "LayerNormalization", "TopK", "ArgMax", "ArgMin", "OneHot"),
    *("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "Pad", "CumSum", "Hardmax"),
)
_INDEXED = ("Gather", "GatherElements", "GatherND")
_OTHER_SIZES = (2, 3, 11, 12)
"""Sizes for inferring shapes to find their formulas, besides the maximum and one more."""


@dataclass(frozen=True)
class _Extent:
    """The extent of an axis of a result: ``factor`` times a count, plus ``addend``."""

    count: str
    factor: int
    addend: int

    def at(self, sizes: Mapping[str, int]) -> int:
        return self.factor * sizes[self.count] + self.addend


class Propagation:
    """A node with operands of found sizes, or operands that are such shapes (``PartialGraph.extents``)."""

    def __init__(self, site: FoundSite) -> None:
        self.site, self.graph, self.node = site, site.graph, site.node
        self.symbols: dict[str, int] = {}
        for name in self.node.input:
            shape = self.graph.tensors[name].shape if name else ()
            self.symbols |= {count: shape[axis] for axis, count in site.counts(name).items()}
        record = OPERATORS.get(self.node.op_type)
        if record is None or record.internal:
            raise self._refusal("it has no record that says which elements it needs")
        self.record: Operator = record

    def run(self) -> None:
        """Add the node, and record the valid part of its results."""
        self._with_known_shapes()
        self._with_valid_indices()
        call, results = self._inferred({})
        extents = [self._extents(at, result.shape) for at, result in enumerate(results)]
        if not self._is_pointwise(call, results) and self.node.op_type not in (*_MOVING, *_BY_LANES):
            raise self._refusal("the operator may use all of it")
        self._check(call, results, extents)
        self.site.place_plain(self.node)
        for result, axes in zip(results, extents, strict=True):
            self.graph.mark(result.name, {axis: self._count(each) for axis, each in axes.items()})
        if self.node.op_type in _MOVING and all(
            name in self.graph.places for name in self.node.input if self.site.counts(name)
        ):
            self.graph.places |= {result.name for result in results}

    # --- operands -----------------------------------------------------------------------------------------

    def _with_known_shapes(self) -> None:
        """Replace operands that are shapes by constants, with the maximum in place of each count."""
        self.shapes: dict[str, tuple[int | str, ...]] = {}
        for at, name in enumerate(self.node.input):
            parts = self.graph.extents.get(name)
            if parts is None or not self.record.inputs[min(at, len(self.record.inputs) - 1)].constant:
                continue
            self.symbols |= {part: self.graph.most[part] for part in parts if isinstance(part, str)}
            known = [self.graph.most[part] if isinstance(part, str) else part for part in parts]
            self.node.input[at] = self.graph.constant(np.array(known, np.int64))
            self.shapes[self.node.input[at]] = parts

    def _with_valid_indices(self) -> None:
        """Make indices count from the valid end, and stop the program beyond it.

        Indices in the padding are 0.
        """
        if self.node.op_type not in _INDEXED:
            return
        data, name = self.node.input[:2]
        counts, along = self.site.counts(name), self._indexed_axes(data)
        if along:
            indices = self._within(data, name, along)
            rest = {axis: count for axis, count in self.site.counts(data).items() if axis not in along}
            self.node.input[0] = self.site.place("Identity", data)
            self.graph.mark(self.node.input[0], rest)
        elif counts and name not in self.graph.places:
            indices = name
        else:
            return
        self.graph.mark(indices, counts)
        self.node.input[1] = self.site.filled(indices, 0)
        self.graph.mark(self.node.input[1], counts)

    def _indexed_axes(self, data: str) -> dict[int, int]:
        """Return the axes of the data with found extents that indices refer to, and the column of each."""
        rank, batch = self.graph.tensor(data).rank, plain(self.node, "batch_dims", 0)
        axis = plain(self.node, "axis", 0)
        assert isinstance(axis, int) and isinstance(batch, int)
        if self.node.op_type != "GatherND":
            columns = {axis_from_front(axis, rank): 0}
        else:
            depth = self.graph.tensor(self.node.input[1]).shape[-1]
            columns = {batch + column: column for column in range(depth)}
        return {at: column for at, column in columns.items() if at in self.site.counts(data)}

    def _within(self, data: str, indices: str, along: Mapping[int, int]) -> str:
        """Turn indices into ones from the front.

        An index beyond the valid end gets a place beyond the data.
        """
        site, shape, counts = self.site, self.graph.tensor(data).shape, self.site.counts(data)
        if self.graph.tensor(indices).dtype != "int64":
            indices = site.place("Cast", indices, to=7)
        if self.node.op_type == "GatherND":
            axes = {column: axis for axis, column in along.items()}
            first = min(axis - column for axis, column in along.items())
            depth = self.graph.tensor(indices).shape[-1]
            extents = [
                counts.get(axes.get(at, -1)) or site.flow.number(shape[first + at]) for at in range(depth)
            ]
            valid = site.place("Concat", *(site.place("Reshape", e, site.ints(1)) for e in extents), axis=0)
            most = self.graph.constant(np.array(shape[first : first + depth]))
        else:
            (axis,) = along
            valid, most = counts[axis], site.flow.number(shape[axis])
        negative = site.place("Less", indices, site.flow.number(0))
        indices = site.place("Where", negative, site.place("Add", indices, valid), indices)
        return site.place("Where", site.place("Less", indices, valid), indices, most)

    # --- extents ------------------------------------------------------------------------------------------

    def _inferred(self, sizes: Mapping[str, int]) -> tuple[Call, list[Tensor]]:
        """Return the call and its results at sizes of the counts, and at the maximum of all others."""
        inputs, outputs = list(self.node.input), list(self.node.output)
        while len(outputs) > 1 and not outputs[-1]:
            outputs.pop()
        while inputs and not inputs[-1]:
            inputs.pop()
        raw = Node(self.node.op_type, self.node.name, tuple(inputs), tuple(outputs), attributes_of(self.node))
        tensors = {name: self._sized(name, sizes) for name in inputs if name}
        known = dict(self.graph.constants)
        for name, parts in self.shapes.items():
            all_sizes = self.symbols | dict(sizes)
            known[name] = np.array([all_sizes[p] if isinstance(p, str) else p for p in parts], np.int64)
        try:
            finished = infer_node(replace(self.graph.description, constants=known), raw, tensors)
        except GraphError as error:
            raise Unsupported(error.messages[0]) from None
        call = resolve(finished, NEWEST_OPSET, tensors, known, len(self.record.inputs))
        return call, [tensors[name] for name in outputs if name]

    def _sized(self, name: str, sizes: Mapping[str, int]) -> Tensor:
        tensor, counts = self.graph.tensor(name), self.site.counts(name)
        shape = tuple(sizes.get(counts.get(at, ""), size) for at, size in enumerate(tensor.shape))
        return Tensor(name, tensor.dtype, shape)

    def _extents(self, at: int, shape: Shape) -> dict[int, _Extent]:
        """Return the extents of a result that depend on counts, by axes."""
        found: dict[int, _Extent] = {}
        for count, most in self.symbols.items():
            tried = {size: self._result_at(at, count, size) for size in (most + 1, *_OTHER_SIZES)}
            for axis, size in enumerate(shape):
                sizes = {trial: other[axis] for trial, other in tried.items()}
                if all(other == size for other in sizes.values()):
                    continue
                factor = sizes[most + 1] - size
                extent = _Extent(count, factor, size - factor * most)
                straight = all(extent.at({count: trial}) == other for trial, other in sizes.items())
                if axis in found or not straight or factor < 1 or extent.addend < 0:
                    raise self._refusal(f"axis {axis} of the result is not a multiple of it")
                found[axis] = extent
        return found

    def _result_at(self, at: int, count: str, size: int) -> Shape:
        try:
            return self._inferred({count: size})[1][at].shape
        except Unsupported as error:
            raise self._refusal(f"at a size of {size}: {error}") from None

    def _count(self, extent: _Extent) -> str:
        """Return the value of an extent."""
        name, site = extent.count, self.site
        if extent.factor != 1:
            name = site.place("Mul", name, site.flow.number(extent.factor))
        if extent.addend:
            name = site.place("Add", name, site.flow.number(extent.addend))
        self.graph.most[name] = extent.at(self.graph.most)
        return name

    # --- needed parts -------------------------------------------------------------------------------------

    def _is_pointwise(self, call: Call, results: Sequence[Tensor]) -> bool:
        """Return True if an element of a result needs only the operands' elements at its place."""
        for number, result in enumerate(results):
            for place in range(3):
                at = [min(place, size - 1) for size in result.shape]
                box = Box(tuple((begin, begin + 1) for begin in at))
                needs = self.record.needed(call, _only(box, number))
                for tensor, need in zip(call.inputs, needs, strict=False):
                    if tensor is None or need is None:
                        continue
                    if tensor.rank > result.rank or need != broadcast_from(tensor.shape, box):
                        return False
        return True

    def _check(self, call: Call, results: Sequence[Tensor], extents: Sequence[Mapping[int, _Extent]]) -> None:
        """Raise Unsupported if the valid part of a result needs padding, for any of some sizes."""
        for count, most in self.symbols.items():
            for size in sorted({1, min(2, most), most // 2, most - 1} - {0, most, -1}):
                sizes = {**self.symbols, count: size}
                for number, (result, axes) in enumerate(zip(results, extents, strict=True)):
                    shape = [axes[at].at(sizes) if at in axes else n for at, n in enumerate(result.shape)]
                    box = Box.whole(tuple(shape))
                    self._check_needs(self.record.needed(call, _only(box, number)), sizes)

    def _check_needs(self, needs: Sequence[Box | None], sizes: Mapping[str, int]) -> None:
        for name, need in zip(self.node.input, needs, strict=False):
            for axis, count in self.site.counts(name).items():
                if need is not None and need.intervals[axis][1] > sizes[count]:
                    raise self.site.refuse(name, axis, f"{self.node.op_type} needs all of it")

    def _refusal(self, reason: str) -> Unsupported:
        for name in self.node.input:
            for axis in self.site.counts(name):
                return self.site.refuse(name, axis, reason)
        return Unsupported(f"its shape depends on data, and {reason}")


def _only(box: Box, number: int) -> list[Box | None]:
    """Return the list of boxes in which one result has this box and the others none."""
    return [*(None for _ in range(number)), box]
