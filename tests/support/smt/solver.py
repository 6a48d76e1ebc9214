"""z3, and proofs with it. Importing this module skips the tests that need it where z3 is not installed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

z3: Any = pytest.importorskip("z3", reason="z3 is an extra of its own: make smt")

MOST_STEPS = 1_000_000_000
"""Steps of the solver after which a proof counts as failed: on every machine the same ones."""


def prove(claim: Any, *assumptions: Any, what: str) -> None:
    """Fail, with values for which ``claim`` is false, unless it follows from the assumptions."""
    counterexample = refute(claim, assumptions)
    assert counterexample is None, f"{what}: {counterexample}"


def refute(claim: Any, assumptions: Iterable[Any]) -> str | None:
    """Return values for which the assumptions hold and ``claim`` does not; None if there are none."""
    solver = z3.Solver()
    solver.set("rlimit", MOST_STEPS)
    solver.add(*assumptions, z3.Not(claim))
    answer = solver.check()
    if answer == z3.unsat:
        return None
    if answer == z3.unknown:
        return f"not decided after {MOST_STEPS} steps: {solver.reason_unknown()}"
    model = solver.model()
    return "false for " + ", ".join(f"{name} = {model[name]}" for name in model.decls())
