"""Converts the inputs that a caller passes into the arrays that the program's buffers need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from asm.image import Buffer
from emulator.memory.buffers import InputError, travel_dtype

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Trees:
    """Pytrees of arguments and results with which JAX traced a function."""

    arguments: Any
    """Positional arguments as a tuple, and keyword arguments as a dictionary."""
    names: Sequence[str | None]
    """The name of the input for each leaf of the arguments; None for an input that is not used."""
    results: Any

    def inputs(self, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the inputs by name when the arguments form the traced tree, None when they are plain inputs.

        InputError for other trees.
        """
        import jax

        try:
            leaves, found = jax.tree_util.tree_flatten((tuple(given), dict(named)))
        except (TypeError, ValueError) as error:  # keys that have no order
            raise InputError(f"the arguments are not a tree of JAX: {str(error).splitlines()[0]}") from None
        if found == self.arguments:
            return {name: leaf for name, leaf in zip(self.names, leaves, strict=True) if name is not None}
        inputs = [name for name in self.names if name is not None]
        only = given[0] if len(given) == 1 else None
        has_names = isinstance(only, Mapping) and not only.keys().isdisjoint(inputs)
        if not has_names and any(map(_is_tree, given)):
            wanted = f"the traced trees, {_shown(self.arguments)}, or inputs: {_listed(inputs)}"
            raise InputError(f"the arguments are {_shown(found)}; expected {wanted}")
        return None

    def result(self, outputs: Iterable[Array]) -> Any:
        """Return the outputs in the tree that the traced function returns."""
        return self.results.unflatten(list(outputs))


def _is_tree(value: Any) -> bool:
    """Return True if an argument consists of several arrays; a list of numbers counts as one array."""
    inner = value if isinstance(value, list) else ()
    return isinstance(value, Mapping | tuple) or any(
        hasattr(each, "shape") or _is_tree(each) for each in inner
    )


def _shown(tree: Any) -> str:
    """Return the text of a tree without the name of its class, ``(({'w': *}, *), {})``."""
    return str(tree).removeprefix("PyTreeDef(").removesuffix(")")


def bind(
    buffers: Sequence[Buffer], given: Sequence[Any], named: Mapping[str, Any], trees: Trees | None = None
) -> dict[str, Array]:
    """Assign values by position and by name to the inputs of a program; InputError for a misfit."""
    if trees is not None and (found := trees.inputs(given, named)) is not None:
        named, given = found, ()
    if not named and len(given) == 1 and isinstance(given[0], Mapping):
        named, given = given[0], ()
    names = [buffer.name for buffer in buffers]
    if len(given) > len(names):
        raise InputError(f"{len(given)} inputs given; the program has {len(names)}: {_listed(names)}")
    values = dict(zip(names, given, strict=False))
    for name, value in named.items():
        if name in values:
            raise InputError(f"input '{name}' is given twice, by position and by name")
        if name not in names:
            raise InputError(f"the program has no input '{name}'; its inputs: {_listed(names)}")
        values[name] = value
    missing = [name for name in names if name not in values]
    if missing:
        raise InputError(f"input '{missing[0]}' is missing; the program's inputs: {_listed(names)}")
    return {buffer.name: convert(buffer, values[buffer.name]) for buffer in buffers}


def convert(buffer: Buffer, value: Any) -> Array:
    """Convert a value to a buffer's array: sequences of numbers, other float types, integers that fit."""
    expected = travel_dtype(buffer)
    if hasattr(value, "detach"):  # a tensor of PyTorch, which is not an array while it needs a gradient
        value = value.detach().cpu()
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"input '{buffer.name}': cannot be made an array: {error}") from None
    numbers = not isinstance(value, np.ndarray) and array.dtype.kind in "iub" and expected.kind == "f"
    if array.dtype == expected:
        return array
    if (_is_float(array.dtype) or numbers) and expected.kind == "f":
        with np.errstate(over="ignore"):  # a number too large for its format becomes an infinity
            return array.astype(expected)
    if array.dtype.kind in "iu" and expected.kind in "iu":
        return _integers(buffer.name, array, expected)
    raise InputError(f"input '{buffer.name}' is {array.dtype}, expected {expected}: convert it explicitly")


def _is_float(dtype: np.dtype[Any]) -> bool:
    """Return True for a float type, also of ml_dtypes such as bfloat16, which NumPy knows as kind V."""
    return dtype.kind == "f" or dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def _integers(name: str, array: Array, expected: np.dtype[Any]) -> Array:
    limits = np.iinfo(expected)
    outside = (array < limits.min) | (array > limits.max)
    if outside.any():
        found = array[outside].flat[0]
        raise InputError(f"input '{name}' holds {found}, expected {limits.min}..{limits.max} ({expected})")
    return array.astype(expected)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
