"""Constant folding: the results of nodes on constants, and the nodes that outputs depend on."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from compiler.graph import NEWEST_OPSET, Array, Node

if TYPE_CHECKING:
    from onnx import NodeProto

_RANDOM = (
    *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
    *("Multinomial", "Bernoulli", "Dropout"),
)
"""Operators whose operands do not determine their result."""


class FoldingError(Exception):
    """A node on constants cannot be evaluated; the text says why."""


def is_determined(op: str) -> bool:
    """Whether equal operands always give equal results."""
    return op not in _RANDOM


def evaluated(node: NodeProto, operands: Sequence[Array | None]) -> list[Array]:
    """The results of a node of the newest operator set on constants, by ONNX's reference evaluator."""
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
    feeds = {name: array for name, array in zip(names, operands, strict=True) if name}
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
