"""Softmax, LayerNormalization and reductions on the emulated chip."""

from __future__ import annotations

import numpy as np
import pytest

import emulator
from compiler.driver import compile_graph
from compiler.graph import Array, Graph, GraphError
from compiler.tools.run import execute
from compiler_harness import SMALL_SPM, assert_right, draw, graph, ints, one, small_machine

DTYPES = ("fp32", "tf32", "fp16", "bf16")
Shape = tuple[int, ...]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((19, 10), -1),
        ((2, 3, 37, 37), -1),
        ((5, 12, 7), 1),
        ((70,), 0),
        ((3, 5, 66), 0),
        ((3, 4, 4), 1),
        ((1, 1), 1),
    ],
)
def test_softmax(shape: Shape, axis: int, dtype: str) -> None:
    assert_right(one("Softmax", [shape], axis=axis), dtype, scale=4.0)


def test_softmax_of_difficult_rows() -> None:
    """Equal values, one giant, far below zero, a mask of minus infinity."""
    x = draw(6, 40)
    x[0] = 3.0
    x[1, 5] = 60000.0
    x[2] -= 20000.0
    x[3, 1:] = -np.inf
    x[4, ::2] = -np.inf
    assert_right(one("Softmax", [(6, 40)]), "fp16", inputs={"a": x})


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("op", ["Softmax", "LayerNormalization", "RMSNormalization"])
def test_axes_that_do_not_fit_are_swept_in_segments(op: str, dtype: str) -> None:
    parameters = {"Softmax": "", "LayerNormalization": "sb", "RMSNormalization": "s"}[op]
    made = graph(
        [(op, ["x", *parameters], ["y"], {})],
        {"x": (3, 3001)},
        dict.fromkeys(parameters, draw(3001)),
        opset=23,
    )
    assert_right(made, dtype, 3, small_machine())


def test_softmax_over_an_outer_axis_in_segments() -> None:
    assert_right(one("Softmax", [(3001, 5)], axis=0), "fp32", 3, small_machine())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 19, 48), (5, 770), (1, 33), (65, 4)])
def test_layer_normalization(shape: Shape, dtype: str) -> None:
    assert_right(one("LayerNormalization", [shape], {"s": draw(shape[-1]), "b": draw(shape[-1])}), dtype)


def rms(shape: Shape, scale: Array) -> Graph:
    """RMSNormalization over the last axis."""
    return graph([("RMSNormalization", ["a", "s"], ["y"], {})], {"a": shape}, {"s": scale}, opset=23)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 19, 48), (5, 770), (1, 33), (65, 4), (1100, 20)])
def test_rms_normalization(shape: Shape, dtype: str) -> None:
    assert_right(rms(shape, draw(shape[-1])), dtype)


def test_rms_normalization_over_several_axes_with_a_computed_scale() -> None:
    node = ("RMSNormalization", ["x", "s"], ["y"], {"axis": 1, "epsilon": 0.5})
    assert_right(graph([node], {"x": (3, 4, 40), "s": (40,)}, opset=23), "fp16")


@pytest.mark.parametrize("channels", [96, 3001, 5000])
def test_normalizations_round_inputs_and_outputs_of_fp32_themselves(channels: int) -> None:
    """Rows that fit, rows in lanes because few fit, and rows too long for the engine."""
    machine = None if channels == 96 else small_machine(0x20000)
    program = assert_right(
        one("LayerNormalization", [(9, channels)], {"s": draw(channels)}), "bf16", 4, machine
    )
    assert program.text.count(".node") == 1


def difficult_rows() -> Array:
    """No variance, a mean far from zero, tiny values, one outlier."""
    x = draw(5, 130)
    x[0] = 2.5
    x[1] = 1000 + np.round(x[1] * 2) / 2
    x[2] *= 2.0**-8
    x[3, 0] = 2000.0
    return x


def test_layer_normalization_of_difficult_rows() -> None:
    made = one("LayerNormalization", [(5, 130)], {"s": draw(130), "b": draw(130)})
    assert_right(made, "fp16", inputs={"a": difficult_rows()})


def test_rms_normalization_of_difficult_rows() -> None:
    """Squares beyond FP16, and rows of equal values, whose squares are all rounded in the same direction."""
    x = difficult_rows()
    x[4] = 1.2998
    assert_right(rms((5, 130), draw(130)), "fp16", inputs={"a": x})


def test_a_scale_that_varies_along_rows_is_refused() -> None:
    made = rms((5, 8), draw(5, 1))
    with pytest.raises(GraphError, match="vary along the normalized axes alone; found 's' \\[5, 1\\]"):
        assert_right(made, "fp16")


@pytest.mark.parametrize(
    ("scale", "shift"), [((4, 5), (5,)), ((5,), ()), ((1, 4, 5), (1, 1, 1)), ((4, 1), (4, 5))]
)
@pytest.mark.parametrize("constant", [True, False])
def test_parameters_of_a_layer_normalization(scale: Shape, shift: Shape, constant: bool) -> None:
    node = ("LayerNormalization", ["x", "s", "b"], ["y"], {"axis": 1})
    inputs: dict[str, Shape] = {"x": (3, 4, 5)}
    constants = {}
    if constant:
        constants = {"s": np.asarray(draw(*scale), np.float32), "b": np.asarray(draw(*shift), np.float32)}
    else:
        inputs |= {"s": scale, "b": shift}
    assert_right(graph([node], inputs, constants), "fp32")


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceMax"])
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("axes", [(1,), (0, 2), (2,), (0, 1, 2), (0,), (-1, -2)])
def test_reductions(op: str, axes: Shape, keep: int) -> None:
    assert_right(one(op, [(4, 9, 33)], {"axes": ints(*axes)}, keepdims=keep), "fp16")


@pytest.mark.parametrize("dtype", DTYPES)
def test_formats_of_a_reduction(dtype: str) -> None:
    assert_right(one("ReduceMean", [(3, 5, 66)], {"axes": ints(1)}), dtype)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax"])
def test_long_reductions(op: str) -> None:
    assert_right(one(op, [(9000,)]), "fp32", 2)
    assert_right(one(op, [(3, 4001, 3)], {"axes": ints(1)}), "fp16", 2, small_machine())


def test_sums_that_half_precision_could_not_hold() -> None:
    x = np.full((2, 3000), 100.0, np.float32)
    assert_right(one("ReduceMean", [(2, 3000)], {"axes": ints(1)}), "fp16", inputs={"a": x})


def test_a_reduction_over_no_axes_is_a_copy() -> None:
    assert_right(one("ReduceSum", [(3, 4)], noop_with_empty_axes=1), "fp32")


def test_axes_of_length_one() -> None:
    assert_right(one("ReduceMax", [(3, 1, 4)], {"axes": ints(1)}, keepdims=0), "fp32")


_FAR: dict[str, tuple[str, Shape, tuple[int, ...], dict[str, object]]] = {
    "few rows": ("LayerNormalization", (4, 64), (1,), {"axis": -1}),
    "odd rows": ("LayerNormalization", (40, 17), (1,), {"axis": -1}),
    "rows of one tile": ("LayerNormalization", (16, 300), (1,), {"axis": -1}),
    "rows that tiles share": ("LayerNormalization", (3, 5000), (1,), {"axis": -1}),
    "rows in segments": ("LayerNormalization", (1, 100001), (1,), {"axis": -1}),
    "channels": ("InstanceNormalization", (2, 66, 5, 7), (2, 3), {}),
    "channels that tiles share": ("InstanceNormalization", (1, 8, 20, 30), (2, 3), {}),
    "batches": ("MeanVarianceNormalization", (2, 8, 6, 7), (0, 2, 3), {}),
}


@pytest.mark.parametrize("mean", [1e4, -1e6])
@pytest.mark.parametrize("name", _FAR)
def test_moments_far_from_zero(name: str, mean: float) -> None:
    """The mean is subtracted with all digits: onnxruntime is off by 1e-4 to 1e-1 here."""
    op, shape, axes, attrs = _FAR[name]
    x = (mean + draw(*shape)).astype(np.float32)
    size = shape[-1] if op == "LayerNormalization" else shape[1]
    parameters = {} if op.startswith("Mean") else {"s": np.ones(size, np.float32)}
    if op == "InstanceNormalization":
        parameters["b"] = np.zeros(size, np.float32)
    made = graph([(op, ["a", *parameters], ["y"], attrs)], {"a": shape}, parameters)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axes, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5)
    for tiles in (1, 16):
        got = execute(compile_graph(made, "fp32", tiles), {"a": x})[0]["y"]
        np.testing.assert_allclose(got, wanted, rtol=0, atol=4e-5)


def test_the_root_of_a_sum_of_squares_with_an_infinity_is_infinite() -> None:
    x = draw(3, 70)
    x[1, 5] = -np.inf
    got = execute(compile_graph(one("ReduceL2", [(3, 70)], {"axes": ints(1)}), "fp16"), {"a": x})[0]["y"]
    assert np.isinf(got[1, 0]) and np.isfinite(got[[0, 2]]).all()


@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
def test_rows_whose_squares_overflow(op: str) -> None:
    """An infinite mean square makes finite elements 0; an infinite element is NaN, and a NaN spreads."""
    x = draw(5, 70)
    x[1] *= np.float32(1e25)
    x[2, 3] = np.inf
    x[3, 3] = np.nan
    scale = {"s": np.ones(70, np.float32)}
    made = graph([(op, ["a", "s"], ["y"], {"axis": -1})], {"a": (5, 70)}, scale, opset=23)
    got = execute(compile_graph(made, "fp32"), {"a": x})[0]["y"]
    assert not got[1].any()
    wanted = np.full((2, 70), op == "LayerNormalization")
    wanted[0, 3] = wanted[1, :] = True
    np.testing.assert_array_equal(np.isnan(got[2:4]), wanted)
    assert np.isfinite(got[[0, 4]]).all() and got[[0, 4]].any()


@pytest.mark.parametrize(
    ("shape", "axis", "exclusive", "reverse", "compute", "spm"),
    [
        ((70, 100), 1, 0, 0, "fp16", 0),
        ((3, 128), 1, 1, 1, "bf16", 0),
        ((2, 40, 9), 1, 1, 0, "tf32", 0),
        ((2, 1023), 1, 0, 1, "fp32", SMALL_SPM),
        ((6, 1500), -1, 1, 1, "fp16", SMALL_SPM),
        ((700, 5), 0, 1, 0, "fp32", SMALL_SPM),
        ((4, 1), 1, 1, 0, "fp32", 0),
        ((2, 17), 1, 1, 1, "fp32", 0),
        ((2, 30_000), 1, 0, 0, "fp32", SMALL_SPM),
        ((3, 20_001), 1, 1, 1, "fp32", SMALL_SPM),
    ],
)
def test_running_sums(
    shape: tuple[int, ...], axis: int, exclusive: int, reverse: int, compute: str, spm: int
) -> None:
    """Segments of a long axis: infinities and NaN affect the sums that contain them, and no others.

    No element is read that shares the last line of another result.
    """
    x = np.random.default_rng(3).integers(-8, 9, shape).astype(np.float32)
    lanes = np.moveaxis(x, axis, -1)
    lanes[0, ..., lanes.shape[-1] // 2], lanes[-1, ..., 0], lanes[1, ..., -1] = np.inf, np.nan, -np.inf
    wanted = np.flip(x, axis) if reverse else x
    wanted = np.cumsum(wanted, axis, dtype=np.float64)
    if exclusive:
        wanted = np.delete(np.insert(wanted, 0, 0, axis), -1, axis)
    wanted = np.flip(wanted, axis) if reverse else wanted
    attrs = {"exclusive": exclusive, "reverse": reverse}
    made = graph([("CumSum", ["a", "at"], ["y"], attrs)], {"a": shape}, {"at": np.array(axis)})
    program = compile_graph(made, compute, 3, small_machine(spm) if spm else None)
    assert "RunningSum" in program.text
    loaded = emulator.Program(program.image, program.machine)
    found = loaded.run({"a": x}, strict=True)["y"]
    assert not loaded.hazards
    np.testing.assert_allclose(found, wanted, rtol=2**-8 if compute == "bf16" else 0)


def test_running_sums_of_integers_and_of_one_long_row_take_steps_of_all_tiles() -> None:
    for shape, dtype in (((2, 9), "int32"), ((1, 40000), "float32")):
        nodes = [("CumSum", ["a", "at"], ["y"], {})]
        made = graph(nodes, {"a": shape}, {"at": np.array(1)}, dtype=dtype)
        assert "RunningSum" not in compile_graph(made, "fp32", 2, search="off").text
