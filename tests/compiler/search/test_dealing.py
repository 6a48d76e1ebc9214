"""Rows of sequences and experts sharded over chips: results, exchanges, and refusals.

The chips of a graph are computed side by side in binary64, with exchanges, and compared with the whole graph.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from chip_nets import decoder, llama
from chips_in_numpy import joined_outputs
from compiler.evaluation.reference import run_reference
from compiler.graph import Array, Graph, GraphError
from compiler.operators.domains.chips.collectives import ALL_GATHER, ALL_REDUCE, PART
from compiler.search.chips import Degrees, SpreadGraph, parsed_degrees, possible_degrees, spread_graph
from compiler.search.chips.degrees import places_in
from compiler_harness import NodeSpec, draw, graph, ints
from expert_nets import batched, one_by_one
from sharded_nets import mlp, normalized_first, normalized_last
from token_nets import causal, encoder
from tx8isa.machine.description import load_machine

LONG = pytest.mark.long


def spread(made: Graph, degrees: str, x: int = 2, y: int = 1) -> SpreadGraph:
    return spread_graph(made, load_machine(None).of_chips(x, y), parsed_degrees(degrees), 2)


def inputs_of(made: Graph) -> dict[str, Array]:
    """Random floats and tokens; a mask that hides some tokens; positions from 3 on."""
    rng, found = np.random.default_rng(3), {}
    for tensor in made.inputs:
        if tensor.name == "mask":
            found[tensor.name] = np.asarray(rng.integers(0, 2, tensor.shape), np.int64)
        elif tensor.name == "positions":
            found[tensor.name] = np.broadcast_to(np.arange(3, tensor.shape[-1] + 3), tensor.shape)
        elif tensor.is_float:
            found[tensor.name] = rng.standard_normal(tensor.shape).astype(np.float32)
        else:
            found[tensor.name] = rng.integers(0, 50, tensor.shape)
    return found


def exchanges(found: SpreadGraph) -> Counter[str]:
    return Counter(node.op for node in found.graph_of((0, 0)).nodes if node.op in (ALL_GATHER, ALL_REDUCE))


@pytest.mark.parametrize(
    ("made", "degrees", "mesh", "exchanged"),
    [
        (mlp(), "sp=2", (2, 1), {}),
        (normalized_last(), "sp=2", (2, 1), {ALL_GATHER: 2}),
        (llama(), "sp=4", (2, 2), {ALL_GATHER: 2}),
        (llama(), "sp=2,tp=2", (2, 2), {ALL_GATHER: 2, ALL_REDUCE: 2}),
        (encoder(), "sp=2", (2, 1), {ALL_GATHER: 3}),
        (encoder(batch=2), "dp=2,sp=2", (2, 2), {ALL_GATHER: 3}),
        (causal(), "sp=2", (2, 1), {ALL_GATHER: 2}),
        (causal(masked=True, flat=True), "sp=2", (2, 1), {ALL_GATHER: 2}),
        (one_by_one(), "ep=2", (2, 1), {ALL_REDUCE: 1}),
        (one_by_one(way="Slice"), "ep=4", (2, 2), {ALL_REDUCE: 1}),
        (one_by_one(way="Gather"), "ep=2", (2, 1), {ALL_REDUCE: 1}),
        (one_by_one(way="Equal"), "ep=2", (2, 1), {ALL_REDUCE: 1}),
        (batched(), "ep=2", (2, 1), {ALL_REDUCE: 1}),
        (batched(repeated=True), "ep=4", (2, 2), {ALL_REDUCE: 1}),
        pytest.param(
            normalized_first(), "dp=1,sp=2,tp=4", (4, 2), {ALL_GATHER: 2, ALL_REDUCE: 2}, marks=LONG
        ),
        pytest.param(encoder(), "sp=2,tp=2", (2, 2), {ALL_GATHER: 4, ALL_REDUCE: 1}, marks=LONG),
        pytest.param(causal(flat=True), "sp=4", (4, 1), {ALL_GATHER: 2}, marks=LONG),
        pytest.param(causal(masked=True), "sp=2", (2, 1), {ALL_GATHER: 2}, marks=LONG),
        pytest.param(one_by_one(), "ep=2,tp=2", (2, 2), {ALL_REDUCE: 3}, marks=LONG),
        pytest.param(batched(), "sp=2,ep=2", (2, 2), {ALL_REDUCE: 1}, marks=LONG),
        pytest.param(one_by_one(), "sp=2,ep=2", (2, 2), {ALL_REDUCE: 1}, marks=LONG),
    ],
)
def test_chips_compute_the_graph(
    made: Graph, degrees: str, mesh: tuple[int, int], exchanged: dict[str, int]
) -> None:
    found, inputs = spread(made, degrees, *mesh), inputs_of(made)
    assert exchanges(found) == exchanged
    outputs, wanted = joined_outputs(found, inputs), run_reference(made, inputs)
    assert outputs.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_allclose(outputs[name], array, rtol=1e-9, atol=1e-9)


def test_a_chip_has_its_rows_and_all_weights() -> None:
    found = spread(normalized_first(), "sp=2")
    local = found.graph_of((0, 1))
    assert found.parts == {(0, 0): (0, 1)}
    assert local.inputs[0].shape == (1, 32, 256)
    assert {local.tensors[node.outputs[0]].shape[1] for node in local.nodes if node.op == "Gelu"} == {32}
    assert sum(array.size for array in local.constants.values()) >= sum(
        array.size for array in found.graph.constants.values() if array.dtype == np.float32
    )


def test_keys_are_gathered_before_they_are_repeated_or_transposed() -> None:
    local = spread(llama(), "sp=2").graph_of((0, 0))
    gathered = [local.tensors[node.inputs[0]].shape for node in local.nodes if node.op == ALL_GATHER]
    assert sorted(gathered) == [(1, 4, 16, 16), (1, 16, 64)]


def test_tokens_are_dealt_and_their_mask_is_common() -> None:
    local = spread(encoder(), "sp=2").graph_of((0, 0))
    assert {tensor.name: tensor.shape for tensor in local.inputs} == {"tokens": (1, 8), "mask": (1, 16)}
    scores = next(node for node in local.nodes if node.op == "Softmax")
    assert local.tensors[scores.outputs[0]].shape == (1, 4, 8, 16)


def test_tokens_that_are_the_mask_too_are_common_and_dealt() -> None:
    """The same input is looked up in a table, row by row, and says which keys count."""
    nodes: list[NodeSpec] = [
        ("Gather", ["table", "tokens"], ["e"], {}),
        ("Cast", ["tokens"], ["f"], {"to": 1}),
        ("Unsqueeze", ["f", "one"], ["m"], {}),
        ("Transpose", ["e"], ["t"], {"perm": (0, 2, 1)}),
        ("MatMul", ["e", "t"], ["s"], {}),
        ("Mul", ["s", "m"], ["y"], {}),
    ]
    made = graph(nodes, {"tokens": (1, 8)}, {"table": draw(9, 4), "one": ints(1)}, dtype="int64")
    found = spread(made, "sp=2")
    local, inputs = found.graph_of((0, 0)), {"tokens": np.arange(8).reshape(1, 8)}
    assert local.inputs[0].shape == (1, 8)
    assert Counter(node.op for node in local.nodes)[PART] == 1
    np.testing.assert_allclose(
        joined_outputs(found, inputs)["y"], run_reference(made, inputs)["y"], rtol=1e-9
    )


def test_a_chip_has_its_experts_only() -> None:
    made = batched()
    for place in range(2):
        local = spread(made, "ep=2").graph_of((0, place))
        weights = next(array for array in local.constants.values() if array.shape == (2, 1, 64, 96))
        whole = next(array for array in made.constants.values() if array.shape == (4, 1, 64, 96))
        assert np.array_equal(weights, whole[2 * place : 2 * place + 2])
    both = [spread(one_by_one(), "ep=2").graph_of((0, place)) for place in range(2)]
    own = [{name: array for name, array in each.constants.items() if array.ndim == 2} for each in both]
    assert len(own[0]) == 1 + 6  # the routing, and three matrices of two experts
    assert sum(np.array_equal(own[0][name], own[1][name]) for name in own[0]) == 1


def test_a_value_of_an_expert_that_others_read_is_that_of_one_chip() -> None:
    made = one_by_one()
    product = next(node for node in made.nodes if node.op == "Swish").outputs[0]
    seen = replace(made, outputs=(*made.outputs, made.tensors[product]))
    found, inputs = spread(seen, "ep=2"), inputs_of(made)
    for name, array in run_reference(seen, inputs).items():
        np.testing.assert_allclose(joined_outputs(found, inputs)[name], array, rtol=1e-9, atol=1e-9)


def test_columns_of_the_routing_in_another_order() -> None:
    """The experts are added up from the last one on."""
    made = one_by_one()
    split = next(node for node in made.nodes if node.op == "Split")
    turned = replace(split, outputs=split.outputs[::-1])
    nodes = tuple(turned if node is split else node for node in made.nodes)
    found, inputs = spread(replace(made, nodes=nodes), "ep=2"), inputs_of(made)
    wanted = run_reference(replace(made, nodes=nodes), inputs)["y"]
    np.testing.assert_allclose(joined_outputs(found, inputs)["y"], wanted, rtol=1e-9)


def unlike() -> Graph:
    """A sum of two branches with products; one branch has another activation."""
    nodes: list[NodeSpec] = [
        ("MatMul", ["x", "v"], ["a"], {}),
        ("Relu", ["a"], ["b"], {}),
        ("MatMul", ["x", "w"], ["c"], {}),
        ("Tanh", ["c"], ["d"], {}),
        ("Add", ["b", "d"], ["y"], {}),
    ]
    return graph(nodes, {"x": (4, 8)}, {"v": draw(8, 8), "w": draw(8, 8, seed=1)})


@pytest.mark.parametrize(
    ("made", "degrees", "message"),
    [
        (llama(rows=33), "sp=2", "sp=2: input 'x' is 1x33x128; its rows, axis 1, must be a multiple of 2"),
        (graph([("Relu", ["x"], ["y"], {})], {"x": (8,)}), "sp=2", "sp=2: no input has rows"),
        (
            graph([("CumSum", ["x", "a"], ["y"], {})], {"x": (1, 4, 8)}, {"a": np.array(1, np.int64)}),
            "sp=2",
            "sp=2: nothing is computed row by row: node 'n0' .CumSum. needs its operands whole",
        ),
        (decoder(), "sp=2", "sp=2: state keys=new_keys has rows of other steps; try tp or dp"),
        (one_by_one(experts=3), "ep=2", r"ep=2: node 'n\d+' .Add. adds 3 experts; expected a multiple of 2"),
        (batched(experts=3), "ep=2", r"ep=2: node 'n\d+' .MatMul. has 3 experts; expected a multiple of 2"),
        (llama(), "ep=2", r"ep=2: no experts: expected weights \[experts, rows, columns\], or a sum of bran"),
        (unlike(), "ep=2", "ep=2: no experts"),
    ],
)
def test_what_does_not_fit_is_refused(made: Graph, degrees: str, message: str) -> None:
    with pytest.raises(GraphError, match=message) as found:
        spread(made, degrees)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("degrees", "mesh", "message"),
    [
        (Degrees(ep=64), (8, 8), "--parallel ep=64: ep is 64, expected at most 32"),
        (Degrees(sp=2, ep=2), (2, 1), "--parallel sp=2,ep=2: is for 4 chips; 2x1 chips are 2"),
    ],
)
def test_degrees_that_do_not_go_together(degrees: Degrees, mesh: tuple[int, int], message: str) -> None:
    chips = load_machine(None).of_chips(1, 1).chips
    with pytest.raises(GraphError, match=message):
        degrees.check(msgspec.structs.replace(chips, x=mesh[0], y=mesh[1]))


def test_groups_of_several_kinds() -> None:
    """Chips that share products are neighbours; those with other rows are beside them, place by place."""
    chips, degrees = load_machine(None).of_chips(4, 2).chips, Degrees(dp=2, sp=2, tp=2)
    rings = degrees.rings(chips)
    groups = {kind: degrees.groups(rings, kind) for kind in ("sp", "tp")}
    assert sorted(sorted(group) for group in groups["tp"]) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert sorted(sorted(group) for group in groups["sp"]) == [[0, 2], [1, 3], [4, 6], [5, 7]]
    places = places_in(rings)
    for kind, of_kind in groups.items():
        for group in of_kind:
            assert [degrees.part(kind, places[chip][1]) for chip in group] == [0, 1]
            assert len({places[chip][0] for chip in group}) == 1


def test_degrees_that_are_tried() -> None:
    chips = load_machine(None).of_chips(2, 2).chips
    tried = [str(degrees) for degrees in possible_degrees(chips, ("tp", "sp", "ep"))]
    shared = ["dp=4", "dp=2,tp=2", "tp=4", "dp=2,sp=2", "sp=4", "dp=2,ep=2", "ep=4"]
    assert tried == [*shared, "dp=2,pp=2", "tp=2,pp=2", "pp=4"]
