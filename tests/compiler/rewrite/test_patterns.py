"""Patterns that become one operator: normalizations, activations, attention; near misses are left alone."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.rewrite import rewrite_graph
from compiler_harness import NodeSpec, assert_right, draw, graph, ints
from rewrite_harness import HALF, becomes, number, ops, placed, stays

# --- normalizations --------------------------------------------------------------------------------------


def layer_norm(centre_twice: bool, square: str, root: str, axes: Any) -> list[NodeSpec]:
    """LayerNormalization as exporters of PyTorch write it, in several ways."""
    nodes: list[NodeSpec] = [("ReduceMean", ["x"], ["m"], {"axes": axes}), ("Sub", ["x", "m"], ["d"], {})]
    top = "d"
    if centre_twice:
        nodes.append(("Sub", ["x", "m"], ["e"], {}))
        top = "e"
    nodes.append(("Pow", ["d", "two"], ["q"], {}) if square == "Pow" else ("Mul", ["d", "d"], ["q"], {}))
    nodes += [("ReduceMean", ["q"], ["v"], {"axes": axes}), ("Add", ["v", "eps"], ["w"], {})]
    if root == "Div":
        nodes += [("Sqrt", ["w"], ["r"], {}), ("Div", [top, "r"], ["n"], {})]
    elif root == "Pow":
        nodes += [("Pow", ["w", "minus_half"], ["r"], {}), ("Mul", ["r", top], ["n"], {})]
    else:
        nodes += [
            ("Sqrt", ["w"], ["s"], {}),
            ("Reciprocal", ["s"], ["r"], {}),
            ("Mul", [top, "r"], ["n"], {}),
        ]
    return nodes


NUMBERS = {"two": number(2), "eps": number(1e-5), "minus_half": number(-0.5), "one": number(1)}
SCALED: list[NodeSpec] = [("Mul", ["n", "gamma"], ["g"], {}), ("Add", ["g", "beta"], ["y"], {})]


@pytest.mark.parametrize("centre_twice", [False, True])
@pytest.mark.parametrize("square", ["Pow", "Mul"])
@pytest.mark.parametrize("root", ["Div", "Pow", "Reciprocal"])
def test_layer_normalization(centre_twice: bool, square: str, root: str) -> None:
    nodes = [*layer_norm(centre_twice, square, root, (-1,)), *SCALED]
    constants = {**NUMBERS, "gamma": draw(7, seed=1), "beta": draw(7, seed=2)}
    after = becomes(nodes, {"x": (2, 5, 7)}, constants, ["LayerNormalization"], opset=13)
    assert after.nodes[0].attrs["axis"] == 2 and after.nodes[0].attrs["epsilon"] == pytest.approx(1e-5)


def test_layer_normalization_over_two_axes_and_with_computed_parameters() -> None:
    shapes = {"x": (2, 5, 7), "gamma": (5, 7), "beta": (5, 7)}
    nodes = layer_norm(False, "Pow", "Div", (1, 2))
    becomes([*nodes, *SCALED], shapes, NUMBERS, ["LayerNormalization"], opset=13)
    swapped: list[NodeSpec] = [("Mul", ["gamma", "n"], ["g"], {}), ("Add", ["beta", "g"], ["y"], {})]
    becomes([*nodes, *swapped], shapes, NUMBERS, ["LayerNormalization"], opset=13)


def test_axes_as_an_operand() -> None:
    nodes = layer_norm(False, "Mul", "Div", None)
    nodes = [(op, [*a, "axes"] if op == "ReduceMean" else a, b, {}) for op, a, b, _ in nodes]
    constants = {**NUMBERS, "axes": ints(-1)}
    becomes(nodes, {"x": (3, 7)}, constants, ["LayerNormalization"], outputs=("n",))


def test_what_is_no_layer_normalization() -> None:
    other = layer_norm(False, "Mul", "Div", (-1,))
    other[3] = ("ReduceMean", ["q"], ["v"], {"axes": (1, 2)})  # over two axes, but centred over one
    wanted = ["ReduceMean", "Sub", "RMSNormalization"]
    becomes(other, {"x": (2, 5, 7)}, NUMBERS, wanted, outputs=("n",), opset=13)
    other[3] = ("ReduceMean", ["q"], ["v"], {"axes": (1,)})
    stays(other, {"x": (2, 5, 7)}, NUMBERS, outputs=("n",), opset=13)
    per_row = {**NUMBERS, "gamma": draw(5, 1), "beta": draw(5, 1)}
    nodes = [*layer_norm(False, "Mul", "Div", (-1,)), *SCALED]
    becomes(nodes, {"x": (2, 5, 7)}, per_row, ["LayerNormalization", "Mul", "Add"], opset=13)
    computed = {name: array for name, array in NUMBERS.items() if name != "eps"}
    inner = layer_norm(False, "Mul", "Div", (-1,))
    stays(inner, {"x": (2, 5, 7), "eps": ()}, computed, outputs=("n",), opset=13)


def test_a_normalization_that_others_read_keeps_its_scale_apart() -> None:
    nodes = [*layer_norm(False, "Mul", "Div", (-1,)), *SCALED]
    constants = {**NUMBERS, "gamma": draw(7, seed=1), "beta": draw(7, seed=2)}
    becomes(
        nodes, {"x": (5, 7)}, constants, ["LayerNormalization", "Mul", "Add"], outputs=("n", "y"), opset=13
    )


@pytest.mark.parametrize("root", ["Div", "Reciprocal", "one over"])
def test_rms_normalization(root: str) -> None:
    nodes: list[NodeSpec] = [
        ("Pow", ["x", "two"], ["q"], {}),
        ("ReduceMean", ["q"], ["v"], {"axes": (-1,)}),
        ("Add", ["v", "eps"], ["w"], {}),
        ("Sqrt", ["w"], ["s"], {}),
    ]
    if root == "Div":
        nodes.append(("Div", ["x", "s"], ["n"], {}))
    else:
        inverse = (
            ("Reciprocal", ["s"], ["r"], {}) if root == "Reciprocal" else ("Div", ["one", "s"], ["r"], {})
        )
        nodes += [inverse, ("Mul", ["x", "r"], ["n"], {})]
    nodes.append(("Mul", ["gamma", "n"], ["y"], {}))
    constants = {**NUMBERS, "gamma": draw(7, seed=1)}
    becomes(nodes, {"x": (2, 5, 7)}, constants, ["RMSNormalization"], opset=13)
    other = [*nodes[:4], ("Div", ["z", "s"], ["y"], {})]  # another value over the root
    stays(other, {"x": (2, 5, 7), "z": (2, 5, 7)}, constants, opset=13)


SOFTMAX: list[NodeSpec] = [
    ("ReduceMax", ["x"], ["m"], {"axes": (1,)}),
    ("Sub", ["x", "m"], ["d"], {}),
    ("Exp", ["d"], ["e"], {}),
    ("ReduceSum", ["e", "axis"], ["t"], {}),
    ("Div", ["e", "t"], ["y"], {}),
]


def test_softmax() -> None:
    axis = {"axis": ints(1)}
    after = becomes(SOFTMAX, {"x": (2, 5, 7)}, axis, ["Softmax"], opset=13)
    assert after.nodes[0].attrs["axis"] == 1
    plain: list[NodeSpec] = [("Exp", ["x"], ["e"], {}), *SOFTMAX[3:]]
    becomes(plain, {"x": (2, 5, 7)}, axis, ["Softmax"], opset=13)


def test_what_is_no_softmax() -> None:
    axis = {"axis": ints(1)}
    stays([*SOFTMAX], {"x": (2, 5, 7)}, axis, outputs=("e", "y"), opset=13)
    two = {"axis": ints(1, 2)}
    stays(SOFTMAX[2:], {"d": (2, 5, 7)}, two, opset=13)
    other: list[NodeSpec] = [*SOFTMAX[:4], ("Div", ["d", "t"], ["y"], {})]
    stays(other, {"x": (2, 5, 7)}, axis, opset=13)


def test_another_largest_element_is_part_of_the_operand() -> None:
    axis = {"axis": ints(1)}
    other = [("ReduceMax", ["x"], ["m"], {"axes": (2,)}), *SOFTMAX[1:]]
    becomes(other, {"x": (2, 5, 7)}, axis, ["ReduceMax", "Sub", "Softmax"], opset=13)


# --- activations -----------------------------------------------------------------------------------------

ERF: list[NodeSpec] = [
    ("Div", ["x", "root2"], ["a"], {}),
    ("Erf", ["a"], ["e"], {}),
    ("Add", ["e", "one"], ["g"], {}),
]


@pytest.mark.parametrize(
    "tail",
    [
        [("Mul", ["x", "g"], ["p"], {}), ("Mul", ["p", "half"], ["y"], {})],
        [("Mul", ["x", "half"], ["p"], {}), ("Mul", ["p", "g"], ["y"], {})],
        [("Mul", ["half", "g"], ["p"], {}), ("Mul", ["x", "p"], ["y"], {})],
        [("Mul", ["g", "x"], ["p"], {}), ("Div", ["p", "two"], ["y"], {})],
    ],
)
def test_gelu_with_erf(tail: list[NodeSpec]) -> None:
    after = becomes([*ERF, *tail], {"x": (3, 5)}, HALF, ["Gelu"])
    assert after.nodes[0].attrs["approximate"] == "none"
    scaled: list[NodeSpec] = [("Mul", ["root_half", "x"], ["a"], {}), *ERF[1:], *tail]
    becomes(scaled, {"x": (3, 5)}, HALF, ["Gelu"])


TANH: list[NodeSpec] = [
    ("Pow", ["x", "three"], ["c"], {}),
    ("Mul", ["c", "cubic"], ["d"], {}),
    ("Add", ["x", "d"], ["s"], {}),
    ("Mul", ["s", "tanh_scale"], ["a"], {}),
    ("Tanh", ["a"], ["t"], {}),
    ("Add", ["one", "t"], ["g"], {}),
    ("Mul", ["x", "half"], ["p"], {}),
    ("Mul", ["p", "g"], ["y"], {}),
]


def test_gelu_with_tanh() -> None:
    after = becomes(TANH, {"x": (3, 5)}, HALF, ["Gelu"])
    assert after.nodes[0].attrs["approximate"] == "tanh"
    products: list[NodeSpec] = [("Mul", ["x", "x"], ["b"], {}), ("Mul", ["b", "x"], ["c"], {}), *TANH[1:]]
    becomes(products, {"x": (3, 5)}, HALF, ["Gelu"])
    factored: list[NodeSpec] = [
        ("Mul", ["x", "x"], ["b"], {}),
        ("Mul", ["b", "cubic"], ["c"], {}),
        ("Add", ["c", "one"], ["d"], {}),
        ("Mul", ["x", "d"], ["s"], {}),
        *TANH[3:],
    ]
    becomes(factored, {"x": (3, 5)}, HALF, ["Gelu"])


@pytest.mark.parametrize(
    ("changed", "by"),
    [
        (0, ("Div", ["x", "two"], ["a"], {})),
        (0, ("Div", ["z", "root2"], ["a"], {})),
        (2, ("Add", ["e", "half"], ["g"], {})),
        (3, ("Mul", ["x", "two"], ["p"], {})),
        (3, ("Mul", ["z", "half"], ["p"], {})),
    ],
)
def test_what_is_no_gelu(changed: int, by: NodeSpec) -> None:
    nodes = [*ERF, ("Mul", ["x", "half"], ["p"], {}), ("Mul", ["p", "g"], ["y"], {})]
    nodes[changed] = by
    stays(nodes, {"x": (3, 5), "z": (3, 5)}, HALF)


def test_what_is_no_gelu_with_tanh() -> None:
    shapes = {"x": (3, 5)}
    stays([("Pow", ["x", "two"], ["c"], {}), *TANH[1:]], shapes, HALF)
    stays([*TANH[:3], ("Mul", ["s", "half"], ["a"], {}), *TANH[4:]], shapes, HALF)
    stays([*TANH], shapes, HALF, outputs=("g", "y"))


def test_gated_activations() -> None:
    shapes = {"x": (3, 5), "z": (3, 5)}
    sigmoid: NodeSpec = ("Sigmoid", ["x"], ["s"], {})
    product: NodeSpec = ("Mul", ["x", "s"], ["y"], {})
    becomes([sigmoid, product], shapes, HALF, ["Swish"])
    scaled: list[NodeSpec] = [("Mul", ["x", "three"], ["a"], {}), ("Sigmoid", ["a"], ["s"], {}), product]
    assert becomes(scaled, shapes, HALF, ["Swish"]).nodes[0].attrs["alpha"] == 3.0
    mish: list[NodeSpec] = [("Softplus", ["x"], ["p"], {}), ("Tanh", ["p"], ["s"], {}), product]
    becomes(mish, shapes, HALF, ["Mish"])
    hard: NodeSpec = ("HardSigmoid", ["x"], ["s"], {"alpha": 1 / 6, "beta": 0.5})
    becomes([hard, product], shapes, HALF, ["HardSwish"])
    stays([sigmoid, ("Mul", ["z", "s"], ["y"], {})], shapes, HALF)
    stays([sigmoid, product], shapes, HALF, outputs=("s", "y"))
    stays([(*hard[:3], {"alpha": 0.2, "beta": 0.5}), product], shapes, HALF)


CLIPPED: list[NodeSpec] = [("Add", ["x", "three"], ["a"], {}), ("Clip", ["a", "zero", "six"], ["c"], {})]


@pytest.mark.parametrize("last", [("Div", ["c", "six"], ["y"], {}), ("Mul", ["sixth", "c"], ["y"], {})])
def test_hard_sigmoid(last: NodeSpec) -> None:
    becomes([*CLIPPED, last], {"x": (3, 5)}, HALF, ["HardSigmoid"])
    stays([("Add", ["x", "two"], ["a"], {}), CLIPPED[1], last], {"x": (3, 5)}, HALF)


def test_hard_swish() -> None:
    tail: list[NodeSpec] = [("Mul", ["x", "c"], ["p"], {}), ("Div", ["p", "six"], ["y"], {})]
    becomes([*CLIPPED, *tail], {"x": (3, 5)}, HALF, ["HardSwish"])
    tail = [("Div", ["c", "six"], ["p"], {}), ("Mul", ["p", "x"], ["y"], {})]
    becomes([*CLIPPED, *tail], {"x": (3, 5)}, HALF, ["HardSwish"])
    tail = [("Mul", ["z", "c"], ["p"], {}), ("Div", ["p", "six"], ["y"], {})]
    stays([*CLIPPED, *tail], {"x": (3, 5), "z": (3, 5)}, HALF)


# --- attention -------------------------------------------------------------------------------------------

QKV = {"q": (2, 3, 5, 8), "k": (2, 3, 7, 8), "v": (2, 3, 7, 4)}
TURN: NodeSpec = ("Transpose", ["k"], ["t"], {"perm": (0, 1, 3, 2)})
SCORES: NodeSpec = ("MatMul", ["q", "t"], ["s"], {})
WEIGHED: list[NodeSpec] = [("Softmax", ["m"], ["p"], {"axis": -1}), ("MatMul", ["p", "v"], ["y"], {})]


@pytest.mark.parametrize("scale", ["none", "Mul", "Div", "operands"])
@pytest.mark.parametrize("mask", [None, (5, 7), (2, 1, 1, 7), ()])
def test_attention(scale: str, mask: tuple[int, ...] | None) -> None:
    nodes = [TURN, SCORES]
    last = "s"
    if scale == "operands":
        scaled: list[NodeSpec] = [("Mul", ["q", "half"], ["a"], {}), ("Mul", ["three", "t"], ["b"], {})]
        nodes = [TURN, *scaled, ("MatMul", ["a", "b"], ["s"], {})]
    elif scale != "none":
        nodes.append((scale, ["s", "three"], ["c"], {}))
        last = "c"
    shapes = dict(QKV)
    if mask is not None:
        shapes["mask"] = mask
        nodes.append(("Add", ["mask", last], ["d"], {}))
        last = "d"
    nodes += [("Softmax", [last], ["p"], {"axis": 3}), WEIGHED[1]]
    after = becomes(nodes, shapes, HALF, ["FusedAttention"])
    wanted = {"none": 1.0, "Mul": 3.0, "Div": 1 / 3, "operands": 1.5}[scale]
    assert after.nodes[0].attrs["scale"] == pytest.approx(wanted)


def test_attention_on_keys_that_lie_otherwise() -> None:
    shapes = {**QKV, "k": (2, 7, 3, 8)}
    turned: NodeSpec = ("Transpose", ["k"], ["t"], {"perm": (0, 2, 3, 1)})
    softmax: NodeSpec = ("Softmax", ["s"], ["p"], {"axis": -1})
    becomes([turned, SCORES, softmax, WEIGHED[1]], shapes, {}, ["FusedAttention"])
    wanted = ["Transpose", "FusedAttention"]  # whose rows are not side by side
    becomes([SCORES, softmax, WEIGHED[1]], {**QKV, "t": (2, 3, 8, 7)}, {}, wanted)


def test_what_is_no_attention() -> None:
    softmax: NodeSpec = ("Softmax", ["s"], ["p"], {"axis": -1})
    stays([TURN, SCORES, ("Softmax", ["s"], ["p"], {"axis": 2}), WEIGHED[1]], QKV, {})
    stays([TURN, SCORES, softmax, WEIGHED[1]], QKV, {}, outputs=("p", "y"))
    stays([TURN, SCORES, softmax, WEIGHED[1]], QKV, {}, outputs=("s", "y"))
    nodes = [TURN, SCORES, softmax, ("MatMul", ["v", "p"], ["y"], {})]
    stays(nodes, {**QKV, "v": (2, 3, 4, 5)}, {})
    stays([TURN, SCORES, softmax, WEIGHED[1]], {**QKV, "v": (7, 4)}, {})  # shared by all heads
    larger = {**QKV, "q": (1, 1, 5, 8), "k": (1, 1, 7, 8), "v": (1, 1, 7, 4), "mask": (2, 1, 5, 7)}
    stays([TURN, SCORES, ("Add", ["s", "mask"], ["m"], {}), *WEIGHED], larger, {})
    wide = {"q": (1, 2, 5000), "k": (1, 3, 5000), "v": (1, 3, 4)}  # wider than its lowering takes
    turn: NodeSpec = ("Transpose", ["k"], ["t"], {"perm": (0, 2, 1)})
    stays([turn, SCORES, softmax, WEIGHED[1]], wide, {})


# --- the chip --------------------------------------------------------------------------------------------


def encoder() -> list[NodeSpec]:
    """A block of a transformer as exporters write it: attention of two heads, GELU, residual sums."""
    nodes = placed([*layer_norm(False, "Pow", "Div", (-1,)), *SCALED], "norm.", {"y": "h"})
    for name, perm in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3))):
        nodes += [
            ("MatMul", ["h", f"w{name}"], [f"{name}1"], {}),
            ("Add", [f"{name}1", "b"], [f"{name}2"], {}),
            ("Reshape", [f"{name}2", "split"], [f"{name}3"], {}),
            ("Transpose", [f"{name}3"], [name], {"perm": perm}),
        ]
    nodes += [
        ("MatMul", ["q", "k"], ["s0"], {}),
        ("Div", ["s0", "root"], ["s1"], {}),
        ("Add", ["s1", "mask"], ["s2"], {}),
        ("Softmax", ["s2"], ["p"], {"axis": -1}),
        ("MatMul", ["p", "v"], ["c0"], {}),
        ("Transpose", ["c0"], ["c1"], {"perm": (0, 2, 1, 3)}),
        ("Reshape", ["c1", "join"], ["c2"], {}),
        ("Add", ["c2", "x"], ["z"], {}),
        ("MatMul", ["z", "up"], ["u"], {}),
    ]
    gelu: list[NodeSpec] = [*ERF, ("Mul", ["x", "g"], ["m"], {}), ("Mul", ["m", "half"], ["y"], {})]
    nodes += placed(gelu, "gelu.", {"x": "u", "y": "w"})
    return [*nodes, ("MatMul", ["w", "down"], ["d"], {}), ("Add", ["d", "z"], ["y"], {})]


def test_an_encoder_block() -> None:
    names = ("wq", "wk", "wv", "up", "down")
    constants = {
        **NUMBERS,
        **HALF,
        **{name: draw(32, 32, seed=at, scale=0.2) for at, name in enumerate(names)},
        "gamma": draw(32, seed=7),
        "beta": draw(32, seed=8),
        "b": draw(32, seed=9),
        "root": number(4),
        "split": ints(2, 10, 2, 16),
        "join": ints(2, 10, 32),
        "mask": draw(2, 1, 1, 10, seed=10),
    }
    before = graph(encoder(), {"x": (2, 10, 32)}, constants, opset=13)
    found = ops(rewrite_graph(before))
    assert {"LayerNormalization", "FusedAttention", "Gelu"} <= set(found)
    assert not {"Softmax", "Erf", "ReduceMean", "Div"} & set(found)
    for dtype in ("fp32", "fp16"):
        assert_right(before, dtype, 4)
