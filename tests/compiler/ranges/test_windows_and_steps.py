"""Pools, enlarged images and recurrent layers of dynamic sizes, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, ValueInfoProto, numpy_helper

import tx8
from control_models import declared, node
from control_models import made as model_of

IMAGES = {"b": (1, 1, 2), "h": (6, 12, 30), "w": (6, 13, 31)}
SIZES = [(1, 12, 13), (1, 6, 6), (2, 30, 31), (1, 7, 30), (2, 11, 8), (1, 29, 30)]
TEXTS = {"steps": (1, 10, 40), "n": (1, 2, 4)}
LENGTHS = [(10, 2), (1, 1), (40, 4), (7, 3), (39, 1)]


def weights(*shape: int) -> Any:
    rng = np.random.default_rng(sum(shape))
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def model(shape: Sequence[Any], nodes: Sequence[Any], **constants: Any) -> ModelProto:
    """Nodes over ``x``; the results are the last one's outputs."""
    arrays = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    outputs = [ValueInfoProto(name=name) for name in nodes[-1].output]
    return model_of(nodes, [declared("x", shape)], outputs, arrays)


def image(op: str, *more: str, channels: int = 8, constants: Mapping[str, Any], **given: Any) -> ModelProto:
    """One node over images of any number, height and width."""
    return model(["b", channels, "h", "w"], [node(op, ["x", *more], ["y"], **given)], **constants)


def compare(
    made: ModelProto,
    dims: Mapping[str, tuple[int, int, int]],
    sizes: Sequence[tuple[int, ...]],
    error: float = 2e-3,
    **options: Any,
) -> None:
    program = tx8.compile(made, dims=dims, **{"dtype": "fp16", **options})
    session, rng = onnxruntime.InferenceSession(made.SerializeToString()), np.random.default_rng(3)
    names = [each.name for each in session.get_outputs()]
    for at in (dict(zip(dims, each, strict=True)) for each in sizes):
        shape = [at.get(size, size) for size in session.get_inputs()[0].shape]
        x = (rng.standard_normal(shape) - 1).astype(np.float32)
        run, wanted = program.run(x, timed=False), session.run(None, {"x": x})
        for name, array in zip(names, wanted, strict=True):
            assert run[name].shape == array.shape, at
            assert np.abs(run[name] - array).max() <= error * max(np.abs(array).max(), 1), at
        assert run.hazards == (), at


@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "pad", "ceil"),
    [
        (8, 3, 2, 1, 1),
        pytest.param(70, 3, 3, 1, 0, marks=pytest.mark.long),
        pytest.param(100, 2, 2, 0, 1, marks=pytest.mark.long),
    ],
)
def test_means_of_windows_that_reach_beyond_the_image(
    channels: int, kernel: int, stride: int, pad: int, ceil: int
) -> None:
    windows = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4, "ceil_mode": ceil}
    made = image("AveragePool", channels=channels, constants={}, **windows)
    compare(made, IMAGES, SIZES)


@pytest.mark.long
def test_means_of_windows_in_fp32_on_one_tile() -> None:
    windows = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    compare(image("AveragePool", constants={}, **windows), IMAGES, SIZES, 1e-6, dtype="fp32", tiles=1)


@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "more"),
    [(4, 2, 1, 0), *(pytest.param(*each, marks=pytest.mark.long) for each in ((3, 3, 0, 2), (3, 2, 1, 1)))],
)
def test_transposed_convolutions(kernel: int, stride: int, pad: int, more: int) -> None:
    windows = {"strides": [stride] * 2, "pads": [pad] * 4, "output_padding": [more] * 2}
    made = image("ConvTranspose", "k", constants={"k": weights(8, 12, kernel, kernel)}, **windows)
    compare(made, IMAGES, SIZES)


@pytest.mark.long
@pytest.mark.parametrize(
    ("transformation", "rounding"), [("half_pixel", "round_prefer_floor"), ("asymmetric", "floor")]
)
def test_images_enlarged_by_whole_factors(transformation: str, rounding: str) -> None:
    how = {"coordinate_transformation_mode": transformation, "nearest_mode": rounding, "mode": "nearest"}
    scales = np.array([1, 1, 3, 2], np.float32)
    compare(image("Resize", "", "scales", constants={"scales": scales}, **how), IMAGES, SIZES, 1e-3)


@pytest.mark.long
def test_images_made_smaller_then_larger() -> None:
    """An extent that is halved twice, then doubled twice."""
    nodes = [
        node("Conv", ["x", "k1"], ["half"], strides=[2, 2], pads=[1] * 4),
        node("Conv", ["half", "k2"], ["quarter"], strides=[2, 2], pads=[1] * 4),
        node("ConvTranspose", ["quarter", "k3"], ["back"], strides=[2, 2]),
        node("Resize", ["back", "", "scales"], ["large"], mode="nearest"),
        node("Relu", ["large"], ["y"]),
    ]
    kernels = {"k1": weights(8, 3, 3, 3), "k2": weights(8, 8, 3, 3), "k3": weights(8, 8, 2, 2)}
    made = model(["b", 3, "h", "w"], nodes, scales=np.array([1, 1, 2, 2], np.float32), **kernels)
    compare(made, IMAGES, SIZES, 5e-3)


def resized(mode: str, transformation: str, *scales: float, channels: int = 8, **given: Any) -> ModelProto:
    """Images resized by scales, or lines if there is only one scale; they are images of one row if
    onnxruntime requires that."""
    how = {"mode": mode, "coordinate_transformation_mode": transformation, **given}
    spatial: list[Any] = ["h", "w"] if len(scales) > 1 else [1, "w"] if mode == "cubic" else ["w"]
    factors = np.array([1] * (2 + len(spatial) - len(scales)) + [*scales], np.float32)
    return model(["b", channels, *spatial], [node("Resize", ["x", "", "s"], ["y"], **how)], s=factors)


LINES = {"b": (1, 1, 2), "w": (1, 13, 31)}
LINE_SIZES = [(1, 13), (2, 3), (1, 31), (1, 30), (2, 1), (1, 2)]


@pytest.mark.parametrize(
    ("mode", "transformation", "scale", "given"),
    [
        ("linear", "half_pixel", 2.0, {}),
        ("cubic", "half_pixel", 1.5, {"cubic_coeff_a": -0.5}),
        ("nearest", "half_pixel", 1.75, {"nearest_mode": "ceil"}),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in [
                ("linear", "asymmetric", 2.5, {}),
                ("linear", "pytorch_half_pixel", 4.0, {}),
                ("linear", "half_pixel_symmetric", 3.0, {}),
                ("linear", "half_pixel", 5 / 3, {}),
                ("cubic", "asymmetric", 2.0, {}),
                *(
                    ("nearest", transformation, 2.5, {"nearest_mode": rounding})
                    for transformation in ("half_pixel", "asymmetric")
                    for rounding in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
                ),
            ]
        ),
    ],
)
def test_interpolated_lines(mode: str, transformation: str, scale: float, given: dict[str, Any]) -> None:
    made = resized(mode, transformation, scale, **given)
    if mode == "nearest":  # which may need more than 8 versions of the code if a line has 1 element
        compare(made, {**LINES, "w": (3, 13, 31)}, LINE_SIZES[:4])
    else:
        compare(made, LINES, LINE_SIZES)


@pytest.mark.parametrize(
    ("mode", "transformation", "scales"),
    [
        ("linear", "half_pixel", (2.0, 0.5)),
        ("linear", "half_pixel", (2.0, 2.0)),
        ("cubic", "half_pixel", (0.75, 3.0)),
        ("nearest", "asymmetric", (0.5, 1.25)),
    ],
)
@pytest.mark.long
def test_interpolated_images(mode: str, transformation: str, scales: tuple[float, float]) -> None:
    compare(resized(mode, transformation, *scales, nearest_mode="floor"), IMAGES, SIZES)


@pytest.mark.long
def test_interpolated_images_in_fp32_on_one_tile() -> None:
    made = resized("linear", "half_pixel", 1.5, 2.0, channels=70)
    compare(made, IMAGES, SIZES, 1e-6, dtype="fp32", tiles=1)


@pytest.mark.parametrize(
    ("mode", "transformation", "scale", "outside", "problem"),
    [
        ("linear", "align_corners", 2.0, 0, "constant whose numbers depend on the sizes"),
        ("cubic", "half_pixel", 2.0, 1, "constant whose numbers depend on the sizes"),
        ("linear", "half_pixel", 1.7320508, 0, "an extent of '.*' is no product of dimensions"),
    ],
)
def test_weights_that_differ_at_each_size(
    mode: str, transformation: str, scale: float, outside: int, problem: str
) -> None:
    """They are a matrix of constants, which has one size."""
    made = resized(mode, transformation, scale, exclude_outside=outside)
    with pytest.raises(tx8.Error, match=f"{problem}.*give that dimension one size"):
        tx8.compile(made, dims=LINES)


def test_sizes_that_follow_from_the_operand_are_multiples_of_it() -> None:
    """Sizes computed as 3/2 of odd ones have no ratio; computed as twice the earlier ones, they have."""

    def made(numerator: int, denominator: int) -> ModelProto:
        """Channels and batches do not change; the width is multiplied by a ratio, rounded down."""
        nodes = [
            node("Shape", ["x"], ["shape"]),
            node("Mul", ["shape", "times"], ["product"]),
            node("Div", ["product", "parts"], ["sizes"]),
            node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear"),
        ]
        parts = {"times": np.array([1, 1, numerator]), "parts": np.array([1, 1, denominator])}
        return model(["b", 8, "w"], nodes, **parts)

    compare(made(2, 1), LINES, LINE_SIZES)
    with pytest.raises(tx8.Error, match="constant whose numbers depend on the sizes"):
        tx8.compile(made(3, 2), dims=LINES)


LAYERS = {"LSTM": 4, "GRU": 3, "RNN": 1}
DIRECTIONS = ("forward", "reverse", "bidirectional")


def recurrent(op: str, direction: str, hidden: int = 16, **given: Any) -> ModelProto:
    """A recurrent layer with its last states as a second result."""
    gates, ways = LAYERS[op], 1 + (direction == "bidirectional")
    made = node(op, ["x", "w", "r", "b"], ["y", "last"], hidden_size=hidden, direction=direction, **given)
    arrays = {"w": (12,), "r": (hidden,)}
    constants = {name: weights(ways, gates * hidden, *size) for name, size in arrays.items()}
    return model(["steps", "n", 12], [made], b=weights(ways, 2 * gates * hidden), **constants)


@pytest.mark.parametrize(
    ("op", "direction"),
    [
        pytest.param(op, way, marks=() if (op, way) == ("GRU", "reverse") else pytest.mark.long)
        for op in LAYERS
        for way in DIRECTIONS
    ],
)
def test_recurrent_layers(op: str, direction: str) -> None:
    given = {"linear_before_reset": 1} if op == "GRU" else {}
    compare(recurrent(op, direction, **given), TEXTS, LENGTHS)


@pytest.mark.long
def test_recurrent_layers_in_fp32_and_on_one_tile() -> None:
    compare(recurrent("LSTM", "bidirectional"), TEXTS, LENGTHS, 1e-5, dtype="fp32")
    compare(recurrent("LSTM", "forward", hidden=70), TEXTS, LENGTHS, tiles=1)


@pytest.mark.parametrize(
    "direction", [pytest.param(way, marks=() if way == "forward" else pytest.mark.long) for way in DIRECTIONS]
)
def test_layers_that_reset_their_state_before_the_product(direction: str) -> None:
    compare(recurrent("GRU", direction, linear_before_reset=0), TEXTS, LENGTHS)


@pytest.mark.long
def test_layers_that_reset_first_in_fp32_and_on_one_tile() -> None:
    made = recurrent("GRU", "forward", hidden=70, linear_before_reset=0)
    compare(made, TEXTS, LENGTHS, 1e-5, dtype="fp32")
    compare(made, TEXTS, LENGTHS, tiles=1)


def test_a_layer_that_is_written_out_step_by_step_is_refused() -> None:
    made = recurrent("GRU", "forward", linear_before_reset=0, clip=2.0)
    with pytest.raises(
        tx8.Error, match=r"is another node at steps=\d, n=\d than at .*: give that dimension one"
    ):
        tx8.compile(made, dims={**TEXTS, "steps": (1, 4, 6)})
