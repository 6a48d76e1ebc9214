"""The operators of examples/triton/operators.py against NumPy: sizes that do not divide, places from data."""

from __future__ import annotations

import numpy as np
import pytest

from paths import ROOT
from triton_launches import PRODUCTS, Case, draw, poison, run, run_twice, wide
from triton_operators import CASES, OPERATORS, case

_NORMAL = {"fp16", "i32", "i8", ""}
"""Formats whose cases run always; the others have the marker long."""


def _compared(made: Case, results: dict[str, np.ndarray]) -> None:  # type: ignore[type-arg]
    """Compare with NumPy where the kernel stores; elsewhere the arrays keep their NaN."""
    expected = {}
    for key, got in results.items():
        want = np.asarray(made.expected[key], np.float64)
        if want.dtype.kind == "f":
            stays = np.isnan(want)
            assert np.array_equal(np.isnan(np.asarray(got, np.float64)), stays)
            results[key], expected[key] = np.where(stays, 0, got), np.where(stays, 0, want)
    Case(made.text, made.grid, made.arguments, expected, made.allowed).check(results)


@pytest.mark.parametrize(
    ("name", "fmt"),
    [pytest.param(name, fmt, marks=() if fmt in _NORMAL else pytest.mark.long) for name, fmt in CASES],
)
def test_an_operator_gives_what_numpy_gives(name: str, fmt: str) -> None:
    made = case(name, fmt)
    _compared(made, run_twice(made))


def test_every_text_has_a_case() -> None:
    """Texts that only print, or that take lists of addresses, are excluded; they have separate tests."""
    others = ("messages_", "product_list")
    texts = {path.stem for path in OPERATORS.glob("*.ttir") if not path.stem.startswith(others)}
    assert {case(name, fmt).text for name, fmt in CASES} == texts


LARGE = ROOT / "examples/triton/large"


def test_a_large_product_has_masks_at_its_ends() -> None:
    """Blocks of 256 x 1024 x 256, with one more block along each axis than fits the size."""
    m, n, k = 300, 1100, 270
    a, b = draw("fp16", m, k, seed=1), draw("fp16", k, n, seed=2)
    arguments = {"a": a, "b": b, "c": poison("fp16", m, n), "m": m, "n": n, "k": k}
    want = {"c": wide(a) @ wide(b)}
    made = Case("product", (4, 1, 1), arguments, want, {"c": PRODUCTS["fp16"]}, LARGE)
    made.check(run(made, made.program(), strict=True))


@pytest.mark.parametrize("length", [1000, 1024])
def test_a_softmax_of_several_rows_has_a_mask_at_its_end(length: int) -> None:
    """A mask that is the whole row, and one that is not."""
    x = draw("fp16", 40, length)
    e = np.exp(wide(x) - wide(x).max(1, keepdims=True))
    arguments = {"x": x, "out": poison("fp16", 40, length), "rows": 40, "columns": length}
    made = Case(
        "softmax", (3, 1, 1), arguments, {"out": e / e.sum(1, keepdims=True)}, {"out": 2.0**-10}, LARGE
    )
    made.check(run(made, made.program(), strict=True))


@pytest.mark.parametrize("length", [600, 1024])
def test_attention_with_scores_in_16_bits(length: int) -> None:
    """Keys and queries that do and do not fill their blocks; any number of threads."""
    q, k, v = (draw("fp16", 2, length, 64, seed=seed) for seed in (1, 2, 3))
    scores = wide(q) @ wide(k).transpose(0, 2, 1) / 8
    e = np.exp(scores - scores.max(-1, keepdims=True))
    want = {"out": e / e.sum(-1, keepdims=True) @ wide(v)}
    arrays = {"q": q, "k": k, "v": v, "out": poison("fp16", 2, length, 64)}
    arguments = {**arrays, "length": length, "scale": float(np.log2(np.e) / 8)}
    made = Case("flash", (-(-length // 512), 2, 1), arguments, want, {"out": PRODUCTS["fp16"]}, LARGE)
    program = made.program()
    results = run(made, program, strict=True)
    made.check(results)
    assert run(made, program, threads=2)["out"].tobytes() == results["out"].tobytes()


def test_tensor_descriptors_are_copies_of_the_dma() -> None:
    """Their positions and masks are formulas, though Triton reshapes them: the core moves no element."""
    text = case("addmm", "fp16").program().text
    assert text.count(" rdma.fp16 ") >= 3 and " lh " not in text and " sh " not in text
