"""The constants of graph.json: inline data and files, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from compiler.frontend.json.reader import parse_description
from compiler.graph import DTYPES, FLOATS, Array, GraphError

Json = dict[str, Any]


def constant_in(text: str, directory: Path) -> Array:
    return parse_description(text, source="g.json", directory=directory).constants["k"]


def document(record: Json) -> str:
    graph = {"opset": 17, "inputs": [], "outputs": ["k"], "nodes": [], "constants": {"k": record}}
    return json.dumps(graph)


def constant(record: Json, directory: Path = Path()) -> Array:
    return constant_in(document(record), directory)


def refused(record: Json, directory: Path = Path()) -> str:
    with pytest.raises(GraphError) as caught:
        constant(record, directory)
    text = str(caught.value)
    assert text.startswith("g.json: constant 'k': ")
    assert "\n" not in text
    return text.removeprefix("g.json: constant 'k': ")


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"dtype": "float32", "data": 2.5}, np.array(2.5, np.float32)),
        ({"dtype": "float32", "data": [2.5], "shape": []}, np.array(2.5, np.float32)),
        ({"dtype": "int64", "data": []}, np.zeros(0, np.int64)),
        ({"dtype": "int64", "data": [[], []]}, np.zeros((2, 0), np.int64)),
        ({"dtype": "uint8", "data": [[1, 2], [3, 255]]}, np.array([[1, 2], [3, 255]], np.uint8)),
        ({"dtype": "uint8", "data": [[1, 2]], "shape": [1, 2]}, np.array([[1, 2]], np.uint8)),
        ({"dtype": "int8", "data": [1, -128], "shape": [2, 1]}, np.array([[1], [-128]], np.int8)),
        ({"dtype": "int64", "data": [2**63 - 1, -(2**63)]}, np.array([2**63 - 1, -(2**63)], np.int64)),
        ({"dtype": "bool", "data": [True, False]}, np.array([True, False])),
        ({"dtype": "float16", "data": ["NaN", "-Infinity", 1]}, np.array([np.nan, -np.inf, 1], np.float16)),
        ({"dtype": "float16", "data": [65519.0]}, np.array([65504], np.float16)),
        # One rounding, not two: through float32 this would be a tie and be rounded down to 1.
        ({"dtype": "bfloat16", "data": [1 + 2**-8 + 2**-40]}, np.array([1 + 2**-7], ml_dtypes.bfloat16)),
    ],
)
def test_inline_constants(record: Json, expected: np.ndarray[Any, Any]) -> None:
    got = constant(record)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_constants_in_files(dtype: str, tmp_path: Path) -> None:
    numpy_type = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    array = np.arange(6).reshape(2, 3).astype(numpy_type)
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", k=array, other=np.zeros(1))
    save_file({"k": array, "other": np.zeros(1)}, tmp_path / "a.safetensors")
    for record in ({"file": "a.npy"}, {"file": "a.npz", "key": "k"}, {"file": "a.safetensors", "key": "k"}):
        got = constant({**record, "dtype": dtype, "shape": [2, 3]}, tmp_path)
        assert (got.dtype, got.shape) == (array.dtype, array.shape)
        assert got.tobytes() == array.tobytes()


def test_a_large_npy_file_is_mapped_and_not_copied(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(1000, np.float32))
    got = constant({"file": "a.npy"}, tmp_path)
    assert not got.flags.owndata
    assert not got.flags.writeable


def test_foreign_byte_order_is_turned(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([1, 2], ">i4"))
    got = constant({"file": "a.npy"}, tmp_path)
    assert got.dtype == np.dtype("int32")
    assert got.dtype.isnative
    assert got.tolist() == [1, 2]


@given(st.sampled_from(FLOATS), st.lists(st.floats(width=16), min_size=1, max_size=8))
def test_floats_survive_being_written_as_json(dtype: str, values: list[float]) -> None:
    names = {float("inf"): "Infinity", float("-inf"): "-Infinity"}
    data = [names.get(value, "NaN" if value != value else value) for value in values]
    got = constant({"dtype": dtype, "data": data}).astype(np.float64)
    numpy_type = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    expected = np.array(values, np.float32).astype(numpy_type).astype(np.float64)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("dtype", "data", "message"),
    [
        ("int64", [1, "NaN"], '"NaN" where an integer belongs, at [1]'),
        ("int64", [[1, 2], [3, 4.0]], "4.0 where an integer belongs, at [1, 1]"),
        ("int32", None, "null where an integer belongs"),
        ("int8", [True], "true where an integer belongs, at [0]"),
        ("int8", [127, 128], "128 is outside int8, -128 to 127, at [1]"),
        ("uint8", -1, "-1 is outside uint8, 0 to 255"),
        ("bool", [True, 1], "1 where true or false belongs, at [1]"),
        ("float16", [65520], "65520 is beyond float16, at [0]"),
        ("float32", [10**400], "1000000000000000000000000000000000000... is beyond float32, at [0]"),
        ("float32", [{}], '{} where a number belongs (or "NaN", "Infinity", "-Infinity"), at [0]'),
    ],
)
def test_refused_inline_data(dtype: str, data: Any, message: str) -> None:
    assert refused({"dtype": dtype, "data": data}) == message


def test_deeply_nested_data_is_no_crash() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    assert refused({"dtype": "int8", "data": deep}) == "data is nested more than 32 deep"


def test_a_number_beyond_binary64_is_no_infinity() -> None:
    text = document({"dtype": "float32", "data": [0.5, 0.25]}).replace("0.25", "1e999")
    with pytest.raises(GraphError) as caught:
        constant_in(text, Path())
    assert str(caught.value) == "g.json: constant 'k': Infinity is beyond float32, at [1]"


def write_files(folder: Path) -> None:
    np.save(folder / "a.npy", np.zeros((2, 3), np.float32))
    np.save(folder / "wide.npy", np.zeros(2))
    np.save(folder / "objects.npy", np.array([{}], dtype=object))
    np.savez(folder / "a.npz", weight=np.zeros(2, np.float32), bias=np.zeros(1, np.float32))
    save_file({"weight": np.zeros(2, np.float32)}, folder / "a.safetensors")
    for name in ("broken.npy", "broken.npz", "broken.safetensors", "a.bin"):
        (folder / name).write_bytes(b"broken")
    (folder / "cut.npy").write_bytes((folder / "a.npy").read_bytes()[:-4])
    (folder / "empty.npy").write_bytes(b"")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"file": "no.npy"}, "file {}/no.npy not found; names are relative to the graph's folder"),
        ({"file": "a.bin"}, "file {}/a.bin is of unknown kind; allowed are .npy, .npz, .safetensors"),
        ({"file": "a.npy", "key": "w"}, "file {}/a.npy holds one array and has no keys; found key 'w'"),
        ({"file": "a.npz"}, "file {}/a.npz needs a 'key'; it holds bias, weight"),
        (
            {"file": "a.npz", "key": "weights"},
            "file {}/a.npz has no key 'weights'; it holds bias, weight; did you mean 'weight'?",
        ),
        ({"file": "a.safetensors", "key": "w"}, "file {}/a.safetensors has no key 'w'; it holds weight"),
        ({"file": "a.npy", "dtype": "float16"}, "holds float32; declared dtype is float16"),
        ({"file": "a.npy", "shape": [3, 2]}, "holds shape [2, 3]; declared shape is [3, 2]"),
        (
            {"file": "wide.npy"},
            "holds float64; allowed are float32, float16, bfloat16, int8, uint8, int16, uint16, int32, "
            "uint32, int64, bool",
        ),
    ],
)
def test_refused_files(record: Json, message: str, tmp_path: Path) -> None:
    write_files(tmp_path)
    assert refused(record, tmp_path) == message.format(tmp_path)


@pytest.mark.parametrize(
    "name", ["broken.npy", "cut.npy", "empty.npy", "objects.npy", "broken.npz", "broken.safetensors"]
)
def test_unreadable_files(name: str, tmp_path: Path) -> None:
    write_files(tmp_path)
    record = {"file": name} if name.endswith(".npy") else {"file": name, "key": "k"}
    problem = "damaged archive of arrays" if name.endswith(".npz") else "cannot be read"
    assert refused(record, tmp_path).replace(":", "").startswith(f"file {tmp_path}/{name} {problem} ")
