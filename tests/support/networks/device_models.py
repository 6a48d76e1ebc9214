"""ONNX models with configurations of devices, as IR version 11 has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import (
    DeviceConfigurationProto,
    ModelProto,
    NodeDeviceConfigurationProto,
    NodeProto,
    ShardingSpecProto,
    helper,
)

from onnx_models import model

IR_VERSION = 11
Groups = Mapping[int, Sequence[int]]


def shards(
    tensor: str, devices: Sequence[int], axes: Mapping[int, int] | None = None, groups: Groups | None = None
) -> ShardingSpecProto:
    """The sharding of a tensor over devices: shards by axis; without ``axes`` it is replicated."""
    spec = ShardingSpecProto(tensor_name=tensor, device=devices)
    if not axes:
        spec.device[:] = [-1]
        groups = {-1: devices}
    for key, group in (groups or {}).items():
        spec.index_to_device_group_map.add(key=key, value=group)
    for axis, count in (axes or {}).items():
        spec.sharded_dim.add(axis=axis).simple_sharding.add(num_shards=count)
    return spec


def placed(
    node: NodeProto, *specs: ShardingSpecProto, stage: int | None = None, name: str = "mesh"
) -> NodeProto:
    """A node with its entry for a configuration."""
    node.device_configurations.append(
        NodeDeviceConfigurationProto(configuration_id=name, sharding_spec=specs, pipeline_stage=stage)
    )
    return node


def configured(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence[int]],
    constants: Mapping[str, Any],
    devices: int | Mapping[str, int],
    outputs: Sequence[str] = ("y",),
) -> ModelProto:
    """A model with configurations of so many devices, by name, or with one of the name ``mesh``."""
    made: ModelProto = model(nodes, inputs, outputs, constants, opset=23, ir_version=IR_VERSION)
    for name, count in ({"mesh": devices} if isinstance(devices, int) else devices).items():
        made.configuration.append(DeviceConfigurationProto(name=name, num_devices=count))
    return made


def weights(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Constants of such a magnitude that a product keeps the magnitude of its operand."""
    drawn = np.random.default_rng(seed).standard_normal(shape) * shape[0] ** -0.5
    return drawn.astype(np.float32)


def two_products(
    devices: Sequence[int] = (0, 1), batch: Mapping[int, Sequence[int]] | None = None, rows: int = 16
) -> ModelProto:
    """A product sharded by columns, an activation, and a product sharded by rows, whose sum all devices get.

    ``batch``: for each shard of the batch its devices, in the order of their shards.
    """
    count = len(devices)
    every = sorted(device for group in (batch or {0: devices}).values() for device in group)
    keys = {
        -2 - place: [group[place] for group in (batch or {0: devices}).values()] for place in range(count)
    }

    def weight(name: str, axis: int) -> ShardingSpecProto:
        return shards(name, [*keys], {axis: count}, keys)

    x = shards("x", every)
    if batch is not None:
        x = shards("x", [-9 - part for part in batch], {0: len(batch)}, {-9 - p: g for p, g in batch.items()})
    nodes = [
        placed(helper.make_node("MatMul", ["x", "w"], ["a"], "first"), x, weight("w", 1)),
        helper.make_node("Relu", ["a"], ["b"], "between"),
        placed(helper.make_node("MatMul", ["b", "v"], ["y"], "second"), weight("v", -2)),
    ]
    constants = {"w": weights(32, 64), "v": weights(64, 32, seed=1)}
    return configured(nodes, {"x": (4, rows, 32)}, constants, len(every))
