"""Every form in which exporters write attention, and the operator Attention itself, becomes one operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.graph import Array, Graph
from compiler.operators.expansion.expander import expand_graph
from compiler.rewrite import rewrite_graph
from compiler_harness import NodeSpec, assert_right, draw, graph, ints
from rewrite_harness import assert_same, becomes, number, ops, stays

BATCH, HEADS, GROUPS, ROWS, KEYS, SIZE = 2, 4, 2, 5, 7, 8
QKV = {"q": (BATCH, HEADS, ROWS, SIZE), "k": (BATCH, HEADS, KEYS, SIZE), "v": (BATCH, HEADS, KEYS, SIZE)}
NUMBERS = {
    "root": number(SIZE**-0.25),
    "scale": number(SIZE**-0.5),
    "size_root": number(SIZE**0.5),
    "cap": number(3.0),
    "zero": number(0.0),
    "one": number(1.0),
    "low": number(-np.inf),
    "least": number(float(np.finfo(np.float32).min)),
}
SEEN = np.random.default_rng(3).random((BATCH, 1, ROWS, KEYS)) < 0.6
"""A mask of truth values; some rows hide every key."""
SEEN[1, 0, 2] = False

TRANSPOSED: NodeSpec = ("Transpose", ["k"], ["kt"], {"perm": (0, 1, 3, 2)})
PRODUCT: NodeSpec = ("MatMul", ["q", "kt"], ["s"], {})


def softmax(scores: str, v: str = "v") -> list[NodeSpec]:
    return [("Softmax", [scores], ["p"], {"axis": -1}), ("MatMul", ["p", v], ["y"], {})]


def fused(found: Graph) -> dict[str, Any]:
    """The attributes of a graph's only attention, none of which is computed separately."""
    (attention,) = (node for node in found.nodes if node.op == "FusedAttention")
    assert not {"MatMul", "Softmax", "Tanh", "ReduceMax", "IsNaN"} & set(ops(found))
    return dict(attention.attrs)


# --- scales and caps -------------------------------------------------------------------------------------


def test_scale_on_both_operands() -> None:
    """torch.onnx: Q and the transposed K are multiplied by the root of the scale."""
    nodes: list[NodeSpec] = [
        ("Mul", ["q", "root"], ["qs"], {}),
        TRANSPOSED,
        ("Mul", ["kt", "root"], ["ks"], {}),
        ("MatMul", ["qs", "ks"], ["s"], {}),
        *softmax("s"),
    ]
    found = becomes(nodes, QKV, NUMBERS, ["FusedAttention"])
    assert fused(found)["scale"] == pytest.approx(SIZE**-0.5)


def test_keys_that_are_transposed_as_one_batch() -> None:
    """The exporter of PyTorch 2.5 and later joins the leading axes for a transpose of known rank."""
    constants = NUMBERS | {"joined": ints(-1, KEYS, SIZE), "apart": ints(BATCH, HEADS, SIZE, KEYS)}
    nodes: list[NodeSpec] = [
        ("Reshape", ["k", "joined"], ["kj"], {}),
        ("Transpose", ["kj"], ["kjt"], {"perm": (0, 2, 1)}),
        ("Reshape", ["kjt", "apart"], ["kt"], {}),
        ("Mul", ["q", "root"], ["qs"], {}),
        ("Mul", ["kt", "root"], ["ks"], {}),
        ("MatMul", ["qs", "ks"], ["s"], {}),
        *softmax("s"),
    ]
    becomes(nodes, QKV, constants, ["FusedAttention"])


@pytest.mark.parametrize(
    "capped",
    [
        [("Div", ["s", "cap"], ["c"], {}), ("Tanh", ["c"], ["t"], {}), ("Mul", ["t", "cap"], ["u"], {})],
        [
            ("Mul", ["s", "scale"], ["b"], {}),
            ("Div", ["b", "cap"], ["c"], {}),
            ("Tanh", ["c"], ["t"], {}),
            ("Mul", ["cap", "t"], ["u"], {}),
        ],
        [("Tanh", ["s"], ["u"], {})],
    ],
    ids=["cap", "scale and cap", "cap of 1"],
)
def test_capped_scores(capped: list[NodeSpec]) -> None:
    nodes = [TRANSPOSED, PRODUCT, *capped, ("Add", ["u", "m"], ["a"], {}), *softmax("a")]
    found = becomes(nodes, {**QKV, "m": (ROWS, KEYS)}, NUMBERS, ["FusedAttention"])
    assert fused(found)["softcap"] == (3.0 if len(capped) > 1 else 1.0)


def test_a_cap_below_zero_is_none() -> None:
    capped: list[NodeSpec] = [("Tanh", ["s"], ["t"], {}), ("Mul", ["t", "minus"], ["u"], {})]
    stays([TRANSPOSED, PRODUCT, *capped, *softmax("u")], QKV, {"minus": number(-2.0)})


# --- masks -----------------------------------------------------------------------------------------------


def test_a_mask_that_chooses_below_one_that_is_added() -> None:
    """As in GPT-2: the causal mask chooses, that of the padding is added."""
    nodes: list[NodeSpec] = [
        TRANSPOSED,
        PRODUCT,
        ("Div", ["s", "size_root"], ["d"], {}),
        ("Where", ["causal", "d", "least"], ["c"], {}),
        ("Add", ["c", "m"], ["a"], {}),
        *softmax("a"),
    ]
    constants = NUMBERS | {"causal": np.tril(np.ones((ROWS, KEYS), bool), 2)}
    found = becomes(nodes, {**QKV, "m": (BATCH, 1, 1, KEYS)}, constants, ["Add", "FusedAttention"])
    assert fused(found)["scale"] == pytest.approx(SIZE**-0.5)


GUARDED: list[NodeSpec] = [
    TRANSPOSED,
    PRODUCT,
    ("Where", ["seen", "zero", "low"], ["m"], {}),
    ("Add", ["s", "m"], ["a"], {}),
    ("Softmax", ["a"], ["p"], {"axis": -1}),
]
"""Scores with a mask of truth values; rows without any key are to be 0."""
UNDEFINED: list[NodeSpec] = [("IsNaN", ["p"], ["n"], {}), ("Where", ["n", "zero", "p"], ["g"], {})]
MASKED: list[NodeSpec] = [
    ("ReduceMax", ["m", "last"], ["x"], {"keepdims": 1}),
    ("Equal", ["x", "low"], ["n"], {}),
    ("Where", ["n", "zero", "p"], ["g"], {}),
]
WEIGHED: NodeSpec = ("MatMul", ["g", "v"], ["y"], {})


def guarded(guard: list[NodeSpec]) -> Graph:
    """The graph with a computed mask, whose hidden rows are unknown."""
    nodes = [("Less", ["z", "zero"], ["seen"], {}), *GUARDED, *guard, WEIGHED]
    constants = NUMBERS | {"last": ints(-1), "rows": ints(-2)}
    return graph(nodes, {**QKV, "z": (BATCH, 1, ROWS, KEYS)}, constants, opset=20)


@pytest.mark.parametrize("guard", [UNDEFINED, MASKED], ids=["not a number", "masked"])
def test_rows_without_keys(guard: list[NodeSpec]) -> None:
    before = guarded(guard)
    after = rewrite_graph(before)
    assert_same(before, after)
    assert fused(after)["zero_rows"] == 1


@pytest.mark.parametrize("guard", [UNDEFINED, MASKED], ids=["not a number", "masked"])
def test_rows_that_all_have_keys_need_no_care(guard: list[NodeSpec]) -> None:
    mask = np.where(np.tril(np.ones((ROWS, KEYS), bool)), 0.0, -np.inf).astype(np.float32)
    nodes = [node for node in GUARDED if node[0] != "Where"]
    constants = NUMBERS | {"last": ints(-1), "m": mask}
    found = becomes([*nodes, *guard, WEIGHED], QKV, constants, ["FusedAttention"])
    assert fused(found)["zero_rows"] == 0


@pytest.mark.parametrize(
    "guard",
    [
        [("IsNaN", ["p"], ["n"], {}), ("Where", ["n", "one", "p"], ["g"], {})],
        [("IsNaN", ["m"], ["n"], {}), ("Where", ["n", "zero", "p"], ["g"], {})],
        [("IsNaN", ["p"], ["n"], {}), ("Where", ["n", "p", "zero"], ["g"], {})],
        [("ReduceMax", ["m", "rows"], ["x"], {"keepdims": 1}), *MASKED[1:]],
        [("ReduceMax", ["a", "last"], ["x"], {"keepdims": 1}), *MASKED[1:]],
        [MASKED[0], ("Equal", ["x", "zero"], ["n"], {}), MASKED[2]],
    ],
    ids=["1", "of the mask", "the others", "columns", "of the scores", "no mask"],
)
def test_other_choices_after_the_softmax_stay(guard: list[NodeSpec]) -> None:
    before = guarded(guard)
    assert "FusedAttention" not in ops(rewrite_graph(before))


# --- heads that share keys -------------------------------------------------------------------------------

SHARED = {**QKV, "k": (BATCH, GROUPS, KEYS, SIZE), "v": (BATCH, GROUPS, KEYS, SIZE)}
REPEATS = HEADS // GROUPS
SHAPES = {
    "apart": ints(BATCH, GROUPS, 1, KEYS, SIZE),
    "repeated": ints(BATCH, GROUPS, REPEATS, KEYS, SIZE),
    "all": ints(BATCH, HEADS, KEYS, SIZE),
    "times": ints(1, 1, REPEATS, 1, 1),
    "order": np.repeat(np.arange(GROUPS), REPEATS),
    "third": ints(2),
}


def repeated(x: str, how: str) -> list[NodeSpec]:
    """Each head of ``x`` for the queries that share it, as exporters write it: ``x`` + "r"."""
    if how == "gather":
        return [("Gather", [x, "order"], [f"{x}r"], {"axis": 1})]
    first: NodeSpec = ("Reshape", [x, "apart"], [f"{x}a"], {})
    if how == "unsqueeze":
        first = ("Unsqueeze", [x, "third"], [f"{x}a"], {})
    if how == "concat":
        second: NodeSpec = ("Concat", [f"{x}a"] * REPEATS, [f"{x}e"], {"axis": 2})
    else:
        second = (
            "Tile" if how == "tile" else "Expand",
            [f"{x}a", "times" if how == "tile" else "repeated"],
            [f"{x}e"],
            {},
        )
    return [first, second, ("Reshape", [f"{x}e", "all"], [f"{x}r"], {})]


@pytest.mark.parametrize("how", ["expand", "unsqueeze", "gather", "tile", "concat"])
def test_keys_and_values_are_read_once_for_all_queries(how: str) -> None:
    nodes = [
        *repeated("k", how),
        *repeated("v", how),
        ("Transpose", ["kr"], ["kt"], {"perm": (0, 1, 3, 2)}),
        PRODUCT,
        ("Mul", ["s", "scale"], ["d"], {}),
        *softmax("d", "vr"),
    ]
    before = graph(nodes, SHARED, NUMBERS | SHAPES)
    after = rewrite_graph(before)
    assert_same(before, after)
    (attention,) = (node for node in after.nodes if node.op == "FusedAttention")
    assert attention.inputs == ("q", "k", "v")


# --- the operator ----------------------------------------------------------------------------------------


def operator(inputs: dict[str, tuple[int, ...]], outputs: tuple[str, ...] = ("y",), **attrs: Any) -> Graph:
    """Attention of operands q, k, v and perhaps a mask ``m``, ``past_k`` and ``past_v``."""
    names = ["q", "k", "v", *(name if name in inputs else "" for name in ("m", "past_k", "past_v"))]
    while not names[-1]:
        names.pop()
    results = tuple(name for name in outputs if name)
    return graph([("Attention", names, outputs, attrs)], inputs, outputs=results, opset=23)


FLAT = {
    "q": (BATCH, ROWS, HEADS * SIZE),
    "k": (BATCH, KEYS, GROUPS * SIZE),
    "v": (BATCH, KEYS, GROUPS * SIZE),
}
PAST = dict.fromkeys(("past_k", "past_v"), (BATCH, HEADS, 3, SIZE))
OPERATORS: dict[str, tuple[dict[str, tuple[int, ...]], dict[str, Any]]] = {
    "plain": (QKV, {}),
    "scaled": (QKV, {"scale": 0.3}),
    "causal": (QKV, {"is_causal": 1}),
    "grouped": (SHARED, {"is_causal": 1}),
    "flat": (FLAT, {"q_num_heads": HEADS, "kv_num_heads": GROUPS}),
    "mask": ({**QKV, "m": (BATCH, 1, ROWS, KEYS)}, {}),
    "capped": ({**QKV, "m": (ROWS, KEYS)}, {"softcap": 2.0, "is_causal": 1}),
    "short mask": ({**QKV, "m": (ROWS, KEYS - 2)}, {}),
    "past": ({**QKV, **PAST}, {"is_causal": 1}),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_the_operator_becomes_the_same(name: str) -> None:
    inputs, attrs = OPERATORS[name]
    before = operator(inputs, **attrs)
    after = rewrite_graph(expand_graph(before, ("Attention",)))
    assert_same(before, after)
    found = fused(after)
    assert found["softcap"] == attrs.get("softcap", 0.0)
    assert found["scale"] == pytest.approx(attrs.get("scale", SIZE**-0.5))
    assert found["zero_rows"] == ("m" in inputs), "a mask that is not known may hide every key of a query"


def test_scores_that_are_a_result_are_not_fused() -> None:
    before = operator(QKV, ("y", "", "", "w"), qk_matmul_output_mode=3)
    assert "Softmax" in ops(rewrite_graph(expand_graph(before, ("Attention",))))


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "tf32"])
@pytest.mark.parametrize("name", ["capped", "past", "flat", "short mask"])
def test_the_operator_on_the_chip(name: str, dtype: str) -> None:
    inputs, attrs = OPERATORS[name]
    given = {tensor: draw(*shape, seed=at) for at, (tensor, shape) in enumerate(inputs.items())}
    assert_right(operator(inputs, **attrs), dtype, tiles=3, inputs=given)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "tf32"])
@pytest.mark.parametrize("cap", [0.0, 4.0])
def test_rows_without_keys_on_the_chip(dtype: str, cap: float) -> None:
    """Exactly the rows whose keys the mask hides entirely are 0."""
    inputs = {**QKV, "m": SEEN.shape}
    mask: Array = np.where(SEEN, 0.0, -np.inf).astype(np.float32)
    given = {name: mask if name == "m" else draw(*shape) for name, shape in inputs.items()}
    program = assert_right(operator(inputs, softcap=cap), dtype, tiles=2, inputs=given)
    assert program.text.count(".node ") <= 2
