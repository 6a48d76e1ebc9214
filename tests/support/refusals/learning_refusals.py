"""Calls that the rules of the operators of ai.onnx.ml refuse."""

from __future__ import annotations

from typing import Any

from node_refusal import Refusal

TWO_CLASSES: dict[str, Any] = {"classlabels_ints": (0, 1), "coefficients": (1.0, 2.0, 3.0)}
NODES: dict[str, Any] = {
    "nodes_treeids": (0, 0, 0),
    "nodes_nodeids": (0, 1, 2),
    "nodes_featureids": (1, 0, 0),
    "nodes_values": (0.5, 0.0, 0.0),
    "nodes_modes": ("BRANCH_LEQ", "LEAF", "LEAF"),
    "nodes_truenodeids": (1, 0, 0),
    "nodes_falsenodeids": (2, 0, 0),
}
_LEAVES = {"treeids": (0, 0), "nodeids": (1, 2), "weights": (1.0, -1.0)}
STUMP = NODES | {f"target_{name}": value for name, value in _LEAVES.items()} | {"target_ids": (0, 0)}
OF_CLASSES = NODES | {f"class_{name}": value for name, value in _LEAVES.items()}
OF_CLASSES |= {"class_ids": (0, 1), "classlabels_int64s": (3, 4)}
_BRANCHES = 4096
_INNER, _ALL = range(_BRANCHES), range(2 * _BRANCHES + 1)
DEEP: dict[str, Any] = {
    "nodes_treeids": tuple(0 for _ in _ALL),
    "nodes_nodeids": tuple(_ALL),
    "nodes_featureids": tuple(0 for _ in _ALL),
    "nodes_values": tuple(0.0 for _ in _ALL),
    "nodes_modes": tuple("BRANCH_LEQ" if at < _BRANCHES else "LEAF" for at in _ALL),
    "nodes_truenodeids": (*(at + _BRANCHES for at in _INNER), *(0 for _ in range(_BRANCHES + 1))),
    "nodes_falsenodeids": (
        *(at + 1 for at in range(_BRANCHES - 1)),
        2 * _BRANCHES,
        *(0 for _ in range(_BRANCHES + 1)),
    ),
}
"""A tree of 4096 conditions in a row."""

LEARNING_REFUSALS = [
    Refusal("ai.onnx.ml.Scaler", [(3,)], {}, "X must have rank 2 ([N, C]); found shape [3]"),
    Refusal(
        "ai.onnx.ml.Scaler",
        [(2, 3)],
        {"offset": (1.0,), "scale": (1.0, 2.0)},
        "offset and scale must have one number, or one for each of the C features; "
        "found 2 in scale with C = 3",
    ),
    Refusal(
        "ai.onnx.ml.LinearRegressor",
        [(2, 3)],
        {"coefficients": (1.0, 2.0, 3.0, 4.0), "targets": 2},
        "There must be C coefficients and at most one intercept for each of the targets; "
        "found 4 and 2 with 2 targets and C = 3",
    ),
    Refusal(
        "ai.onnx.ml.LinearClassifier",
        [(2, 3)],
        {"classlabels_strings": ("no", "yes"), "coefficients": (1.0, 2.0, 3.0)},
        "Labels must be integers (classlabels_ints): there are no strings on the chip; found 2 strings",
        outputs=("y", "z"),
    ),
    Refusal(
        "ai.onnx.ml.LinearClassifier",
        [(2, 3)],
        {**TWO_CLASSES, "classlabels_ints": (0, 1, 2)},
        "There must be two or more labels, C coefficients and one intercept for each, or once for two "
        "labels; found 3 labels, 3 coefficients, 1 intercepts with C = 3",
        outputs=("y", "z"),
    ),
    Refusal(
        "ai.onnx.ml.LinearClassifier",
        [(2, 3)],
        {**TWO_CLASSES, "post_transform": "SOFTMAX"},
        "One score for two labels needs post_transform LOGISTIC: with others implementations disagree; "
        "found post_transform SOFTMAX",
        outputs=("y", "z"),
    ),
    Refusal(
        "ai.onnx.ml.TreeEnsembleRegressor",
        [(2, 3)],
        STUMP | {"nodes_modes": ("BRANCH_EQ", "LEAF", "LEAF")},
        "The lists nodes_* must describe trees, the first node of each being its root; found mode BRANCH_EQ",
    ),
    Refusal(
        "ai.onnx.ml.TreeEnsembleRegressor",
        [(2, 3)],
        STUMP | {"nodes_falsenodeids": (7, 0, 0)},
        "The lists nodes_* must describe trees, the first node of each being its root; "
        "found lists of 3 nodes that do not fit together",
    ),
    Refusal(
        "ai.onnx.ml.TreeEnsembleRegressor",
        [(2, 3)],
        STUMP | {"nodes_falsenodeids": (0, 0, 0)},
        "The lists nodes_* must describe trees, the first node of each being its root; "
        "found a node with two ways to it",
    ),
    Refusal(
        "ai.onnx.ml.TreeEnsembleRegressor",
        [(2, 3)],
        STUMP | {"nodes_featureids": (3, 0, 0)},
        "nodes_featureids must be features of X; found 3 with C = 3",
    ),
    Refusal(
        "ai.onnx.ml.TreeEnsembleRegressor",
        [(2, 3)],
        DEEP,
        "Trees times conditions times leaves, as many as the largest tree has, must be at most 16777216; "
        "found 1 x 4096 x 4097",
    ),
    Refusal(
        "ai.onnx.ml.TreeEnsembleRegressor",
        [(2, 3)],
        STUMP | {"target_ids": (0, 1)},
        "target_ids, target_treeids, target_nodeids and target_weights must be as long as each other, of "
        "leaves and of the n_targets columns; base_values one for each column; found column 1 of 1",
    ),
    Refusal(
        "ai.onnx.ml.TreeEnsembleClassifier",
        [(2, 3)],
        OF_CLASSES | {"class_nodeids": (0, 2)},
        "class_ids, class_treeids, class_nodeids and class_weights must be as long as each other, of leaves "
        "and of the classes in classlabels_int64s, two or more; base_values one for each column; "
        "found node 0 of tree 0",
        outputs=("y", "z"),
    ),
    Refusal(
        "ai.onnx.ml.TreeEnsembleClassifier",
        [(2, 3)],
        OF_CLASSES,
        "Two classes need the weights of one of them alone, and no SOFTMAX: else implementations disagree; "
        "found weights of both",
        outputs=("y", "z"),
    ),
]
