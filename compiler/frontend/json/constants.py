"""The constants of graph.json: inline data, .npy, .npz and .safetensors files.

Messages of the GraphErrors raised here do not name the constant; the reader of the graph puts it in front.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from compiler.graph import DTYPES, FLOAT_FORMATS, FLOATS, Array, GraphError, Shape
from tx8isa.numbers.rounding import rounded
from tx8isa.tools.arrays import Archive, ArrayFileError
from tx8isa.tools.suggestions import hint

DType = Literal[
    "float32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool"
]

NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Floats that JSON has no numbers for, as strings."""

_MAX_RANK = 32


class ConstantRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """A constant: ``dtype`` and ``data`` (nested, or flat with ``shape``), or ``file`` (with ``key``).

    With a file, ``dtype`` and ``shape`` are optional and must agree with the file.
    """

    dtype: DType | UnsetType = UNSET
    shape: list[Annotated[int, Meta(ge=0)]] | UnsetType = UNSET
    data: Any = UNSET
    file: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    key: str | UnsetType = UNSET


WAYS = {
    "oneOf": [
        {"required": ["dtype", "data"], "not": {"anyOf": [{"required": ["file"]}, {"required": ["key"]}]}},
        {"required": ["file"], "not": {"required": ["data"]}},
    ]
}
"""The part of the schema that fields cannot express: the two ways to give a constant."""


def load_constant(record: ConstantRecord, directory: Path) -> Array:
    """Load the array of a constant; relative file names start from ``directory``."""
    shape = None if record.shape is UNSET else tuple(record.shape)
    if record.file is not UNSET:
        if record.data is not UNSET:
            raise GraphError(["has both 'data' and 'file'; give one of them"])
        array = _read_file(directory / record.file, None if record.key is UNSET else record.key)
        return _declared(array, None if record.dtype is UNSET else record.dtype, shape)
    if record.data is UNSET:
        raise GraphError(["has neither 'data' nor 'file'; give one of them"])
    if record.key is not UNSET:
        raise GraphError(["'key' belongs to 'file'; inline data has none"])
    if record.dtype is UNSET:
        raise GraphError([f"inline data needs 'dtype'; allowed are {', '.join(DTYPES)}"])
    return _inline(record.data, record.dtype, shape)


def files_of(records: Iterable[ConstantRecord], directory: Path) -> tuple[Path, ...]:
    """Return the files that hold constants."""
    return tuple({directory / record.file: None for record in records if record.file is not UNSET})


def _inline(data: Any, dtype: str, shape: Shape | None) -> Array:
    nested, flat = _flattened(data)
    if shape is not None and nested != shape:
        if len(nested) > 1:
            raise GraphError([f"data is nested as {list(nested)}; declared shape is {list(shape)}"])
        if len(flat) != math.prod(shape):
            raise GraphError([f"has {len(flat)} values; shape {list(shape)} needs {math.prod(shape)}"])
    shape = nested if shape is None else shape
    if dtype in FLOATS:
        values = _floats(flat, dtype, shape)
    elif dtype == "bool":
        _refuse(flat, shape, lambda value: isinstance(value, bool), "where true or false belongs")
        values = np.array(flat, np.bool_)
    else:
        values = _integers(flat, dtype, shape)
    return values.reshape(shape)


def _flattened(data: Any) -> tuple[Shape, list[Any]]:
    """Return the shape of nested lists, and their elements in order; a single number has shape ()."""
    shape: list[int] = []
    level = [data]
    while level and isinstance(level[0], list):
        sizes = {len(item) if isinstance(item, list) else -1 for item in level}
        if len(sizes) > 1:
            raise GraphError([f"data is ragged: at depth {len(shape)} the lists differ in length"])
        shape.append(sizes.pop())
        if len(shape) > _MAX_RANK:
            raise GraphError([f"data is nested more than {_MAX_RANK} deep"])
        level = [value for item in level for value in item]
    if any(isinstance(value, list) for value in level):
        raise GraphError([f"data is ragged: lists and values are mixed at depth {len(shape)}"])
    return tuple(shape), level


def _refuse(flat: list[Any], shape: Shape, fits: Callable[[Any], bool], why: str) -> None:
    """Raise for the first value that does not fit, with its position."""
    for position, value in enumerate(flat):
        if not fits(value):
            raise GraphError([f"{_shown(value)} {why}{_place(position, shape)}"])


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _place(position: int, shape: Shape) -> str:
    if not shape:
        return ""
    return f", at {[int(index) for index in np.unravel_index(position, shape)]}"


def _integers(flat: list[Any], dtype: str, shape: Shape) -> Array:
    info = np.iinfo(dtype)
    if set(map(type, flat)) - {int}:
        _refuse(flat, shape, lambda value: type(value) is int, "where an integer belongs")
    if flat and not info.min <= min(flat) <= max(flat) <= info.max:
        why = f"is outside {dtype}, {info.min} to {info.max}"
        _refuse(flat, shape, lambda value: info.min <= value <= info.max, why)
    return np.array(flat, dtype)


def _floats(flat: list[Any], dtype: str, shape: Shape) -> Array:
    if set(map(type, flat)) - {int, float}:
        _refuse(flat, shape, _is_number, 'where a number belongs (or "NaN", "Infinity", "-Infinity")')
    wide = np.fromiter((_as_float(value) for value in flat), np.float64, count=len(flat))
    values = rounded(wide, FLOAT_FORMATS[dtype])
    lost = np.flatnonzero(np.isinf(values))
    for position in lost.tolist():
        if not isinstance(flat[position], str):
            raise GraphError([f"{_shown(flat[position])} is beyond {dtype}{_place(position, shape)}"])
    return values


def _is_number(value: Any) -> bool:
    return value in NOT_FINITE if isinstance(value, str) else type(value) in (int, float)


def _as_float(value: int | float | str) -> float:
    if isinstance(value, str):
        return NOT_FINITE[value]
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _read_file(path: Path, key: str | None) -> Array:
    readers = {".npy": _read_npy, ".npz": _read_npz, ".safetensors": _read_safetensors}
    reader = readers.get(path.suffix)
    if reader is None:
        raise GraphError([f"file {path} is of unknown kind; allowed are {', '.join(readers)}"])
    if not path.is_file():
        raise GraphError([f"file {path} not found; names are relative to the graph's folder"])
    return reader(path, key)


def _read_npy(path: Path, key: str | None) -> Array:
    if key is not None:
        raise GraphError([f"file {path} holds one array and has no keys; found key '{key}'"])
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, EOFError, OSError, OverflowError) as error:
        raise GraphError([_unreadable(path, error)]) from None


def _read_npz(path: Path, key: str | None) -> Array:
    try:
        archive = Archive(path)
        return archive[_checked_key(path, key, archive.names)]
    except ArrayFileError as error:
        raise GraphError([f"file {error}"]) from None
    except OSError as error:
        raise GraphError([_unreadable(path, error)]) from None


def _read_safetensors(path: Path, key: str | None) -> Array:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as archive:
            return np.asarray(archive.get_tensor(_checked_key(path, key, archive.keys())))
    except (SafetensorError, OSError, TypeError, AttributeError) as error:
        raise GraphError([_unreadable(path, error)]) from None


def _checked_key(path: Path, key: str | None, keys: Iterable[str]) -> str:
    known = sorted(keys)
    listed = ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")
    if key is None:
        raise GraphError([f"file {path} needs a 'key'; it holds {listed or 'nothing'}"])
    if key not in known:
        near = hint(key, known)
        raise GraphError([f"file {path} has no key '{key}'; it holds {listed or 'nothing'}{near}"])
    return key


def _unreadable(path: Path, error: Exception) -> str:
    return f"file {path} cannot be read: {str(error).splitlines()[0] if str(error) else type(error).__name__}"


def _declared(array: Array, dtype: str | None, shape: Shape | None) -> Array:
    """Return the array of a file, checked against the graph's declaration."""
    if dtype == "bfloat16" and array.dtype == np.dtype("V2"):
        array = array.view(DTYPES["bfloat16"])  # NumPy's own files keep the bits of bfloat16 but not its name
    if array.dtype.name not in DTYPES:
        raise GraphError([f"holds {array.dtype.name}; allowed are {', '.join(DTYPES)}"])
    if dtype is not None and array.dtype.name != dtype:
        raise GraphError([f"holds {array.dtype.name}; declared dtype is {dtype}"])
    if shape is not None and array.shape != shape:
        raise GraphError([f"holds shape {list(array.shape)}; declared shape is {list(shape)}"])
    return array.astype(DTYPES[array.dtype.name], copy=False)
