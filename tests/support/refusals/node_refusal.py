"""One node that must be refused, with the message, for tables of refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from compiler.evaluation.infer import build_graph
from compiler.graph import AttrValue, Description, Graph, GraphError, Node, Tensor


@dataclass
class Refusal:
    """One node. An input is a float32 shape, a (dtype, shape) pair, a constant (list, array) or None."""

    op: str
    inputs: list[Any]
    attrs: Mapping[str, AttrValue]
    message: str
    opset: int = 20
    outputs: tuple[str, ...] = ("y",)

    def build(self) -> Graph:
        inputs, constants, names = [], {}, []
        for index, item in enumerate(self.inputs):
            name = "" if item is None else f"i{index}"
            names.append(name)
            if isinstance(item, np.ndarray):
                constants[name] = item
            elif isinstance(item, list):
                constants[name] = np.array(item, np.int64)
            elif item is not None:
                dtype, shape = item if item and isinstance(item[0], str) else ("float32", item)
                inputs.append(Tensor(name, dtype, shape))
        node = Node(self.op, "n", tuple(names), self.outputs, self.attrs)
        return build_graph(Description("g", "g", self.opset, tuple(inputs), ("y",), constants, (node,)))


X = (1, 4, 8, 8)
W = (6, 4, 3, 3)


def identity(refusal: Refusal) -> str:
    return f"{refusal.op}-{refusal.message[:40]}"


def check_refused(refusal: Refusal) -> None:
    with pytest.raises(GraphError) as caught:
        refusal.build()
    assert str(caught.value) == f"g: node 'n' ({refusal.op}): {refusal.message}"
    assert "\n" not in str(caught.value)
