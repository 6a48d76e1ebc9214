"""Integers of 16 bits and unsigned ones of 32, quantised to 16 bits too: against NumPy and onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper

from compiler.frontend.onnx.importer import graph_of_bytes
from compiler.graph import Array, GraphError
from control_models import constant, made, node
from onnx_calls import assert_model
from onnx_models import value

TYPES = [np.uint16, np.int16, np.uint32]
RNG = np.random.default_rng(16)


def drawn(dtype: Any, *shape: int) -> Array:
    """Any numbers of a type, including its limits."""
    limits = np.iinfo(dtype)
    found = RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)
    found.reshape(-1)[:2] = limits.min, limits.max
    return found


def number(dtype: Any) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def one_model(nodes: Any, inputs: dict[str, Array], outputs: dict[str, Any], **known: Any) -> Any:
    declared = [value(name, array.shape, array.dtype) for name, array in inputs.items()]
    results = [value(name, None, dtype) for name, dtype in outputs.items()]
    return made(nodes, declared, results, [constant(name, array) for name, array in known.items()])


@pytest.mark.parametrize("dtype", TYPES)
def test_casts(dtype: Any) -> None:
    """From and to other types; numbers that do not fit wrap."""
    others = [np.float32, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.bool_]
    x, f = drawn(dtype, 3, 21), RNG.uniform(0, 30000, (3, 21)).astype(np.float32)
    wide = drawn(np.int64, 3, 21)
    nodes = [node("Cast", ["x"], [f"to{at}"], to=number(other)) for at, other in enumerate(others)]
    nodes += [node("Cast", [name], [f"from_{name}"], to=number(dtype)) for name in ("f", "wide")]
    outputs = {f"to{at}": other for at, other in enumerate(others)} | {"from_f": dtype, "from_wide": dtype}
    expected = {f"to{at}": x.astype(other) for at, other in enumerate(others)}
    expected |= {"from_f": f.astype(dtype), "from_wide": wide.astype(dtype)}
    inputs = {"x": x, "f": f, "wide": wide}
    assert_model(one_model(nodes, inputs, outputs), inputs, expected)


PAIRS: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
    "BitwiseXor": np.bitwise_xor,
    "Less": np.less,
    "GreaterOrEqual": np.greater_equal,
    "Equal": np.equal,
    "Mod": np.mod,
}


@pytest.mark.parametrize("dtype", TYPES)
def test_pairs(dtype: Any) -> None:
    x, z = drawn(dtype, 3, 21), drawn(dtype, 1, 21)
    x[1], z[z == 0] = z, 3
    nodes = [node(op, ["x", "z"], [op]) for op in PAIRS]
    nodes += [node("Div", ["x", "z"], ["Div"]), node("Where", ["Less", "x", "z"], ["Where"])]
    expected = {op: compute(x, z) for op, compute in PAIRS.items()}
    expected["Div"] = np.trunc(x / z.astype(np.float64)).astype(np.int64).astype(dtype)
    expected["Where"] = np.where(x < z, x, z)
    outputs = {name: array.dtype for name, array in expected.items()}
    assert_model(one_model(nodes, {"x": x, "z": z}, outputs), {"x": x, "z": z}, expected, tiles=3)


@pytest.mark.parametrize("dtype", TYPES)
def test_movement(dtype: Any) -> None:
    x, places = drawn(dtype, 2, 33, 40), np.array([1, -2])
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        node("Gather", ["x", "i"], ["g"], axis=1),
        node("Concat", ["x", "t2"], ["c"], axis=1),
        node("Transpose", ["t"], ["t2"], perm=[0, 2, 1]),
        node("Slice", ["x", "one", "end", "two"], ["s"]),
        node("Pad", ["s", "pads", "seven"], ["p"]),
        node("ArgMax", ["x"], ["a"], axis=2, keepdims=0),
        node("TopK", ["x", "three"], ["k", "at"]),
        node("Expand", ["s2", "wide"], ["e"]),
        node("Slice", ["x", "one", "two", "two"], ["s2"]),
    ]
    ends = {"one": [1], "two": [2], "end": [39], "three": [3], "wide": [2, 33, 4]}
    order = np.argsort(-x.astype(np.int64), axis=2, kind="stable")[..., :3]
    expected = {
        "t": x.transpose(0, 2, 1),
        "g": x[:, places],
        "c": np.concatenate([x, x], 1),
        "s": x[:, :, 1:39],
        "p": np.pad(x[:, :, 1:39], ((1, 0), (0, 0), (0, 2)), constant_values=7),
        "a": x.argmax(2),
        "k": np.take_along_axis(x, order, 2),
        "at": order,
        "e": np.broadcast_to(x[:, :, 1:2], (2, 33, 4)),
    }
    outputs = {name: array.dtype for name, array in expected.items()}
    nodes.sort(key=lambda each: each.output[0] in ("c", "e"))
    known = {**ends, "pads": [1, 0, 0, 0, 0, 2], "seven": np.array(7, dtype)}
    inputs = {"x": x, "i": places}
    assert_model(one_model(nodes, inputs, outputs, **known), inputs, expected)


def test_sums_of_unsigned_numbers_wrap() -> None:
    x = drawn(np.uint32, 3, 40)
    nodes = [
        node(op, ["x", "one"], [op], keepdims=0) for op in ("ReduceSum", "ReduceL1", "ReduceMax", "ReduceMin")
    ]
    nodes.append(node("CumSum", ["x", "last"], ["CumSum"]))
    total = x.sum(1, dtype=np.uint32)
    expected = {"ReduceSum": total, "ReduceL1": total, "ReduceMax": x.max(1), "ReduceMin": x.min(1)}
    expected["CumSum"] = x.cumsum(1, dtype=np.uint32)
    model = one_model(nodes, {"x": x}, dict.fromkeys(expected, np.uint32), one=[1], last=1)
    assert_model(model, {"x": x}, expected)


# --- quantising to 16 bits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint16, np.int16])
@pytest.mark.parametrize(
    ("shape", "scale", "axis", "attrs"),
    [
        ((3, 21), 1e-4, 1, {}),
        ((3, 21), [1e-4, 2.0**-12, 1e-3], 0, {}),
        ((2, 3, 8), [1e-4, 3e-4, 1e-3], -2, {}),
        ((3, 8), [[1e-4, 2e-4, 3e-4, 4e-4]] * 3, 1, {"block_size": 2}),
    ],
)
def test_quantised(dtype: Any, shape: tuple[int, ...], scale: Any, axis: int, attrs: dict[str, Any]) -> None:
    """Halves are rounded to the even integer, and numbers out of range to the nearest limit."""
    x = (RNG.standard_normal(shape) * 3).astype(np.float32)
    x.reshape(-1)[:4] = 1e9, -1e9, 2.5 * 2.0**-12, -1.5 * 2.0**-12
    scales = np.array(scale, np.float32)
    zeros = np.full(scales.shape, 33000 if dtype is np.uint16 else -7, dtype)
    more = attrs | ({"axis": axis} if scales.ndim else {})
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"], **more)]
    nodes.append(node("DequantizeLinear", ["q", "s", "z"], ["y"], **more))
    model = one_model(nodes, {"x": x}, {"q": dtype, "y": np.float32}, s=scales, z=zeros)
    assert_model(model, {"x": x}, tolerance=0)


@pytest.mark.parametrize("dtype", [np.uint16, np.int16])
@pytest.mark.parametrize("compute", ["fp32", "fp16", "bf16"])
def test_between_floats(dtype: Any, compute: str) -> None:
    """Scales and zero points that are inputs, half floats, known weights, a type without a zero point."""
    x = np.round(RNG.standard_normal((3, 20)) * 16).astype(np.float32) / np.float32(16)
    w = RNG.integers(0, 64, (20, 4)).astype(dtype)
    inputs = {"x": x, "s": np.float32([2.0**-9]), "z": np.array([5], dtype), "h": x.astype(np.float16)}
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("QuantizeLinear", ["h", "half"], ["qh"], output_dtype=number(dtype)),
        node("DequantizeLinear", ["qh", "half"], ["yh"]),
        node("DequantizeLinear", ["w", "unit"], ["wf"]),
        node("MatMul", ["x", "wf"], ["m"]),
    ]
    outputs = {"q": dtype, "qh": dtype, "yh": np.float16, "m": np.float32}
    known = {"half": np.float16(2.0**-7), "w": w, "unit": np.float32(2.0**-6)}
    model = one_model(nodes, inputs, outputs, **known)
    assert_model(model, inputs, dtype=compute, tolerance=0 if compute == "fp32" else 1e-2)


@pytest.mark.parametrize(
    ("dtype", "op", "message"),
    [
        (np.uint64, "Identity", "input 'x' is uint64; supported are float32"),
        (np.uint16, "Abs", "operator Abs (node 'n'): input X ('x') is uint16; allowed are float32"),
        (np.uint32, "Sign", "operator Sign (node 'n'): input X ('x') is uint32; allowed are float32"),
    ],
)
def test_refused(dtype: Any, op: str, message: str) -> None:
    model = one_model([node(op, ["x"], ["y"], "n")], {"x": np.zeros(3, dtype)}, {"y": dtype})
    with pytest.raises(GraphError) as found:
        graph_of_bytes(model.SerializeToString(), "model")
    assert message in str(found.value) and "\n" not in str(found.value)
