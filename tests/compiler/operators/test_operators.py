"""Random calls of every operator against onnxruntime and ONNX's shape inference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.evaluation.reference import run_reference
from compiler.graph import NEWEST_OPSET, GraphError
from onnx_oracle import Case, inferred_by_onnx, run_evaluator, run_onnxruntime

Draw = Callable[[st.SearchStrategy[Any]], Any]


def check(case: Case, tolerance: float = 1e-5, *, evaluator: bool = True, inferred: bool = True) -> None:
    """Shape and dtype as ONNX infers them, values as onnxruntime and ONNX's own evaluator compute them.

    Shapes are always compared with onnxruntime's too. A test switches an oracle off only if the oracle
    contradicts the specification, and gives the reason.
    """
    graph, model = case.graph(), case.model()
    output = graph.outputs[0]
    if inferred:
        assert (output.dtype, output.shape) == inferred_by_onnx(model)
    expected = run_onnxruntime(model, case.fed())
    got = run_reference(graph, case.fed())["out"]
    assert got.shape == expected.shape == output.shape
    if evaluator:
        np.testing.assert_allclose(got, run_evaluator(model, case.fed()), rtol=tolerance, atol=tolerance)
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == expected.dtype


def normal(draw: Draw, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.standard_normal(shape).astype(np.float32)


def sizes(count: int, low: int, high: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*[st.integers(low, high)] * count)


@st.composite
def windows(draw: Draw, pooling: bool) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """An image, a kernel, and attributes of the window."""
    rank = draw(st.integers(1, 2))
    image, kernel = draw(sizes(rank, 1, 9)), draw(sizes(rank, 1, 4))
    attrs: dict[str, Any] = {"strides": draw(sizes(rank, 1, 3))}
    auto = draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if auto == "NOTSET":
        attrs["pads"] = draw(sizes(2 * rank, 0, 2))
        attrs["dilations"] = draw(sizes(rank, 1, 3))
        if pooling:
            attrs["ceil_mode"] = draw(st.integers(0, 1))
    else:
        attrs["auto_pad"] = auto
    return image, kernel, attrs


def graph_or_reject(case: Case) -> None:
    """Skip windows that the rules refuse; their messages are tested elsewhere."""
    try:
        case.graph()
    except GraphError as error:
        assume("window" not in str(error) and "kernel" not in str(error))
        raise


@settings(max_examples=60)
@given(st.data())
def test_conv(data: st.DataObject) -> None:
    image, kernel, attrs = data.draw(windows(pooling=False))
    group, per_group, maps = data.draw(sizes(3, 1, 3))
    operands = {
        "x": normal(data.draw, (data.draw(st.integers(1, 2)), group * per_group, *image)),
        "w": normal(data.draw, (group * maps, per_group, *kernel)),
    }
    if data.draw(st.booleans()):
        operands["b"] = normal(data.draw, (group * maps,))
    case = Case("Conv", operands, {**attrs, "group": group}, opset=data.draw(st.sampled_from([17, 22])))
    graph_or_reject(case)
    check(case)


@settings(max_examples=60)
@given(st.sampled_from(["MaxPool", "AveragePool"]), st.data())
def test_pool(op: str, data: st.DataObject) -> None:
    image, kernel, attrs = data.draw(windows(pooling=True))
    if op == "AveragePool":
        attrs["count_include_pad"] = data.draw(st.integers(0, 1))
    # onnxruntime computes a negative padding for SAME when the stride skips elements, and then refuses it.
    assume("auto_pad" not in attrs or all(k >= s for k, s in zip(kernel, attrs["strides"], strict=True)))
    # It also limits the padding by the kernel without its dilation.
    assume(all(pad < k for pad, k in zip(attrs.get("pads", ()), kernel * 2, strict=False)))
    x = normal(data.draw, (*data.draw(sizes(2, 1, 2)), *image))
    case = Case(op, {"x": x}, {**attrs, "kernel_shape": kernel}, opset=19)
    graph_or_reject(case)
    # The evaluator has a SAME padding of its own. With ceil_mode, ONNX's inference keeps windows that start
    # in the padding at the end; the specification ("are ignored") and onnxruntime drop them.
    check(case, evaluator=False, inferred=not attrs.get("ceil_mode"))


@settings(max_examples=40)
@given(st.data())
def test_gemm(data: st.DataObject) -> None:
    m, k, n = data.draw(sizes(3, 1, 6))
    trans_a, trans_b = data.draw(sizes(2, 0, 1))
    operands = {
        "a": normal(data.draw, (k, m) if trans_a else (m, k)),
        "b": normal(data.draw, (n, k) if trans_b else (k, n)),
    }
    shape = data.draw(st.sampled_from([None, (), (n,), (1, n), (m, 1), (m, n)]))
    if shape is not None:
        operands["c"] = normal(data.draw, shape)
    attrs = {"transA": trans_a, "transB": trans_b, "alpha": 0.5, "beta": -2.0}
    check(Case("Gemm", operands, attrs))


@settings(max_examples=60)
@given(st.data())
def test_matmul(data: st.DataObject) -> None:
    m, k, n = data.draw(sizes(3, 1, 4))
    batch = data.draw(sizes(2, 1, 3))
    cut_a, cut_b = data.draw(sizes(2, 0, 2))
    thin = tuple(size if data.draw(st.booleans()) else 1 for size in batch)
    a = (k,) if data.draw(st.booleans()) and not cut_a else (*batch[cut_a:], m, k)
    b = (k,) if data.draw(st.booleans()) and not cut_b else (*thin[cut_b:], k, n)
    check(Case("MatMul", {"a": normal(data.draw, a), "b": normal(data.draw, b)}))


@settings(max_examples=60)
@given(st.sampled_from(["Add", "Sub", "Mul", "Div", "Max", "Min"]), st.data())
def test_broadcasting_arithmetic(op: str, data: st.DataObject) -> None:
    full = data.draw(sizes(data.draw(st.integers(0, 4)), 1, 4))
    count = data.draw(st.integers(1, 3)) if op in ("Max", "Min") else 2
    operands = {}
    for index in range(count):
        kept = full[data.draw(st.integers(0, len(full))) :]
        shape = tuple(size if data.draw(st.booleans()) else 1 for size in kept)
        operands[f"x{index}"] = normal(data.draw, shape)
    check(Case(op, operands))


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "int8", "uint8"])
def test_integer_arithmetic(op: str, dtype: str) -> None:
    info = np.iinfo(dtype)
    values = np.array([info.min, info.min + 1, 0, 1, 7, 100, info.max], dtype)
    a, b = values.repeat(7), np.tile(values, 7)
    if op == "Div":
        with np.errstate(over="ignore"):
            usable = (b != 0) & ~((a == info.min) & (b == -1 if info.min else False))
        a, b = a[usable], b[usable]
    case = Case(op, {"a": a, "b": b})
    got = run_reference(case.graph(), case.fed())["out"]
    exact = [exact_integer(op, int(x), int(y)) for x, y in zip(a, b, strict=True)]
    span = info.max - info.min + 1
    wrapped = [(value - info.min) % span + info.min for value in exact]
    assert got.tolist() == wrapped
    assert got.dtype == np.dtype(dtype)


def exact_integer(op: str, x: int, y: int) -> int:
    if op == "Div":
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return {"Add": x + y, "Sub": x - y, "Mul": x * y, "Max": max(x, y), "Min": min(x, y)}[op]


@settings(max_examples=60)
@given(st.sampled_from(["ReduceSum", "ReduceMean", "ReduceMax"]), st.sampled_from([17, 18, 20]), st.data())
def test_reductions(op: str, opset: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, 4))
    operands = {"x": normal(data.draw, data.draw(sizes(rank, 1, 4)))}
    axes = data.draw(st.lists(st.integers(0, rank - 1), unique=True)) if rank else []
    axes = [axis - rank if data.draw(st.booleans()) else axis for axis in axes]
    attrs: dict[str, Any] = {"keepdims": data.draw(st.integers(0, 1))}
    if opset >= 18 or op == "ReduceSum":
        attrs["noop_with_empty_axes"] = data.draw(st.integers(0, 1))
        if data.draw(st.booleans()):
            operands["axes"] = np.array(axes, np.int64)
    elif axes:
        attrs["axes"] = tuple(axes)
    check(Case(op, operands, attrs, opset=opset))


@settings(max_examples=40)
@given(st.data())
def test_slice(data: st.DataObject) -> None:
    shape = data.draw(sizes(data.draw(st.integers(1, 3)), 1, 5))
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    steps = [data.draw(st.sampled_from([-3, -2, -1, 1, 2, 3])) for _ in axes]
    # "To the very end" is INT_MAX forward and INT_MIN backward; onnxruntime has a meaning of its own for the
    # other two combinations.
    far = [2**31 - 1 if step > 0 else -(2**31) for step in steps]
    vectors = [[data.draw(st.sampled_from([*range(-7, 8), end])) for end in far] for _ in range(2)]
    names = ("starts", "ends", "axes", "steps")
    operands = {name: np.array(v, np.int64) for name, v in zip(names, [*vectors, axes, steps], strict=True)}
    # The evaluator slices like Python, which takes nothing where ONNX clamps a start below zero to zero.
    check(Case("Slice", {"x": normal(data.draw, shape), **operands}), evaluator=False)


@settings(max_examples=40)
@given(st.data())
def test_pad(data: st.DataObject) -> None:
    shape = data.draw(sizes(data.draw(st.integers(1, 3)), 3, 5))
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    pads = data.draw(sizes(2 * len(axes), -1, 3))
    operands = {"x": normal(data.draw, shape), "pads": np.array(pads, np.int64)}
    operands |= {"value": np.array(1.5, np.float32), "axes": np.array(axes, np.int64)}
    check(Case("Pad", operands), evaluator=min(pads) >= 0)  # it calls numpy.pad, which refuses negative ones


@settings(max_examples=40)
@given(st.sampled_from(["Softmax", "LayerNormalization", "Flatten", "Transpose", "Concat"]), st.data())
def test_axis_operators(op: str, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    shape = data.draw(sizes(rank, 1, 4))
    axis = data.draw(st.integers(-rank, rank - 1))
    operands, attrs = {"x": normal(data.draw, shape)}, {"axis": axis}
    if op == "LayerNormalization":
        operands |= {name: normal(data.draw, shape[axis % rank :]) for name in ("scale", "bias")}
    elif op == "Transpose":
        attrs = {"perm": tuple(data.draw(st.permutations(range(rank))))}
    elif op == "Concat":
        longer = list(shape)
        longer[axis] = data.draw(st.integers(1, 3))
        operands["y"] = normal(data.draw, tuple(longer))
    # Values are of order one, but a layer of one element or few has a variance near epsilon.
    check(Case(op, operands, attrs), tolerance=1e-3 if op == "LayerNormalization" else 1e-5)


@settings(max_examples=40)
@given(st.sampled_from(["Relu", "LeakyRelu", "Sigmoid", "Tanh", "Exp", "Erf", "Gelu", "Identity"]), st.data())
def test_activations(op: str, data: st.DataObject) -> None:
    x = normal(data.draw, data.draw(sizes(data.draw(st.integers(0, 3)), 1, 4)))
    attrs: dict[str, dict[str, Any]] = {
        "Gelu": {"approximate": data.draw(st.sampled_from(["none", "tanh"]))},
        "LeakyRelu": {"alpha": 0.3},
    }
    check(Case(op, {"x": np.asarray(x * 3, np.float32)}, attrs.get(op, {})), tolerance=1e-4)


@settings(max_examples=30)
@given(st.data())
def test_batch_normalization(data: st.DataObject) -> None:
    shape = data.draw(sizes(data.draw(st.integers(2, 4)), 1, 4))
    operands = {"x": normal(data.draw, shape)}
    operands |= {name: normal(data.draw, shape[1:2]) for name in ("scale", "bias", "mean")}
    operands["var"] = np.abs(normal(data.draw, shape[1:2])) + np.float32(0.1)
    check(Case("BatchNormalization", operands, {"epsilon": 1e-3}, opset=17), tolerance=1e-4)


@pytest.mark.parametrize("opset", [17, NEWEST_OPSET])
@pytest.mark.parametrize(
    ("shape", "wanted", "allowzero", "expected"),
    [
        ((2, 3, 4), (4, 6), 0, (4, 6)),
        ((2, 3, 4), (0, -1), 0, (2, 12)),
        ((2, 3, 4), (-1,), 0, (24,)),
        ((2, 3, 4), (0, 0, 2, 2), 0, (2, 3, 2, 2)),
        ((1,), (), 0, ()),
        ((0, 3), (3, 0), 1, (3, 0)),
    ],
)
def test_reshape(
    opset: int, shape: tuple[int, ...], wanted: tuple[int, ...], allowzero: int, expected: tuple[int, ...]
) -> None:
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    case = Case("Reshape", {"x": x, "s": np.array(wanted, np.int64)}, {"allowzero": allowzero}, opset=opset)
    graph = case.graph()
    assert graph.outputs[0].shape == expected
    np.testing.assert_array_equal(run_reference(graph, {"x": x})["out"], x.reshape(expected))
