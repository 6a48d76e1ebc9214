"""Calibration data: samples of the inputs of a graph, from a .npz file or from arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from compiler.graph import DTYPES, FLOATS, Array, Graph, GraphError, Shape, Tensor
from tx8isa.tools.arrays import Archive, ArrayFileError
from tx8isa.tools.suggestions import hint

LEAST_ROWS = 8
"""The fewest rows for calibration; fewer do not show the ranges of values well."""


@dataclass(frozen=True)
class Samples:
    """The inputs of several runs of a graph: by the name of each input an array [count, *shape].

    Floats are float32 whatever the graph declares; they are finite.
    """

    arrays: Mapping[str, Array]
    count: int
    origin: str

    def __iter__(self) -> Iterator[dict[str, Array]]:
        """Yield the inputs of one run after another."""
        for at in range(self.count):
            yield {name: array[at] for name, array in self.arrays.items()}

    def first(self, count: int) -> Samples:
        """Return the first samples, at most ``count``."""
        few = min(count, self.count)
        return Samples({name: array[:few] for name, array in self.arrays.items()}, few, self.origin)


def read_samples(path: Path, graph: Graph) -> Samples:
    """Read the samples of a .npz file, which has an array for each input of the graph.

    GraphError for an unreadable file, and as :func:`samples_of`.
    """
    try:
        arrays = Archive(path).all()
    except ArrayFileError as error:
        reason, wanted = (
            str(error).removeprefix(f"{path}: "),
            "it is a .npz file with an array for each input",
        )
        raise GraphError([f"{path}: calibration data cannot be read: {reason}; {wanted}"]) from None
    except OSError as error:
        raise GraphError([f"{path}: calibration data cannot be read: {error.strerror}"]) from None
    return samples_of(arrays, graph, str(path))


def samples_of(given: Mapping[str, Any], graph: Graph, origin: str = "calibration data") -> Samples:
    """Make samples from arrays by input: [count, *shape], or [count * batch, ...] for a shape [batch, ...].

    GraphError, with ``origin`` as the place of the arrays, for names, shapes and types that the graph does
    not have, for too few rows, and for values that are not finite.
    """
    known = {tensor.name: tensor for tensor in graph.inputs}
    for name in given:
        if name not in known:
            names = ", ".join(known) + hint(name, known)
            raise GraphError([f"{origin}: the graph has no input '{name}'; its inputs: {names}"])
    arrays: dict[str, Array] = {}
    for name, tensor in known.items():
        if name not in given:
            raise GraphError([f"{origin}: has no array '{name}'; the graph needs {_described(tensor)}"])
        arrays[name] = _sampled(np.asarray(given[name]), tensor, origin)
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{count} of '{name}'" for name, count in counts.items())
        raise GraphError([f"{origin}: every input needs as many samples; found {found}"])
    count = next(iter(counts.values()), 0)
    rows = min((count * (tensor.shape[0] if tensor.rank else 1) for tensor in known.values()), default=0)
    if rows < LEAST_ROWS:
        wanted = f"calibration needs at least {LEAST_ROWS}, better 32 or more"
        raise GraphError([f"{origin}: {rows} rows along the first axis; {wanted}"])
    return Samples(arrays, count, origin)


def _sampled(array: Array, tensor: Tensor, origin: str) -> Array:
    """Return the array of one input as [count, *shape]; GraphError unless it fits the input."""
    what = f"{origin}: '{tensor.name}'"
    is_float = array.dtype.name in (*FLOATS, "float64")
    if array.dtype != DTYPES[tensor.dtype] and not (is_float and tensor.is_float):
        raise GraphError([f"{what} is {array.dtype.name}; the input is {tensor.dtype}"])
    shaped = _shaped(array, tensor.shape)
    if shaped is None:
        raise GraphError([f"{what} is {list(array.shape)}; samples of this input are {_forms(tensor)}"])
    if not tensor.is_float:
        return shaped
    single = np.asarray(shaped, np.float32)
    bad = [at for at, sample in enumerate(single) if not np.isfinite(sample).all()]
    if bad:
        raise GraphError([f"{what} has NaN or infinities, first in sample {bad[0]} of {len(single)}"])
    return single


def _shaped(array: Array, shape: Shape) -> Array | None:
    """Return the array as [count, *shape]; None if it does not fit."""
    if array.ndim == len(shape) + 1 and array.shape[1:] == shape:
        return array
    batched = shape and array.ndim == len(shape) and array.shape[1:] == shape[1:]
    if not batched or array.shape[0] % shape[0]:
        return None
    return array.reshape(-1, *shape)


def _described(tensor: Tensor) -> str:
    return f"'{tensor.name}' {tensor.dtype} {list(tensor.shape)}"


def _forms(tensor: Tensor) -> str:
    """Return the shapes that samples of an input may have, as text."""
    rest = ", ".join(map(str, tensor.shape))
    whole = f"[count, {rest}]" if rest else "[count]"
    if not tensor.rank:
        return whole
    batch, *others = tensor.shape
    first = "count" if batch == 1 else f"{batch} * count"
    return f"{whole} or [{', '.join(map(str, (first, *others)))}]"
