"""Sharding written in ONNX models: the results of chips, against onnxruntime, and refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper

from chip_nets import run_on_chips
from chip_reference import run_spread
from compiler.driver import compile_graph
from compiler.frontend.onnx.importer import graph_of_bytes
from compiler.graph import Array, Graph, GraphError
from compiler.operators.domains.chips.collectives import ALL_GATHER, ALL_REDUCE, PART, REDUCE_SCATTER
from compiler.search.chips import (
    Degrees,
    SpreadGraph,
    parsed_degrees,
    pipelined_graph,
    said_degrees,
    spread_graph,
)
from compiler.tools.run import random_inputs
from device_models import configured, placed, shards, two_products, weights
from onnx_oracle import onnxruntime
from tx8isa.machine.description import load_machine

Mesh = tuple[int, int]


def read(made: ModelProto) -> Graph:
    return graph_of_bytes(made.SerializeToString(), "m.onnx")


def spread(made: ModelProto, mesh: Mesh, parallel: str | None = None) -> SpreadGraph:
    graph, machine = read(made), load_machine(None).of_chips(*mesh)
    degrees = said_degrees({"": graph}, machine, parsed_degrees(parallel) if parallel else None)
    assert degrees is not None
    return spread_graph(graph, machine, degrees)


def exchanges(found: SpreadGraph) -> list[str]:
    nodes = found.graph_of(found.places[0]).nodes
    return [node.op for node in nodes if node.op in (ALL_GATHER, ALL_REDUCE, PART, REDUCE_SCATTER)]


def by_onnxruntime(made: ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs as one device computes them, because onnxruntime ignores configurations."""
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[Array] = session.run(None, dict(inputs))
    return found


def assert_right(made: ModelProto, found: SpreadGraph) -> None:
    """Assert that all chips together give onnxruntime's result."""
    inputs = random_inputs(found.graph, {}, 3)
    joined = found.joined(run_spread(found, inputs))
    for tensor, wanted in zip(made.graph.output, by_onnxruntime(made, inputs), strict=True):
        np.testing.assert_allclose(joined[tensor.name], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("devices", [(0, 1), (1, 0)])
def test_columns_and_rows_are_on_the_devices_that_the_model_names(devices: tuple[int, int]) -> None:
    made = two_products(devices)
    found = spread(made, (2, 1))
    assert (found.degrees, exchanges(found)) == (Degrees(tp=2), [ALL_REDUCE])
    w, v = weights(32, 64), weights(64, 32, seed=1)
    for part, device in enumerate(devices):
        local = found.graph_of(found.places[device])
        half = slice(32 * part, 32 * part + 32)
        assert np.array_equal(local.constants["w.part1"], w[:, half])
        assert np.array_equal(local.constants["v.part0"], v[half])
    assert_right(made, found)


def test_a_batch_and_products_on_devices_in_the_order_of_the_model() -> None:
    made = two_products((0, 1), {0: [3, 0], 1: [1, 2]})
    found = spread(made, (2, 2))
    assert found.degrees == Degrees(2, 2)
    assert found.places == ((0, 1), (1, 0), (1, 1), (0, 0))
    assert_right(made, found)


def test_the_batch_alone() -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "n")
    halves = [shards(name, (1, 0), {0: 2}) for name in "xy"]
    made = configured([placed(node, *halves, shards("w", (0, 1)))], {"x": (4, 8)}, {"w": weights(8, 6)}, 2)
    found = spread(made, (2, 1))
    assert (found.degrees, found.places) == (Degrees(2), ((1, 0), (0, 0)))
    assert_right(made, found)


def test_an_input_that_is_whole_is_not_dealt() -> None:
    node = helper.make_node("MatMul", ["x", "t"], ["y"], "n")
    specs = shards("x", (0, 1), {0: 2}), shards("t", (0, 1))
    made = configured([placed(node, *specs)], {"x": (4, 8), "t": (8, 6)}, {}, 2)
    found = spread(made, (2, 1))
    assert found.graph_of((0, 0)).tensors["t"].shape == (8, 6)
    assert_right(made, found)


def test_what_the_model_does_not_say_the_compiler_decides() -> None:
    """One weight is named; the product after it is divided by rows as without a model."""
    nodes = [
        placed(helper.make_node("MatMul", ["x", "w"], ["a"]), shards("w", (0, 1), {1: 2})),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "v"], ["y"]),
    ]
    made = configured(nodes, {"x": (4, 32)}, {"w": weights(32, 64), "v": weights(64, 32)}, 2)
    found = spread(made, (2, 1))
    assert list(found.divisions["tp"].parts.constants) == ["w.part1", "v.part0"]
    assert_right(made, found)


def test_a_weight_that_is_whole_is_whole_on_every_chip() -> None:
    nodes = [
        placed(helper.make_node("MatMul", ["x", "w"], ["a"]), shards("w", (0, 1))),
        placed(helper.make_node("MatMul", ["a", "v"], ["y"]), shards("v", (0, 1), {1: 2})),
    ]
    made = configured(nodes, {"x": (4, 32)}, {"w": weights(32, 64), "v": weights(64, 32)}, 2)
    found = spread(made, (2, 1))
    assert (list(found.divisions["tp"].parts.constants), exchanges(found)) == (["v.part1"], [ALL_GATHER])
    assert_right(made, found)


def test_rows_of_weights_take_a_part_of_what_all_chips_have() -> None:
    node = placed(helper.make_node("MatMul", ["x", "w"], ["y"]), shards("w", (0, 1), {0: 2}))
    made = configured([node], {"x": (4, 32)}, {"w": weights(32, 8)}, 2)
    found = spread(made, (2, 1))
    assert exchanges(found) == [PART, ALL_REDUCE]
    assert_right(made, found)


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        (shards("a", (0, 1)), [PART, ALL_REDUCE]),
        (shards("a", (0, 1), {0: 2}), [PART, REDUCE_SCATTER, ALL_GATHER]),
        (shards("a", (0, 1), {1: 2}), [PART, ALL_REDUCE, PART, ALL_GATHER]),
    ],
    ids=["whole", "rows", "columns"],
)
def test_a_sum_is_where_the_model_wants_it(result: Any, wanted: list[str]) -> None:
    nodes = [
        placed(helper.make_node("MatMul", ["x", "w"], ["a"]), shards("w", (0, 1), {0: 2}), result),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    made = configured(nodes, {"x": (4, 32)}, {"w": weights(32, 8)}, 2)
    found = spread(made, (2, 1))
    assert exchanges(found) == wanted
    assert_right(made, found)


def test_rows_of_a_sequence_are_dealt_between_products() -> None:
    """Sequence parallel: rows are normalized on their chips, and gathered before the product by columns."""
    rows = {0: 2}
    nodes = [
        placed(helper.make_node("Add", ["x", "b"], ["r"]), shards("r", (0, 1), rows)),
        placed(helper.make_node("LayerNormalization", ["r", "s"], ["n"]), shards("n", (0, 1), rows)),
        placed(
            helper.make_node("MatMul", ["n", "w"], ["h"]),
            *(shards("n", (0, 1)), shards("w", (0, 1), {-1: 2}), shards("h", (0, 1), {1: 2})),
        ),
        helper.make_node("Gelu", ["h"], ["g"]),
        placed(
            helper.make_node("MatMul", ["g", "v"], ["p"]),
            *(shards("v", (0, 1), rows), shards("p", (0, 1), rows)),
        ),
        helper.make_node("Add", ["p", "r"], ["y"]),
    ]
    constants = {"b": weights(16), "s": weights(16), "w": weights(16, 64), "v": weights(64, 16)}
    made = configured(nodes, {"x": (8, 16)}, constants, 2)
    found = spread(made, (2, 1))
    assert exchanges(found) == [PART, ALL_GATHER, REDUCE_SCATTER, ALL_GATHER]
    assert found.graph_of((0, 0)).tensors["n"].shape == (4, 16)
    assert_right(made, found)


def test_a_product_with_a_bias_and_a_transposed_matrix() -> None:
    specs = shards("w", (0, 1), {0: 2}), shards("b", (0, 1), {0: 2})
    nodes = [
        placed(helper.make_node("Gemm", ["x", "w", "b"], ["a"], transB=1), *specs),
        placed(helper.make_node("Gemm", ["a", "v", "c"], ["y"], transB=1), shards("v", (0, 1), {1: 2})),
    ]
    constants = {"w": weights(64, 32), "b": weights(64), "v": weights(8, 64), "c": weights(8)}
    made = configured(nodes, {"x": (4, 32)}, constants, 2)
    found = spread(made, (2, 1))
    assert exchanges(found) == [ALL_REDUCE]
    assert_right(made, found)


def test_a_group_of_devices_that_share_a_shard() -> None:
    """Four chips, two shards: neighbours have the same columns, which are split in two heads."""
    groups = {-1: [0, 1], -2: [2, 3]}
    nodes = [
        placed(helper.make_node("MatMul", ["x", "k"], ["a"]), shards("k", (-1, -2), {1: 2}, groups)),
        placed(helper.make_node("MatMul", ["x", "q"], ["b"]), shards("q", (0, 1, 2, 3), {1: 4})),
        helper.make_node("Softmax", ["a"], ["y"]),
        helper.make_node("Softmax", ["b"], ["z"]),
    ]
    made = configured(nodes, {"x": (4, 32)}, {"k": weights(32, 8), "q": weights(32, 16)}, 4, ("y", "z"))
    with pytest.raises(GraphError, match="chips share parts of 'a', which they cannot gather"):
        spread(made, (2, 2))


def test_the_configuration_for_as_many_chips() -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "n")
    placed(node, shards("w", (0, 1), {1: 2}), name="pair")
    placed(node, shards("x", (0, 1, 2, 3), {0: 4}), name="square")
    made = configured([node], {"x": (4, 32)}, {"w": weights(32, 8)}, {"pair": 2, "square": 4})
    assert spread(made, (2, 1)).degrees == Degrees(tp=2)
    assert spread(made, (2, 2)).degrees == Degrees(dp=4)
    assert spread(made, (2, 2), "dp=4").degrees == Degrees(dp=4)


@pytest.mark.parametrize(
    ("mesh", "parallel", "message"),
    [
        ((2, 2), None, "the model has device configurations 'mesh' for 2; 2x2 chips are 4: give --chips"),
        ((2, 1), "dp=2", "--parallel dp=2: the model is sharded as tp=2 (configuration 'mesh'): give"),
    ],
)
def test_options_that_contradict_the_model(mesh: Mesh, parallel: str | None, message: str) -> None:
    with pytest.raises(GraphError) as error:
        spread(two_products(), mesh, parallel)
    assert str(error.value).startswith(message)


# -- stages ------------------------------------------------------------------------------------------------


def staged(stages: Sequence[int | None], *devices: Sequence[int], op: str = "MatMul") -> ModelProto:
    """Three products in a row, the stage of each, and the devices that have their weights."""
    nodes = []
    for at, stage in enumerate(stages):
        names = ["x", "a", "b", "y"][at : at + 2]
        node = helper.make_node("MatMul", [names[0], f"w{at}"], [names[1]], f"n{at}")
        specs = [shards(f"w{at}", devices[at])] if devices else []
        nodes.append(node if stage is None else placed(node, *specs, stage=stage))
    count = len({device for each in devices for device in each}) or 2
    return configured(nodes, {"x": (4, 16)}, {f"w{at}": weights(16, 16, seed=at) for at in range(3)}, count)


@pytest.mark.parametrize(
    ("made", "cuts", "places"),
    [
        (staged((0, 0, 1)), (0, 2, 3), ((0, 0), (0, 1))),
        (staged((0, 1, None)), (0, 1, 3), ((0, 0), (0, 1))),
        (staged((0, 1, 1), [1], [0], [0]), (0, 1, 3), ((0, 1), (0, 0))),
    ],
)
def test_stages_begin_where_the_model_says(made: ModelProto, cuts: Any, places: Any) -> None:
    graph, machine = read(made), load_machine(None).of_chips(2, 1)
    degrees = said_degrees({"": graph}, machine, None)
    assert degrees == Degrees(pp=2)
    found = pipelined_graph(graph, machine, degrees, 2, 16, lambda _: {})
    assert (found.cuts, found.spread.places) == (cuts, places)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (staged((0, 2, 2)), "the model has pipeline stages 0, 2; expected 0 to 1"),
        (
            staged((1, 0, 0)),
            "node 'n1' (MatMul) is of pipeline stage 0 and needs a result of node 'n0' (MatMul), which is of "
            "stage 1; expected 1 or more",
        ),
        (staged((0, 1, 2)), "the model has 3 pipeline stages; 2x1 chips are no multiple"),
        (staged((0, 1, 1), [0], [1], [0]), "node 'n2' (MatMul): sharding of tensor 'w2': on devices 0"),
        (staged((0, 0, 1), [0], [0], [0, 1]), "node 'n2' (MatMul): sharding of tensor 'w2': on devices 0, 1"),
        (staged((0, 1, 1), [0], [0, 1], [0]), "node 'n1' (MatMul): sharding of tensor 'w1': on devices 0, 1"),
    ],
)
def test_stages_that_cannot_be(made: ModelProto, message: str) -> None:
    graph, machine = read(made), load_machine(None).of_chips(2, 1)
    with pytest.raises(GraphError) as error:
        degrees = said_degrees({"": graph}, machine, None)
        assert degrees is not None
        pipelined_graph(graph, machine, degrees, 2, 16, lambda _: {})
    assert str(error.value).startswith(message)


# -- what chips cannot do ----------------------------------------------------------------------------------


def product(*specs: Any, op: str = "MatMul", devices: int = 2, **attrs: Any) -> ModelProto:
    node = placed(helper.make_node(op, ["x", "w"], ["y"], "n", **attrs), *specs)
    return configured([node], {"x": (4, 12)}, {"w": weights(12, 12)}, devices)


HALVES = {1: 2}


@pytest.mark.parametrize(
    ("made", "mesh", "message"),
    [
        (
            product(shards("w", (0, 1, 2, 3, 4), {1: 5}), devices=5),
            (5, 1),
            "node 'n' (MatMul): sharding of tensor 'w': axis 1 of 12 in 5 shards; expected a divisor of 12",
        ),
        (
            product(shards("w", (0, 1, 2, 3), {0: 2, 1: 2}), devices=4),
            (2, 2),
            "node 'n' (MatMul): sharding of tensor 'w': axes 0 and 1 are both sharded; expected one of them",
        ),
        (
            product(shards("w", (0, 1), {1: 2}), devices=4),
            (2, 2),
            "node 'n' (MatMul): sharding of tensor 'w': on devices 0, 1 only; without stages all chips take",
        ),
        (
            product(shards("x", (0, 1), {0: 2}), shards("y", (0, 1))),
            (2, 1),
            "node 'n' (MatMul): sharding of tensor 'y': 1 shards of axis 0, along which the batch is "
            "divided; expected a multiple of 2",
        ),
        (
            product(shards("x", (0, 1), {0: 2}), shards("w", (0, 1), {1: 2})),
            (2, 1),
            "node 'n' (MatMul): sharding of tensor 'w': 2 shards of axis 1; expected a divisor of 1 chips",
        ),
        (
            product(shards("x", (0, 1), {0: 2}), shards("y", (1, 0), {0: 2})),
            (2, 1),
            "node 'n' (MatMul): sharding of tensor 'y': device 0 has shard 1; by the other tensors it has "
            "shard 0: expected one order of devices",
        ),
        (
            product(shards("w", (0, 1), {0: 2}), op="Gemm", transA=1),
            (2, 1),
            "node 'n' (Gemm): tensor 'w' is sharded along axis 0 in the model; node 'n' (Gemm) has transA",
        ),
        (
            product(shards("w", (0, 1), {0: 2}), op="Add"),
            (2, 1),
            "node 'n' (Add): tensor 'w' is sharded along axis 0 in the model; node 'n' (Add) needs it whole;",
        ),
    ],
)
def test_what_chips_cannot_do(made: ModelProto, mesh: Mesh, message: str) -> None:
    if "Add" in message:
        made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 12
    if "transA" in message:
        made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 12
    with pytest.raises(GraphError) as error:
        spread(made, mesh)
    assert str(error.value).startswith(message)


def test_two_nodes_want_an_input_in_different_ways() -> None:
    nodes = [
        placed(helper.make_node("Relu", ["x"], ["a"], "one"), shards("x", (0, 1), {0: 2})),
        placed(helper.make_node("Neg", ["x"], ["b"], "two"), shards("x", (0, 1))),
        helper.make_node("Add", ["a", "b"], ["y"], "three"),
    ]
    with pytest.raises(GraphError, match=r"node 'two' .Neg.: sharding of tensor 'x': 1 shards of axis 0"):
        spread(configured(nodes, {"x": (4, 8)}, {}, 2), (2, 1))


def test_two_weights_in_another_order() -> None:
    nodes = [
        placed(helper.make_node("MatMul", ["x", "w"], ["a"], "one"), shards("w", (0, 1), HALVES)),
        placed(helper.make_node("MatMul", ["a", "v"], ["y"], "two"), shards("v", (1, 0), {0: 2})),
    ]
    made = configured(nodes, {"x": (4, 8)}, {"w": weights(8, 8), "v": weights(8, 8)}, 2)
    with pytest.raises(
        GraphError, match=r"node 'two' .MatMul.: sharding of tensor 'v': device 0 has shard 1"
    ):
        spread(made, (2, 1))


def test_several_networks_have_no_sharding() -> None:
    graph, machine = read(two_products()), load_machine(None).of_chips(2, 1)
    with pytest.raises(GraphError, match="entry b: its model has a sharding, which a program of several"):
        said_degrees({"a": read(plain(two_products())), "b": graph}, machine, None)


def plain(made: ModelProto) -> ModelProto:
    """The model without configurations."""
    found = ModelProto()
    found.CopyFrom(made)
    del found.configuration[:]
    for node in found.graph.node:
        del node.device_configurations[:]
    return found


# -- programs ----------------------------------------------------------------------------------------------


def test_a_single_chip_takes_no_notice() -> None:
    one, other = (compile_graph(read(made), "fp16") for made in (two_products(), plain(two_products())))
    assert (one.text, bytes(one.constants)) == (other.text, bytes(other.constants))


def run(made: ModelProto, mesh: Mesh) -> None:
    """The program of the chips computes the same as onnxruntime."""
    program = compile_graph(read(made), "fp32", machine=load_machine(None).of_chips(*mesh))
    assert program.spread is not None
    outputs, judgements = run_on_chips(program)
    assert all(found.as_the_format_allows for found in judgements.values())
    joined, inputs = program.spread.joined(outputs), random_inputs(program.graph, {}, 3)
    for tensor, wanted in zip(made.graph.output, by_onnxruntime(made, inputs), strict=True):
        np.testing.assert_allclose(joined[tensor.name], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("made", "mesh"),
    [
        (two_products((1, 0)), (2, 1)),
        (two_products((0, 1), {0: [3, 0], 1: [1, 2]}), (2, 2)),
        (staged((0, 1, 1), [1], [0], [0]), (2, 1)),
        pytest.param(two_products((0, 2, 3, 1)), (2, 2), marks=pytest.mark.long),
    ],
)
def test_programs_against_onnxruntime(made: ModelProto, mesh: Mesh) -> None:
    run(made, mesh)
