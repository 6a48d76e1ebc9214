"""Graphs divided over chips: the divided products, the exchanges, and refusals."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from chip_nets import llama
from compiler.evaluation.reference import run_reference
from compiler.graph import Graph, GraphError
from compiler.operators.domains.chips.collectives import ALL_GATHER, ALL_REDUCE, PART, REDUCE_SCATTER
from compiler.search.chips import Degrees, SpreadGraph, parsed_degrees, spread_graph
from compiler.search.chips.degrees import ring_order
from compiler_harness import draw, graph, ints
from sharded_nets import gated, mlp, normalized_first, normalized_last
from tx8isa.machine.description import load_machine


def spread(made: Graph, x: int, y: int, degrees: str) -> SpreadGraph:
    return spread_graph(made, load_machine(None).of_chips(x, y), parsed_degrees(degrees))


def operators(made: Graph) -> Counter[str]:
    return Counter(node.op for node in made.nodes)


@pytest.mark.parametrize(
    ("made", "sums", "divided"),
    [
        (mlp(), 1, 3),
        (normalized_first(), 2, 10),
        (normalized_last(), 2, 10),
        (gated(), 1, 3),
        (llama(), 2, 7),
    ],
)
def test_a_sum_behind_each_product_by_rows(made: Graph, sums: int, divided: int) -> None:
    for tp in (2, 4):
        found = spread(made, tp, 1, f"tp={tp}")
        assert operators(found.graph_of((0, 0)))[ALL_REDUCE] == sums
        assert len(found.divisions["tp"].parts.constants) == divided
        assert found.parts == {(0, place): (place,) for place in range(tp)}


def test_heads_are_dealt_to_chips() -> None:
    local = spread(normalized_first(heads=8), 2, 2, "tp=4").graph_of((0, 2))
    softmax = next(node for node in local.nodes if node.op == "Softmax")
    assert local.tensors[softmax.outputs[0]].shape == (1, 2, 64, 64)


def test_the_parts_of_weights_are_those_of_the_places() -> None:
    made = mlp(rows=8, columns=64, bias=False)
    for place in range(2):
        local = spread(made, 2, 1, "tp=2").graph_of((0, place))
        first, second = (made.constants[name] for name in ("c0", "c1"))
        half = slice(64 * place, 64 * place + 64)
        assert np.array_equal(local.constants["c0.part1"], first[:, half])
        assert np.array_equal(local.constants["c1.part0"], second[half])


def test_an_output_that_is_divided_is_gathered() -> None:
    made = graph([("MatMul", ["x", "w"], ["y"], {})], {"x": (4, 8)}, {"w": draw(8, 12)})
    local = spread(made, 3, 1, "tp=3").graph_of((0, 0))
    assert [node.op for node in local.nodes] == ["MatMul", ALL_GATHER]
    assert local.outputs[0].shape == (4, 12)


def test_a_product_whose_columns_are_needed_whole_is_computed_by_all() -> None:
    nodes = [
        ("MatMul", ["x", "w"], ["a"], {}),
        ("CumSum", ["a", "axis"], ["b"], {}),
        ("MatMul", ["b", "u"], ["c"], {}),
        ("Relu", ["c"], ["d"], {}),
        ("MatMul", ["d", "v"], ["y"], {}),
    ]
    weights = {"w": draw(8, 8), "u": draw(8, 16), "v": draw(16, 8), "axis": np.array(1, np.int64)}
    found = spread(graph(nodes, {"x": (4, 8)}, weights), 2, 1, "tp=2")
    assert set(found.divisions["tp"].parts.constants) == {"u.part1", "v.part0"}


def test_a_large_product_that_is_needed_whole_is_gathered() -> None:
    nodes = [
        ("MatMul", ["x", "w"], ["a"], {}),
        ("CumSum", ["a", "axis"], ["b"], {}),
        ("MatMul", ["b", "v"], ["y"], {}),
    ]
    weights = {"w": draw(2048, 2048), "v": draw(2048, 12), "axis": np.array(1, np.int64)}
    found = spread(graph(nodes, {"x": (4, 2048)}, weights), 2, 1, "tp=2")
    local = found.graph_of((0, 0))
    assert [node.op for node in local.nodes] == ["MatMul", ALL_GATHER, "CumSum", "MatMul", ALL_GATHER]
    assert local.nodes[2].inputs == ("a.whole", "axis")
    assert local.tensors["a.whole"].shape == (4, 2048)


def test_a_product_of_computed_values_is_added_up() -> None:
    """x w and x u are divided by columns. One transposed times the other sums over rows, which are not
    divided; one times the other transposed sums over the divided axis."""
    nodes = [
        ("MatMul", ["x", "w"], ["a"], {}),
        ("MatMul", ["x", "u"], ["b"], {}),
        ("Transpose", ["b"], ["t"], {"perm": (1, 0)}),
        ("MatMul", ["a", "t"], ["y"], {}),
    ]
    made = graph(nodes, {"x": (4, 8)}, {"w": draw(8, 16), "u": draw(8, 16)})
    found, x = spread(made, 2, 1, "tp=2"), draw(4, 8, seed=9)
    local = [found.graph_of((0, place)) for place in range(2)]
    assert [node.op for node in local[0].nodes][-2:] == ["MatMul", ALL_REDUCE]
    partial = [run_reference(cut_before(each, ALL_REDUCE), {"x": x}) for each in local]
    total = sum(each["y.partial"] for each in partial)
    np.testing.assert_allclose(total, run_reference(made, {"x": x})["y"], rtol=1e-5)


def cut_before(made: Graph, op: str) -> Graph:
    """The graph up to the operand of its only node with an operator."""
    (node,) = [each for each in made.nodes if each.op == op]
    kept = tuple(each for each in made.nodes if each is not node)
    return replace(made, nodes=kept, outputs=tuple(made.tensors[name] for name in node.inputs))


def large_block() -> Graph:
    """A product by columns, one by rows whose sum has 1 MB in FP32, a residual and a normalization."""
    nodes = [
        ("MatMul", ["x", "w"], ["h"], {}),
        ("Gelu", ["h"], ["g"], {}),
        ("MatMul", ["g", "v"], ["p"], {}),
        ("Add", ["p", "b"], ["q"], {}),
        ("Add", ["x", "q"], ["r"], {}),
        ("LayerNormalization", ["r", "s"], ["n"], {"axis": -1}),
        ("MatMul", ["n", "u"], ["y"], {}),
    ]
    weights = {"w": draw(128, 64), "v": draw(64, 128), "b": draw(128), "s": draw(128), "u": draw(128, 16)}
    return graph(nodes, {"x": (1, 2048, 128)}, weights)


def test_rows_of_a_large_sum_are_dealt() -> None:
    local = spread(large_block(), 2, 1, "tp=2").graph_of((0, 1))
    made = ["MatMul", "Gelu", "MatMul", REDUCE_SCATTER, "Add", PART, "Add", "LayerNormalization", ALL_GATHER]
    assert [node.op for node in local.nodes] == [*made, "MatMul", ALL_GATHER]
    assert local.tensors["n"].shape == (1, 1024, 128)
    assert local.tensors["n.whole"].shape == (1, 2048, 128)


def test_rows_of_a_small_sum_are_not() -> None:
    local = spread_graph(large_block(), load_machine(None).of_chips(2, 1), Degrees(tp=2), 2).graph_of((0, 1))
    assert operators(local)[ALL_REDUCE] == 1
    assert operators(local)[REDUCE_SCATTER] == 0


def test_heads_that_do_not_fit_the_rows_are_gathered() -> None:
    """The reshape of sharded rows has an axis that cannot be divided."""
    nodes = [
        ("MatMul", ["x", "w"], ["h"], {}),
        ("MatMul", ["h", "v"], ["p"], {}),
        ("Reshape", ["p", "shape"], ["y"], {}),
    ]
    weights = {"w": draw(128, 64), "v": draw(64, 128), "shape": ints(3, 1024, 128)}
    local = spread(graph(nodes, {"x": (1, 3072, 128)}, weights), 2, 1, "tp=2").graph_of((0, 0))
    assert [node.op for node in local.nodes] == ["MatMul", "MatMul", REDUCE_SCATTER, ALL_GATHER, "Reshape"]


def test_gemm_adds_its_bias_once() -> None:
    nodes = [("Gemm", ["x", "w", "b"], ["h"], {"transB": 1}), ("Gemm", ["h", "v", "c"], ["y"], {})]
    weights = {"w": draw(16, 8), "b": draw(16), "v": draw(16, 8), "c": draw(8)}
    local = spread(graph(nodes, {"x": (4, 8)}, weights), 2, 1, "tp=2").graph_of((0, 1))
    assert [node.op for node in local.nodes] == ["Gemm", "Gemm", ALL_REDUCE, "Add"]
    assert np.array_equal(local.constants["b.part0"], weights["b"][8:])


def test_the_batch_is_dealt_without_exchanges() -> None:
    nodes = [
        ("Reshape", ["x", "s"], ["a"], {}),
        ("MatMul", ["a", "w"], ["b"], {}),
        ("Add", ["b", "m"], ["y"], {}),
    ]
    weights = {"s": ints(4, 6), "w": draw(6, 5), "m": draw(4, 5)}
    made = graph(nodes, {"x": (4, 2, 3)}, weights)
    found, x = spread(made, 2, 1, "dp=2"), draw(4, 2, 3, seed=9)
    dealt = found.dealt({"x": x})
    results = {}
    for place in range(2):
        local = found.graph_of((place, 0))
        assert ALL_REDUCE not in operators(local)
        results[f"chip{place}.y"] = run_reference(local, {"x": dealt[f"chip{place}.x"]})["y"]
    assert np.array_equal(found.joined(results)["y"], run_reference(made, {"x": x})["y"])


def test_both_at_once() -> None:
    made = graph([("MatMul", ["x", "w"], ["y"], {})], {"x": (4, 8)}, {"w": draw(8, 12)})
    found = spread(made, 2, 2, "dp=2,tp=2")
    assert found.places == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert found.parts == {(0, 0): (0, 2), (0, 1): (1, 3)}


@pytest.mark.parametrize(
    ("mesh", "ring"),
    [((2, 2), (0, 2, 3, 1)), ((4, 1), (0, 1, 2, 3)), ((3, 2), None), ((2, 3), None), ((4, 4), None)],
)
def test_neighbours_in_a_ring_are_neighbours_in_the_mesh(
    mesh: tuple[int, int], ring: tuple[int, ...] | None
) -> None:
    chips = load_machine(None).of_chips(*mesh).chips
    found = ring_order(chips, tuple(range(chips.count)))
    assert sorted(found) == list(range(chips.count))
    if ring is not None:
        assert found == ring
    if min(mesh) > 1:
        apart = [chips.distance(one, other) for one, other in zip(found, (*found[1:], found[0]), strict=True)]
        assert apart == [1] * chips.count


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tp", "--parallel tp: 'tp' is no degree; expected such as dp=2,tp=2"),
        ("tp=2,tp=2", "--parallel tp=2,tp=2: tp is given twice"),
        ("tp=0", "--parallel tp=0: tp is 0, expected 1 or more"),
        ("xp=2", "unknown kind 'xp'; allowed are dp .data parallel., tp .tensor parallel."),
    ],
)
def test_texts_that_are_no_degrees_are_refused(text: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        parsed_degrees(text)


@pytest.mark.parametrize(
    ("made", "mesh", "degrees", "message"),
    [
        (mlp(), (2, 2), "tp=2", "--parallel tp=2: is for 2 chips; 2x2 chips are 4"),
        (normalized_first(heads=2), (4, 1), "tp=4", r"tp=4: node 'n3' .Reshape. makes 2 heads; expected"),
        (mlp(), (3, 1), "tp=3", "tp=3: nothing can be shared by the chips"),
        (mlp(), (2, 1), "dp=2", "dp=2: input 'x' is 1x64x256; its first axis must be a multiple of 2"),
        (
            graph([("ReduceSum", ["x"], ["y"], {"keepdims": 0})], {"x": (4, 8)}),
            (2, 1),
            "dp=2",
            "dp=2: node 'n0' .ReduceSum. needs its operands whole, so the batch cannot be divided among ",
        ),
    ],
)
def test_what_does_not_fit_is_refused(made: Graph, mesh: tuple[int, int], degrees: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        spread(made, *mesh, degrees)


def test_a_degree_of_one_divides_nothing() -> None:
    found = spread_graph(mlp(), load_machine(None).of_chips(1, 1), Degrees())
    assert found.divisions == {}
