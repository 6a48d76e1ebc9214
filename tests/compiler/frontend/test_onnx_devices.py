"""Configurations of devices in ONNX models: reading them, and refusals of invalid ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from onnx import ModelProto, NodeProto, helper

from compiler.cli import main
from compiler.frontend.onnx.importer import graph_of_bytes
from compiler.graph import Graph, GraphError, TensorSharding
from device_models import configured, placed, shards, two_products, weights


def read(made: ModelProto) -> Graph:
    return graph_of_bytes(made.SerializeToString(), "m.onnx")


def one(*specs: Any, stage: int | None = None, name: str = "mesh", devices: Any = 2) -> ModelProto:
    """A product with an entry for a configuration."""
    node = placed(helper.make_node("MatMul", ["x", "w"], ["y"], "n"), *specs, stage=stage, name=name)
    return configured([node], {"x": (4, 12)}, {"w": weights(12, 8)}, devices)


def test_what_a_node_says() -> None:
    groups = {-1: [0, 2], -2: [1, 3]}
    spec = shards("w", (-1, -2), {-1: 2}, groups)
    (found,) = read(one(spec, stage=0, devices=4)).shardings
    assert (found.name, found.devices) == ("mesh", 4)
    (node,) = found.nodes
    assert (node.text, node.parts, node.stage) == ("node 'n' (MatMul)", ("n",), 0)
    assert node.tensors == (TensorSharding("w", (1, 2), ((0, 2), (1, 3))),)


def test_an_axis_of_no_shards_and_a_tensor_that_all_have() -> None:
    spec = shards("x", (0, 1))
    spec.sharded_dim.add(axis=0).simple_sharding.add(dim_value=4, num_shards=1)
    (found,) = read(one(spec)).shardings
    assert found.nodes[0].tensors == (TensorSharding("x", (1, 1), ((0, 1),)),)


def test_an_operator_that_is_written_out_has_all_its_nodes() -> None:
    node = placed(helper.make_node("Celu", ["x"], ["y"], "n"), shards("x", (0, 1), {0: 2}))
    graph = read(configured([node], {"x": (4, 12)}, {}, 2))
    assert graph.shardings[0].nodes[0].parts == tuple(node.name for node in graph.nodes)


def test_a_configuration_of_which_no_node_says_anything() -> None:
    node = helper.make_node("Relu", ["x"], ["y"], "n")
    assert read(configured([node], {"x": (4, 12)}, {}, 2)).shardings == ()


def with_model(change: Callable[[ModelProto], object]) -> ModelProto:
    made = one(shards("w", (0, 1), {1: 2}))
    change(made)
    return made


def with_node(change: Callable[[NodeProto], object]) -> ModelProto:
    return with_model(lambda made: change(made.graph.node[0]))


def with_spec(change: Callable[[Any], object]) -> ModelProto:
    return with_node(lambda node: change(node.device_configurations[0].sharding_spec[0]))


NODE = "m.onnx: node 'n' (MatMul): "


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (one(name="mehs"), f"{NODE}device configuration 'mehs' is not one of the model: mesh; did you mean"),
        (one(devices=0), "m.onnx: device configuration 'mesh': num_devices 0, expected 1 or more"),
        (
            with_model(lambda made: made.configuration[0].device.append("card")),
            "m.onnx: device configuration 'mesh': 1 names of 2 devices",
        ),
        (
            with_model(lambda made: made.configuration.append(made.configuration[0])),
            "m.onnx: device configuration 'mesh' is there twice",
        ),
        (
            with_model(lambda made: made.configuration.add(num_devices=1)),
            "m.onnx: device configuration '' has no name",
        ),
        (
            with_node(lambda node: node.device_configurations.append(node.device_configurations[0])),
            f"{NODE}says 2 times what holds for device configuration 'mesh'",
        ),
        (one(shards("z", (0, 1))), f"{NODE}sharding of 'z', which is not a tensor of the node: x, w, y"),
        (one(shards("x", (0, 1)), shards("x", (0, 1))), f"{NODE}tensor 'x' has two shardings; expected one"),
        (one(stage=-1), f"{NODE}pipeline_stage -1, expected 0 or more"),
        (
            one(shards("w", (0, 1), {2: 2})),
            f"{NODE}tensor 'w': sharded along axis 2; expected an axis of 12x8",
        ),
        (one(shards("w", (0, 1), {1: 0})), f"{NODE}tensor 'w': axis 1 has num_shards 0, expected 1 or more"),
        (
            with_spec(lambda spec: spec.sharded_dim.append(spec.sharded_dim[0])),
            f"{NODE}tensor 'w': axis 1 has two shardings; expected one",
        ),
        (
            with_spec(lambda spec: spec.sharded_dim[0].simple_sharding.pop()),
            f"{NODE}tensor 'w': axis 1 has no simple_sharding, expected 1 or more shards",
        ),
        (
            with_spec(lambda spec: setattr(spec.sharded_dim[0].simple_sharding[0], "dim_value", 10)),
            f"{NODE}tensor 'w': axis 1 is sharded as one of 10; it has 8 elements",
        ),
        (
            one(shards("w", (0, 1), {1: 4})),
            f"{NODE}tensor 'w': 2 devices for 4 shards; expected one, or one group, for each",
        ),
        (one(shards("w", (0, 2), {1: 2})), f"{NODE}tensor 'w': device 2; expected 0 to 1"),
        (one(shards("w", (0, 0), {1: 2})), f"{NODE}tensor 'w': device 0 has two shards; expected one"),
        (
            one(shards("w", (-1, 0), {1: 2}, {-1: []})),
            f"{NODE}tensor 'w': the empty device group -1; expected 0 to 1",
        ),
        (
            with_spec(lambda spec: [spec.index_to_device_group_map.add(key=0, value=[0]) for _ in range(2)]),
            f"{NODE}tensor 'w': index_to_device_group_map has 0 twice",
        ),
    ],
)
def test_what_contradicts_itself(made: ModelProto, message: str) -> None:
    with pytest.raises(GraphError) as error:
        read(made)
    assert len(error.value.messages) == 1
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("counts", "values", "problem"),
    [
        ((2, 1), (3, 4), ""),
        ((1, 2), (3, 4), "axis 0 has shards of several axes in one; expected shards of whole ranges"),
        ((2,), (), ""),
        ((5,), (), "axis 0 of 12 in 5 shards; expected a divisor of 12"),
    ],
)
def test_what_no_program_can_do_is_noted(
    counts: tuple[int, ...], values: tuple[int, ...], problem: str
) -> None:
    spec = shards("w", range(max(counts)), {0: 1})
    spec.sharded_dim[0].ClearField("simple_sharding")
    for at, count in enumerate(counts):
        value = {"dim_value": values[at]} if values else {}
        spec.sharded_dim[0].simple_sharding.add(num_shards=count, **value)
    (found,) = read(one(spec, devices=max(counts))).shardings
    assert found.nodes[0].tensors[0].problem == problem


# -- the command -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--chips", "2x2"],
            "the model has device configurations 'mesh' for 2; 2x2 chips are 4: give --chips",
        ),
        (["--chips", "2x1", "--parallel", "pp=2"], "--parallel pp=2: the model is sharded as tp=2"),
        (["--chips", "2x2", "--estimate"], "the model has device configurations 'mesh' for 2; 2x2 chips"),
    ],
)
def test_options_that_contradict_a_model(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(two_products().SerializeToString())
    out = [] if "--estimate" in options else ["-o", str(tmp_path / "out")]
    assert main([str(path), *out, *options]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"tx8cc: error: {message}")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ([], "the model says how 2 devices share it; this program is for one chip (--chips)"),
        (["--chips", "2x1"], "made: 3 nodes, fp16, 16 tiles of each of 2 chips (tp=2, as the model says);"),
    ],
)
def test_what_the_command_says(
    options: list[str], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(two_products().SerializeToString())
    out = ["-o", str(tmp_path / "out"), "--no-cache", "--dtype", "fp16"]
    assert main([str(path), *out, *options]) == 0
    assert any(each.startswith(line) for each in capsys.readouterr().out.splitlines())
