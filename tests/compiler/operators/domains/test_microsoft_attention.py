"""The attention of com.microsoft and its rotary embedding, on the emulated chip against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.graph import Array
from microsoft_cases import RNG, MicrosoftCall, assert_close, floats, some_bytes

F32 = np.float32
BATCH, ROWS, HEADS, SIZE = 2, 5, 4, 8
WIDTH = HEADS * SIZE
Given = dict[str, Array | None]


def mask_of(*shape: int) -> Array:
    """Zeros and ones, with which every row sees its first key."""
    mask = RNG.integers(0, 2, shape).astype(np.int32)
    mask[..., 0] = 1
    return mask


# --- Attention -------------------------------------------------------------------------------------------


def projected(mask: Array | None = None, **operands: Array | None) -> MicrosoftCall:
    """Attention of rows of 12 columns."""
    given: Given = {
        "x": floats(BATCH, ROWS, 12),
        "w": floats(12, 3 * WIDTH, scale=0.3),
        "b": floats(3 * WIDTH),
    }
    given |= {"mask": mask, "past": None, "bias": None, **operands}
    while given[list(given)[-1]] is None:
        given.popitem()
    return MicrosoftCall("Attention", given, {"num_heads": HEADS}, known=["w", "b"])


MASKS = {
    "none": None,
    "ends": np.array([3, 5], np.int32),
    "ends and beginnings": np.array([3, 5, 1, 0], np.int32),
    "keys": mask_of(BATCH, ROWS),
    "rows": mask_of(BATCH, ROWS, ROWS),
}


@pytest.mark.parametrize("mask", sorted(MASKS))
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_with_masks(causal: int, mask: str, tmp_path: Path) -> None:
    made = projected(MASKS[mask])
    made.attrs = {**made.attrs, "unidirectional": causal}
    assert_close(made, tmp_path)


def test_a_row_that_sees_nothing(tmp_path: Path) -> None:
    """Hidden scores get a finite addend, so all keys count equally; with 10000 scores would lose digits."""
    mask = np.array([[0] * ROWS, [1] * ROWS], np.int32)
    assert_close(projected(mask), tmp_path, 1e-3)
    made = projected(mask)
    made.attrs = {**made.attrs, "mask_filter_value": -2.0}
    assert_close(made, tmp_path)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("present", [True, False])
def test_attention_behind_earlier_rows(present: bool, masked: bool, tmp_path: Path) -> None:
    past = floats(2, BATCH, HEADS, 3, SIZE)
    made = projected(mask_of(BATCH, ROWS + 3) if masked else None, past=past)
    made.attrs = {**made.attrs, "unidirectional": 1, "scale": 0.2}
    made.outputs = {"y": F32, "present": F32}  # onnxruntime refuses it without the second one
    if present:
        assert_close(made, tmp_path)
        return
    wanted = made.by_onnxruntime()["y"]
    made.outputs = {"y": F32}
    np.testing.assert_allclose(made.on_chip(tmp_path)[1]["y"], wanted, atol=1e-5)


def test_attention_with_an_addend_and_without_a_bias(tmp_path: Path) -> None:
    made = projected(b=None, bias=floats(1, HEADS, ROWS, ROWS))
    made.known = ["w"]
    assert_close(made, tmp_path)


def test_values_of_other_sizes(tmp_path: Path) -> None:
    made = projected(w=floats(12, 2 * WIDTH + 16), b=floats(2 * WIDTH + 16))
    made.attrs = {**made.attrs, "qkv_hidden_sizes": [WIDTH, WIDTH, 16]}
    made.outputs = {"y": F32}
    assert_close(made, tmp_path)


def test_attention_is_one_phase(tmp_path: Path) -> None:
    """The heads are columns of the projection: nothing is transposed, and no scores are written to DDR."""
    program, found = projected(MASKS["keys"]).on_chip(tmp_path, "fp16")
    assert program.report is not None
    names = " ".join(phase.name for phase in program.report.phases)
    assert "FusedAttention" in program.text or "attention" in names
    assert not any("Transpose" in phase.name or "Softmax" in phase.name for phase in program.report.phases)
    assert found["y"].shape == (BATCH, ROWS, WIDTH)


@pytest.mark.parametrize("per_column", [True, False])
@pytest.mark.parametrize("mask", [True, False])
def test_attention_of_bytes(mask: bool, per_column: bool, tmp_path: Path) -> None:
    count = (3 * WIDTH,) if per_column else ()
    given: Given = {
        "x": some_bytes("uint8", BATCH, ROWS, 12),
        "w": some_bytes("int8", 12, 3 * WIDTH, bits=7),
        "b": floats(3 * WIDTH),
        "x_scale": np.array(0.02, F32),
        "w_scale": RNG.uniform(0.005, 0.01, count).astype(F32),
        "mask": np.array([3, 5], np.int32) if mask else None,
        "x_zero": np.array(120, np.uint8),
        "w_zero": np.zeros(count, np.int8),
    }
    known = ["w", "b", "x_scale", "w_scale", "x_zero", "w_zero"]
    made = MicrosoftCall("QAttention", given, {"num_heads": HEADS}, known=known)
    assert "ne.gemm.int8" in assert_close(made, tmp_path).text


@pytest.mark.long
def test_attention_of_bytes_behind_earlier_rows(tmp_path: Path) -> None:
    given: Given = {
        "x": some_bytes("uint8", BATCH, ROWS, 12),
        "w": some_bytes("int8", 12, 3 * WIDTH, bits=7),
        "b": floats(3 * WIDTH),
        "x_scale": np.array(0.02, F32),
        "w_scale": np.array(0.01, F32),
        "mask": None,
        "x_zero": np.array(124, np.uint8),
        "w_zero": np.array(0, np.int8),
        "past": floats(2, BATCH, HEADS, 3, SIZE),
    }
    made = MicrosoftCall("QAttention", given, {"num_heads": HEADS, "unidirectional": 1}, known=["w"])
    made.outputs = {"y": F32, "present": F32}
    assert_close(made, tmp_path)


# --- MultiHeadAttention ----------------------------------------------------------------------------------

KEYS = 7


def heads(keys: int = KEYS, **operands: Array | None) -> MicrosoftCall:
    """MultiHeadAttention with separate Q, K and V."""
    given: Given = {"q": floats(BATCH, ROWS, WIDTH), "k": floats(BATCH, keys, WIDTH)}
    given |= {
        "v": floats(BATCH, keys, WIDTH),
        "b": None,
        "padding": None,
        "bias": None,
        "pk": None,
        "pv": None,
    }
    given |= operands
    while given[list(given)[-1]] is None:
        given.popitem()
    return MicrosoftCall("MultiHeadAttention", given, {"num_heads": HEADS})


PRESENT = {"y": F32, "keys": F32, "values": F32}


@pytest.mark.parametrize(
    "made",
    [
        heads(),
        heads(b=floats(3 * WIDTH)),
        heads(padding=np.array([3, 7], np.int32)),
        heads(padding=mask_of(BATCH, KEYS)),
        heads(padding=mask_of(BATCH, ROWS, KEYS), bias=floats(BATCH, 1, ROWS, KEYS)),
        heads(bias=floats(1, HEADS, ROWS, KEYS)),
        heads(v=floats(BATCH, KEYS, 2 * WIDTH)),
        heads(k=floats(BATCH, HEADS, KEYS, SIZE), v=floats(BATCH, HEADS, KEYS, SIZE)),
        heads(k=floats(BATCH, HEADS, KEYS, SIZE), v=floats(BATCH, HEADS, KEYS, SIZE), b=floats(3 * WIDTH)),
    ],
    ids=str,
)
def test_attention_of_heads(made: MicrosoftCall, tmp_path: Path) -> None:
    assert_close(made, tmp_path)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("padded", [True, False])
def test_heads_behind_earlier_rows(padded: bool, causal: int, tmp_path: Path) -> None:
    past = {name: floats(BATCH, HEADS, 3, SIZE) for name in ("pk", "pv")}
    made = heads(ROWS, padding=mask_of(BATCH, ROWS + 3) if padded else None, **past)
    made.attrs = {**made.attrs, "unidirectional": causal, "scale": 0.3}
    made.outputs = PRESENT
    assert_close(made, tmp_path)


@pytest.mark.parametrize("together", [2, 3])
def test_operands_side_by_side(together: int, tmp_path: Path) -> None:
    """onnxruntime has no kernel for these on a processor, so the oracle is the call with separate
    operands."""
    apart = heads(ROWS, b=floats(3 * WIDTH))
    wanted = apart.by_onnxruntime()["y"]
    parts = [array for name, array in apart.given.items() if name in ("q", "k", "v")[3 - together :]]
    packed = np.stack([part.reshape(BATCH, ROWS, HEADS, SIZE) for part in parts], axis=3)
    given: Given = {"q": packed, "k": None} if together == 3 else {"q": apart.given["q"], "k": packed}
    made = MicrosoftCall("MultiHeadAttention", {**given, "v": None, "b": apart.given["b"]}, apart.attrs)
    np.testing.assert_allclose(made.on_chip(tmp_path)[1]["y"], wanted, atol=1e-5)


# --- RotaryEmbedding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("part", [0, 8])
def test_rotary_embedding(part: int, flat: bool, first: bool, interleaved: int, tmp_path: Path) -> None:
    positions = np.array([4]) if first else RNG.integers(0, 20, (BATCH, ROWS))
    x = floats(BATCH, ROWS, HEADS * 16) if flat else floats(BATCH, HEADS, ROWS, 16)
    half = (part or 16) // 2
    given: Given = {"x": x, "at": positions, "cos": floats(20, half), "sin": floats(20, half)}
    attrs: dict[str, Any] = {"interleaved": interleaved}
    if part:
        attrs |= {"rotary_embedding_dim": part, "num_heads": HEADS}
    assert_close(MicrosoftCall("RotaryEmbedding", given, attrs, known=["cos", "sin"]), tmp_path)
