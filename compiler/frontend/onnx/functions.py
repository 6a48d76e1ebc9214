"""The bodies of operators that ONNX itself defines by simpler ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import FunctionProto, NodeProto, TypeProto, defs, helper

from compiler.graph import DTYPES, NEWEST_OPSET, Tensor


def body_of(node: NodeProto, inputs: Sequence[Tensor | None]) -> tuple[FunctionProto, int] | None:
    """Return the body of a node of the newest operator set, with attributes filled in, and its operator set.

    ``inputs``: the operands, None for an omitted one. None for an operator that is not defined by others.
    """
    if not defs.has(node.op_type, NEWEST_OPSET, ""):
        return None
    schema: Any = defs.get_schema(node.op_type, NEWEST_OPSET, "")  # the type stubs lack functions
    function = FunctionProto()
    if schema.has_function:
        version = _newest(schema.function_opset_versions)
        function.ParseFromString(schema.get_function_with_opset_version(version))
    elif schema.has_context_dependent_function:
        version = _newest(schema.context_dependent_function_opset_versions)
        types = [_type(tensor).SerializeToString() for tensor in inputs]
        data = schema.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), types
        )
        function.ParseFromString(data)
    if not function.node:
        return None
    for part in function.node:
        _fill_in(part, node, schema)
    own = [item.version for item in function.opset_import if item.domain == ""]
    return function, int(own[0]) if own else version


def _newest(versions: Sequence[int]) -> int:
    return max(version for version in versions if version <= NEWEST_OPSET)


def _type(tensor: Tensor | None) -> TypeProto:
    if tensor is None:
        return TypeProto()
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(DTYPES[tensor.dtype]), tensor.shape)


def _fill_in(part: NodeProto, caller: NodeProto, schema: Any) -> None:
    """Give attributes that refer to an attribute of the caller its value, or its default."""
    given = {item.name: item for item in caller.attribute}
    for index in reversed(range(len(part.attribute))):
        item = part.attribute[index]
        wanted = item.ref_attr_name
        if not wanted:
            continue
        default = schema.attributes[wanted].default_value if wanted in schema.attributes else None
        value = given.get(wanted, default)
        name = item.name
        if value is None or not value.name:
            del part.attribute[index]
        else:
            item.CopyFrom(value)
            item.name = name
