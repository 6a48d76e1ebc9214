"""Steps of random graphs that are rarer: operators with operands of their own, control flow, found sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from operator_cases import DRAWS
from random_graphs import GraphDraw

_DRAWN = (
    *("Attention", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "GroupNormalization"),
    *(
        "BitShift",
        "CumProd",
        "ScatterND",
        "GatherND",
        "ReverseSequence",
        "TensorScatter",
        "MaxUnpool",
        "Col2Im",
    ),
    *(
        "GridSample",
        "RoiAlign",
        "DeformConv",
        "LpPool",
        "Det",
        "RMSNormalization",
        "Hardmax",
        "Mod",
        "Resize",
    ),
    *("LSTM", "GRU", "RNN", "QuantizeLinear", "DequantizeLinear", "Einsum"),
)
_OF_PLACES = ("GridSample", "RoiAlign", "DeformConv", "Det")
"""Operators whose results change much with the last digits of an operand."""
_JUMPING = ("DynamicQuantizeLinear", "Hardmax", "Mod")
"""Operators with results that jump: their operands are eighths, which are exact."""


def operator_with_own_operands(draw: GraphDraw) -> None:
    """An operator as its own tests draw it; the first operand is an input of the graph."""
    op = draw.one_of(*_DRAWN)
    if op in _OF_PLACES and draw.dtype != "fp32":
        return
    operands, attrs = DRAWS[op](draw.rng)
    given = {name: array for name, array in operands.items() if array is not None}
    first = next(iter(given))
    names = {}
    for name, array in given.items():
        if array.dtype == np.float32 and (op in _JUMPING or draw.dtype != "fp32"):
            array = np.round(array * 8) / np.float32(8)
        names[name] = draw.input(np.asarray(array)) if name == first else draw.constant(array)
    wanted = [names.get(name, "") for name in operands]
    if not draw.add(op, wanted, exact=op in ("ScatterND", "GatherND", "Hardmax"), **attrs):
        del draw.inputs[names[first]], draw.values[names[first]]
        draw.exact.discard(names[first])


def branch(draw: GraphDraw) -> None:
    """An If whose condition is a constant, an input, or computed; both branches read a value from outside."""
    if (x := draw.take("f")) is None:
        return
    single = [name for name, array in draw.values.items() if array.dtype == np.bool_ and array.size == 1]
    condition = draw.one_of(*single) if single and draw.maybe(0.5) else draw.input(np.array(draw.maybe(0.5)))
    shape = draw.values[x].shape
    kind = helper.make_tensor_value_info("out", TensorProto.FLOAT, shape)
    graphs = {
        name: helper.make_graph([helper.make_node(op, [x], ["out"])], name, [], [kind])
        for name, op in (("then_branch", draw.one_of("Neg", "Tanh")), ("else_branch", "Abs"))
    }
    draw.add("If", [condition], captured=[x], **graphs)


def loop(draw: GraphDraw) -> None:
    """A Loop that adds a value to its carried value in each of some steps, and collects the results."""
    if (x := draw.take("f", exact=True)) is None or draw.values[x].size > 300:
        return
    shape = draw.values[x].shape
    floats = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("was", "now", "each")
    ]
    flag = [helper.make_tensor_value_info(name, TensorProto.BOOL, ()) for name in ("more", "again")]
    step = helper.make_tensor_value_info("step", TensorProto.INT64, ())
    nodes = [
        helper.make_node("Add", ["was", x], ["now"]),
        helper.make_node("Neg", ["now"], ["each"]),
        helper.make_node("Identity", ["more"], ["again"]),
    ]
    body = helper.make_graph(nodes, "body", [step, flag[0], floats[0]], [flag[1], *floats[1:]])
    count = draw.whole(1, 4)
    initial = draw.constant(np.zeros(shape, np.float32))
    draw.add("Loop", [draw.constant(np.array(count)), "", initial], 2, True, captured=[x], body=body)


def found(draw: GraphDraw) -> None:
    """Results of data-dependent size; they are outputs, because few operators take them."""
    if (x := draw.take("fi", exact=True, least=1)) is None or draw.values[x].size > 300:
        return
    before = set(draw.values)
    op = draw.one_of("NonZero", "Compress", "Unique")
    if op == "NonZero":
        draw.add(op, [x])
    elif op == "Compress":
        axis = draw.whole(0, draw.values[x].ndim - 1)
        mask = draw.numbers((draw.values[x].shape[axis],), np.bool_)
        chosen = draw.input(mask) if draw.maybe(0.5) else draw.constant(mask)
        draw.add(op, [x, chosen], exact=True, axis=axis)
    else:
        draw.add(op, [x], 1, True, sorted=1)
    draw.unread |= set(draw.values) - before


def sizes(draw: GraphDraw) -> None:
    """Constants that are computed: ranges, filled tensors, the identity."""
    op = draw.one_of("Range", "ConstantOfShape", "EyeLike", "CenterCropPad", "Dropout")
    if op == "Range":
        ends = [
            draw.constant(np.array(number))
            for number in (draw.whole(-3, 0), draw.whole(1, 9), draw.whole(1, 3))
        ]
        draw.add(op, ends)
    elif op == "ConstantOfShape":
        value: Any = helper.make_tensor("v", TensorProto.FLOAT, [1], [draw.whole(-2, 2)])
        draw.add(op, [draw.ints(draw.whole(1, 3), draw.whole(1, 4))], exact=True, value=value)
    elif op == "EyeLike":
        if x := draw.take("fi", rank=2):
            draw.add(op, [x], exact=True, k=draw.whole(-1, 1))
    elif x := draw.take("f", least=1):
        shape = [draw.whole(1, 6) for _ in draw.values[x].shape]
        draw.add(op, [x, draw.ints(*shape)] if op == "CenterCropPad" else [x], exact=True)


RARE = (*(operator_with_own_operands,) * 4, branch, loop, found, sizes, sizes)
