"""The operators of examples/triton/functions.py against NumPy: sizes that do not divide."""

from __future__ import annotations

import numpy as np
import pytest

from triton_functions import CASES, FUNCTIONS, case
from triton_launches import run_twice


@pytest.mark.parametrize(
    ("name", "fmt"),
    [pytest.param(name, fmt, marks=() if fmt == "fp16" else pytest.mark.long) for name, fmt in CASES],
)
def test_an_operator_gives_what_numpy_gives(name: str, fmt: str) -> None:
    made = case(name, fmt)
    results = run_twice(made)
    assert all(np.isfinite(np.asarray(result, np.float64)).all() for result in results.values())
    made.check(results)


def test_every_text_has_a_case() -> None:
    assert {case(name, fmt).text for name, fmt in CASES} == {path.stem for path in FUNCTIONS.glob("*.ttir")}
