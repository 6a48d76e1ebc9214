"""Parses an ONNX file, checks its version, and gives its tensors as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from google.protobuf.message import DecodeError
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TensorShapeProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from compiler.graph import DTYPES, NEWEST_OPSET, Array, AttrValue, GraphError, Tensor
from tx8isa.errors import BudgetError
from tx8isa.tools.budget import NODE, Budget

OLDEST_OPSET = 6
"""The oldest operator set that is read: in older ones Reshape has its shape as an attribute."""

ONNX_DOMAINS = ("", "ai.onnx")


_LONGEST_TEXT = 400
_SHORT_INTEGERS = ("int8", "uint8", "int16", "uint16")
"""Types whose elements a file may store as numbers of 32 bits."""
"""Letters of the text of an error of another library that are shown."""


def read_model(path: Path) -> ModelProto:
    """Parse a file; GraphError unless it is an ONNX model of a supported operator set.

    External data is not read here: :func:`array_of` does it for the tensors that are needed.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise GraphError([f"{path}: cannot be read: {error.strerror}"]) from None
    return parse_model(data, path)


def parse_model(data: bytes, path: Path) -> ModelProto:
    """Parse the bytes of a file, as ``read_model`` does; messages name ``path``, data are in its folder."""
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        found = f"{len(data)} bytes that are not a protobuf message"
        raise GraphError([f"{path}: not an ONNX model, or a damaged one: {found}"]) from None
    if not model.HasField("graph") or not model.graph.output:
        raise GraphError([f"{path}: not an ONNX model, or a damaged one: it has no graph with outputs"])
    if model.graph.sparse_initializer:
        name = model.graph.sparse_initializer[0].values.name
        raise GraphError([f"{path}: sparse initializer '{name}': sparse tensors are not supported"])
    if any(isinstance(text, bytes) for text in _names(model.graph)):
        raise GraphError([f"{path}: a damaged ONNX model: a name in it is not UTF-8 text"])
    opset_of(model, path)
    return _without_local_functions(model, path)


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph and all graphs in attributes of its nodes."""
    yield graph
    for node in graph.node:
        for item in node.attribute:
            for inner in (item.g, *item.graphs):
                yield from _graphs(inner)


def _names(model: GraphProto) -> Iterator[str | bytes]:
    """Yield every name in a graph. Protobuf gives bytes for a text that is not UTF-8."""
    for graph in _graphs(model):
        yield graph.name
        yield from (item.name for items in (graph.input, graph.output, graph.initializer) for item in items)
        for node in graph.node:
            yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
            yield from (name for item in node.attribute for name in (item.name, item.ref_attr_name))


def external_files(model: GraphProto, source: Path) -> tuple[Path, ...]:
    """Return the files of a model's external data, also those from which nothing is read."""
    found: dict[Path, None] = {}
    for graph in _graphs(model):
        attributes = (item for node in graph.node for item in node.attribute)
        held = (tensor for item in attributes for tensor in (item.t, *item.tensors))
        for tensor in (*graph.initializer, *held):
            if tensor.data_location == TensorProto.EXTERNAL:
                names = (entry.value for entry in tensor.external_data if entry.key == "location")
                found |= {source.parent / name: None for name in names}
    return tuple(found)


def opset_of(model: ModelProto, path: Path) -> int:
    """Return the version of ONNX's operator set that a model declares; the newest if it uses none of it."""
    versions = [item.version for item in model.opset_import if item.domain in ONNX_DOMAINS]
    if not versions and model.graph.node and _domains(model.graph).isdisjoint(ONNX_DOMAINS):
        return NEWEST_OPSET
    if not versions:
        raise GraphError([f"{path}: declares no opset of ONNX's own operators (opset_import)"])
    if not 1 <= versions[0] <= NEWEST_OPSET:
        found = f"opset {versions[0]}; supported are {OLDEST_OPSET} to {NEWEST_OPSET}"
        raise GraphError([f"{path}: declares {found}"])
    return int(versions[0])


def _domains(graph: GraphProto) -> set[str]:
    """Return the domains of all operators of a graph."""
    bodies = [inner for node in graph.node for item in node.attribute for inner in (item.g, *item.graphs)]
    return {node.domain for node in graph.node}.union(*map(_domains, bodies))


def _without_local_functions(model: ModelProto, path: Path) -> ModelProto:
    """Replace calls of the functions that the model defines by their bodies."""
    if not model.functions:
        return model
    from onnx import inliner

    try:
        Budget(model.ByteSize()).work(_written_out(model) * NODE)
    except BudgetError as error:
        raise GraphError([f"{path}: its functions, written out, {error}"]) from None
    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # the C++ code raises errors of many classes
        raise GraphError([f"{path}: its functions cannot be written out: {first_line(error)}"]) from None


def _written_out(model: ModelProto) -> int:
    """Count the nodes of a model when every call of a function is replaced by its body."""
    functions = {(item.domain, item.name, item.overload): item for item in model.functions}
    counts: dict[tuple[str, str, str], int] = {}

    def nodes_of(nodes: Iterable[NodeProto]) -> int:
        return sum(of_node(node) for node in nodes)

    def of_node(node: NodeProto) -> int:
        inner = sum(nodes_of(graph.node) for item in node.attribute for graph in (item.g, *item.graphs))
        key = node.domain, node.op_type, node.overload
        if key not in functions:
            return 1 + inner
        if key not in counts:
            counts[key] = 0  # of a function that calls itself, which ONNX refuses
            counts[key] = nodes_of(functions[key].node)
        return counts[key] + inner

    return nodes_of(model.graph.node)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text that is not empty, at most ``_LONGEST_TEXT`` letters of it."""
    lines = [line.strip() for line in str(error).splitlines()]
    text = next((line for line in lines if line), type(error).__name__)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


def input_of(info: ValueInfoProto, source: Path) -> Tensor:
    """Return a graph input; GraphError unless it is a tensor of a known type and static shape."""
    head = f"{source}: input '{info.name}'"
    if info.type.WhichOneof("value") != "tensor_type":
        found = info.type.WhichOneof("value") or "of no type"
        raise GraphError([f"{head} is {found.removesuffix('_type')}; only tensors are supported"])
    kind = info.type.tensor_type
    dtype = dtype_name(kind.elem_type)
    if dtype not in DTYPES:
        raise GraphError([f"{head} is {dtype}; supported are {', '.join(DTYPES)}"])
    if not kind.HasField("shape"):
        advice = f"give it one with --shape {info.name}=1x3x224x224 (in Python: shapes=)"
        raise GraphError([f"{head} declares no shape; shapes must be static: {advice}"])
    shape = []
    for axis, dim in enumerate(kind.shape.dim):
        if not is_known(dim):
            found = f"'{dim.dim_param}'" if dim.dim_param else "unknown"
            advice = option_of(info, axis)
            raise GraphError([f"{head}: axis {axis} is {found}; shapes must be static: {advice}"])
        shape.append(int(dim.dim_value))
    tensor = Tensor(info.name, dtype, tuple(shape))
    if tensor.excess:
        raise GraphError([f"{head} {tensor.excess}"])
    return tensor


def is_known(dim: TensorShapeProto.Dimension) -> bool:
    return bool(dim.HasField("dim_value") and dim.dim_value >= 0)


def option_of(info: ValueInfoProto, axis: int) -> str:
    """Return the options, ready to be typed, that give a free dimension of an input a size."""
    dims = info.type.tensor_type.shape.dim
    ways = ["--batch 1"] if axis == 0 else []
    if name := dims[axis].dim_param:
        ways += [f"--dim {name}=1", f"a range with --dim {name}=1:8:64"]
        python = f'dims={{"{name}": 1}}'
    else:
        shape = [str(dim.dim_value) if is_known(dim) else "1" for dim in dims]
        ways.append(f"--shape {info.name}={'x'.join(shape)}")
        python = "shapes="
    return f"bind it with {', or '.join(ways)} (in Python: {python})"


def dtype_name(elem_type: int) -> str:
    """Return the name of an ONNX element type as messages use it: ``float32``, ``int64``, ``string``."""
    try:
        dtype = helper.tensor_dtype_to_np_dtype(elem_type)
    except KeyError:
        return f"of unknown element type {elem_type}"
    return "string" if elem_type == TensorProto.STRING else str(dtype.name)


def array_of(tensor: TensorProto, source: Path, what: str) -> Array:
    """Return the values of a tensor, from the file or external data; ``what`` is for messages."""
    head = f"{source}: {what}"
    if tensor.data_type not in helper.get_all_tensor_dtypes():
        raise GraphError([f"{head}: damaged tensor: element type {tensor.data_type} is not known"])
    place = _external_place(tensor, source)
    known = _EXTERNAL.get(place) if place else None
    if known is not None:
        return known
    try:
        array = numpy_helper.to_array(tensor, str(source.parent))
    except Exception as error:  # NumPy, the C++ code and onnx's Python raise errors of many classes
        external = tensor.data_location == TensorProto.EXTERNAL
        problem = "external data cannot be read" if external else "damaged tensor"
        raise GraphError([f"{head}: {problem}: {first_line(error)}"]) from None
    if (beyond := _beyond(tensor, array)) is not None:
        raise GraphError([f"{head}: {beyond}"])
    if array.shape != tuple(tensor.dims):
        raise GraphError([f"{head}: has {list(array.shape)} values, declares {list(tensor.dims)}"])
    if place:
        array.setflags(write=False)
        _EXTERNAL[place] = array
    return array


_EXTERNAL: WeakValueDictionary[tuple[object, ...], Array] = WeakValueDictionary()
"""Arrays of external data in use: several models may share the weights of a file."""


def _external_place(tensor: TensorProto, source: Path) -> tuple[object, ...] | None:
    """Return the file, in its present state, and the place of a tensor's data; None for inline data."""
    if tensor.data_location != TensorProto.EXTERNAL:
        return None
    fields = {entry.key: entry.value for entry in tensor.external_data}
    try:
        found = (source.parent / fields.get("location", "")).stat()
    except (OSError, ValueError):
        return None
    state = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
    return *state, fields.get("offset"), fields.get("length"), tensor.data_type, *tensor.dims


def _beyond(tensor: TensorProto, array: Array) -> str | None:
    """Return a message about an integer outside of the tensor's type, which onnx would truncate."""
    if array.dtype.name not in _SHORT_INTEGERS or not tensor.int32_data:
        return None
    limits, found = np.iinfo(array.dtype), np.array(tensor.int32_data, np.int64)
    wrong = found[(found < limits.min) | (found > limits.max)]
    if not wrong.size:
        return None
    return f"{wrong[0]} is outside {array.dtype.name}, {limits.min} to {limits.max}"


def attributes_of(node: NodeProto) -> dict[str, AttrValue]:
    """Return the attributes that are numbers, strings or lists; :func:`other_attributes` names the rest."""
    return {item.name: _value(item) for item in node.attribute if item.type in _PLAIN}


def other_attributes(node: NodeProto) -> list[str]:
    """Return the names of the attributes that are tensors, graphs or types."""
    return [item.name for item in node.attribute if item.type not in _PLAIN]


_PLAIN = (
    AttributeProto.INT,
    AttributeProto.FLOAT,
    AttributeProto.STRING,
    AttributeProto.INTS,
    AttributeProto.FLOATS,
    AttributeProto.STRINGS,
)


def _value(item: AttributeProto) -> AttrValue:
    value = helper.get_attribute_value(item)
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, int | float):
        return value
    return tuple(v.decode("utf-8", errors="replace") if isinstance(v, bytes) else v for v in value)


def attribute(node: NodeProto, name: str) -> AttributeProto | None:
    """Return the attribute with a name; None if it is absent."""
    return next((item for item in node.attribute if item.name == name), None)


def plain(node: NodeProto, name: str, default: AttrValue) -> AttrValue:
    """Return the value of a plain attribute, or the default."""
    return attributes_of(node).get(name, default)


def onnx_node(op: str, inputs: Iterable[str], outputs: Iterable[str], name: str, **attrs: Any) -> NodeProto:
    """Make a node of ONNX's own operators."""
    return helper.make_node(op, list(inputs), list(outputs), name=name, **attrs)
