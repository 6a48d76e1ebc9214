"""Ensembles of decision trees on the emulated chip, against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import compiler
from compiler.frontend import load
from compiler.graph import Array, GraphError
from compiler.tools import run
from onnx_models import saved
from onnx_oracle import onnxruntime

FEATURES = 5
Lists = dict[str, list[Any]]


def forest(seed: int, trees: int, depth: int, columns: int, kind: str, modes: tuple[str, ...]) -> Lists:
    """Random trees whose leaves have a weight for each column."""
    rng = np.random.default_rng(seed)
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    found: Lists = {f"nodes_{name}": [] for name in names}
    found |= {f"{kind}_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}

    def grow(tree: int, number: int, left: int, following: list[int]) -> None:
        leaf = left == 0 or (number and rng.random() < 0.2)
        children = (0, 0) if leaf else (following[0], following[0] + 1)
        following[0] += 0 if leaf else 2
        mode = "LEAF" if leaf else str(rng.choice(modes))
        value = 0.0 if leaf else float(np.round(rng.standard_normal(), 1))
        entry = (tree, number, 0 if leaf else int(rng.integers(FEATURES)), value, mode, *children)
        for name, item in zip(names, entry, strict=True):
            found[f"nodes_{name}"].append(item)
        for column in range(columns) if leaf else ():
            weights = (tree, number, column, float(rng.standard_normal()))
            for name, item in zip(("treeids", "nodeids", "ids", "weights"), weights, strict=True):
                found[f"{kind}_{name}"].append(item)
        for child in () if leaf else children:
            grow(tree, child, left - 1, following)

    for tree in range(trees):
        grow(tree, 0, depth, [1])
    return found


def rows(seed: int = 0, count: int = 40) -> Array:
    """Numbers of one digit, so that many equal a bound."""
    return np.round(np.random.default_rng(seed).standard_normal((count, FEATURES)), 1).astype(np.float32)


def ensemble(op: str, attrs: dict[str, Any], outputs: tuple[str, ...]) -> Any:
    node = helper.make_node(op, ["x"], list(outputs), domain="ai.onnx.ml", name="n", **attrs)
    kinds = {"label": TensorProto.INT64}
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (40, FEATURES))],
        [helper.make_tensor_value_info(o, kinds.get(o, TensorProto.FLOAT), None) for o in outputs],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8)


def regressor(attrs: Lists, **more: Any) -> Any:
    return ensemble("TreeEnsembleRegressor", {"n_targets": 1, **attrs, **more}, ("y",))


def check(made: Any, x: Array, folder: Path, dtype: str = "fp32") -> None:
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    program = compiler.compile(load(saved(made, folder)), dtype, tiles=4)
    found = run.execute(program, {"x": x})[0]
    names = [item.name for item in made.graph.output]
    for name, wanted in zip(names, session.run(None, {"x": x}), strict=True):
        assert found[name].dtype == wanted.dtype
        assert found[name].shape == wanted.shape
        np.testing.assert_allclose(found[name], wanted, rtol=1e-5, atol=1e-5, err_msg=name)


EVERY = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE")


@pytest.mark.parametrize("modes", [("BRANCH_LEQ",), EVERY], ids=len)
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("function", ["SUM", "AVERAGE"])
def test_regressors(function: str, columns: int, modes: tuple[str, ...], tmp_path: Path) -> None:
    attrs = forest(columns, 7, 4, columns, "target", modes)
    more = {"aggregate_function": function, "base_values": [0.5] * columns}
    check(regressor(attrs, n_targets=columns, **more), rows(), tmp_path)


def test_a_tree_that_is_a_leaf(tmp_path: Path) -> None:
    check(regressor(forest(1, 2, 0, 1, "target", EVERY)), rows(), tmp_path)


@pytest.mark.parametrize("track", [0, 1])
def test_features_that_are_missing(track: int, tmp_path: Path) -> None:
    attrs = forest(4, 6, 4, 2, "target", EVERY)
    attrs["nodes_missing_value_tracks_true"] = [track] * len(attrs["nodes_modes"])
    x = rows()
    x[np.random.default_rng(1).random(x.shape) < 0.3] = np.nan
    check(regressor(attrs, n_targets=2), x, tmp_path)


def classifier(attrs: Lists, labels: list[int], transform: str) -> Any:
    """A model with labels and scores."""
    more = {"classlabels_int64s": labels, "post_transform": transform}
    return ensemble("TreeEnsembleClassifier", {**attrs, **more}, ("label", "z"))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_classifiers(transform: str, tmp_path: Path) -> None:
    attrs = forest(2, 6, 4, 4, "class", ("BRANCH_LEQ",))
    check(classifier(attrs, [7, 3, 5, 11], transform), rows(), tmp_path)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("positive", [True, False])
def test_one_score_for_two_classes(positive: bool, transform: str, tmp_path: Path) -> None:
    attrs = forest(9, 5, 3, 1, "class", ("BRANCH_LEQ",))
    if positive:
        attrs["class_weights"] = [abs(weight) / 5 for weight in attrs["class_weights"]]
    check(classifier(attrs, [4, 9], transform), rows(), tmp_path)


def test_trees_in_a_short_format(tmp_path: Path) -> None:
    """Conditions and sums are in FP32 whatever the format is: rows of eighths decide as they do in FP32."""
    eighths = np.round(rows() * 8) / 8
    check(regressor(forest(2, 7, 4, 1, "target", EVERY)), eighths, tmp_path, "fp16")


def test_trees_of_the_newest_operator_set_are_refused(tmp_path: Path) -> None:
    made = ensemble("TreeEnsemble", {}, ("y",))
    with pytest.raises(
        GraphError, match=r"TreeEnsemble \(node 'n'\): write its trees as TreeEnsembleRegressor"
    ):
        load(saved(made, tmp_path))
