"""Graphs with states divided over chips: the shards of states, and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chip_nets import CACHES, decoder
from compiler.evaluation.reference import run_reference
from compiler.evaluation.states import with_states
from compiler.graph import Graph, GraphError
from compiler.operators.domains.chips.collectives import ALL_GATHER, ALL_REDUCE
from compiler.search.chips import SpreadGraph, checked_states, parsed_degrees, spread_graph
from compiler.search.chips.rules import DividedAxis
from compiler.search.chips.splits import with_split_products
from compiler_harness import draw, graph, ints
from tx8isa.machine.description import load_machine


def spread(made: Graph, x: int, y: int, degrees: str) -> SpreadGraph:
    return spread_graph(made, load_machine(None).of_chips(x, y), parsed_degrees(degrees))


def test_caches_are_divided_by_heads() -> None:
    found = spread(decoder(), 2, 1, "tp=2")
    local = found.graph_of((0, 1))
    shapes = {tensor.name: tensor.shape for tensor in (*local.inputs, *local.outputs)}
    assert all(shapes[past] == shapes[present] == (1, 1, 16, 16) for past, present in CACHES.items())
    assert [node.op for node in local.nodes if node.op.startswith("chips.")] == [ALL_REDUCE]
    cache = draw(1, 2, 16, 16)
    dealt = found.dealt({"keys": cache})
    assert np.array_equal(dealt["chip1.keys"], cache[:, 1:])
    assert np.array_equal(found.joined(dealt, ["keys"])["keys"], cache)


def test_chips_that_share_heads_of_keys_have_the_same_cache() -> None:
    """Four heads of queries, two of keys, on four chips: two of them have the same keys."""
    found, cache = spread(decoder(), 2, 2, "tp=4"), draw(1, 2, 16, 16)
    assert found.divisions["tp"].parts.division("keys") == DividedAxis(1, 2)
    ring = [chip for _, chip in sorted((place, chip) for chip, (_, place) in enumerate(found.places))]
    dealt = found.dealt({"keys": cache})
    for place, chip in enumerate(ring):
        head = place // 2
        assert np.array_equal(dealt[f"chip{chip}.keys"], cache[:, head : head + 1])
    assert np.array_equal(found.joined(dealt, ["keys"])["keys"], cache)
    assert all(local.tensors["q"].shape == (1, 1, 1, 16) for local in [found.graph_of((0, 3))])


def test_a_batch_of_caches_is_dealt() -> None:
    found = spread(decoder(batch=4), 2, 1, "dp=2")
    assert found.graph_of((0, 0)).tensors["keys"].shape == (2, 2, 16, 16)


def test_batch_and_heads_at_once() -> None:
    found, cache = spread(decoder(batch=2), 2, 2, "dp=2,tp=2"), draw(2, 2, 16, 16)
    dealt = found.dealt({"keys": cache})
    for chip, (batch, head) in enumerate(found.places):
        assert np.array_equal(dealt[f"chip{chip}.keys"], cache[batch : batch + 1, head : head + 1])
    assert np.array_equal(found.joined(dealt, ["keys"])["keys"], cache)


def test_a_state_that_is_needed_whole_stays_whole() -> None:
    """Its new value is the result of a divided product, which is gathered."""
    nodes = [
        ("MatMul", ["x", "w"], ["new"], {}),
        ("CumSum", ["past", "axis"], ["sums"], {}),
        ("MatMul", ["sums", "u"], ["h"], {}),
        ("MatMul", ["h", "v"], ["y"], {}),
    ]
    weights = {"w": draw(8, 16), "u": draw(16, 8), "v": draw(8, 4), "axis": np.array(1, np.int64)}
    made = graph(nodes, {"x": (4, 8), "past": (4, 16)}, weights, ("y", "new"))
    local = spread(with_states(made, {"past": "new"}), 2, 1, "tp=2").graph_of((0, 0))
    assert local.tensors["past"].shape == local.tensors["new"].shape == (4, 16)
    assert [node.op for node in local.nodes] == [
        *("MatMul", "CumSum", "MatMul", "MatMul", ALL_REDUCE, ALL_GATHER)
    ]


def test_inputs_without_a_batch_are_those_of_all_chips() -> None:
    nodes = [("Add", ["x", "b"], ["a"], {}), ("Mul", ["a", "s"], ["y"], {})]
    made = graph(nodes, {"x": (4, 8), "b": (1, 8), "s": ()})
    local = spread(made, 2, 1, "dp=2").graph_of((0, 0))
    assert [tensor.shape for tensor in local.inputs] == [(2, 8), (1, 8), ()]


@pytest.mark.parametrize("across", [0, 1])
def test_a_product_that_is_split_becomes_one_for_each_piece(across: int) -> None:
    nodes = [
        ("Gemm", ["x", "w", "b"], ["p"], {"transB": across}),
        ("Split", ["p", "outer"], ["qk", "v"], {"axis": 1}),
        ("Reshape", ["qk", "apart"], ["r"], {}),
        ("Transpose", ["r"], ["t"], {"perm": (1, 0, 2)}),
        ("Sigmoid", ["t"], ["s"], {}),
        ("Split", ["s", "inner"], ["q", "k"], {"axis": 0}),
        ("Add", ["q", "k"], ["sum"], {}),
        ("Relu", ["v"], ["y"], {}),
    ]
    weights = {"w": draw(6, 20).reshape((20, 6) if across else (6, 20)), "b": draw(20)}
    weights |= {"outer": ints(16, 4), "apart": ints(3, 4, 4), "inner": ints(2, 2)}
    made = graph(nodes, {"x": (3, 6)}, weights, ("sum", "y"))
    found, x = with_split_products(made), draw(3, 6, seed=7)
    assert sorted(node.op for node in found.nodes if node.op in ("Gemm", "Split")) == ["Gemm"] * 3
    wanted, results = run_reference(made, {"x": x}), run_reference(found, {"x": x})
    for name in ("sum", "y"):
        np.testing.assert_allclose(results[name], wanted[name], rtol=1e-6)


@pytest.mark.parametrize("between", ["CumSum", "twice"])
def test_a_split_of_something_else_stays(between: str) -> None:
    nodes = [
        ("MatMul", ["x", "w"], ["p"], {}),
        ("CumSum", ["p", "axis"], ["c"], {}) if between == "CumSum" else ("Relu", ["p"], ["c"], {}),
        ("Split", ["c", "sizes"], ["a", "b"], {"axis": 1}),
        ("Add", ["a", "b"], ["y"], {}),
        ("Neg", ["p"], ["z"], {}),
    ]
    weights = {"w": draw(6, 8), "axis": np.array(1, np.int64), "sizes": ints(4, 4)}
    made = graph(nodes, {"x": (3, 6)}, weights, ("y", "z"))
    assert with_split_products(made) is made


def test_states_that_do_not_fit_the_chips_are_refused() -> None:
    with pytest.raises(
        GraphError, match=r"tp=3: node 'n2' .Reshape. makes 4 heads; expected a multiple of 3"
    ):
        spread(decoder(depth=18), 3, 1, "tp=3")
    with pytest.raises(
        GraphError, match="dp=2: input 'keys' is 3x2x16x16; its first axis must be a multiple of"
    ):
        spread(decoder(batch=3), 2, 1, "dp=2")
    nodes = [("Add", ["x", "past"], ["y"], {}), ("Mul", ["past", "c"], ["new"], {})]
    made = graph(nodes, {"x": (4, 8), "past": (1, 8)}, {"c": draw(1)}, ("y", "new"))
    spread(with_states(made, {"past": "new"}), 2, 1, "dp=2")
    nodes = [("ReduceSum", ["x", "axes"], ["sum"], {}), ("Add", ["sum", "past"], ["new"], {})]
    made = graph(nodes, {"x": (4, 8), "past": (1, 8)}, {"axes": ints(0)}, ("new",))
    with pytest.raises(GraphError, match=r"dp=2: node 'n0' .ReduceSum. needs its operands whole"):
        spread(with_states(made, {"past": "new"}), 2, 1, "dp=2")
    nodes = [("Transpose", ["x"], ["t"], {"perm": (1, 0)}), ("Add", ["t", "past"], ["y"], {})]
    made = graph([*nodes, ("Neg", ["past"], ["new"], {})], {"x": (4, 8), "past": (1, 4)}, {}, ("y", "new"))
    with pytest.raises(
        GraphError, match=r"dp=2: node 'n1' .Add. needs a part of state 'past', which has no batch"
    ):
        spread(with_states(made, {"past": "new"}), 2, 1, "dp=2")
    nodes = [("Add", ["x", "past"], ["y"], {}), ("Expand", ["b", "shape"], ["new"], {})]
    made = graph(nodes, {"x": (4, 8), "past": (4, 8), "b": (1, 8)}, {"shape": ints(4, 8)}, ("y", "new"))
    with pytest.raises(
        GraphError, match="dp=2: state past=new is divided among chips only before or after a step"
    ):
        spread(with_states(made, {"past": "new"}), 2, 1, "dp=2")
    with pytest.raises(GraphError, match="programs with replaceable constants are for one chip"):
        spread(replace(decoder(), replaceable=frozenset({"o"})), 2, 1, "tp=2")


def test_entries_that_divide_a_state_in_different_ways_are_refused() -> None:
    nodes = [("MatMul", ["x", "w"], ["y"], {}), ("Neg", ["keys"], ["new_keys"], {})]
    made = graph(nodes, {"x": (4, 8), "keys": (1, 2, 16, 16)}, {"w": draw(8, 8)}, ("y", "new_keys"))
    whole = with_states(made, {"keys": "new_keys"})
    spreads = {name: spread(each, 2, 1, "tp=2") for name, each in (("a", decoder()), ("b", whole))}
    message = (
        "tp=2: state keys: chips have it in 2 parts of axis 1 in entry a, whole in entry b; expected the"
    )
    with pytest.raises(GraphError, match=message):
        checked_states(spreads)
