"""Binds the inputs of an ONNX model: gives free dimensions extents, and replaces inputs by constants."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, ValueInfoProto, numpy_helper

from compiler.graph import DTYPES, Array, GraphError, Tensor
from tx8isa.tools.suggestions import hint

from .model import input_of


@dataclass(frozen=True)
class Binding:
    """Values that the user binds to names of a model.

    ``shapes``: of inputs, by name. ``batch``: of the first axis of every input, if that is free.
    ``constants``: arrays or numbers that inputs always are, by name; a single number fills its input.
    ``sizes``: of free dimensions, by the names that the model gives them.
    ``bounds``: the most steps of loops that collect results, and the most elements that nodes with
    data-dependent results find, by the names of the nodes.
    """

    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    batch: int | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    bounds: Mapping[str, int] = field(default_factory=dict)

    def extents(self, infos: Iterable[ValueInfoProto], source: Path) -> None:
        """Write the extents into the inputs of a model. GraphError for a shape that fits no input.

        A symbol that is bound in one input is bound in all of them. An array has a shape too.
        """
        inputs = {info.name: info for info in infos}
        _free_unnamed_extents(inputs.values())
        symbols: dict[str, int] = dict(self.sizes)
        _check_dimensions(self.sizes, inputs.values(), source)
        for what, given in (("a shape", self.shapes), ("a value", self.constants)):
            for name in given:
                if name not in inputs:
                    near = hint(name, inputs)
                    raise GraphError([f"{source}: {what} is given for '{name}', which is not an input{near}"])
        for name, shape in self.shapes.items():
            _bind(inputs[name], shape, symbols, source)
        for name, array in self._arrays().items():
            if array.ndim:
                _bind(inputs[name], array.shape, symbols, source)
        for info in inputs.values() if self.sizes else ():
            for dim in info.type.tensor_type.shape.dim:
                if (total := _sum_of(dim.dim_param, self.sizes)) is not None:
                    symbols.setdefault(dim.dim_param, total)
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

    def initializers(self, infos: Iterable[ValueInfoProto], source: Path) -> dict[str, TensorProto]:
        """Return the inputs that are constants, as initializers; ``extents`` were written before.

        GraphError for a value that its input cannot be.
        """
        inputs = {info.name: info for info in infos}
        return {
            name: numpy_helper.from_array(_value(input_of(inputs[name], source), array, source), name)
            for name, array in self._arrays().items()
        }

    def check_bounds(self, limited: Collection[str], source: Path) -> None:
        """Raise GraphError for a bound of a node that takes none.

        ``limited`` names the nodes that take one.
        """
        for name, bound in self.bounds.items():
            head = f"{source}: a bound is given for '{name}'"
            if name not in limited:
                known = f"{', '.join(sorted(limited)) or 'none'}{hint(name, sorted(limited))}"
                what = "which is not a Loop and has no result of data-dependent size"
                raise GraphError([f"{head}, {what}; nodes that can have one: {known}"])
            if bound < 1:
                raise GraphError([f"{head}: {bound}; expected 1 or more"])

    def _arrays(self) -> dict[str, Array]:
        return {name: np.asarray(value) for name, value in self.constants.items()}


def _free_unnamed_extents(infos: Iterable[ValueInfoProto]) -> None:
    """Make extents free and nameless that exporters write as -1, or as ``?`` whatever their size."""
    for info in infos:
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_value < 0 or dim.dim_param == "?":
                dim.Clear()


def _sum_of(name: str, sizes: Mapping[str, int]) -> int | None:
    """Return the size of a dimension whose name is a sum of others and numbers, as exporters write it."""
    parts = [part.strip() for part in name.split("+")]
    if len(parts) < 2 or not all(part in sizes or part.isdigit() for part in parts):
        return None
    return sum(sizes[part] if part in sizes else int(part) for part in parts)


def _check_dimensions(sizes: Iterable[str], infos: Iterable[ValueInfoProto], source: Path) -> None:
    """Raise GraphError for a name that is not one of the model's free dimensions."""
    dims = [dim for info in infos for dim in info.type.tensor_type.shape.dim]
    free = list(
        dict.fromkeys(dim.dim_param for dim in dims if dim.dim_param and not dim.HasField("dim_value"))
    )
    for name in sizes:
        if name not in free:
            known = f"its free dimensions: {', '.join(free) or 'none'}{hint(name, free)}"
            raise GraphError([f"{source}: the inputs have no free dimension '{name}'; {known}"])


def _value(tensor: Tensor, array: Array, source: Path) -> Array:
    """Return a value in the type and the shape of its input; GraphError if integers would change."""
    head = f"{source}: input '{tensor.name}' is {tensor.dtype}"
    dtype = DTYPES[tensor.dtype]
    if array.dtype.kind not in "biuf" and array.dtype != dtype:
        raise GraphError([f"{head}; the value given is not a number or array of numbers: {array.dtype}"])
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
    if not tensor.is_float and not np.array_equal(converted, array):
        wrong = array[converted != array].reshape(-1)[0] if array.ndim else array
        raise GraphError([f"{head}; the value given has {wrong}, which that cannot be"])
    if tensor.is_float and np.any(np.isfinite(array) & ~np.isfinite(converted.astype(np.float64))):
        raise GraphError([f"{head}; the value given has numbers beyond its range"])
    return np.full(tensor.shape, converted) if not array.ndim else converted


def _bind(info: ValueInfoProto, shape: Sequence[int], symbols: dict[str, int], source: Path) -> None:
    """Write a shape into one input, and record the values of its symbols."""
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
