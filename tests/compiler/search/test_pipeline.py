"""Graphs as stages of a pipeline: the cuts, the messages of stages, and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compiler.evaluation.infer import build_graph
from compiler.evaluation.reference import run_reference
from compiler.evaluation.states import with_states
from compiler.graph import Array, Description, Graph, GraphError, Node, Tensor
from compiler.operators.domains.chips.collectives import ALL_REDUCE, RECEIVE, SEND, TAKE
from compiler.passes.graph_operations import with_replaceable
from compiler.search.chips import PipelinedGraph, parsed_degrees, pipelined_graph
from compiler.search.chips.pipelines.cuts import balanced_cuts, crossing, node_prices, stage_of_states
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
    return pipelined_graph(made, machine, parsed_degrees(degrees), 2, 16, lambda _: wanted)


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


def test_what_is_sent_in_the_background_takes_no_time_of_its_own() -> None:
    nodes = [
        ("MatMul", ["x", "w0"], ["a"], {}),
        ("MatMul", ["a", "w1"], ["b"], {}),
        ("MatMul", ["b", "w2"], ["y"], {}),
    ]
    made = graph(nodes, {"x": (4, 8)}, {"w0": draw(8, 64), "w1": draw(64, 8), "w2": draw(8, 8)})
    prices = {"n0": 10.0, "n1": 4.0, "n2": 5.0}
    # 4x64 values of 0.05 cycles are 12.8: longer than a stage, but shorter than two products
    assert balanced_cuts(made, prices, 0.05, 2) == [0, 1, 3]
    assert balanced_cuts(made, prices, 0.05, 2, background=False) == [0, 2, 3]


def test_prices_of_phases_are_those_of_nodes() -> None:
    made = chain()
    found = node_prices(made, {"n1": 5.0, "n1.cast": 1.0, "n3/inner": 2.0, "other": 9.0})
    assert found == {"n0": 0.0, "n1": 6.0, "n2": 0.0, "n3": 2.0, "n4": 0.0}


def test_a_value_of_an_early_stage_passes_through_those_between() -> None:
    found = pipelined(chain(), (3, 1), "pp=3")
    assert [crossing(chain(), at) for at in found.cuts[1:3]] == [["a", "e"], ["b", "e"]]
    stages = [found.stage_graph((0, stage)) for stage in range(3)]
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
            sent, results = run_stage(found.stage_graph((pipe, stage)), dealt, chip, sent)
            outputs |= {f"chip{chip}.{name}": array for name, array in results.items()}
    return outputs


def run_stage(
    local: Graph, dealt: dict[str, Array], chip: int, coming: list[Array]
) -> tuple[list[Array], dict[str, Array]]:
    """Return the messages of a stage and its outputs; received values become inputs."""
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
    assert found.parts == [{(0, 2): (0, 0)}, {(1, 3): (0, 1)}]
    assert found.spread.places == ((0, 0), (0, 1), (1, 0), (1, 1))


def test_what_is_no_pipeline_is_refused() -> None:
    state = with_states(graph([("Relu", ["x"], ["y"], {})], {"x": (4, 8)}), {"x": "y"})
    nodes = [("MatMul", ["x", "w"], ["a"], {}), ("Add", ["a", "x"], ["y"], {})]
    both = with_states(graph(nodes, {"x": (4, 8)}, {"w": draw(8, 8)}), {"x": "y"})
    fixed = with_replaceable(graph(nodes, {"x": (4, 8)}, {"w": draw(8, 8)}), ["w"])
    for made, mesh, degrees, message in [
        (chain(), (2, 2), "pp=2", "--parallel pp=2: is for 2 chips; 2x2 chips are 4"),
        (chain(), (4, 4), "pp=16", "pp=16: graph 'test' has only 5 places for a stage to begin"),
        (state, (2, 1), "pp=2", "pp=2: graph 'test' has only 1 places for a stage to begin"),
        (both, (2, 1), "pp=2", "pp=2: graph 'test' has only 1 places for a stage to begin"),
        (fixed, (2, 1), "pp=2", "--parallel: programs with replaceable constants are for one chip"),
        (chain(), (2, 2), "tp=33,pp=2", "--parallel tp=33,pp=2: is for 66 chips; 2x2 chips are 4"),
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


def sums(batch: int = 1) -> Graph:
    """Two layers that each add their product to a state."""
    nodes: list[tuple[str, list[str], list[str], dict[str, object]]] = []
    constants = {"w0": draw(8, 8), "w1": draw(8, 8, seed=1)}
    inputs: dict[str, tuple[int, ...]] = {"x": (batch, 8), "s0": (batch, 8), "s1": (batch, 8)}
    last = "x"
    for at in range(2):
        nodes += [("MatMul", [last, f"w{at}"], [f"p{at}"], {}), ("Add", [f"p{at}", f"s{at}"], [f"n{at}"], {})]
        last = f"n{at}"
    nodes.append(("Relu", [last], ["y"], {}))
    made = graph(nodes, inputs, constants, ("y", "n0", "n1"))
    return with_states(made, {"s0": "n0", "s1": "n1"})


def test_a_state_is_of_one_stage() -> None:
    found = pipelined(sums(), (2, 1), "pp=2", n0=10.0, n1=1.0, n2=10.0, n3=1.0)
    assert found.cuts == (0, 2, 5)
    assert found.states == {"s0": 0, "s1": 1}
    stages = [found.stage_graph((0, stage)) for stage in range(2)]
    assert [each.states for each in stages] == [(("s0", "n0"),), (("s1", "n1"),)]
    assert [[tensor.name for tensor in each.inputs] for each in stages] == [["x", "s0"], ["s1"]]
    kept = found.dealt({"s0": draw(1, 8), "s1": draw(1, 8, seed=1)})
    kept["chip1.s0"], kept["chip0.s1"] = np.zeros((1, 8)), np.zeros((1, 8))  # of layers of others
    assert np.array_equal(found.joined(kept, ["s0"])["s0"], draw(1, 8))
    assert np.array_equal(found.joined(kept, ["s1"])["s1"], draw(1, 8, seed=1))


def test_no_cut_is_between_the_nodes_of_a_state() -> None:
    """The cheapest cut would be after the product that reads the state, before its new value."""
    nodes = [
        ("Mul", ["x", "s"], ["a"], {}),
        ("MatMul", ["a", "w"], ["b"], {}),
        ("Add", ["b", "s"], ["n"], {}),
        ("MatMul", ["n", "w"], ["y"], {}),
    ]
    plain = graph(nodes, {"x": (4, 8), "s": (4, 8)}, {"w": draw(8, 8)}, ("y", "n"))
    prices = {"n0": 10.0, "n1": 10.0, "n2": 1.0, "n3": 1.0}
    assert balanced_cuts(plain, prices, 0.0, 2) == [0, 1, 4]
    stated = with_states(plain, {"s": "n"})
    assert balanced_cuts(stated, prices, 0.0, 2) == [0, 3, 4]
    with pytest.raises(GraphError, match=r"stage 0: state s=n is used by node 'n0' .Mul. and by node 'n2'"):
        stage_of_states(stated, [0, 1, 4])


def test_another_network_has_its_states_on_the_same_stages() -> None:
    prices = {"n0": 1.0, "n1": 1.0, "n2": 1.0, "n3": 10.0, "n4": 10.0}
    assert balanced_cuts(sums(), prices, 0.0, 2) == [0, 4, 5]
    assert balanced_cuts(sums(), prices, 0.0, 2, {"s0": 0, "s1": 1}) == [0, 3, 5]
    with pytest.raises(GraphError, match="no stages have the states that those of another entry have"):
        balanced_cuts(sums(), prices, 0.0, 2, {"s0": 1, "s1": 0})


@pytest.mark.parametrize(("batch", "parts"), [(1, 1), (4, 4), (3, 3)])
def test_a_step_with_state_has_parts_if_the_state_divides(batch: int, parts: int) -> None:
    made = sums(batch)
    found = pipelined(made, (2, 1), "pp=2")
    assert found.micro.parts.count == parts
    inputs = {name: draw(batch, 8, seed=at) for at, name in enumerate(("x", "s0", "s1"))}
    outputs, wanted = run_stages(found, inputs), run_reference(made, inputs)
    for name, joined in found.joined(outputs).items():
        np.testing.assert_allclose(joined, wanted[name], rtol=1e-5, atol=1e-5)


def test_a_step_whose_state_is_of_the_whole_batch_has_one_part() -> None:
    """Each part would add to a state that the part before has written."""
    nodes = [
        ("MatMul", ["x", "w"], ["a"], {}),
        ("Add", ["s", "b"], ["n"], {}),
        ("Mul", ["a", "n"], ["y"], {}),
    ]
    made = graph(nodes, {"x": (4, 8), "s": (1, 8)}, {"w": draw(8, 8), "b": draw(8)}, ("y", "n"))
    assert pipelined(made, (2, 1), "pp=2").micro.parts.count == 4
    assert pipelined(with_states(made, {"s": "n"}), (2, 1), "pp=2").micro.parts.count == 1


def test_stages_compute_integers_that_follow_from_inputs_themselves() -> None:
    nodes = [
        ("Add", ["at", "one"], ["next"], {}),
        ("Gather", ["t", "next"], ["row"], {}),
        ("MatMul", ["x", "w"], ["a"], {}),
        ("Mul", ["a", "row"], ["b"], {}),
        ("MatMul", ["b", "w"], ["c"], {}),
        ("Gather", ["t", "next"], ["again"], {}),
        ("Add", ["c", "again"], ["y"], {}),
    ]
    constants = {"one": ints(1), "t": draw(5, 8), "w": draw(8, 8, seed=2)}
    inputs = (Tensor("x", "float32", (4, 8)), Tensor("at", "int64", (1,)))
    named = [Node(op, f"n{at}", tuple(a), tuple(b), attrs) for at, (op, a, b, attrs) in enumerate(nodes)]
    made = build_graph(Description("test", "test", 20, inputs, ("y",), constants, tuple(named)))
    found = pipelined(made, (2, 1), "pp=2", n1=0.0, n3=0.0, n4=10.0)
    assert [crossing(made, at) for at in found.cuts[1:2]] == [["b"]]
    assert [node.op for node in found.stage_graph((0, 1)).nodes][:3] == [RECEIVE, "Add", "MatMul"]
    given = {"x": draw(4, 8), "at": np.array([2])}
    joined = found.joined(run_stages(found, given))["y"]
    np.testing.assert_allclose(joined, run_reference(made, given)["y"], rtol=1e-5, atol=1e-5)


def test_chips_of_a_stage_exchange_among_themselves() -> None:
    found = pipelined(chain(), (2, 2), "tp=2,pp=2")
    assert found.spread.places == ((0, 0), (0, 1), (0, 2), (0, 3))
    assert found.pairs == (((0, 2), (1, 3)),)
    assert [[*each] for each in found.parts] == [[(0,), (1,)], [(2,), (3,)]]
    for last, stage, own in ((10.0, 1, (2, 3)), (50.0, 0, (0, 1))):
        prices = {"n3": last, "n2.all_reduce": 1.0}
        local = pipelined(chain(), (2, 2), "tp=2,pp=2", **prices).stage_graph((0, 2 * stage))
        assert {node.attrs["chips"] for node in local.nodes if node.op == ALL_REDUCE} == {own}
        assert {node.attrs["chips"] for node in local.nodes if node.op in (SEND, RECEIVE)} == {(0, 2, 1, 3)}


def attributes(local: Graph, op: str, *names: str) -> list[tuple[object, ...]]:
    return [tuple(node.attrs[name] for name in names) for node in local.nodes if node.op == op]


def test_a_stage_sends_while_it_computes_the_next_part() -> None:
    """Two values have two inboxes each, used alternately; the last part is sent before the stage ends."""
    found = pipelined(chain(8), (2, 1), "pp=2")
    first, second = (found.stage_graph((0, stage)) for stage in range(2))
    sent = attributes(first, SEND, "inbox", "channel", "full", "background")
    assert sent == [
        *((0, 0, 0, 1), (2, 1, 0, 1), (1, 0, 0, 1), (3, 1, 0, 1)),
        *((0, 0, 1, 1), (2, 1, 1, 1), (1, 0, 1, 0), (3, 1, 1, 0)),
    ]
    assert attributes(second, RECEIVE, "inbox", "again") == [
        *((0, 1), (2, 1), (1, 1), (3, 1), (0, 0), (2, 0), (1, 0), (3, 0))
    ]


def test_a_channel_waits_for_what_it_sent_before() -> None:
    """A message in transit is an operand of the operation that waits for it, so it keeps its memory."""
    local = pipelined(chain(8), (2, 1), "pp=2").stage_graph((0, 0))
    sends = [node for node in local.nodes if node.op == SEND]
    for before, node in zip(sends, sends[2:], strict=False):
        assert node.inputs[2] == before.outputs[0]
        assert local.tensors[before.outputs[0]].shape == local.tensors[before.inputs[0]].shape
    assert [node.inputs[2] for node in sends[:2]] == ["", ""]
    assert [local.tensors[node.outputs[0]].shape for node in sends[-2:]] == [(1,), (1,)]


def test_only_two_values_are_sent_in_the_background() -> None:
    nodes = [("Exp", ["x"], ["a"], {}), ("MatMul", ["x", "w"], ["b"], {}), ("Relu", ["b"], ["c"], {})]
    nodes += [("Sum", ["a", "b", "c"], ["d"], {}), ("MatMul", ["d", "w"], ["y"], {})]
    made = graph(nodes, {"x": (4, 8)}, {"w": draw(8, 8)})
    local = pipelined(made, (2, 1), "pp=2", n1=10.0, n2=10.0, n3=20.0).stage_graph((0, 0))
    assert attributes(local, SEND, "channel", "background")[:3] == [(0, 1), (1, 1), (2, 0)]


def test_a_stage_whose_chips_exchange_waits_until_all_is_sent() -> None:
    """Exchanges use the channels."""
    prices = {"n3": 50.0, "n2.all_reduce": 1.0}
    local = pipelined(chain(), (2, 2), "tp=2,pp=2", **prices).stage_graph((0, 0))
    assert any(node.op == ALL_REDUCE for node in local.nodes)
    assert {node.attrs["background"] for node in local.nodes if node.op == SEND} == {0}


def test_a_part_of_the_batch_is_whole_where_chips_share_its_rows() -> None:
    """Both would divide the first axis, and the tokens of a part would not be consecutive."""
    nodes = [("MatMul", ["x", "w"], ["a"], {}), ("Relu", ["a"], ["b"], {}), ("MatMul", ["b", "w"], ["y"], {})]
    made = graph(nodes, {"x": (8, 8)}, {"w": draw(8, 8)})
    assert pipelined(made, (2, 1), "pp=2").micro.parts.count == 4
    assert pipelined(made, (2, 2), "sp=2,pp=2").micro.parts.count == 1
