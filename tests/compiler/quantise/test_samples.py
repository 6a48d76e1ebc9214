"""Calibration data: its valid forms, and the messages about other files and arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.graph import Graph, GraphError
from compiler.quantise import read_samples, samples_of
from float_nets import float_graph, small_cnn


def two_inputs(batch: int = 2) -> Graph:
    nodes: list[tuple[str, str, list[str], str, dict[str, Any]]] = [("Add", "n", ["a", "b"], "y", {})]
    return float_graph(nodes, {"a": (batch, 4), "b": (4,)}, {})


def test_an_array_has_an_axis_more_than_the_input() -> None:
    array = np.arange(9 * 3 * 12 * 12, dtype=np.float32).reshape(9, 1, 3, 12, 12)
    samples = samples_of({"x": array}, small_cnn())
    assert samples.count == 9
    np.testing.assert_array_equal([run["x"] for run in samples], array)


def test_an_array_may_join_its_samples_along_the_batch() -> None:
    array = np.arange(12 * 3 * 12 * 12, dtype=np.float32).reshape(12, 3, 12, 12)
    samples = samples_of({"x": array}, small_cnn(batch=4))
    assert samples.count == 3
    np.testing.assert_array_equal(np.concatenate([run["x"] for run in samples]), array)


def test_other_floats_become_float32() -> None:
    samples = samples_of({"x": np.ones((8, 3, 12, 12), np.float64) / 3}, small_cnn())
    assert samples.arrays["x"].dtype == np.float32
    assert (samples.arrays["x"] == np.float32(1 / 3)).all()


def test_samples_are_read_from_a_file(tmp_path: Path) -> None:
    arrays = {"a": np.ones((9, 2, 4), np.float32), "b": np.zeros((9, 4), np.float32)}
    np.savez(tmp_path / "s.npz", **arrays)
    samples = read_samples(tmp_path / "s.npz", two_inputs())
    assert (samples.count, samples.first(4).count, samples.first(99).count) == (9, 4, 9)
    assert [run["a"].shape for run in samples.first(2)] == [(2, 4), (2, 4)]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"z": np.ones((8, 2, 4))}, "the graph has no input 'z'; its inputs: a, b"),
        ({"a": np.ones((8, 2, 4), np.float32)}, "has no array 'b'; the graph needs 'b' float32 [4]"),
        ({"a": np.ones((8, 2, 4), np.int64)}, "'a' is int64; the input is float32"),
        (
            {"a": np.ones((8, 2, 5))},
            "'a' is [8, 2, 5]; samples of this input are [count, 2, 4] or [2 * count, 4]",
        ),
        ({"a": np.ones((7, 4))}, "'a' is [7, 4]; samples of this input are"),
        ({"a": np.ones((8, 2, 4)), "b": np.ones((3, 4))}, "found 8 of 'a', 3 of 'b'"),
        (
            {"a": np.ones((3, 2, 4)), "b": np.ones((3, 4))},
            "6 rows along the first axis; calibration needs at least 8",
        ),
        ({"a": np.full((8, 2, 4), np.nan)}, "'a' has NaN or infinities, first in sample 0 of 8"),
        (
            {"a": np.ones((8, 2, 4)), "b": np.r_[np.ones((7, 4)), np.full((1, 4), np.inf)]},
            "first in sample 7 of 8",
        ),
        ({"a": np.array(["x"])}, "'a' is str32; the input is float32"),
    ],
)
def test_what_does_not_fit_is_said(arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError) as caught:
        samples_of(arrays, two_inputs(), "s.npz")
    assert str(caught.value).startswith("s.npz: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.npz", None, "No such file"),
        ("text.npz", b"not a zip file", "calibration data cannot be read"),
        ("empty.npz", b"", "calibration data cannot be read"),
        ("cut.npz", b"PK\x03\x04broken", "calibration data cannot be read"),
    ],
)
def test_a_file_that_is_none_is_said(name: str, content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(GraphError) as caught:
        read_samples(tmp_path / name, small_cnn())
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_single_array_is_no_set_of_samples(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((8, 3, 12, 12), np.float32))
    with pytest.raises(GraphError, match=r"is a \.npz file with an array for each input"):
        read_samples(tmp_path / "x.npy", small_cnn())


def test_objects_are_not_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "o.npz", x=np.array([{}], dtype=object))
    with pytest.raises(GraphError, match="cannot be read"):
        read_samples(tmp_path / "o.npz", small_cnn())
