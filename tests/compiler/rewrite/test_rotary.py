"""Rotary position embedding as exporters write it."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.operators.linear.rotary import halves, neighbours
from compiler.rewrite import rewrite_graph
from compiler_harness import NodeSpec, draw, graph, ints
from rewrite_harness import assert_same, becomes, number, ops

SIZE, LENGTH = 8, 5
X = {"x": (2, 3, LENGTH, SIZE)}
TABLES = {"cos": draw(LENGTH, SIZE, seed=7), "sin": draw(1, 1, LENGTH, SIZE, seed=8)}
BOUNDS = {
    "none": ints(0),
    "half": ints(SIZE // 2),
    "full": ints(SIZE),
    "end": ints(2**62),
    "last": ints(3),
    "behind": ints(-1),
    "pair": ints(2),
    "even": ints(0),
    "odd": ints(1),
    "minus": number(-1),
    "sizes": ints(SIZE // 2, SIZE // 2),
    "flat": ints(2, 3, LENGTH, SIZE),
    "pairs": ints(2, 3, LENGTH, SIZE // 2, 2),
    "zero": np.array(0),
    "one": np.array(1),
}
CONSTANTS = {**TABLES, **BOUNDS}

SUM: list[NodeSpec] = [
    ("Mul", ["x", "cos"], ["xc"], {}),
    ("Mul", ["turned", "sin"], ["ts"], {}),
    ("Add", ["xc", "ts"], ["y"], {}),
]
SLICED: list[NodeSpec] = [
    ("Slice", ["x", "none", "half", "last"], ["a"], {}),
    ("Slice", ["x", "half", "end", "last"], ["b"], {}),
    ("Neg", ["b"], ["n"], {}),
    ("Concat", ["n", "a"], ["turned"], {"axis": -1}),
]
SPLIT: list[NodeSpec] = [
    ("Split", ["x", "sizes"], ["a", "b"], {"axis": -1}),
    ("Mul", ["b", "minus"], ["n"], {}),
    ("Concat", ["n", "a"], ["turned"], {"axis": 3}),
]
STRIDED: list[NodeSpec] = [
    ("Slice", ["x", "even", "full", "last", "pair"], ["a"], {}),
    ("Slice", ["x", "odd", "full", "last", "pair"], ["b"], {}),
    ("Neg", ["b"], ["n"], {}),
    ("Unsqueeze", ["n", "behind"], ["nu"], {}),
    ("Unsqueeze", ["a", "behind"], ["au"], {}),
    ("Concat", ["nu", "au"], ["p"], {"axis": -1}),
    ("Reshape", ["p", "flat"], ["turned"], {}),
]
TAKEN: list[NodeSpec] = [
    ("Reshape", ["x", "pairs"], ["r"], {}),
    ("Gather", ["r", "zero"], ["a"], {"axis": 4}),
    ("Gather", ["r", "one"], ["b"], {"axis": 4}),
    ("Neg", ["b"], ["n"], {}),
    ("Unsqueeze", ["n", "behind"], ["nu"], {}),
    ("Unsqueeze", ["a", "behind"], ["au"], {}),
    ("Concat", ["nu", "au"], ["p"], {"axis": 4}),
    ("Reshape", ["p", "flat"], ["turned"], {}),
]


@pytest.mark.parametrize(
    ("turning", "turn"),
    [(SLICED, halves(SIZE)), (SPLIT, halves(SIZE)), (STRIDED, neighbours(SIZE)), (TAKEN, neighbours(SIZE))],
    ids=["slices", "split", "steps", "pairs"],
)
def test_ways_to_turn(turning: list[NodeSpec], turn: tuple[int, ...]) -> None:
    after = becomes([*turning, *SUM], X, CONSTANTS, ["Rotary"])
    assert after.nodes[0].attrs["turn"] == turn


def test_operands_the_other_way_round() -> None:
    last: list[NodeSpec] = [
        ("Mul", ["cos", "x"], ["xc"], {}),
        ("Mul", ["sin", "turned"], ["ts"], {}),
        ("Add", ["ts", "xc"], ["y"], {}),
    ]
    becomes([*SLICED, *last], X, CONSTANTS, ["Rotary"])


def test_tables_that_are_computed() -> None:
    inputs = {**X, "cos": (LENGTH, SIZE), "sin": (2, 1, LENGTH, SIZE)}
    becomes([*SLICED, *SUM], inputs, BOUNDS, ["Rotary"])


def test_heads_are_turned_where_they_lie() -> None:
    nodes: list[NodeSpec] = [
        ("Reshape", ["m", "apart"], ["r"], {}),
        ("Transpose", ["r"], ["x"], {"perm": (0, 2, 1, 3)}),
        *SLICED,
        *SUM,
    ]
    constants = {**CONSTANTS, "apart": ints(2, LENGTH, 3, SIZE)}
    after = becomes(nodes, {"m": (2, LENGTH, 3 * SIZE)}, constants, ["Rotary"])
    assert after.nodes[0].inputs[0] == "m"


HALF_TABLES = {"c": draw(LENGTH, SIZE // 2, seed=7), "s": draw(1, LENGTH, SIZE // 2, seed=8)}
NUMBERS: list[NodeSpec] = [
    ("Mul", ["a", "c"], ["ac"], {}),
    ("Mul", ["b", "s"], ["bs"], {}),
    ("Sub", ["ac", "bs"], ["real"], {}),
    ("Mul", ["s", "a"], ["as"], {}),
    ("Mul", ["b", "c"], ["bc"], {}),
    ("Add", ["as", "bc"], ["imag"], {}),
]
SIDE_BY_SIDE: list[NodeSpec] = [
    ("Unsqueeze", ["real", "behind"], ["ru"], {}),
    ("Unsqueeze", ["imag", "behind"], ["iu"], {}),
    ("Concat", ["ru", "iu"], ["p"], {"axis": -1}),
    ("Reshape", ["p", "flat"], ["y"], {}),
]
AFTER_ANOTHER: list[NodeSpec] = [("Concat", ["real", "imag"], ["y"], {"axis": -1})]


@pytest.mark.parametrize(
    ("apart", "together", "turn"),
    [
        (SPLIT[:1], AFTER_ANOTHER, halves(SIZE)),
        (SLICED[:2], AFTER_ANOTHER, halves(SIZE)),
        (STRIDED[:2], SIDE_BY_SIDE, neighbours(SIZE)),
        (TAKEN[:3], SIDE_BY_SIDE, neighbours(SIZE)),
    ],
    ids=["split", "slices", "steps", "pairs"],
)
@pytest.mark.parametrize("computed", [False, True])
def test_real_and_imaginary_parts(
    apart: list[NodeSpec], together: list[NodeSpec], turn: tuple[int, ...], computed: bool
) -> None:
    inputs = {**X, **({name: table.shape for name, table in HALF_TABLES.items()} if computed else {})}
    constants = BOUNDS if computed else {**BOUNDS, **HALF_TABLES}
    before = graph([*apart, *NUMBERS, *together], inputs, constants)
    after = rewrite_graph(before)
    assert_same(before, after)
    (node,) = (node for node in after.nodes if node.op == "Rotary")
    assert node.attrs["turn"] == turn and "Mul" not in ops(after)


@pytest.mark.parametrize(
    ("apart", "together"), [(SPLIT[:1], SIDE_BY_SIDE), (STRIDED[:2], AFTER_ANOTHER)], ids=["halves", "steps"]
)
def test_parts_that_do_not_go_back_to_their_places(apart: list[NodeSpec], together: list[NodeSpec]) -> None:
    before = graph([*apart, *NUMBERS, *together], X, {**BOUNDS, **HALF_TABLES})
    after = rewrite_graph(before)
    assert "Rotary" not in ops(after)
    assert_same(before, after)


SWAPPED: list[NodeSpec] = [
    ("Slice", ["x", "none", "half", "last"], ["a"], {}),
    ("Slice", ["x", "half", "end", "last"], ["b"], {}),
    ("Concat", ["b", "a"], ["turned"], {"axis": -1}),
]
DOUBLED: list[NodeSpec] = [*SPLIT[:1], ("Mul", ["b", "three"], ["n"], {}), SPLIT[2]]
OTHER_AXIS: list[NodeSpec] = [
    ("Split", ["x"], ["a", "b"], {"axis": 0, "num_outputs": 2}),
    ("Neg", ["b"], ["n"], {}),
    ("Concat", ["n", "a"], ["turned"], {"axis": 0}),
]


def test_turning_without_a_sign_is_turning() -> None:
    becomes([*SWAPPED, *SUM], X, CONSTANTS, ["Rotary"])


@pytest.mark.parametrize("turning", [DOUBLED, OTHER_AXIS], ids=["factor", "axis"])
def test_what_is_no_turning(turning: list[NodeSpec]) -> None:
    before = graph([*turning, *SUM], X, {**CONSTANTS, "three": number(3)})
    after = rewrite_graph(before)
    assert "Rotary" not in ops(after)
    assert_same(before, after)


def test_one_number_for_all_features_is_no_table() -> None:
    before = graph([*SLICED, *SUM], X, {**CONSTANTS, "cos": draw(LENGTH, 1)})
    after = rewrite_graph(before)
    assert "Rotary" not in ops(after)
    assert_same(before, after)


def test_a_turned_value_that_others_read_stays() -> None:
    before = graph([*SLICED, *SUM, ("Exp", ["turned"], ["z"], {})], X, CONSTANTS, ("y", "z"))
    after = rewrite_graph(before)
    assert ops(after).count("Rotary") == 1 and "Concat" in ops(after)
    assert_same(before, after)


def llama(groups: int, shift: bool) -> tuple[list[NodeSpec], dict[str, np.ndarray]]:
    """Products for Q, K and V, rotary embedding of Q and K, and attention of grouped heads."""
    constants: dict[str, np.ndarray] = {**BOUNDS, "scale": number(0.5), "two": ints(2)}
    constants |= {"cos": TABLES["cos"], "sin": TABLES["cos"] * 2, "apart_q": ints(1, LENGTH, 4, SIZE)}
    constants |= {
        "apart_k": ints(1, LENGTH, groups, SIZE),
        "wide": ints(1, groups, 4 // groups, LENGTH, SIZE),
    }
    constants |= {"all": ints(1, 4, LENGTH, SIZE), "joined": ints(1, LENGTH, 4 * SIZE)}
    nodes: list[NodeSpec] = []
    for name, count in (("q", 4), ("k", groups), ("v", groups)):
        constants[f"w{name}"] = draw(6, count * SIZE, seed=ord(name))
        product = f"{name}p"
        nodes.append(("MatMul", ["h", f"w{name}"], [product], {}))
        if shift:
            constants[f"b{name}"] = draw(count * SIZE, seed=ord(name) + 1)
            nodes.append(("Add", [product, f"b{name}"], [f"{name}s"], {}))
            product = f"{name}s"
        nodes.append(("Reshape", [product, "apart_q" if name == "q" else "apart_k"], [f"{name}r"], {}))
        nodes.append(("Transpose", [f"{name}r"], [f"{name}h"], {"perm": (0, 2, 1, 3)}))
        if name != "v":
            names = {"x": f"{name}h", "y": f"{name}y"}
            made = {made for _, _, outputs, _ in [*SLICED, *SUM] for made in outputs} - {"y"}
            names |= {value: f"{name}.{value}" for value in made}
            nodes += [
                (
                    op,
                    [names.get(value, value) for value in inputs],
                    [names[value] for value in outputs],
                    attrs,
                )
                for op, inputs, outputs, attrs in [*SLICED, *SUM]
            ]
    for name, value in (("k", "ky"), ("v", "vh")):
        nodes += [
            ("Unsqueeze", [value, "two"], [f"{name}u"], {}),
            ("Expand", [f"{name}u", "wide"], [f"{name}e"], {}),
            ("Reshape", [f"{name}e", "all"], [f"{name}a"], {}),
        ]
    nodes += [
        ("Transpose", ["ka"], ["kt"], {"perm": (0, 1, 3, 2)}),
        ("MatMul", ["qy", "kt"], ["s"], {}),
        ("Mul", ["s", "scale"], ["c"], {}),
        ("Softmax", ["c"], ["p"], {"axis": -1}),
        ("MatMul", ["p", "va"], ["o"], {}),
        ("Transpose", ["o"], ["t"], {"perm": (0, 2, 1, 3)}),
        ("Reshape", ["t", "joined"], ["y"], {}),
    ]
    return nodes, constants


@pytest.mark.parametrize("shift", [False, True], ids=["product", "shifted"])
def test_one_product_for_heads_that_are_turned(shift: bool) -> None:
    """In models of the LLaMA family: one product, two rotary embeddings, one attention."""
    nodes, constants = llama(2, shift)
    before = graph(nodes, {"h": (1, LENGTH, 6)}, constants)
    after = rewrite_graph(before)
    assert_same(before, after, 1e-5)
    wanted = ["MatMul", *["Add"] * shift, "Rotary", "Rotary", "FusedAttention"]
    assert [op for op in ops(after) if op != "Reshape"] == wanted
