"""GroupQueryAttention, of prompts and after caches, on the emulated chip against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.graph import Array
from microsoft_cases import RNG, MicrosoftCall, floats

F32 = np.float32
HEADS, GROUPS, SIZE = 4, 2, 32
OUTPUTS = {"y": F32, "keys": F32, "values": F32}
Given = dict[str, Array | None]


def rows_of(
    batch: int, rows: int, last: list[int], total: int, cache: int = 0, known: bool = False, **more: Any
) -> MicrosoftCall:
    """Rows after a cache of ``cache`` rows; ``last``: the place of the last row of each sequence."""
    given: Given = {
        "q": floats(batch, rows, HEADS * SIZE),
        "k": floats(batch, rows, GROUPS * SIZE),
        "v": floats(batch, rows, GROUPS * SIZE),
        "pk": floats(batch, GROUPS, cache, SIZE) if cache else None,
        "pv": floats(batch, GROUPS, cache, SIZE) if cache else None,
        "last": np.array(last, np.int32),
        "total": np.array(total, np.int32),
        **dict.fromkeys(("cos", "sin", "at", "bias")),
        **more,
    }
    constants = ["total", *(["last"] if known else [])]
    return MicrosoftCall(
        "GroupQueryAttention", given, {"num_heads": HEADS, "kv_num_heads": GROUPS}, OUTPUTS, constants
    )


def rotary(half: int = SIZE // 2) -> Given:
    return {"cos": floats(24, half), "sin": floats(24, half)}


def check(made: MicrosoftCall, folder: Path, **attrs: Any) -> None:
    """Results equal those of onnxruntime in all rows in use."""
    made.attrs = {**made.attrs, **attrs}
    found, wanted = made.on_chip(folder)[1], made.by_onnxruntime()
    last = made.given["last"]
    rows, total = made.given["q"].shape[1], int(made.given["total"])
    for name, array in wanted.items():
        assert found[name].shape == array.shape
        for at, end in enumerate(last):
            used = slice(0, end + 1 if name != "y" or rows == total else rows)
            ours, theirs = found[name][at], array[at]
            ours, theirs = (x[used] if name == "y" else x[:, used] for x in (ours, theirs))
            np.testing.assert_allclose(ours, theirs, atol=2e-5, err_msg=f"{name} {at}")


# --- prompts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "attrs", [{}, {"scale": 0.4}, {"softcap": 2.0}, {"local_window_size": 2}, {"causal": 0}], ids=str
)
def test_prompts(attrs: dict[str, Any], tmp_path: Path) -> None:
    check(rows_of(2, 5, [4, 4], 5), tmp_path, **attrs)


def test_a_prompt_that_is_padded(tmp_path: Path) -> None:
    check(rows_of(2, 5, [2, 4], 5, **rotary()), tmp_path, do_rotary=1)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("half", [SIZE // 2, SIZE // 4])
def test_rotary_prompts(half: int, interleaved: int, tmp_path: Path) -> None:
    check(rows_of(1, 6, [5], 6, **rotary(half)), tmp_path, do_rotary=1, rotary_interleaved=interleaved)


def test_a_prompt_with_an_addend(tmp_path: Path) -> None:
    check(rows_of(2, 5, [4, 4], 5, bias=floats(1, HEADS, 5, 5)), tmp_path)


def test_a_prompt_into_a_cache(tmp_path: Path) -> None:
    check(rows_of(2, 5, [4, 4], 5, cache=9), tmp_path)


def test_operands_side_by_side(tmp_path: Path) -> None:
    made = rows_of(2, 5, [4, 4], 5, **rotary())
    packed = np.concatenate([made.given[name] for name in "qkv"], axis=-1)
    made.operands = {**made.operands, "q": packed, "k": None, "v": None}
    check(made, tmp_path, do_rotary=1)


# --- after a cache --------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("last", "total", "cache"), [([6, 6], 7, 6), ([4, 6], 7, 6), ([6, 6], 7, 10), ([4, 6], 7, 10)]
)
@pytest.mark.parametrize("turned", [0, 1])
def test_one_row(turned: int, last: list[int], total: int, cache: int, known: bool, tmp_path: Path) -> None:
    made = rows_of(2, 1, last, total, cache, known, **(rotary() if turned else {}))
    check(made, tmp_path, do_rotary=turned)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("total", "cache"), [(7, 4), (7, 12)])
def test_several_rows(total: int, cache: int, known: bool, tmp_path: Path) -> None:
    check(rows_of(1, 3, [6], total, cache, known, **rotary()), tmp_path, do_rotary=1)


@pytest.mark.long
def test_positions_that_are_given(tmp_path: Path) -> None:
    positions = RNG.integers(0, 24, (2, 1))
    check(rows_of(2, 1, [4, 6], 7, 6, at=positions, **rotary()), tmp_path, do_rotary=1)


@pytest.mark.parametrize("cache", [6, 10])
def test_an_addend_behind_a_cache(cache: int, tmp_path: Path) -> None:
    check(rows_of(2, 1, [4, 6], 7, cache, bias=floats(2, 1, 1, 7)), tmp_path)


@pytest.mark.parametrize("window", [1, 3])
def test_a_window_behind_a_cache(window: int, tmp_path: Path) -> None:
    check(rows_of(2, 1, [4, 6], 7, 10), tmp_path, local_window_size=window)


@pytest.mark.long
def test_sequences_of_several_rows(tmp_path: Path) -> None:
    """onnxruntime takes one sequence here, so the oracle is one call for each."""
    made = rows_of(2, 3, [4, 6], 7, 10, **rotary())
    made.attrs = {**made.attrs, "do_rotary": 1}
    found = made.on_chip(tmp_path)[1]
    for at, end in enumerate((4, 6)):
        alone = {
            name: array[at : at + 1] if array.ndim and name not in ("cos", "sin") else array
            for name, array in made.given.items()
        }
        operands = {name: alone.get(name) for name in made.operands}
        one = MicrosoftCall(
            made.op, {**operands, "total": np.array(7, np.int32)}, made.attrs, OUTPUTS, ["total"]
        )
        wanted = one.by_onnxruntime()
        np.testing.assert_allclose(found["y"][at], wanted["y"][0], atol=2e-5)
        for name in ("keys", "values"):
            np.testing.assert_allclose(
                found[name][at, :, : end + 1], wanted[name][0, :, : end + 1], atol=2e-5
            )
