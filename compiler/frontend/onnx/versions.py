"""Old operator sets: rewrites every node as the newest set has it.

A change that keeps the meaning of a node (more types, attributes with defaults) needs no adapter.
onnx.version_converter is not used: it wants whole models, stops at the first operator it does not know,
copies all weights, and is wrong for the slope of PRelu 6.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import NodeProto, helper

from compiler.graph import DTYPES, Array

from .model import attribute, attributes_of, onnx_node, plain
from .partial import PartialGraph, Unsupported

Adapter = Callable[[NodeProto, int, PartialGraph], list[NodeProto]]

_OPERANDS: dict[str, tuple[int, tuple[tuple[str, int, str], ...]]] = {
    "Squeeze": (13, (("axes", 1, "int64"),)),
    "Unsqueeze": (13, (("axes", 1, "int64"),)),
    "Split": (13, (("split", 1, "int64"),)),
    "Slice": (10, (("starts", 1, "int64"), ("ends", 2, "int64"), ("axes", 3, "int64"))),
    "Pad": (11, (("pads", 1, "int64"), ("value", 2, ""))),
    "Clip": (11, (("min", 1, ""), ("max", 2, ""))),
    "TopK": (10, (("k", 1, "int64"),)),
    "Upsample": (9, (("scales", 1, "float32"),)),
    "ReduceSum": (13, (("axes", 1, "int64"),)),
    **{
        f"Reduce{name}": (18, (("axes", 1, "int64"),))
        for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
    },
}
"""Attributes that became operands, by operator: the first set with the operands; attribute, operand, dtype.

The dtype "" is that of operand 0.
"""

_GONE = {"BatchNormalization": (14, ("consumed_inputs", "is_test", "spatial")), "Gemm": (7, ("broadcast",))}
"""Attributes about training or memory, by operator: the first set without them, and their names."""

_BROADCASTING = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less", "PRelu")


def adapted(node: NodeProto, opset: int, graph: PartialGraph) -> list[NodeProto]:
    """Return the nodes of the newest operator set that equal ``node`` of ``opset``; often itself."""
    node = _moved_attributes(node, opset, graph)
    adapter = _ADAPTERS.get(node.op_type)
    return [node] if adapter is None else adapter(node, opset, graph)


def is_adapted(op: str) -> bool:
    """Return True if an operator of some version is replaced by others."""
    return op in _ADAPTERS


def _without(node: NodeProto, *names: str) -> NodeProto:
    """Copy a node without some attributes."""
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.attribute[:]
    copy.attribute.extend(item for item in node.attribute if item.name not in names)
    return copy


def _with_inputs(node: NodeProto, inputs: list[str]) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = inputs
    return copy


def _moved_attributes(node: NodeProto, opset: int, graph: PartialGraph) -> NodeProto:
    until, moved = _OPERANDS.get(node.op_type, (0, ()))
    if opset >= until:
        return node
    inputs, attrs = list(node.input), attributes_of(node)
    for name, position, dtype in moved:
        if name in attrs:
            kind = DTYPES[dtype or graph.tensor(node.input[0]).dtype]
            inputs += [""] * (position + 1 - len(inputs))
            inputs[position] = graph.constant(_operand(node, attrs[name], kind))
    return _without(_with_inputs(node, inputs), *(name for name, _, _ in moved))


def _operand(node: NodeProto, value: object, kind: np.dtype[np.generic]) -> Array:
    array = np.asarray(value).astype(kind)
    return array.reshape(-1) if node.op_type == "TopK" else array


def _gone(node: NodeProto, opset: int, graph: PartialGraph) -> list[NodeProto]:
    until, names = _GONE[node.op_type]
    return [_without(node, *names) if opset < until else node]


def _batch_normalization(node: NodeProto, opset: int, graph: PartialGraph) -> list[NodeProto]:
    """Before 14 several outputs meant training; the last two outputs are not kept."""
    if opset >= 14 or plain(node, "spatial", 1) == 0:
        return [node]
    copy = _gone(node, opset, graph)[0]
    del copy.output[3:]
    if opset >= 7 and any(copy.output[1:]):
        copy.attribute.add(name="training_mode", i=1, type=2)
    else:
        del copy.output[1:]
    return [copy]


def _flattened(node: NodeProto, opset: int, graph: PartialGraph) -> list[NodeProto]:
    """Before 13 Softmax, LogSoftmax and Hardmax were over all axes from ``axis`` (default 1) on together."""
    if opset >= 13:
        return [node]
    shape, axis = graph.tensor(node.input[0]).shape, plain(node, "axis", 1)
    assert isinstance(axis, int)
    axis = axis + len(shape) if axis < 0 else axis
    if axis == len(shape) - 1:
        return [onnx_node(node.op_type, node.input, node.output, node.name, axis=-1)]
    flat, result = graph.fresh(), graph.fresh()
    back = graph.constant(np.array(shape, np.int64))
    return [
        onnx_node("Flatten", node.input, [flat], f"{node.name}/flatten", axis=axis),
        onnx_node(node.op_type, [flat], [result], node.name, axis=-1),
        onnx_node("Reshape", [result, back], node.output, f"{node.name}/reshape"),
    ]


def _broadcasting(node: NodeProto, opset: int, graph: PartialGraph) -> list[NodeProto]:
    """Before 7 the second operand broadcast on demand only, its first axis at ``axis``; PRelu's at axis 1."""
    if opset >= 7:
        return [node]
    whole, part = graph.tensor(node.input[0]), graph.tensor(node.input[1])
    at = plain(node, "axis", 1 if node.op_type == "PRelu" else whole.rank - part.rank)
    assert isinstance(at, int)
    at = at + whole.rank if at < 0 else at
    missing = whole.rank - at - part.rank
    node = _without(node, "broadcast", "axis", "consumed_inputs")
    if missing <= 0 or part.size == 1:
        return [node]
    shape = graph.constant(np.array((*part.shape, *(1,) * missing), np.int64))
    reshaped = graph.fresh()
    return [
        onnx_node("Reshape", [node.input[1], shape], [reshaped], f"{node.name}/reshape"),
        _with_inputs(node, [node.input[0], reshaped]),
    ]


def _split(node: NodeProto, opset: int, graph: PartialGraph) -> list[NodeProto]:
    """Before 18 equal parts need no number of outputs."""
    if opset >= 18 or (len(node.input) > 1 and node.input[1]):
        return [node]
    copy = _without(node, "num_outputs")
    copy.attribute.add(name="num_outputs", i=len(node.output), type=2)
    return [copy]


def _dropout(node: NodeProto, opset: int, graph: PartialGraph) -> list[NodeProto]:
    """The identity in inference and with ratio 0; the mask (of the data's type before 10) keeps everything.

    One of ratio and training_mode may be computed, if the other makes it the identity.
    """
    ratio, training = (graph.value(name) if name else None for name in (*node.input, "", "")[1:3])
    infers = len(node.input) < 3 or not node.input[2] or (training is not None and not np.any(training))
    if not infers and (ratio is None or np.any(ratio)):
        return [node]
    nodes = [onnx_node("Identity", node.input[:1], node.output[:1], node.name)]
    if len(node.output) > 1 and node.output[1]:
        data = graph.tensor(node.input[0])
        mask = np.ones(data.shape, bool if opset >= 10 else DTYPES[data.dtype])
        nodes.append(onnx_node("Identity", [graph.constant(mask)], node.output[1:2], f"{node.name}/mask"))
    return nodes


def _upsample(node: NodeProto, opset: int, graph: PartialGraph) -> list[NodeProto]:
    """Deprecated since 10, where Resize takes its place."""
    mode = str(plain(node, "mode", "nearest")).replace("bilinear", "linear")
    return [_resize_10(node, node.input[1], mode)]


def _resize(node: NodeProto, opset: int, graph: PartialGraph) -> list[NodeProto]:
    """Resize 10 had only scales and no choice of coordinates; since 11 an empty operand is omitted."""
    if opset < 11:
        return [_resize_10(node, node.input[1], str(plain(node, "mode", "nearest")))]
    given = [name if name and not _is_empty(graph, name) else "" for name in node.input[1:]]
    return [_with_inputs(node, [*node.input[:1], *given])]


def _is_empty(graph: PartialGraph, name: str) -> bool:
    value = graph.value(name)
    return value is not None and value.size == 0


def _resize_10(node: NodeProto, scales: str, mode: str) -> NodeProto:
    return onnx_node(
        "Resize",
        [node.input[0], "", scales],
        node.output,
        node.name,
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def _group_normalization(node: NodeProto, opset: int, graph: PartialGraph) -> list[NodeProto]:
    """Before 21 scale and bias had one element per group, now per channel."""
    groups = plain(node, "num_groups", 1)
    channels = graph.tensor(node.input[0]).shape[1]
    if opset >= 21 or not isinstance(groups, int) or groups < 1 or channels % groups:
        return [node]
    column, wide, flat = (
        graph.constant(np.array(shape, np.int64))
        for shape in ((groups, 1), (groups, channels // groups), (channels,))
    )
    nodes, inputs = [], [node.input[0]]
    for number, name in enumerate(node.input[1:]):
        a, b, c = graph.fresh(), graph.fresh(), graph.fresh()
        prefix = f"{node.name}/{('scale', 'bias')[number]}"
        nodes += [
            onnx_node("Reshape", [name, column], [a], f"{prefix}/column"),
            onnx_node("Expand", [a, wide], [b], f"{prefix}/expand"),
            onnx_node("Reshape", [b, flat], [c], f"{prefix}/flat"),
        ]
        inputs.append(c)
    return [*nodes, _with_inputs(node, inputs)]


def _grid_sample(node: NodeProto, opset: int, graph: PartialGraph) -> list[NodeProto]:
    """Since 20 the modes are called linear and cubic."""
    mode = attribute(node, "mode")
    if opset >= 20 or mode is None:
        return [node]
    copy = _without(node, "mode")
    name = {b"bilinear": b"linear", b"bicubic": b"cubic"}.get(mode.s, mode.s)
    copy.attribute.add(name="mode", s=name, type=3)
    return [copy]


def _roi_align(node: NodeProto, opset: int, graph: PartialGraph) -> list[NodeProto]:
    """Before 16 the middles of elements were at whole numbers."""
    if opset >= 16:
        return [node]
    copy = _without(node)
    copy.attribute.add(name="coordinate_transformation_mode", s=b"output_half_pixel", type=3)
    return [copy]


def _dft(node: NodeProto, opset: int, graph: PartialGraph) -> list[NodeProto]:
    """Before 20 the axis was an attribute, and the inverse of one side was not defined."""
    if opset >= 20:
        return [node]
    if plain(node, "inverse", 0) and plain(node, "onesided", 0):
        raise Unsupported(f"inverse and onesided together, which opset {opset} does not define; 20 does")
    axis, inputs = plain(node, "axis", 1), [*node.input, ""][:2]
    assert isinstance(axis, int)
    return [_with_inputs(_without(node, "axis"), [*inputs, graph.constant(np.array(axis, np.int64))])]


def _concat(node: NodeProto, opset: int, graph: PartialGraph) -> list[NodeProto]:
    """Operands without elements add nothing."""
    full = [name for name in node.input if graph.tensor(name).size]
    return [_with_inputs(node, full)] if full else [node]


def _cast_like(node: NodeProto, opset: int, graph: PartialGraph) -> list[NodeProto]:
    """A Cast: only the type of the second operand counts."""
    dtype = graph.tensor(node.input[1]).dtype
    to = helper.np_dtype_to_tensor_dtype(np.dtype(DTYPES.get(dtype, dtype)))
    more = {name: value for name, value in attributes_of(node).items() if name in ("saturate", "round_mode")}
    return [onnx_node("Cast", node.input[:1], node.output, node.name, to=to, **more)]


def _scatter(node: NodeProto, opset: int, graph: PartialGraph) -> list[NodeProto]:
    """Scatter is called ScatterElements since 11."""
    copy = _without(node)
    copy.op_type = "ScatterElements"
    return [copy]


def _few_bits(node: NodeProto, opset: int, graph: PartialGraph) -> list[NodeProto]:
    """Known integers of 2 and 4 bits become bytes of equal values; rewrites see how few bits they use."""
    inputs = list(node.input)
    for at, name in enumerate(inputs):
        value = graph.value(name) if name else None
        if value is not None and value.dtype.name in _FEW_BITS:
            inputs[at] = graph.constant(value.astype(_FEW_BITS[value.dtype.name]))
    return [_with_inputs(node, inputs)]


_FEW_BITS = {"int2": np.int8, "int4": np.int8, "uint2": np.uint8, "uint4": np.uint8}
"""Element types that a graph does not have, and the types that replace them."""

_ADAPTERS: dict[str, Adapter] = {
    **dict.fromkeys(_BROADCASTING, _broadcasting),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _flattened),
    "CastLike": _cast_like,
    "DequantizeLinear": _few_bits,
    "Concat": _concat,
    "DFT": _dft,
    "BatchNormalization": _batch_normalization,
    "Dropout": _dropout,
    "Gemm": _gone,
    "GridSample": _grid_sample,
    "GroupNormalization": _group_normalization,
    "Resize": _resize,
    "RoiAlign": _roi_align,
    "Scatter": _scatter,
    "Split": _split,
    "Upsample": _upsample,
}
