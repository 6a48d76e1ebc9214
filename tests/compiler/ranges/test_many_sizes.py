"""Two hundred sizes of each network and both ends of its ranges, in one program: against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto

import tx8
from range_models import (
    decoder_step,
    encoder,
    masked_attention,
    perceptron,
    picture,
    recurrent_cell,
    text_line,
)

COUNT = 200
Sizes = dict[str, int]
Arrays = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A network with ranges, its inputs at some sizes, and the largest error in relation to its results."""

    model: Callable[[], ModelProto]
    dims: dict[str, tuple[int, int, int]]
    inputs: Callable[[np.random.Generator, Sizes], Arrays]
    error: float = 1e-2


def _normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def _texts(rng: np.random.Generator, at: Sizes) -> Arrays:
    batch, seq = at["batch"], at["seq"]
    seen = rng.integers(1, seq + 1, (batch, 1))
    return {"ids": rng.integers(0, 50, (batch, seq)), "mask": (np.arange(seq) < seen).astype(np.int64)}


def _heads(rng: np.random.Generator, at: Sizes) -> Arrays:
    batch, seq = at["batch"], at["seq"]
    seen = np.arange(seq) < rng.integers(1, seq + 1, (batch, 1))
    return {name: _normal(rng, batch, 2, seq, 16) for name in "qkv"} | {"seen": seen.astype(np.int64)}


def _step(rng: np.random.Generator, at: Sizes) -> Arrays:
    new = at["new"]
    begin = rng.integers(0, 24 - new + 1, 1)
    return {
        "ids": rng.integers(0, 40, new),
        "at": begin,
        "keys": _normal(rng, 24, 32),
        "values": _normal(rng, 24, 32),
    }


CASES = {
    "perceptron": Case(
        perceptron, {"rows": (1, 64, 400)}, lambda rng, at: {"x": _normal(rng, at["rows"], 96)}
    ),
    "encoder": Case(encoder, {"batch": (1, 1, 3), "seq": (1, 32, 160)}, _texts),
    "text_line": Case(
        text_line,
        {"batch": (1, 1, 2), "width": (8, 60, 160)},
        lambda rng, at: {"x": _normal(rng, at["batch"], 1, 32, at["width"])},
    ),
    "picture": Case(
        picture,
        {"batch": (1, 1, 2), "height": (8, 32, 40), "width": (8, 32, 48)},
        lambda rng, at: {"x": _normal(rng, at["batch"], 3, at["height"], at["width"])},
    ),
    "causal": Case(
        lambda: masked_attention("causal and of the text"), {"batch": (1, 1, 2), "seq": (1, 20, 90)}, _heads
    ),
    "decoder_step": Case(decoder_step, {"new": (1, 3, 16)}, _step),
    "recurrent_cell": Case(
        recurrent_cell,
        {"streams": (1, 8, 300)},
        lambda rng, at: {"x": _normal(rng, at["streams"], 24), "h": _normal(rng, at["streams"], 32)},
    ),
}


def sizes_of(case: Case, rng: np.random.Generator) -> list[Sizes]:
    """Both ends, followed by random sizes."""
    ends = [{name: sizes[end] for name, sizes in case.dims.items()} for end in (0, 2)]
    some = [
        {name: int(rng.integers(least, most + 1)) for name, (least, _, most) in case.dims.items()}
        for _ in range(COUNT)
    ]
    return ends + some


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_two_hundred_sizes(name: str) -> None:
    case, rng = CASES[name], np.random.default_rng(len(name))
    program = tx8.compile(case.model(), dtype="fp16", dims=case.dims)
    session = onnxruntime.InferenceSession(case.model().SerializeToString())
    results = [output.name for output in session.get_outputs()]
    for at in sizes_of(case, rng):
        inputs = case.inputs(rng, at)
        run = program.run(inputs, timed=False)
        for result, wanted in zip(results, session.run(None, inputs), strict=True):
            assert run[result].shape == wanted.shape, at
            assert np.abs(run[result] - wanted).max() <= case.error * max(np.abs(wanted).max(), 1e-3), at
