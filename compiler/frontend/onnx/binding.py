"""Extents for the dimensions that an ONNX model leaves free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from onnx import ValueInfoProto

from compiler.graph import GraphError
from tx8isa.tools.suggestions import hint


@dataclass(frozen=True)
class Binding:
    """``shapes``: of inputs, by name. ``batch``: of the first axis of every input, where that is free."""

    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    batch: int | None = None

    def extents(self, infos: Iterable[ValueInfoProto], source: Path) -> None:
        """Write the extents into the inputs of a model. GraphError for a shape that fits no input.

        A symbol that is bound in one input is bound in all of them.
        """
        inputs = {info.name: info for info in infos}
        symbols: dict[str, int] = {}
        for name, shape in self.shapes.items():
            if name not in inputs:
                near = hint(name, inputs)
                raise GraphError([f"{source}: a shape is given for '{name}', which is no input{near}"])
            _bind(inputs[name], shape, symbols, source)
        for info in inputs.values():
            dims = info.type.tensor_type.shape.dim
            if self.batch is not None and dims and not dims[0].HasField("dim_value"):
                if dims[0].dim_param:
                    symbols.setdefault(dims[0].dim_param, self.batch)
                dims[0].dim_value = self.batch
        for info in inputs.values():
            for dim in info.type.tensor_type.shape.dim:
                if dim.dim_param and dim.dim_param in symbols:
                    dim.dim_value = symbols[dim.dim_param]


def _bind(info: ValueInfoProto, shape: Sequence[int], symbols: dict[str, int], source: Path) -> None:
    """Write a shape into one input, and note what its symbols are."""
    dims = info.type.tensor_type.shape.dim
    head = f"{source}: input '{info.name}'"
    if not info.type.tensor_type.HasField("shape"):
        info.type.tensor_type.shape.SetInParent()
        for _ in shape:
            dims.add()
    if len(dims) != len(shape):
        raise GraphError([f"{head} has {len(dims)} axes; the shape given has {len(shape)}: {list(shape)}"])
    for axis, (dim, extent) in enumerate(zip(dims, shape, strict=True)):
        if extent < 1:
            raise GraphError([f"{head}: axis {axis} is given as {extent}; expected 1 or more"])
        if dim.HasField("dim_value") and dim.dim_value != extent:
            raise GraphError([f"{head}: axis {axis} is {dim.dim_value} in the model; {extent} is given"])
        if dim.dim_param and symbols.setdefault(dim.dim_param, extent) != extent:
            other = symbols[dim.dim_param]
            raise GraphError([f"{head}: axis {axis} is '{dim.dim_param}', given as {extent} and as {other}"])
        if not dim.HasField("dim_value"):
            dim.dim_value = extent
