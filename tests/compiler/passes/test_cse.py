"""Equal operations are merged, and no others."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from compiler.driver import compile_graph
from compiler.graph import Array
from compiler.passes.layouts.cse import CsePass
from compiler_harness import NodeSpec, assert_right, draw, graph
from ir_text import after, constant, context, node, outline, output, parsed, source

S = "4x6"
MATRIX = {"x": S}


def merged(*lines: str, constants: dict[str, Array] | None = None) -> list[str]:
    return outline(after(parsed("\n".join(lines)), context(constants), CsePass()))


def test_equal_operations_become_one_and_so_do_their_equal_users() -> None:
    body = [source("x", "x", S)]
    for name in "ab":
        body.append(node("exp", f"e{name}", f"e{name}", MATRIX, S))
        body.append(node("softmax", f"s{name}", f"s{name}", {f"e{name}": S}, S, "axis = -1 : i64"))
        body.append(output(f"y{name}", f"s{name}", S))
    assert merged(*body) == ["input x", "exp ea", "softmax sa", "output ya", "output yb"]


@pytest.mark.parametrize(
    "second",
    [
        node("tanh", "b", "b", MATRIX, S),
        node("softmax", "b", "b", MATRIX, S, "axis = 0 : i64"),
        node("softmax", "b", "b", {"z": S}, S, "axis = -1 : i64"),
    ],
    ids=["operator", "attribute", "operand"],
)
def test_what_differs_stays(second: str) -> None:
    first = node("softmax", "a", "a", MATRIX, S, "axis = -1 : i64")
    body = [source("x", "x", S), source("z", "z", S), first, second, output("y", "a", S), output("w", "b", S)]
    assert len(merged(*body)) == len(body)


def test_the_order_of_operands_counts() -> None:
    both = {"x": S, "z": S}
    swapped = dict(reversed(both.items()))
    body = [source(name, name, S) for name in "xz"]
    body += [node("sub", "a", "a", both, S), node("sub", "b", "b", swapped, S)]
    assert len(merged(*body, output("y", "a", S), output("w", "b", S))) == 6


def scaled(values: dict[str, Array]) -> list[str]:
    """x times a constant of each name; returns the remaining operations."""
    body = [source("x", "x", S)]
    for name in values:
        body += [constant(name, name, S), node("mul", f"m{name}", f"m{name}", {"x": S, name: S}, S)]
        body.append(output(f"y{name}", f"m{name}", S))
    return merged(*body, constants=values)


def test_constants_count_by_their_content() -> None:
    data = draw(4, 6)
    assert scaled({"a": data, "b": data.copy()}) == [
        "input x",
        "load_const a",
        "mul ma",
        "output ya",
        "output yb",
    ]
    other = data.copy()
    other[3, 5] = -other[3, 5]
    assert len(scaled({"a": data, "b": other})) == 7
    assert len(scaled({"a": np.zeros((4, 6), np.float32), "b": -np.zeros((4, 6), np.float32)})) == 7, (
        "-0 is not 0"
    )


CASTS = "\n".join(
    [
        source("x", "x", S, "f32"),
        *(
            f'%{name} = "tx8be.cast"(%x) {{node = "{name}"}} : (tensor<{S}xf32>) -> tensor<{S}xf16>'
            for name in "ab"
        ),
        output("y", "a", S),
        output("w", "b", S),
    ]
)


def test_casts_are_merged() -> None:
    assert merged(CASTS) == ["input x", "cast a", "output y", "output w"]


def test_changes_of_order_are_merged() -> None:
    shape = "1x64x4x4"
    kind = f'tensor<{shape}xf16, "cx">'
    change = '%{0} = "tx8be.channel_norm"(%x) {{node = "{0}"}} : (tensor<{1}xf16>) -> {2}'
    lines = [source("x", "x", shape), *(change.format(name, shape, kind) for name in "ab")]
    lines += [f'"tx8be.output"(%{name}) {{node = "{name}"}} : ({kind}) -> ()' for name in "ab"]
    module: ModuleOp = after(parsed("\n".join(lines)), context(), CsePass())
    assert outline(module) == ["input x", "channel_norm a", "output a", "output b"]


TWICE: list[NodeSpec] = [
    ("Exp", ["x"], ["a"], {}),
    ("Exp", ["x"], ["b"], {}),
    ("Softmax", ["a"], ["c"], {"axis": -1}),
    ("Softmax", ["b"], ["d"], {"axis": -1}),
    ("Mul", ["c", "k"], ["y"], {}),
    ("Mul", ["d", "l"], ["z"], {}),
    ("Tanh", ["d"], ["w"], {}),
]


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("tiles", [1, 16])
def test_two_outputs_may_be_the_same_value(tiles: int, dtype: str) -> None:
    constants = {name: draw(64, seed=9) for name in "kl"}
    made = graph(TWICE, {"x": (32, 64)}, constants, outputs=("y", "z", "w"))
    program = assert_right(made, dtype, tiles)
    nodes = [line.split('"')[1] for line in program.text.splitlines() if ".node" in line]
    assert not {"n1", "n3", "n5"} & set(nodes)


def test_results_that_are_not_wanted_count() -> None:
    """One TopK's values are used, and the other one's indices, which happen to have the same type."""
    body = [source("x", "x", S)]
    for name, wanted in (("a", '"a", ""'), ("b", '"", "b"'), ("c", '"c", ""')):
        attributes = f'node = "{name}", values = [{wanted}], onnx = {{}}, operands_at = array<i64: 0>'
        body.append(f'%{name} = "tx8be.top_k"(%x) {{{attributes}}} : (tensor<{S}xf16>) -> tensor<{S}xf16>')
        body.append(output(f"y{name}", name, S))
    assert merged(*body) == ["input x", "top_k a", "output ya", "top_k b", "output yb", "output yc"]


def test_compilation_has_the_pass_behind_those_of_layouts() -> None:
    seen: list[str] = []
    made = graph(TWICE[:4], {"x": (32, 64)}, outputs=("c", "d"))
    texts: dict[str, str] = {}

    def keep(name: str, module: ModuleOp) -> None:
        seen.append(name)
        texts[name] = str(module)

    compile_graph(made, "fp16", 4, after_pass=keep)
    assert seen[seen.index("align_opt") + 1] == "cse"
    assert texts["align_opt"].count("tx8be.softmax") == 2 and texts["cse"].count("tx8be.softmax") == 1
