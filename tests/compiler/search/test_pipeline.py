"""Graphs as stages of a pipeline: where they are cut, what stages send, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.evaluation.reference import run_reference
from compiler.evaluation.states import with_states
from compiler.graph import Array, Graph, GraphError
from compiler.operators.domains.chips.collectives import RECEIVE, SEND, TAKE
from compiler.search.chips import PipelinedGraph, parsed_degrees, pipelined_graph
from compiler.search.chips.cuts import balanced_cuts, crossing, node_prices
from compiler_harness import draw, graph, ints
from tx8isa.machine.description import load_machine


def chain(batch: int = 8, skip: bool = True) -> Graph:
    """Three products; the last one is added to the input's exponentials, which pass through all stages."""
    nodes = [
        ("Exp", ["x"], ["e"], {}),
        ("MatMul", ["x", "w0"], ["a"], {}),
        ("MatMul", ["a", "w1"], ["b"], {}),
        ("MatMul", ["b", "w2"], ["c"], {}),
        ("Add", ["c", "e" if skip else "s"], ["y"], {}),
    ]
    weights = {f"w{number}": draw(6, 6, seed=number) for number in range(3)}
    return graph(nodes, {"x": (batch, 2, 6), "s": (1, 2, 6)}, weights)


def pipelined(made: Graph, mesh: tuple[int, int], degrees: str, **prices: float) -> PipelinedGraph:
    wanted = {"n1": 10.0, "n2": 10.0, "n3": 10.0} | prices
    machine = load_machine(None).of_chips(*mesh)
    return pipelined_graph(made, machine, parsed_degrees(degrees), 2, lambda _: wanted)


def test_stages_take_about_as_long_as_each_other() -> None:
    made = chain()
    assert balanced_cuts(made, {"n1": 10.0, "n2": 10.0, "n3": 20.0}, 0.0, 2) == [0, 3, 5]
    assert balanced_cuts(made, {"n1": 30.0, "n2": 10.0, "n3": 10.0}, 0.0, 2) == [0, 2, 5]
    assert balanced_cuts(made, {"n1": 10.0, "n2": 10.0, "n3": 10.0}, 0.0, 3) == [0, 2, 3, 5]


def test_what_is_sent_counts_too() -> None:
    """After the large product more would be sent than the stages gain."""
    nodes = [
        ("MatMul", ["x", "w0"], ["a"], {}),
        ("MatMul", ["a", "w1"], ["b"], {}),
        ("MatMul", ["b", "w2"], ["y"], {}),
    ]
    made = graph(nodes, {"x": (4, 8)}, {"w0": draw(8, 64), "w1": draw(64, 8), "w2": draw(8, 8)})
    prices = {"n0": 10.0, "n1": 4.0, "n2": 5.0}
    assert balanced_cuts(made, prices, 0.0, 2) == [0, 1, 3]
    assert balanced_cuts(made, prices, 0.1, 2) == [0, 2, 3]


def test_prices_of_phases_are_those_of_nodes() -> None:
    made = chain()
    found = node_prices(made, {"n1": 5.0, "n1.cast": 1.0, "n3/inner": 2.0, "other": 9.0})
    assert found == {"n0": 0.0, "n1": 6.0, "n2": 0.0, "n3": 2.0, "n4": 0.0}


def test_a_value_of_an_early_stage_passes_through_those_between() -> None:
    found = pipelined(chain(), (3, 1), "pp=3")
    assert [crossing(chain(), at) for at in found.cuts[1:3]] == [["a", "e"], ["b", "e"]]
    stages = [found.stage_graph(stage, 0) for stage in range(3)]
    counts = [[sum(node.op == op for node in each.nodes) for op in (RECEIVE, SEND)] for each in stages]
    assert found.micro.parts.count == 4
    assert counts == [[0, 8], [8, 8], [8, 0]]
    assert [sorted(name for name in each.constants if name[0] == "w") for each in stages] == [
        ["w0"],
        ["w1"],
        ["w2"],
    ]


def run_stages(found: PipelinedGraph, inputs: dict[str, Array]) -> dict[str, Array]:
    """The outputs of a pipeline whose stages are run one after another, by the names on the chips."""
    outputs: dict[str, Array] = {}
    dealt = found.dealt(inputs)
    for pipe in range(found.degrees.dp):
        sent: list[Array] = []
        for stage in range(found.stages):
            chip = found.spread.places.index((pipe, stage))
            sent, results = run_stage(found.stage_graph(stage, pipe), dealt, chip, sent)
            outputs |= {f"chip{chip}.{name}": array for name, array in results.items()}
    return outputs


def run_stage(
    local: Graph, dealt: dict[str, Array], chip: int, coming: list[Array]
) -> tuple[list[Array], dict[str, Array]]:
    """What a stage sends, and its outputs: receptions become inputs."""
    received = [node for node in local.nodes if node.op == RECEIVE]
    sent = [node for node in local.nodes if node.op == SEND]
    kept = (node for node in local.nodes if node.op not in (SEND, RECEIVE))
    nodes = tuple(replace(n, inputs=n.inputs[:1]) if n.op == TAKE else n for n in kept)
    more = [local.tensors[node.outputs[0]] for node in received]
    outputs = [tensor for tensor in local.outputs if not tensor.name.startswith("chips.")]
    values = [local.tensors[node.inputs[0]] for node in sent]
    every = {tensor.name: tensor for tensor in (*outputs, *values)}
    whole = replace(local, nodes=nodes, inputs=(*local.inputs, *more), outputs=tuple(every.values()))
    inputs = {tensor.name: dealt[f"chip{chip}.{tensor.name}"] for tensor in local.inputs}
    inputs |= {node.outputs[0]: array for node, array in zip(received, coming, strict=True)}
    results = run_reference(whole, inputs)
    return [results[t.name] for t in values], {t.name: results[t.name] for t in outputs}


@pytest.mark.parametrize(
    ("mesh", "degrees", "batch"),
    [
        ((2, 1), "pp=2", 8),
        ((3, 1), "pp=3", 6),
        ((2, 2), "dp=2,pp=2", 8),
        ((2, 1), "pp=2", 1),
        ((2, 1), "pp=2", 3),
    ],
)
@pytest.mark.parametrize("skip", [True, False])
def test_stages_one_after_another_compute_the_graph(
    mesh: tuple[int, int], degrees: str, batch: int, skip: bool
) -> None:
    made = chain(batch, skip)
    found, inputs = (
        pipelined(made, mesh, degrees),
        {"x": draw(batch, 2, 6, seed=9), "s": draw(1, 2, 6, seed=8)},
    )
    joined = found.joined(run_stages(found, inputs))["y"]
    wanted = run_reference(made, inputs)["y"]
    np.testing.assert_allclose(joined, wanted, rtol=1e-6, atol=1e-5)  # between stages values are float32


def test_neighbours_are_stages_of_one_pipeline() -> None:
    found = pipelined(chain(), (2, 2), "dp=2,pp=2")
    assert found.pairs == (((0, 1), (2, 3)),)
    assert found.parts == [{(0, 2): 0}, {(1, 3): 0}]
    assert found.spread.places == ((0, 0), (0, 1), (1, 0), (1, 1))


def test_what_is_no_pipeline_is_refused() -> None:
    state = with_states(graph([("Relu", ["x"], ["y"], {})], {"x": (4, 8)}), {"x": "y"})
    for made, mesh, degrees, message in [
        (chain(), (2, 2), "tp=2,pp=2", "--parallel tp=2,pp=2: stages of a pipeline are single chips"),
        (chain(), (2, 2), "pp=2", "--parallel pp=2: is for 2 chips; 2x2 chips are 4"),
        (chain(), (4, 4), "pp=16", "pp=16: graph 'test' has only 5 places for a stage to begin"),
        (state, (2, 1), "pp=2", "pp=2: stages have no states and no replaceable constants; try tp or dp"),
        (chain(3), (2, 2), "dp=2,pp=2", "dp=2: input 'x' is 3x2x6; its first axis must be a multiple of 2"),
    ]:
        with pytest.raises(GraphError) as error:
            pipelined(made, mesh, degrees)
        assert message in str(error.value)


def test_integers_are_not_sent() -> None:
    nodes = [("ArgMax", ["x"], ["a"], {"axis": 1, "keepdims": 0}), ("Gather", ["w", "a"], ["y"], {})]
    made = graph(nodes, {"x": (4, 8)}, {"w": draw(8, 3), "s": ints(1)})
    with pytest.raises(GraphError, match="has only 1 places for a stage to begin"):
        pipelined(made, (2, 1), "pp=2")
