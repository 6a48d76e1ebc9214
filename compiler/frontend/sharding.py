"""The sharding that an ONNX model was written with: its configurations of devices (IR version 11).

A configuration has a number of devices. For it a node lists the devices with the parts of its operands and
results, and its stage of a pipeline. A sharding that ONNX does not allow is refused here. An unsupported
sharding is recorded, and refused when the model is compiled for several chips.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from onnx import (
    DeviceConfigurationProto,
    ModelProto,
    NodeDeviceConfigurationProto,
    NodeProto,
    ShardedDimProto,
    ShardingSpecProto,
)

from compiler.graph import GraphError, NodeSharding, Sharding, Tensor, TensorSharding
from tx8isa.tools.suggestions import hint


class _Wrong(Exception):
    """A violation of ONNX's rules; the text describes it, without the place."""


def shardings_of(
    model: ModelProto,
    nodes: Iterable[tuple[str, NodeProto]],
    parts: Mapping[str, Sequence[str]],
    tensors: Mapping[str, Tensor],
    path: Path,
) -> tuple[Sharding, ...]:
    """Return the configurations that nodes refer to; GraphError if they contradict themselves or ONNX.

    ``nodes`` are the compiled ones, by their names; ``parts`` the nodes of the graph that replace them.
    ``tensors`` has the shapes.
    """
    try:
        devices = _devices(model.configuration)
    except _Wrong as error:
        raise GraphError([f"{path}: {error}"]) from None
    found: dict[str, list[NodeSharding]] = {name: [] for name in devices}
    for name, proto in nodes:
        text = f"node '{name}' ({proto.op_type})"
        try:
            for configuration, given in _configurations(proto, devices):
                specs = tuple(_specs(proto, given, devices[configuration], tensors))
                stage = given.pipeline_stage if given.HasField("pipeline_stage") else None
                if stage is not None and stage < 0:
                    raise _Wrong(f"pipeline_stage {stage}, expected 0 or more")
                found[configuration].append(NodeSharding(text, tuple(parts.get(name, ())), specs, stage))
        except _Wrong as error:
            raise GraphError([f"{path}: {text}: {error}"]) from None
    return tuple(Sharding(name, devices[name], tuple(own)) for name, own in found.items() if own)


def _devices(configurations: Iterable[DeviceConfigurationProto]) -> dict[str, int]:
    """Return the number of devices by configuration."""
    found: dict[str, int] = {}
    for each in configurations:
        head = f"device configuration '{each.name}'"
        if not each.name or each.name in found:
            raise _Wrong(f"{head} {'is there twice' if each.name else 'has no name'}")
        if each.num_devices < 1:
            raise _Wrong(f"{head}: num_devices {each.num_devices}, expected 1 or more")
        if each.device and len(each.device) != each.num_devices:
            raise _Wrong(f"{head}: {len(each.device)} names of {each.num_devices} devices")
        found[each.name] = each.num_devices
    return found


def _configurations(
    proto: NodeProto, devices: Mapping[str, int]
) -> Iterator[tuple[str, NodeDeviceConfigurationProto]]:
    """Yield the entries of a node, each with its configuration; _Wrong for an unknown one."""
    seen = Counter(given.configuration_id for given in proto.device_configurations)
    for given in proto.device_configurations:
        name = given.configuration_id
        if name not in devices:
            known = ", ".join(devices) or "none"
            raise _Wrong(
                f"device configuration '{name}' is not one of the model: {known}{hint(name, devices)}"
            )
        if seen[name] > 1:
            raise _Wrong(f"says {seen[name]} times what holds for device configuration '{name}'")
        yield name, given


def _specs(
    proto: NodeProto, given: NodeDeviceConfigurationProto, devices: int, tensors: Mapping[str, Tensor]
) -> Iterator[TensorSharding]:
    """Yield the sharding over the devices of each operand and result of a node."""
    names, seen = [name for name in (*proto.input, *proto.output) if name], set()
    for spec in given.sharding_spec:
        name = spec.tensor_name
        if name not in names:
            raise _Wrong(f"sharding of '{name}', which is not a tensor of the node: {', '.join(names)}")
        if name in seen:
            raise _Wrong(f"tensor '{name}' has two shardings; expected one")
        if name not in tensors:
            raise _Wrong(f"tensor '{name}' has no shape that is known; no sharding of it is possible")
        seen.add(name)
        try:
            yield _spec(spec, tensors[name], devices)
        except _Wrong as error:
            raise _Wrong(f"tensor '{name}': {error}") from None


def _spec(spec: ShardingSpecProto, tensor: Tensor, devices: int) -> TensorSharding:
    shards, problem = [1] * tensor.rank, ""
    for dim in spec.sharded_dim:
        axis = dim.axis if dim.axis >= 0 else dim.axis + tensor.rank
        if not 0 <= axis < tensor.rank:
            raise _Wrong(f"sharded along axis {dim.axis}; expected an axis of {_extents(tensor)}")
        if shards[axis] > 1:
            raise _Wrong(f"axis {axis} has two shardings; expected one")
        shards[axis], wrong = _shards(dim, axis, tensor.shape[axis])
        problem = problem or wrong
    groups = [_group(spec, device, devices) for device in spec.device]
    if len(groups) != math.prod(shards):
        count = f"{len(groups)} device{'s' * (len(groups) != 1)}"
        raise _Wrong(f"{count} for {math.prod(shards)} shards; expected one, or one group, for each")
    twice = [device for device, count in Counter(d for group in groups for d in group).items() if count > 1]
    if twice:
        raise _Wrong(f"device {twice[0]} has two shards; expected one")
    return TensorSharding(spec.tensor_name, tuple(shards), tuple(groups), problem)


def _shards(dim: ShardedDimProto, axis: int, extent: int) -> tuple[int, str]:
    """Return the number of shards along an axis, and the reason if this sharding is unsupported."""
    counts = [each.num_shards for each in dim.simple_sharding]
    if not counts or min(counts) < 1:
        found = f"num_shards {min(counts)}" if counts else "no simple_sharding"
        raise _Wrong(f"axis {axis} has {found}, expected 1 or more shards")
    known = [each.dim_value for each in dim.simple_sharding if each.HasField("dim_value")]
    if len(known) == len(counts) and math.prod(known) != extent:
        raise _Wrong(f"axis {axis} is sharded as one of {math.prod(known)}; it has {extent} elements")
    total = math.prod(counts)
    if max(counts[1:], default=1) > 1:
        return total, f"axis {axis} has shards of several axes in one; expected shards of whole ranges"
    uneven = f"axis {axis} of {extent} in {total} shards; expected a divisor of {extent}"
    return total, uneven if extent % total else ""


def _group(spec: ShardingSpecProto, device: int, devices: int) -> tuple[int, ...]:
    """Return the devices that a number refers to."""
    entries = [entry for entry in spec.index_to_device_group_map if entry.key == device]
    if len(entries) > 1:
        raise _Wrong(f"index_to_device_group_map has {device} twice")
    group = tuple(entries[0].value) if entries else (device,)
    wrong = next((each for each in group if not 0 <= each < devices), None)
    if wrong is not None or not group:
        found = f"device {wrong}" if group else f"the empty device group {device}"
        raise _Wrong(f"{found}; expected 0 to {devices - 1}")
    return group


def _extents(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a scalar"
