"""DynamicQuantizeLSTM against onnxruntime on one thread: its reference, and the emulated chip.

Integers must equal those of onnxruntime, because one that is off by a step moves a result by more than 1e-4.
All other differences are rounding to binary32 and the errors of onnxruntime's sigmoid and tanh. Such a step
is right only if a state is within these errors of the middle between two integers. That is one state in
20,000, and none of those drawn here. Weights have seven bits: without instructions for products of bytes
onnxruntime saturates sums at 16 bits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.evaluation.reference import run_reference
from compiler.graph import Array
from microsoft_cases import MicrosoftCall, assert_close

F32 = np.float32
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
WEIGHTS = ("W", "R", "W_scale", "W_zero", "R_scale", "R_zero")
OPERANDS = ("X", "W", "R", "B", "lens", "h", "c", "P", *WEIGHTS[2:])
SIZE, HIDDEN = 8, 16


def layer(
    direction: str = "forward",
    dtype: str = "int8",
    columns: bool = False,
    sizes: tuple[int, int] = (4, 3),
    zero: int | None = None,
    **attrs: Any,
) -> MicrosoftCall:
    """A layer of ``sizes`` steps and sequences; with ``columns`` each column of the weights has a scale."""
    rng, count, (steps, batch) = np.random.default_rng(5), DIRECTIONS[direction], sizes
    middle = 128 if dtype == "uint8" else 0
    each = (count, 4 * HIDDEN) if columns else (count,)
    given: dict[str, Array | None] = dict.fromkeys(OPERANDS)
    given["X"] = rng.standard_normal((steps, batch, SIZE)).astype(F32)
    for name, rows in (("W", SIZE), ("R", HIDDEN)):
        given[name] = (rng.integers(-64, 64, (count, rows, 4 * HIDDEN)) + middle).astype(dtype)
        given[f"{name}_scale"] = rng.uniform(0.004, 0.008, each).astype(F32)
        given[f"{name}_zero"] = np.full(each, middle if zero is None else zero, dtype)
    for name, shape, scale in (
        ("B", (count, 8 * HIDDEN), 0.2),
        ("h", (count, batch, HIDDEN), 0.5),
        ("c", (count, batch, HIDDEN), 0.5),
    ):
        given[name] = (rng.standard_normal(shape) * scale).astype(F32)
    return MicrosoftCall(
        "DynamicQuantizeLSTM",
        given,
        {"hidden_size": HIDDEN, "direction": direction, **attrs},
        dict.fromkeys(("y", "yh", "yc"), F32),
        [*WEIGHTS, "B"],
    )


def changed(made: MicrosoftCall, *, known: tuple[str, ...] = (), **operands: Array | None) -> MicrosoftCall:
    """The call with other operands; ``known`` ones are constants too, and omitted ones are not."""
    made.operands = {**made.operands, **operands}
    made.known = [name for name in (*made.known, *known) if made.operands[name] is not None]
    return made


def lengths(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


def assert_means(made: MicrosoftCall, folder: Path) -> None:
    """The reference in binary64 gives what onnxruntime gives."""
    found = run_reference(made.graph(folder), made.feeds)
    for name, wanted in made.by_onnxruntime().items():
        assert found[name].shape == wanted.shape
        np.testing.assert_allclose(found[name], wanted, rtol=0, atol=2e-6, err_msg=name)


# --- what it means ---------------------------------------------------------------------------------------

_LONG = pytest.mark.long
_KINDS = [(way, dtype, columns) for way in DIRECTIONS for dtype in ("int8", "uint8") for columns in (0, 1)]
_NORMAL = (("reverse", "int8", 1), ("bidirectional", "uint8", 0))


@pytest.mark.parametrize(
    ("direction", "dtype", "columns"),
    [pytest.param(*kind, marks=[] if kind in _NORMAL else _LONG) for kind in _KINDS],
)
def test_directions_and_weights(direction: str, dtype: str, columns: int, tmp_path: Path) -> None:
    assert_means(layer(direction, dtype, bool(columns)), tmp_path)


@pytest.mark.parametrize(
    ("dtype", "columns", "zero"), [("int8", False, 3), pytest.param("uint8", True, 120, marks=_LONG)]
)
def test_zero_points(dtype: str, columns: bool, zero: int, tmp_path: Path) -> None:
    assert_means(layer(dtype=dtype, columns=columns, zero=zero), tmp_path)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("direction", "ends"),
    [
        ("bidirectional", (2, 3, 1)),
        *(pytest.param("forward", ends, marks=_LONG) for ends in ((4, 4, 4), (3, 0, 2), (0, 0, 0))),
        *(pytest.param("reverse", ends, marks=_LONG) for ends in ((4, 2, 1), (3, 0, 2))),
    ],
)
def test_sequences_that_end(direction: str, ends: tuple[int, ...], known: bool, tmp_path: Path) -> None:
    """A sequence that has ended is quantised as its output, which is 0."""
    assert_means(changed(layer(direction), lens=lengths(*ends), known=("lens",) if known else ()), tmp_path)


@pytest.mark.parametrize("direction", ["reverse", pytest.param("forward", marks=_LONG)])
def test_sequences_that_end_without_outputs(direction: str, tmp_path: Path) -> None:
    """A sequence that has ended is quantised as its last state."""
    made = changed(layer(direction), lens=lengths(2, 3, 1))
    made.outputs = dict.fromkeys(("_y", "yh", "yc"), F32)
    assert_means(made, tmp_path)


@pytest.mark.parametrize(
    "attrs",
    [
        {"clip": 0.3, "input_forget": 1},
        pytest.param({"activations": ["Sigmoid", "Affine", "LeakyRelu"], "activation_alpha": [0.5, 0.1]}),
        pytest.param(
            {
                "activations": ["hardsigmoid", "Relu", "Softsign"],
                "activation_alpha": [0.3],
                "activation_beta": [0.4],
            },
            marks=_LONG,
        ),
    ],
    ids=str,
)
def test_attributes(attrs: dict[str, Any], tmp_path: Path) -> None:
    assert_means(layer(sizes=(3, 2), **attrs), tmp_path)


@pytest.mark.parametrize("omitted", [("B", "h", "c"), *(pytest.param((n,), marks=_LONG) for n in "Bhc")])
def test_operands_that_are_omitted(omitted: tuple[str, ...], tmp_path: Path) -> None:
    nothing: dict[str, Any] = dict.fromkeys(omitted)
    assert_means(changed(layer(sizes=(3, 2)), **nothing), tmp_path)


def test_peepholes_and_weights_that_are_computed(tmp_path: Path) -> None:
    p = np.random.default_rng(6).standard_normal((2, 3 * HIDDEN)).astype(F32)
    made = layer("bidirectional", "uint8", columns=True, sizes=(2, 2))
    made.known = []
    assert_means(changed(made, P=p), tmp_path)


# --- on the chip -----------------------------------------------------------------------------------------


def on_chip(made: MicrosoftCall, folder: Path, dtype: str) -> None:
    """The chip gives what onnxruntime gives, with products of bytes and without the kernel core."""
    program = assert_close(made, folder, 2e-6, dtype)
    assert {line.split()[0] for line in program.text.splitlines() if "ne.gemm" in line} == {"ne.gemm.int8"}
    assert program.report is not None
    assert [phase.name for phase in program.report.phases if phase.kernel_core] == []


@pytest.mark.long
def test_whatever_the_format_it_is_computed_in_fp32(tmp_path: Path) -> None:
    on_chip(layer("reverse", "uint8", columns=True, sizes=(2, 1)), tmp_path, "fp16")


def test_zeros_on_the_chip(tmp_path: Path) -> None:
    """Zeros have a scale of 0, so nothing can be divided by it."""
    made = layer(sizes=(2, 1))
    on_chip(changed(made, **{name: np.zeros_like(made.given[name]) for name in "Xhc"}), tmp_path, "fp32")


@pytest.mark.long
def test_ends_and_peepholes_on_the_chip(tmp_path: Path) -> None:
    p = np.random.default_rng(6).standard_normal((1, 3 * HIDDEN)).astype(F32)
    made = changed(layer("reverse", sizes=(2, 2)), lens=lengths(2, 1), P=p, known=("lens", "P"))
    assert_close(made, tmp_path, 2e-6)
