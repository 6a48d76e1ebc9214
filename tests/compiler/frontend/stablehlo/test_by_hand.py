"""Operations that JAX seldom writes, with their results written down or computed by NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.driver import compile_graph
from compiler.evaluation.reference import run_reference
from compiler.frontend.stablehlo.text import without_locations
from compiler.graph import Array, Graph
from compiler.tools.run import execute
from stablehlo_cases import fed, graph_of_text, module_text, one_operation, type_text

X = np.array([[0.5, -1.25, 8.0], [-27.0, 0.1, 2.0]], np.float32)


def computed(folder: Path, text: str, *arrays: Array) -> list[Array]:
    graph = graph_of_text(folder, text)
    return list(run_reference(graph, fed(graph, list(arrays))).values())


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("stablehlo.logistic", lambda x: 1 / (1 + np.exp(-x))),
        ("stablehlo.cbrt", np.cbrt),
        ("stablehlo.tan", np.tan),
        ("chlo.tan", np.tan),
    ],
)
def test_functions_of_one_operand(name: str, function: Any, tmp_path: Path) -> None:
    (found,) = computed(tmp_path, one_operation(name, [X], [X]), X)
    assert np.allclose(found, function(X.astype(np.float64)), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("stablehlo.add", np.add),
        ("stablehlo.multiply", np.multiply),
        ("stablehlo.divide", np.floor_divide),
        ("stablehlo.remainder", np.remainder),
        ("stablehlo.maximum", np.maximum),
        ("stablehlo.xor", np.bitwise_xor),
        ("stablehlo.shift_right_logical", lambda a, b: a >> (b % 32)),
        ("stablehlo.convert", lambda a, b: a.astype(np.float32)),
    ],
)
def test_unsigned_words(name: str, function: Any, tmp_path: Path) -> None:
    """On the chip."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(1, 1 << 32, (2, 9)).astype(np.uint32) for _ in range(2))
    given = [a] if name.endswith("convert") else [a, b % 32 if "shift" in name else b]
    expected = function(a, b)
    graph = graph_of_text(tmp_path, one_operation(name, given, [expected]))
    found, _ = execute(compile_graph(graph, "fp32", 2), fed(graph, given))
    np.testing.assert_array_equal(next(iter(found.values())), expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("chlo.is_inf", [1, 1, 0, 0]), ("chlo.is_pos_inf", [1, 0, 0, 0]), ("chlo.is_neg_inf", [0, 1, 0, 0])],
)
def test_infinities(name: str, expected: list[int], tmp_path: Path) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 1], np.float32)
    (found,) = computed(tmp_path, one_operation(name, [x], [x > 0]), x)
    assert found.tolist() == [bool(truth) for truth in expected]


def test_numbers_compare_in_total_order_as_otherwise(tmp_path: Path) -> None:
    attributes = (
        "comparison_direction = #stablehlo<comparison_direction LT>, "
        "compare_type = #stablehlo<comparison_type TOTALORDER>"
    )
    text = one_operation("stablehlo.compare", [X, 1 - X], [X < 1 - X], attributes)
    assert np.array_equal(computed(tmp_path, text, X, 1 - X)[0], X < 1 - X)


def test_dot_of_vectors_and_matrices(tmp_path: Path) -> None:
    v = np.array([1, -2, 3], np.float32)
    for a, b in ((X, v), (v, v), (X, X.T.copy())):
        (found,) = computed(tmp_path, one_operation("stablehlo.dot", [a, b], [a @ b]), a, b)
        assert np.allclose(found, a @ b, rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 3])
def test_batch_norm_with_features_on_any_axis(axis: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((3, 4, 2, 5)).astype(np.float32)
    scale, shift, mean = (rng.standard_normal(x.shape[axis]).astype(np.float32) for _ in range(3))
    variance = rng.uniform(0.5, 2, x.shape[axis]).astype(np.float32)
    attributes = f"epsilon = 0.01 : f32, feature_index = {axis} : i64"
    operands = [x, scale, shift, mean, variance]
    text = one_operation("stablehlo.batch_norm_inference", operands, [x], attributes)
    (found,) = computed(tmp_path, text, *operands)
    a, b, m, v = (part.reshape(-1, *(1,) * (3 - axis)).astype(np.float64) for part in operands[1:])
    assert np.allclose(found, (x - m) / np.sqrt(v + 0.01) * a + b, rtol=1e-5, atol=1e-5)


BRANCHES = """\
    %t = "stablehlo.constant"() <{value = dense<CONDITION> : tensor<i1>}> : () -> tensor<i1>
    %r = "stablehlo.if"(PREDICATE) ({
      %0 = "stablehlo.negate"(%a0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
      "stablehlo.return"(%0) : (tensor<2x3xf32>) -> ()
    }, {
      "stablehlo.return"(%a0) : (tensor<2x3xf32>) -> ()
    }) : (tensor<i1>) -> tensor<2x3xf32>"""


@pytest.mark.parametrize("truth", [True, False])
@pytest.mark.parametrize("predicate", ["%t", "%a1"])
def test_if_takes_one_branch(predicate: str, truth: bool, tmp_path: Path) -> None:
    lines = BRANCHES.replace("CONDITION", str(truth).lower()).replace("PREDICATE", predicate)
    kinds = [type_text(X), "tensor<i1>"]
    (found,) = computed(tmp_path, module_text(lines, kinds, [kinds[0]], "%r"), X, np.array(truth))
    assert np.array_equal(found, -X if truth else X)


@pytest.mark.parametrize("target", ["Sharding", "annotate_device_placement"])
def test_custom_calls_that_only_mark(target: str, tmp_path: Path) -> None:
    text = one_operation("stablehlo.custom_call", [X], [X], f'call_target_name = "{target}"')
    assert np.array_equal(computed(tmp_path, text, X)[0], X)


CONSTANTS = {
    "dense<[0x7F800000, -2.5, 0xFF800000]> : tensor<3xf32>": [np.inf, -2.5, -np.inf],
    "dense<0x7F800000> : tensor<3xf32>": [np.inf] * 3,
    'dense<"0x0000803F000000C00000C07F"> : tensor<3xf32>': [1, -2, np.nan],
    "dense<[0x3F80, 2.0, 0x7F80]> : tensor<3xbf16>": [1, 2, np.inf],
    "dense<[0x3C00, 2.0, -1.0e1]> : tensor<3xf16>": [1, 2, -10],
    "dense<[0x10, -2, 3]> : tensor<3xi32>": [16, -2, 3],
    "dense<[true, false, true]> : tensor<3xi1>": [True, False, True],
    'dense<"0x010001"> : tensor<3xi1>': [True, False, True],
    "dense<7> : tensor<3xui8>": [7, 7, 7],
}


@pytest.mark.parametrize("value", CONSTANTS)
def test_constants_in_every_notation(value: str, tmp_path: Path) -> None:
    kind = value.rpartition(" : ")[2]
    line = f'    %r = "stablehlo.constant"() <{{value = {value}}}> : () -> {kind}'
    (found,) = computed(tmp_path, module_text(line, [], [kind], "%r"))
    assert np.array_equal(found.astype(np.float64), np.array(CONSTANTS[value], np.float64), equal_nan=True)


def names(graph: Graph) -> tuple[list[str], list[str]]:
    return [tensor.name for tensor in graph.inputs], [tensor.name for tensor in graph.outputs]


def test_names_are_those_of_the_module(tmp_path: Path) -> None:
    text = one_operation("stablehlo.add", [X, X], [X])
    assert names(graph_of_text(tmp_path, text)) == (["arg0", "arg1"], ["result"])
    named = text.replace("sym_name", "res_attrs = [{jax.result_info = \"result['a']\"}], sym_name")
    assert names(graph_of_text(tmp_path, named))[1] == ["result_a"]
    (node,) = graph_of_text(tmp_path, text).nodes
    assert node.name.startswith("add@4/")  # the line of the operation


def test_a_result_may_be_an_input_a_constant_or_given_twice(tmp_path: Path) -> None:
    line = '    %c = "stablehlo.constant"() <{value = dense<1.5> : tensor<2x3xf32>}> : () -> tensor<2x3xf32>'
    kinds = [type_text(X)] * 4
    found = computed(tmp_path, module_text(line, kinds[:1], kinds, "%a0, %c, %a0, %c"), X)
    assert [
        np.array_equal(part, wanted) for part, wanted in zip(found, (X, 1.5 + 0 * X) * 2, strict=True)
    ] == [True] * 4


def test_locations_are_left_out(tmp_path: Path) -> None:
    text = one_operation("stablehlo.negate", [X], [X])
    lines = text.replace("-> tensor<2x3xf32>\n", '-> tensor<2x3xf32> loc("f"("a.py":1:2 to :9))\n', 1)
    lines = f'#loc = loc(unknown)\n{lines.rstrip()} loc(#loc)\n#loc1 = loc(callsite("g" at "h"))\n'
    assert "loc(" not in without_locations(lines)
    assert without_locations(lines).count("\n") == lines.count("\n")
    assert np.array_equal(computed(tmp_path, lines, X)[0], -X)
    assert without_locations('"say loc(1)" loc("("(#x)) end') == '"say loc(1)"  end'


def test_a_composite_is_the_operation_of_its_name(tmp_path: Path) -> None:
    attributes = 'name = "chlo.top_k", composite_attributes = {k = 2 : i64}, decomposition = @absent'
    expected = -np.sort(-X, axis=1)[:, :2], np.argsort(-X, axis=1)[:, :2].astype(np.int32)
    text = one_operation("stablehlo.composite", [X], list(expected), attributes)
    assert all(map(np.array_equal, computed(tmp_path, text, X), expected))
    graph = graph_of_text(tmp_path, text)
    assert "TopK" in [node.op for node in graph.nodes]


def test_a_comparator_may_use_a_constant_that_stands_before_it(tmp_path: Path) -> None:
    lines = """\
    %z = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
    %r = "stablehlo.sort"(%a0) <{dimension = 1 : i64}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %0 = "stablehlo.maximum"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %1 = "stablehlo.compare"(%z, %z) <{comparison_direction = #stablehlo<comparison_direction NE>}>
        : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %2 = "stablehlo.compare"(%x, %0) <{comparison_direction = #stablehlo<comparison_direction LT>}>
        : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = "stablehlo.or"(%1, %2) : (tensor<i1>, tensor<i1>) -> tensor<i1>
      "stablehlo.return"(%3) : (tensor<i1>) -> ()
    }) : (tensor<2x3xf32>) -> tensor<2x3xf32>"""
    (found,) = computed(tmp_path, module_text(lines, [type_text(X)], [type_text(X)], "%r"), X)
    assert np.array_equal(found, np.sort(X, axis=1))
