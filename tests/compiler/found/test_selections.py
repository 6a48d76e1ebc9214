"""NonZero, Compress, TopK with a computed k, and Unique, against onnxruntime: empty results and full ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from control_models import declared, node
from found_models import BOOL, FLOAT, INT64, check_found, sparse, with_outputs


def nonzero(shape: tuple[int, ...], kind: int = FLOAT) -> Any:
    return with_outputs([node("NonZero", ["x"], ["y"], "nz")], [declared("x", shape, kind)], {"y": INT64})


@pytest.mark.parametrize(
    ("shape", "dtype", "tiles"), [((4, 8), "fp32", 1), ((3, 5, 47), "fp16", 16), ((1000,), "bf16", 5)]
)
def test_places_of_what_is_not_zero(shape: tuple[int, ...], dtype: str, tiles: int) -> None:
    check_found(nonzero(shape), [{"x": x} for x in sparse(1, *shape)], dtype, tiles)


def test_integers_and_truths_are_found() -> None:
    (_, x, _) = sparse(2, 6, 7)
    check_found(nonzero((6, 7), INT64), [{"x": (x * 4).astype(np.int64)}])
    check_found(nonzero((6, 7), BOOL), [{"x": x != 0}])


@pytest.mark.parametrize("axis", [0, -1, None])
def test_compress(axis: int | None) -> None:
    shape, length = (5, 6, 70), {0: 4, -1: 70, None: 1000}[axis]
    more = {} if axis is None else {"axis": axis}
    nodes = [node("Compress", ["x", "c"], ["y"], "few", **more)]
    inputs = [declared("x", shape), declared("c", [length], BOOL)]
    (x,) = sparse(3, *shape)[2:]
    truths = [np.random.default_rng(4).random(length) < part for part in (0, 0.4, 1)]
    check_found(
        with_outputs(nodes, inputs, {"y": FLOAT}), [{"x": x, "c": truth} for truth in truths], tiles=7
    )


@pytest.mark.parametrize(("axis", "largest"), [(0, 1), (-1, 0)])
def test_topk_of_a_computed_k(axis: int, largest: int) -> None:
    nodes = [node("TopK", ["x", "k"], ["v", "i"], "top", axis=axis, largest=largest)]
    model = with_outputs(nodes, [declared("x", [5, 9]), declared("k", [1], INT64)], {"v": FLOAT, "i": INT64})
    x = np.round(np.random.default_rng(5).standard_normal((5, 9))).astype(np.float32)
    check_found(model, [{"x": x, "k": np.array([k])} for k in (0, 1, 5)], "fp16")


@pytest.mark.parametrize(
    ("axis", "shape", "sorted_"), [(None, (9, 11), 0), (0, (30, 2), 1), (1, (2, 17), 0), (-1, (2, 3, 5), 1)]
)
def test_unique(axis: int | None, shape: tuple[int, ...], sorted_: int) -> None:
    more = {} if axis is None else {"axis": axis}
    nodes = [node("Unique", ["x"], ["y", "first", "inverse", "counts"], "u", sorted=sorted_, **more)]
    outputs = {"y": FLOAT, "first": INT64, "inverse": INT64, "counts": INT64}
    rng = np.random.default_rng(6)
    runs = [{"x": rng.integers(-most, most, shape).astype(np.float32)} for most in (1, 3, 2000)]
    runs[0]["x"] *= 0.0  # zeros of both signs
    check_found(with_outputs(nodes, [declared("x", shape)], outputs), runs, tiles=[16, 3][sorted_])


def test_unique_of_one_element_and_of_integers() -> None:
    nodes = [node("Unique", ["x"], ["y", "", "inverse"], "u")]
    for count in (1, 200):
        model = with_outputs(nodes, [declared("x", [count], INT64)], {"y": INT64, "inverse": INT64})
        x = np.random.default_rng(7).integers(-(1 << 40), 1 << 40, count) // (1 << 36)
        check_found(model, [{"x": x}])


@pytest.mark.parametrize("op", ["Unique", "NonZero"])
def test_what_is_found_in_a_constant_that_only_the_compiler_knows(op: str) -> None:
    """The shape of the input determines the matrix; a run still reports the size."""
    nodes = [node("EyeLike", ["x"], ["e"], "eye"), node(op, ["e"], ["y"], "found")]
    outputs = {"y": FLOAT if op == "Unique" else INT64}
    x = np.zeros((4, 8), np.float32)
    check_found(with_outputs(nodes, [declared("x", [4, 8])], outputs), [{"x": x}])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40))
def test_more_random_selections(seed: int) -> None:
    rng = np.random.default_rng([seed, 8])
    shape = tuple(int(size) for size in rng.integers(1, 12, rng.integers(1, 4)))
    axis, dtype = int(rng.integers(len(shape))), ("fp32", "fp16", "bf16")[seed % 3]
    nodes = [
        node("NonZero", ["x"], ["places"], "nz"),
        node("Compress", ["x", "c"], ["few"], "few", axis=axis),
        node("TopK", ["x", "k"], ["v", "i"], "top", axis=axis, largest=seed % 2),
        node("Unique", ["x"], ["y", "first", "inverse", "counts"], "u", sorted=seed // 2 % 2, axis=axis),
    ]
    inputs = [declared("x", shape), declared("c", [shape[axis]], BOOL), declared("k", [1], INT64)]
    outputs = dict.fromkeys(("few", "v", "y"), FLOAT)
    outputs |= dict.fromkeys(("places", "i", "first", "inverse", "counts"), INT64)
    runs = [
        {
            "x": np.round(x * 2).astype(np.float32),
            "c": rng.random(shape[axis]) < rng.random(),
            "k": rng.integers(0, shape[axis] + 1, 1),
        }
        for x in sparse(seed, *shape)
    ]
    check_found(with_outputs(nodes, inputs, outputs), runs, dtype, int(rng.integers(1, 17)))
