"""Networks over images of dynamic height, width and number, against onnxruntime."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto

import tx8
from range_models import one_node, picture, text_line
from time_bench import warm
from tx8isa.machine.description import Machine, load_machine

MODELS = {
    "text_line": (text_line(), {"batch": (1, 1, 2), "width": (8, 60, 160)}),
    "picture": (picture(), {"batch": (1, 1, 2), "height": (8, 32, 40), "width": (8, 32, 48)}),
}


@cache
def program(name: str, machine: Machine | None = None) -> tx8.Program:
    model, dims = MODELS[name]
    return tx8.compile(model, dtype="fp16", dims=dims, machine=machine)


def reference(model: ModelProto, x: Any) -> Any:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]


def image(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


LINES = [(1, 60), (1, 8), (2, 9), (1, 159), (2, 160), (2, 77)]
PICTURES = [(1, 32, 32), (1, 8, 8), (2, 40, 48), (1, 9, 47), (2, 33, 10), (1, 40, 31)]


@pytest.mark.parametrize(("batch", "width"), LINES)
def test_lines_of_any_width(batch: int, width: int) -> None:
    x = image(batch, 1, 32, width)
    y, wanted = program("text_line").run(x)[0], reference(text_line(), x)
    assert y.shape == wanted.shape == (batch, width // 4, 40)
    assert np.abs(y - wanted).max() < 2e-3


@pytest.mark.long
@pytest.mark.parametrize(("batch", "height", "width"), PICTURES)
def test_pictures_of_any_height_and_width(batch: int, height: int, width: int) -> None:
    x = image(batch, 3, height, width)
    y, wanted = program("picture").run(x)[0], reference(picture(), x)
    assert y.shape == wanted.shape
    assert np.abs(y - wanted).max() < 1e-2 * np.abs(wanted).max()


@pytest.mark.parametrize("name", MODELS)
def test_threads_do_not_change_a_byte_and_the_sanitizer_finds_nothing(name: str) -> None:
    x = image(2, 1, 32, 43) if name == "text_line" else image(2, 3, 21, 43)
    one, two = (program(name).run(x, threads=n, timed=False) for n in (1, 2))
    assert one[0].tobytes() == two[0].tobytes()
    assert one.hazards == ()


@pytest.mark.parametrize(
    ("batch", "width", "most"),
    [
        pytest.param(1, 60, 1.10, id="the usual size"),
        pytest.param(2, 77, 1.27, id="several images in sequences"),
    ],
)
def test_a_size_takes_hardly_longer_than_its_own_image(batch: int, width: int, most: float) -> None:
    """Beside first uses: a program for a range has more lines of code and kinds of commands."""
    machine, x = warm(load_machine(None)), image(batch, 1, 32, width)
    alone = tx8.compile(text_line(), dtype="fp16", shapes={"x": x.shape}, machine=machine)
    assert program("text_line", machine).run(x).cycles <= most * alone.run(x).cycles


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 20])
def test_what_one_image_has_in_any_layout_several_have_not(batch: int, size: int) -> None:
    model = one_node("GlobalAveragePool", ["n", 32, 3, size])
    x = image(batch, 32, 3, size)
    y = tx8.compile(model, dtype="fp16", dims={"n": (1, 1, 3)}).run(x)[0]
    assert np.abs(y - reference(model, x)).max() < 2e-3


@pytest.mark.parametrize("width", [8, 11, 20, 39, 40])
def test_pads_follow_the_size(width: int) -> None:
    model = one_node("MaxPool", [1, 4, 8, "w"], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
    x = image(1, 4, 8, width)
    y = tx8.compile(model, dims={"w": (8, 20, 40)}).run(x)[0]
    assert (y == reference(model, x)).all()
