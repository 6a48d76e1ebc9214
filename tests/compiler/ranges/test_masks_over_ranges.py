"""Attention with a mask that has a row for each query, over a range of texts: against onnxruntime."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto

import tx8
from range_models import CAUSAL, MASKS, backwards, masked_attention

TEXTS = {"batch": (1, 1, 2), "seq": (1, 20, 90)}
SIZES = [(1, 20), (1, 1), (2, 90), (1, 67), (2, 3)]


@cache
def program(mask: str, dtype: str = "fp16") -> tx8.Program:
    return tx8.compile(masked_attention(mask), dtype=dtype, dims=TEXTS)


def texts(mask: str, batch: int, seq: int) -> dict[str, Any]:
    rng = np.random.default_rng(seq)
    inputs: dict[str, Any] = {
        name: rng.standard_normal((batch, 2, seq, 16)).astype(np.float32) for name in "qkv"
    }
    seen = np.tri(seq, dtype=bool) | (rng.random((batch, 1, seq, seq)) < 0.3)
    if mask == "numbers":
        inputs["mask"] = np.where(seen, rng.standard_normal(seen.shape), -1e9).astype(np.float32)
    elif mask == "truth values":
        inputs["mask"] = seen
    elif mask == "causal and of the text":
        inputs["seen"] = (np.arange(seq) < rng.integers(1, seq + 1, (batch, 1))).astype(np.int64)
    return inputs


def reference(model: ModelProto, inputs: dict[str, Any]) -> Any:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)[0]


@pytest.mark.parametrize("mask", MASKS)
def test_a_row_for_each_query(mask: str) -> None:
    for batch, seq in SIZES:
        inputs = texts(mask, batch, seq)
        y, wanted = program(mask).run(inputs, timed=False)[0], reference(masked_attention(mask), inputs)
        assert y.shape == wanted.shape
        assert np.abs(y - wanted).max() < 4e-3


def test_in_fp32() -> None:
    for batch, seq in SIZES:
        inputs = texts("numbers", batch, seq)
        y = program("numbers", "fp32").run(inputs, timed=False)[0]
        assert np.abs(y - reference(masked_attention("numbers"), inputs)).max() < 2e-6


@pytest.mark.parametrize("mask", ["numbers", "Trilu"])
def test_the_sanitizer_finds_nothing_and_threads_change_no_byte(mask: str) -> None:
    inputs = texts(mask, 2, 67)
    one, two = (program(mask).run(inputs, threads=n, timed=False) for n in (1, 2))
    assert one[0].tobytes() == two[0].tobytes()
    assert one.hazards == ()


@pytest.mark.parametrize("mask", CAUSAL)
def test_what_a_word_does_not_see_changes_no_byte(mask: str) -> None:
    """The last keys and values are seen by the last queries alone."""
    inputs = texts(mask, 1, 67)
    before = program(mask).run(inputs, timed=False)[0]
    for name in "kv":
        inputs[name][:, :, 50:] = 9
    after = program(mask).run(inputs, timed=False)[0]
    assert before[:, :, :50].tobytes() == after[:, :, :50].tobytes()
    assert (before[:, :, 50:] != after[:, :, 50:]).any()


def test_a_constant_that_is_no_corner_of_the_largest_is_refused() -> None:
    with pytest.raises(tx8.Error, match=r"has a constant whose numbers depend on the sizes: give that"):
        tx8.compile(backwards(), dims={"seq": (1, 20, 60)})
