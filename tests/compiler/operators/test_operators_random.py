"""Random calls of each operator on the emulated chip, against ONNX's reference evaluator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import operator_cases
from operator_cases import DRAWS, Drawn, drawn, kept

DTYPES = ("fp32", "fp16", "bf16")


@pytest.mark.parametrize("op", sorted(DRAWS))
def test_random_call(op: str) -> None:
    for seed, dtype in enumerate(DTYPES):
        case = drawn(op, dtype, seed)
        problem = case.problem()
        if problem is not None:
            case.keep()
        assert problem is None, (
            f"{case.name}: {problem}; python tests/support/networks/operator_cases.py {case.name}"
        )


def test_a_kept_case_is_the_same_when_it_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_cases, "KEPT", tmp_path)
    case = drawn("ConvTranspose", "fp16", 1)
    case.keep()
    again = kept(case.name)
    assert (again.op, again.dtype, again.attrs) == (case.op, case.dtype, case.attrs)
    assert all(np.array_equal(again.operands[name], case.operands[name]) for name in case.operands)


def test_a_wrong_result_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Drawn("wrong", "Neg", "fp32", {"x": np.ones((2, 3), np.float32)})
    monkeypatch.setattr(operator_cases, "run_evaluator", lambda model, fed: np.ones((2, 3), np.float32))
    assert case.problem() is not None
