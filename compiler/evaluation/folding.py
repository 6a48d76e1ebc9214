"""Constant folding: the results of nodes on constants, and the nodes that outputs depend on."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from compiler.graph import NEWEST_OPSET, Array, Node
from tx8isa.tools.budget import LOOPED_IN_A_STEP, MOVED_IN_A_STEP

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

    from tx8isa.tools.budget import Budget

_FEW = 65536
"""Most elements of an operand whose values are used to infer shapes."""
_PARTS = 8
"""Most elements of a result whose size data decides, for each element of the operands: places of elements
have an index for each axis."""


class FoldingError(Exception):
    """Raised if a node on constants cannot be evaluated; the text gives the reason."""


def evaluated(
    node: NodeProto, operands: Sequence[Array | None], budget: Budget, copies: bool = False
) -> list[Array]:
    """The results of a node of the newest operator set on constants, by ONNX's reference evaluator.

    ``copies``: it only moves elements. BudgetError when the results are beyond the budget.
    """
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    names = [f"i{at}" if array is not None else "" for at, array in enumerate(operands)]
    alone = type(node)()
    alone.CopyFrom(node)
    alone.input[:] = names
    alone.output[:] = [f"o{at}" if name else "" for at, name in enumerate(node.output)]
    infos = [helper.make_value_info(name, helper.make_tensor_type_proto(1, None)) for name in names if name]
    results = [
        helper.make_value_info(name, helper.make_tensor_type_proto(1, None)) for name in alone.output if name
    ]
    graph = helper.make_graph([alone], "alone", infos, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", NEWEST_OPSET)])
    feeds = {name: array for name, array in zip(names, operands, strict=True) if name and array is not None}
    _take(budget, model, feeds, copies)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = ReferenceEvaluator(model).run(None, feeds)
    except Exception as error:  # the evaluators of operators raise errors of many classes
        raise FoldingError(" ".join(str(error).split()) or type(error).__name__) from error
    by_name = dict(zip([name for name in alone.output if name], found, strict=True))
    arrays = [np.asarray(by_name[name]) if name else np.zeros(0) for name in alone.output]
    if any(array.dtype == object for array in arrays):
        raise FoldingError("its result is not a tensor of numbers")
    return arrays


def _take(budget: Budget, model: ModelProto, feeds: Mapping[str, Array], copies: bool) -> None:
    """Take the results' bytes from the budget, by shapes that ONNX infers, or bounds if data decide shapes.

    Unless it ``copies``, a node takes time too, because ONNX's evaluator computes with loops in Python.
    """
    from onnx import TensorProto, helper, numpy_helper, shape_inference

    alone = type(model)()
    alone.CopyFrom(model)
    known = [numpy_helper.from_array(array, name) for name, array in feeds.items() if array.size <= _FEW]
    alone.graph.initializer.extend(known)
    for info in alone.graph.input:
        array = feeds[info.name]
        kind = helper.np_dtype_to_tensor_dtype(array.dtype) if array.dtype != object else TensorProto.STRING
        info.CopyFrom(helper.make_tensor_value_info(info.name, kind, array.shape))
    for info in alone.graph.output:
        info.type.Clear()
    try:
        inferred = shape_inference.infer_shapes(alone).graph.output
    except Exception as error:  # the C++ code raises errors of many classes
        raise FoldingError(" ".join(str(error).split())) from None
    given = sum(array.size for array in feeds.values())
    size = elements = 0
    for info in inferred:
        dims = info.type.tensor_type.shape.dim
        whole = info.type.tensor_type.HasField("shape") and all(dim.HasField("dim_value") for dim in dims)
        count = math.prod(dim.dim_value for dim in dims) if whole else _PARTS * given
        kind = info.type.tensor_type.elem_type
        width = helper.tensor_dtype_to_np_dtype(kind).itemsize if kind else 8
        size, elements = size + count * width, elements + count
    budget.hold(size)
    budget.work((given + elements) // (MOVED_IN_A_STEP if copies else LOOPED_IN_A_STEP))


def needed(nodes: Iterable[Node], outputs: Iterable[str]) -> tuple[list[Node], set[str]]:
    """The nodes (in topological order) that the outputs depend on, and the names that those nodes read."""
    wanted = set(outputs)
    kept = []
    for node in reversed(list(nodes)):
        if any(name in wanted for name in node.outputs if name):
            kept.append(node)
            wanted.update(name for name in node.inputs if name)
    return kept[::-1], wanted


def selected(constants: Mapping[str, Array], names: set[str]) -> dict[str, Array]:
    """The constants with some names."""
    return {name: array for name, array in constants.items() if name in names}
