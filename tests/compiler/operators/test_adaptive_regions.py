"""RoiAlign whose regions have their own numbers of samples, against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.graph import Array
from onnx_calls import OnnxCall, assert_close

RNG = np.random.default_rng(12)
AT_THE_EDGE = np.array(
    [
        [0, 0, 7, 7],
        [0, 0, 14, 14],
        [-5, -5, 40, 40],
        [2, 2, 2, 2],
        [3, 3, 1, 1],
        [0.5, 0.5, 900, 3],
        [-100, -100, 100, 100],
        [-20, -20, -10, -10],
        [7.5, 7.5, 8.5, 8.5],
        [-1, 2, 7, 8],
    ],
    np.float32,
)


def call(
    image: tuple[int, ...], rois: Array | int, bins: tuple[int, int], mode: str, opset: int = 16, **attrs: Any
) -> OnnxCall:
    """The given regions, or this many random ones, many of them partly outside of the image."""
    if isinstance(rois, int):
        corner = RNG.uniform(-3, 1.2 * max(image[2:]), (rois, 2))
        rois = np.concatenate([corner, corner + RNG.uniform(-1, 1.5 * max(image[2:]), (rois, 2))], axis=1)
    scale = attrs.get("spatial_scale", 1.0)
    operands = {
        "x": RNG.standard_normal(image).astype(np.float32),
        "rois": (rois / scale).astype(np.float32),
        "numbers": RNG.integers(0, image[0], len(rois)),
    }
    attrs |= {"mode": mode, "output_height": bins[0], "output_width": bins[1]}
    return OnnxCall("RoiAlign", operands, attrs, opset=opset)


@pytest.mark.parametrize(("mode", "opset"), [("avg", 16), ("max", 10)])
def test_random_regions(mode: str, opset: int, tmp_path: Path) -> None:
    assert_close(call((2, 3, 9, 7), 5, (3, 2), mode, opset), tmp_path, 1e-6, tiles=3)


@pytest.mark.parametrize("mode", ["avg", pytest.param("max", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "coordinates", ["output_half_pixel", pytest.param("half_pixel", marks=pytest.mark.long)]
)
def test_regions_at_the_edge(mode: str, coordinates: str, tmp_path: Path) -> None:
    """Regions outside of the image, much larger than it, without extent, and reversed; bins of a whole number
    of elements."""
    bins = (7, 7) if mode == "avg" else (2, 1)
    made = call((1, 2, 8, 8), AT_THE_EDGE, bins, mode, coordinate_transformation_mode=coordinates)
    assert_close(made, tmp_path, 1e-6)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("fp16", 2e-3), pytest.param("bf16", 2e-2, marks=pytest.mark.long)]
)
def test_formats_and_a_scale(dtype: str, tolerance: float, tmp_path: Path) -> None:
    """Regions are exact in each format: bins have as many samples."""
    rois = np.array([[0, 0, 5, 6], [1, 2, 9, 4], [3, 0, 12, 13]]) / 2
    made = call((1, 20, 6, 5), rois, (3, 2), "avg", spatial_scale=0.25)
    assert_close(made, tmp_path, tolerance, dtype, 16)


@pytest.mark.long
def test_since_22(tmp_path: Path) -> None:
    """onnxruntime has RoiAlign up to 16, which means the same."""
    older = call((1, 2, 6, 6), 3, (2, 2), "avg")
    newer = OnnxCall("RoiAlign", older.operands, older.attrs, opset=22)
    assert_close(newer, tmp_path, 1e-6, expected=older.by_onnxruntime())


def test_a_number_of_no_image_stops_the_program(tmp_path: Path) -> None:
    made = call((2, 1, 4, 4), 2, (2, 2), "avg")
    operands = {**made.operands, "numbers": np.array([0, 2])}
    wrong = OnnxCall("RoiAlign", operands, made.attrs, opset=16)
    with pytest.raises(Exception, match="ebreak"):
        wrong.on_chip(tmp_path)
