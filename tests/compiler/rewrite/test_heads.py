"""Attention as exporters write it: heads become strided views; masks that select scores."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.graph import Array
from compiler.rewrite import rewrite_graph
from compiler_harness import NodeSpec, assert_right, draw, graph, ints
from rewrite_harness import HALF, assert_same, becomes, number, ops, stays

BATCH, LENGTH, HEADS, SIZE = 2, 5, 3, 8
HIDDEN = HEADS * SIZE
SHAPES = {"apart": ints(BATCH, LENGTH, HEADS, SIZE), "flat": ints(BATCH, LENGTH, HIDDEN)}
BESIDE: list[NodeSpec] = [
    ("Transpose", ["o"], ["u"], {"perm": (0, 2, 1, 3)}),
    ("Reshape", ["u", "flat"], ["y"], {}),
]


def weighed(q: str, k: str, v: str, result: str = "o") -> list[NodeSpec]:
    """Attention of Q, the transposed K and V."""
    return [
        ("MatMul", [q, k], ["s"], {}),
        ("Div", ["s", "three"], ["c"], {}),
        ("Softmax", ["c"], ["p"], {"axis": -1}),
        ("MatMul", ["p", v], [result], {}),
    ]


def heads(value: str, perm: tuple[int, ...] = (0, 2, 1, 3)) -> list[NodeSpec]:
    """The heads of [B, S, H * D]: ``value`` + "h"."""
    return [
        ("Reshape", [value, "apart"], [f"{value}r"], {}),
        ("Transpose", [f"{value}r"], [f"{value}h"], {"perm": perm}),
    ]


def test_heads_are_read_and_written_where_they_lie() -> None:
    nodes = [*heads("q"), *heads("k", (0, 2, 3, 1)), *heads("v"), *weighed("qh", "kh", "vh"), *BESIDE]
    values = dict.fromkeys("qkv", (BATCH, LENGTH, HIDDEN))
    after = becomes(nodes, values, {**HALF, **SHAPES}, ["FusedAttention", "Reshape"])
    attention = after.nodes[0]
    assert attention.inputs == ("q", "k", "v") and attention.attrs["perm"] == (0, 2, 1, 3)


def test_heads_of_one_product_that_is_split() -> None:
    split: NodeSpec = ("Split", ["x", "sizes"], ["q", "k", "v"], {"axis": 2})
    constants = {**HALF, **SHAPES, "sizes": ints(HIDDEN, HIDDEN, HIDDEN)}
    nodes = [split, *heads("q"), *heads("k", (0, 2, 3, 1)), *heads("v"), *weighed("qh", "kh", "vh")]
    after = becomes(nodes, {"x": (BATCH, LENGTH, 3 * HIDDEN)}, constants, ["FusedAttention"], outputs=("o",))
    assert after.nodes[0].inputs == ("x", "x", "x")


def test_heads_that_are_taken_by_number() -> None:
    """As in vision transformers: [3, B, H, S, D], from which a Gather selects along the first axis."""
    nodes: list[NodeSpec] = [("Transpose", ["x"], ["t"], {"perm": (2, 0, 3, 1, 4)})]
    nodes += [("Gather", ["t", f"at{i}"], [name], {"axis": 0}) for i, name in enumerate("qkv")]
    nodes += [("Transpose", ["k"], ["kt"], {"perm": (0, 1, 3, 2)}), *weighed("q", "kt", "v")]
    constants = {**HALF, **{f"at{i}": np.array(i - 3 * (i == 2), np.int64) for i in range(3)}}
    values = {"x": (BATCH, LENGTH, 3, HEADS, SIZE)}
    becomes(nodes, values, constants, ["FusedAttention"], outputs=("o",))


REPEAT = 2


def repeated(value: str) -> list[NodeSpec]:
    """Every head of [B, G, S, D] REPEAT times: ``value`` + "h"."""
    return [
        ("Unsqueeze", [value, "axis"], [f"{value}u"], {}),
        ("Expand", [f"{value}u", "groups"], [f"{value}e"], {}),
        ("Reshape", [f"{value}e", "heads"], [f"{value}h"], {}),
    ]


GROUPED = {
    **HALF,
    "axis": ints(2),
    "groups": ints(BATCH, HEADS, REPEAT, LENGTH, SIZE),
    "heads": ints(BATCH, REPEAT * HEADS, LENGTH, SIZE),
    "flat": ints(BATCH, LENGTH, REPEAT * HIDDEN),
}
TURN: NodeSpec = ("Transpose", ["kh"], ["kt"], {"perm": (0, 1, 3, 2)})


@pytest.mark.parametrize("mask", [None, (LENGTH,), (BATCH, 1, LENGTH, LENGTH), (REPEAT * HEADS, 1, LENGTH)])
def test_queries_in_groups_share_keys_and_values(mask: tuple[int, ...] | None) -> None:
    nodes = [*repeated("k"), *repeated("v"), TURN, *weighed("q", "kt", "vh"), *BESIDE]
    shared = (BATCH, HEADS, LENGTH, SIZE)
    values = {"q": (BATCH, REPEAT * HEADS, LENGTH, SIZE), "k": shared, "v": shared}
    wanted = ["FusedAttention", "Reshape"]
    if mask is not None:
        values["mask"] = mask
        at = next(i for i, node in enumerate(nodes) if node[0] == "Softmax")
        nodes[at : at + 1] = [("Add", ["c", "mask"], ["m"], {}), ("Softmax", ["m"], ["p"], {"axis": -1})]
        wanted = [*["Reshape"] * (len(mask) > 2), *wanted]
    after = becomes(nodes, values, GROUPED, wanted)
    attention = next(node for node in after.nodes if node.op == "FusedAttention")
    assert attention.inputs[:3] == ("q", "k", "v")


def test_only_keys_repeated_are_loaded_repeated() -> None:
    nodes = [*repeated("k"), TURN, *weighed("q", "kt", "v")]
    many = (BATCH, REPEAT * HEADS, LENGTH, SIZE)
    values = {"q": many, "k": (BATCH, HEADS, LENGTH, SIZE), "v": many}
    wanted = ["Unsqueeze", "Expand", "FusedAttention"]
    becomes(nodes, values, GROUPED, wanted, outputs=("o",))


def projected(shift: bool, values: dict[str, str]) -> tuple[list[NodeSpec], dict[str, Array]]:
    """q, k and v as products of the given values with constant matrices."""
    nodes: list[NodeSpec] = []
    constants = {}
    for seed, (name, x) in enumerate(values.items()):
        constants |= {f"w{name}": draw(7, HIDDEN, seed=seed), f"b{name}": draw(HIDDEN, seed=seed + 9)}
        nodes.append(("MatMul", [x, f"w{name}"], [f"{name}m" if shift else name], {}))
        if shift:
            nodes.append(("Add", [f"b{name}", f"{name}m"], [name], {}))
    nodes += [*heads("q"), *heads("k", (0, 2, 3, 1)), *heads("v"), *weighed("qh", "kh", "vh"), *BESIDE]
    return nodes, {**HALF, **SHAPES, **constants}


@pytest.mark.parametrize("shift", [False, True])
def test_products_of_one_value_are_one_product(shift: bool) -> None:
    nodes, constants = projected(shift, {"q": "x", "k": "x", "v": "x"})
    wanted = ["MatMul", *["Add"] * shift, "FusedAttention", "Reshape"]
    after = becomes(nodes, {"x": (BATCH, LENGTH, 7)}, constants, wanted)
    assert len({*after.nodes[-2].inputs}) == 1


def test_products_of_two_values_are_two_products() -> None:
    nodes, constants = projected(True, {"q": "x", "k": "z", "v": "z"})
    values = {"x": (BATCH, LENGTH, 7), "z": (BATCH, LENGTH, 7)}
    becomes(nodes, values, constants, ["MatMul", "Add", "MatMul", "Add", "FusedAttention", "Reshape"])


def test_a_product_that_others_read_stays_apart() -> None:
    nodes, constants = projected(False, {"q": "x", "k": "x", "v": "x"})
    after = becomes(
        nodes,
        {"x": (BATCH, LENGTH, 7)},
        constants,
        ["MatMul", "MatMul", "FusedAttention", "Reshape"],
        outputs=("y", "k"),
    )
    assert "k" in {name for node in after.nodes for name in node.outputs}


# --- masks that choose -----------------------------------------------------------------------------------

QKV = {"q": (2, 3, 5, 8), "k": (2, 3, 8, 7), "v": (2, 3, 7, 4)}


def chosen(first: bool) -> list[NodeSpec]:
    """Attention with a Where that has the scores as its first or its second value."""
    choice = ["keep", "s", "low"] if first else ["drop", "low", "s"]
    return [
        ("MatMul", ["q", "k"], ["s"], {}),
        ("Where", choice, ["c"], {}),
        ("Softmax", ["c"], ["p"], {"axis": -1}),
        ("MatMul", ["p", "v"], ["y"], {}),
    ]


@pytest.mark.parametrize("low", [-1e4, -1e9, -np.inf, float(np.finfo(np.float32).min)])
@pytest.mark.parametrize("first", [True, False])
def test_a_mask_of_truth_values(first: bool, low: float) -> None:
    keep = np.tril(np.ones((5, 7), bool), 2)
    constants = {"keep": keep, "drop": ~keep, "low": number(low)}
    becomes(chosen(first), QKV, constants, ["Transpose", "FusedAttention"])


def test_a_mask_that_is_computed() -> None:
    relation: NodeSpec = ("Less", ["m", "zero"], ["keep"], {})
    nodes = [relation, *chosen(True)]
    values = {**QKV, "m": (2, 1, 1, 7)}
    wanted = ["Less", "Transpose", "Where", "FusedAttention"]
    becomes(nodes, values, {**HALF, "low": number(-1e9)}, wanted)
    stays(nodes, values, {**HALF, "low": number(-1e4)})  # some row may consist of -1e4


def test_what_is_no_mask() -> None:
    keep = np.tril(np.ones((5, 7), bool), 2)
    keep[3] = False
    stays(chosen(True), QKV, {"keep": keep, "low": number(-1e4)})
    stays(chosen(True), QKV, {"keep": keep, "low": number(-50)})
    stays(chosen(True), QKV, {"keep": keep, "low": draw(7) - 1e9})


# --- the chip --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_projected_attention_on_the_chip(dtype: str) -> None:
    nodes, constants = projected(True, {"q": "x", "k": "x", "v": "x"})
    made = graph(nodes, {"x": (BATCH, LENGTH, 7)}, constants)
    assert "Transpose" not in ops(rewrite_graph(made))
    assert_right(made, dtype)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_mask_of_truth_values_on_the_chip(dtype: str) -> None:
    keep = np.tril(np.ones((5, 7), bool), 2)
    assert_right(graph(chosen(True), QKV, {"keep": keep, "low": number(-np.inf)}), dtype)


@pytest.mark.parametrize("masked", [False, True])
def test_single_queries_that_share_keys_are_queries_of_one_head(masked: bool) -> None:
    """A step of text generation: K and V have two heads, each for three heads of Q."""
    nodes: list[NodeSpec] = []
    for name in "kv":
        nodes += [
            ("Unsqueeze", [name, "two"], [f"{name}u"], {}),
            ("Expand", [f"{name}u", "wide"], [f"{name}e"], {}),
            ("Reshape", [f"{name}e", "all"], [f"{name}a"], {}),
        ]
    nodes += [
        ("Transpose", ["ka"], ["kt"], {"perm": (0, 1, 3, 2)}),
        ("MatMul", ["q", "kt"], ["s"], {}),
        *([("Add", ["s", "mask"], ["m"], {})] if masked else []),
        ("Softmax", ["m" if masked else "s"], ["p"], {"axis": -1}),
        ("MatMul", ["p", "va"], ["y"], {}),
    ]
    inputs = {
        "q": (2, 6, 1, 8),
        "k": (2, 2, 9, 8),
        "v": (2, 2, 9, 8),
        **({"mask": (2, 1, 1, 9)} if masked else {}),
    }
    constants = {"two": ints(2), "wide": ints(2, 2, 3, 9, 8), "all": ints(2, 6, 9, 8)}
    before = graph(nodes, inputs, constants)
    after = rewrite_graph(before)
    assert_same(before, after)
    (attention,) = (node for node in after.nodes if node.op == "FusedAttention")
    assert after.tensors[attention.outputs[0]].shape == (2, 2, 3, 8)
    assert_right(before, "fp16", 4)
