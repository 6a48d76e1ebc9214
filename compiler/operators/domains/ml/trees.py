"""Ensembles of decision trees as matrix products.

The program computes all conditions of all trees for every row. The path to a leaf requires some conditions to
be true and others to be false. The sum over the path counts each true condition, as +1 if it should be true
and as -1 if it should be false. It equals the number of conditions that should be true only if the leaf is
reached. The result is a product of the reached leaves with their weights. Rows are the last axis, so that a
feature is a line of memory.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from compiler.graph import Array
from compiler.operators.elements.casting import CAST_NUMBERS
from compiler.operators.expansion.builder import Builder
from compiler.operators.expansion.composite import composite
from compiler.operators.expansion.parts import permuted, reshaped
from compiler.operators.record import Attribute, Call, Input, Output, Types, rule

from .linear_models import labels_are_integers
from .preprocessing import FEATURES, NUMBERS, RESULT, as_float

_MODES = {"BRANCH_LEQ": False, "BRANCH_LT": False, "BRANCH_GT": True, "BRANCH_GTE": True}
"""Conditions; True for the opposite of <= (of < for BRANCH_GTE)."""
_MOST_PATHS = 1 << 24
"""The most conditions times leaves of all trees, each tree counted as large as the largest."""
_FLOAT32 = CAST_NUMBERS["float32"]
_NODE = ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")


@dataclass(frozen=True)
class Forest:
    """Trees padded to equal size.

    ``features``, ``bounds`` and ``follows`` [T, I] describe the conditions ``x[feature] <= bound``;
    ``follows`` is their value for NaN. ``paths`` [T, L, I] and ``true`` [T, L] describe the leaves;
    ``leaves`` has their numbers by tree and node.
    """

    features: Array
    bounds: Array
    follows: Array
    paths: Array
    true: Array
    leaves: dict[tuple[int, int], int]


@dataclass(frozen=True)
class _Branch:
    """A node with a condition, as <=; children are positions in the lists of the attributes."""

    feature: int
    bound: np.float32
    follows: bool
    when_true: int
    when_false: int


def _texts(call: Call, name: str) -> tuple[str, ...]:
    """Return the value of an attribute that is a list of strings."""
    value = call.attrs.get(name)
    return tuple(map(str, value)) if isinstance(value, tuple) else ()


class _Nodes:
    """The nodes of an ensemble by their positions in the lists of its attributes."""

    def __init__(self, call: Call) -> None:
        lists = [call.integers(f"nodes_{name}") or () for name in _NODE]
        self.tree, self.number, self.feature, self.when_true, self.when_false = lists
        self.modes = _texts(call, "nodes_modes")
        self.values = call.numbers("nodes_values") or ()
        self.tracks = call.integers("nodes_missing_value_tracks_true") or (0,) * len(self.tree)
        self.at = {key: at for at, key in enumerate(zip(self.tree, self.number, strict=False))}

    @property
    def are_complete(self) -> bool:
        """Return True if lists agree in length, nodes are unique, and branches stay within their tree."""
        lists = (self.tree, self.number, self.feature, self.when_true, self.when_false)
        lengths = {len(item) for item in (*lists, self.modes, self.values, self.tracks)}
        if lengths != {len(self.at)} or not self.at:
            return False
        inner = [at for at, mode in enumerate(self.modes) if mode != "LEAF"]
        children = ((self.tree[at], child[at]) for at in inner for child in (self.when_true, self.when_false))
        return all(child in self.at for child in children)

    def branch(self, at: int) -> _Branch | None:
        """Return the condition of a node; None for a leaf. x < b is x <= the float32 number before b."""
        mode = self.modes[at]
        if mode == "LEAF":
            return None
        children = [self.at[self.tree[at], child[at]] for child in (self.when_true, self.when_false)]
        bound, opposite = np.float32(self.values[at]), _MODES[mode]
        if mode in ("BRANCH_LT", "BRANCH_GTE"):
            bound = np.nextafter(bound, np.float32(-np.inf))
        follows = bool(self.tracks[at]) != opposite
        return _Branch(self.feature[at], bound, follows, *(children[::-1] if opposite else children))

    def ways(self, root: int) -> tuple[list[_Branch], dict[int, list[tuple[int, bool]]]] | None:
        """Return a tree's conditions, and the conditions of each leaf; None if paths meet again."""
        branches: list[_Branch] = []
        leaves: dict[int, list[tuple[int, bool]]] = {}
        waiting: list[tuple[int, list[tuple[int, bool]]]] = [(root, [])]
        seen: set[int] = set()
        while waiting:
            at, way = waiting.pop()
            if at in seen:
                return None
            seen.add(at)
            found = self.branch(at)
            if found is None:
                leaves[at] = way
                continue
            number = len(branches)
            branches.append(found)
            waiting += [
                (found.when_true, [*way, (number, True)]),
                (found.when_false, [*way, (number, False)]),
            ]
        return branches, leaves

    def trees(self) -> list[tuple[list[_Branch], dict[int, list[tuple[int, bool]]]]] | None:
        """Yield the conditions and leaves of each tree, whose first node is its root.

        None for other graphs.
        """
        first: dict[int, int] = {}
        for at, tree in enumerate(self.tree):
            first.setdefault(tree, at)
        found = [self.ways(root) for root in first.values()]
        return None if None in found else [item for item in found if item is not None]


def forest_of(call: Call) -> Forest:
    """Return the ensemble of a call that satisfies the rules."""
    nodes = _Nodes(call)
    trees = nodes.trees() or []
    inner = max(1, *(len(branches) for branches, _ in trees), 1)
    outer = max(len(leaves) for _, leaves in trees)
    features, bounds, follows = (
        np.zeros((len(trees), inner), kind) for kind in (np.int64, np.float32, np.bool_)
    )
    paths, true = np.zeros((len(trees), outer, inner), np.int8), np.full((len(trees), outer), -1.0)
    numbers: dict[tuple[int, int], int] = {}
    for tree, (branches, leaves) in enumerate(trees):
        for at, branch in enumerate(branches):
            features[tree, at], bounds[tree, at] = branch.feature, branch.bound
            follows[tree, at] = branch.follows
        for leaf, (node, way) in enumerate(leaves.items()):
            numbers[nodes.tree[node], nodes.number[node]] = tree * outer + leaf
            for condition, taken in way:
                paths[tree, leaf, condition] = 1 if taken else -1
            true[tree, leaf] = sum(taken for _, taken in way)
    # An unused place of a leaf has no path: its sum is 0, and its required sum is -1.
    return Forest(features, bounds, follows, paths, true, numbers)


def leaves_reached(build: Builder, call: Call, forest: Forest) -> str:
    """Return 1 for the leaves that a row reaches, else 0: [leaves of all trees, rows], in FP32."""
    build.precise = True
    trees, inner = forest.features.shape
    rows = call.shape(0)[0]
    lines = permuted(build, as_float(build, call.name(0)), 1, 0)
    if build.dtype(lines) != "float32":
        lines = build("Cast", lines, to=_FLOAT32)
    x = build("Gather", lines, build.constant(forest.features.reshape(-1), "int64"), axis=0)
    holds = build("LessOrEqual", x, build.constant(forest.bounds.reshape(-1, 1), "float32"))
    if forest.follows.any():
        missing = build("And", build("IsNaN", x), build.constant(forest.follows.reshape(-1, 1), "bool"))
        holds = build("Or", holds, missing)
    conditions = reshaped(build, build("Cast", holds, to=_FLOAT32), trees, inner, rows)
    sums = build("MatMul", build.constant(forest.paths, "float32"), conditions)
    reached = build("Equal", sums, build.constant(forest.true[:, :, None], "float32"))
    return reshaped(build, build("Cast", reached, to=_FLOAT32), forest.true.size, rows)


def weighted(build: Builder, call: Call, kind: str, columns: int) -> str:
    """Sum the weights of the reached leaves and add the base values: [rows, columns].

    ``kind``: target or class, the first word of the attributes' names. A single column takes all weights.
    """
    forest = forest_of(call)
    ids, trees, nodes = (call.integers(f"{kind}_{name}") or () for name in ("ids", "treeids", "nodeids"))
    table = np.zeros((columns, forest.true.size))
    for column, tree, node, weight in zip(
        ids, trees, nodes, call.numbers(f"{kind}_weights") or (), strict=True
    ):
        table[column % columns, forest.leaves[tree, node]] += weight
    if call.attrs.get("aggregate_function") == "AVERAGE":
        table /= forest.true.shape[0]
    sums = build("MatMul", build.constant(table, "float32"), leaves_reached(build, call, forest))
    scores = permuted(build, sums, 1, 0)
    base = call.numbers("base_values")
    return scores if not base else build("Add", scores, build.constant(np.array(base), "float32"))


# --- rules -----------------------------------------------------------------------------------------------


@rule
def nodes_are_trees(call: Call) -> str | None:
    """The lists nodes_* must describe trees, the first node of each being its root"""
    nodes = _Nodes(call)
    other = sorted(set(nodes.modes) - {*_MODES, "LEAF"})
    if other or not nodes.are_complete:
        return f"mode {other[0]}" if other else f"lists of {len(nodes.tree)} nodes that do not fit together"
    return None if nodes.trees() is not None else "a node with two ways to it"


@rule
def features_are_there(call: Call) -> str | None:
    """nodes_featureids must be features of X"""
    nodes, count = _Nodes(call), call.shape(0)[1]
    used = [at for at, mode in zip(nodes.feature, nodes.modes, strict=True) if mode != "LEAF"]
    wrong = [at for at in used if not 0 <= at < count]
    return f"{wrong[0]} with C = {count}" if wrong else None


@rule
def trees_are_small(call: Call) -> str | None:
    """Trees times conditions times leaves, as many as the largest tree has, must be at most 16777216"""
    sizes: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    nodes = _Nodes(call)
    for tree, mode in zip(nodes.tree, nodes.modes, strict=True):
        sizes[tree][mode == "LEAF"] += 1
    inner, outer = (max(size[at] for size in sizes.values()) for at in range(2))
    paths = len(sizes) * inner * outer
    return f"{len(sizes)} x {inner} x {outer}" if paths > _MOST_PATHS else None


def _problem_of_weights(call: Call, kind: str, columns: int) -> str | None:
    ids, trees, nodes = (call.integers(f"{kind}_{name}") or () for name in ("ids", "treeids", "nodeids"))
    lengths = [len(item) for item in (ids, trees, nodes, call.numbers(f"{kind}_weights") or ())]
    if len(set(lengths)) != 1 or not ids:
        return f"lists of {', '.join(map(str, lengths))}"
    wrong = [at for at in ids if not 0 <= at < max(columns, 2 * (kind == "class"))]
    known = _Nodes(call)
    for key in zip(trees, nodes, strict=True):
        if key not in known.at or known.modes[known.at[key]] != "LEAF":
            return f"node {key[1]} of tree {key[0]}"
    base = len(call.numbers("base_values") or ())
    if base not in (0, columns):
        return f"{base} base values for {columns} columns"
    return f"column {wrong[0]} of {columns}" if wrong else None


@rule
def targets_fit(call: Call) -> str | None:
    """target_ids, target_treeids, target_nodeids and target_weights must be as long as each other, of leaves
    and of the n_targets columns; base_values one for each column"""
    return _problem_of_weights(call, "target", targets_of(call))


@rule
def classes_of_leaves_fit(call: Call) -> str | None:
    """class_ids, class_treeids, class_nodeids and class_weights must be as long as each other, of leaves and
    of the classes in classlabels_int64s, two or more; base_values one for each column"""
    labels = len(call.integers("classlabels_int64s") or ())
    if labels < 2:
        return f"{labels} labels"
    return _problem_of_weights(call, "class", columns_of_classes(call))


@rule
def two_classes_are_certain(call: Call) -> str | None:
    """Two classes need the weights of one of them alone, and no SOFTMAX: else implementations disagree"""
    if len(call.integers("classlabels_int64s") or ()) > 2:
        return None
    if columns_of_classes(call) == 2:
        return "weights of both"
    return "SOFTMAX" if call.string("post_transform") == "SOFTMAX" else None


def targets_of(call: Call) -> int:
    """Return the number of columns of a regressor's result."""
    return call.integer("n_targets") if "n_targets" in call.attrs else 1


def columns_of_classes(call: Call) -> int:
    """Return the number of score columns: one if the leaves only score the second of two classes."""
    labels, used = len(call.integers("classlabels_int64s") or ()), set(call.integers("class_ids") or ())
    return 1 if labels == 2 and len(used) == 1 else labels


# --- records ---------------------------------------------------------------------------------------------


def _regressor(build: Builder, call: Call) -> tuple[str, ...]:
    return (weighted(build, call, "target", targets_of(call)),)


def _of_two_classes(build: Builder, call: Call, scores: str) -> tuple[str, str]:
    """Return the number of the class, and the scores of both, from a single score [rows, 1].

    That score is a margin if some weights are negative, otherwise the share of the second class.
    """
    margin = min(call.numbers("class_weights") or ()) < 0
    second = build("Greater", scores, build.like(scores, 0.0 if margin else 0.5))
    largest = build("Cast", reshaped(build, second, -1), to=CAST_NUMBERS["int64"])
    is_share = not margin and call.string("post_transform") == "NONE"
    first = build("Sub", build.like(scores, 1.0), scores) if is_share else build("Neg", scores)
    return largest, build("Concat", first, scores, axis=1)


def _classifier(build: Builder, call: Call) -> tuple[str, ...]:
    scores, transform = (
        weighted(build, call, "class", columns_of_classes(call)),
        call.string("post_transform"),
    )
    if columns_of_classes(call) == 1:
        largest, scores = _of_two_classes(build, call, scores)
    else:
        largest = build("ArgMax", scores, axis=1, keepdims=0)
    if transform == "LOGISTIC":
        scores = build("Sigmoid", scores)
    elif transform == "SOFTMAX":
        scores = build("Softmax", scores, axis=1)
    labels = build.ints(*(call.integers("classlabels_int64s") or ()))
    return build("Gather", labels, largest, axis=0) if call.wants(0) else "", scores


_TREES = (
    *(Attribute(f"nodes_{name}", "ints") for name in (*_NODE, "missing_value_tracks_true")),
    Attribute("nodes_hitrates", "floats"),
    Attribute("nodes_modes", "strings"),
    Attribute("nodes_values", "floats"),
    Attribute("base_values", "floats"),
)


_OF_TREES = (nodes_are_trees, features_are_there, trees_are_small)


def _weights(kind: str) -> tuple[Attribute, ...]:
    return (
        *(Attribute(f"{kind}_{name}", "ints") for name in ("ids", "nodeids", "treeids")),
        Attribute(f"{kind}_weights", "floats"),
    )


composite(
    name="ai.onnx.ml.TreeEnsembleRegressor",
    since=1,
    summary="Sums or means of the votes of an ensemble's trees, for each row",
    inputs=(Input("X", NUMBERS),),
    outputs=(Output("Y", RESULT),),
    expansion=_regressor,
    attributes=(
        Attribute("aggregate_function", "string", "SUM", allowed=("SUM", "AVERAGE")),
        Attribute("n_targets", "int", minimum=1),
        Attribute("post_transform", "string", "NONE", allowed=("NONE",)),
        *_TREES,
        *_weights("target"),
    ),
    rules=(FEATURES, *_OF_TREES, targets_fit),
)

composite(
    name="ai.onnx.ml.TreeEnsembleClassifier",
    since=1,
    summary="Scores of classes by the trees of an ensemble, and the label of the largest",
    inputs=(Input("X", NUMBERS),),
    outputs=(Output("Y", Types("L", ("int64",)), optional=True), Output("Z", RESULT, optional=True)),
    expansion=_classifier,
    attributes=(
        Attribute("classlabels_int64s", "ints"),
        Attribute("classlabels_strings", "strings"),
        Attribute("post_transform", "string", "NONE", allowed=("NONE", "LOGISTIC", "SOFTMAX")),
        *_TREES,
        *_weights("class"),
    ),
    rules=(FEATURES, labels_are_integers, *_OF_TREES, classes_of_leaves_fit, two_classes_are_certain),
)
