"""The operators of examples/triton/operators.py against NumPy: sizes that do not divide, places from data."""

from __future__ import annotations

import numpy as np
import pytest

import emulator
from triton_launches import Case, run, travelling
from triton_operators import CASES, OPERATORS, case

_BANK = 4096
_POISON = 0xFF
"""Bytes of NaN in every format of floats, and of -1."""
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
    _compared(made, run(made, made.program(), strict=True))


def test_every_text_has_a_case() -> None:
    assert {case(name, fmt).text for name, fmt in CASES} == {path.stem for path in OPERATORS.glob("*.ttir")}


@pytest.mark.parametrize("name", ["gather", "scatter", "nonzero", "histogram", "cache_write", "embedding"])
def test_nothing_beyond_the_arrays_is_touched(name: str) -> None:
    """The bytes between the arrays are NaN, or -1: they stay, and no result changes."""
    made = case(name, "fp16")
    program = made.program()
    plain = run(made, program)
    loaded = emulator.Program(program.image, program.machine)
    system = loaded.start(travelling(made.arrays, loaded))
    gaps = []
    for key, array in list(made.arrays.items())[:-1]:
        end = program.addresses[key] + array.nbytes
        gaps.append(system.ddr_range(end, -end % _BANK))
        gaps[-1][:] = _POISON
    system.run()
    results = loaded.results(system)
    assert all(np.array_equal(results[key], plain[key], equal_nan=True) for key in plain)
    assert all((gap == _POISON).all() for gap in gaps)
    assert sum(gap.size for gap in gaps) > 0


@pytest.mark.parametrize("name", ["scatter", "topk", "layer_norm_backward", "dropout"])
def test_threads_change_no_bit(name: str) -> None:
    made = case(name, "fp16")
    program = made.program()
    first, second = (run(made, program, threads=threads) for threads in (1, 2))
    assert all(first[key].tobytes() == second[key].tobytes() for key in first)
