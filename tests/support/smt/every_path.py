"""Explores every path of a plain Python function with symbolic values.

``explore`` calls the function repeatedly. When the function tests a ``Flag``, one call continues as if it
were true and another one as if it were false, unless earlier answers determine it. So the function itself is
checked, without a translation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from solver import prove, refute, z3

MOST_PATHS = 20_000
MOST_STEPS = 3_000_000
"""Steps of the solver after which a path counts as possible."""


@dataclass
class Path:
    """One path: its assumptions, the function's result or exception, and its obligations.

    ``axioms`` define numbers that operations introduced, such as quotients. ``obligations`` are preconditions
    of operations, such as a divisor that is not 0.
    """

    conditions: list[Any] = field(default_factory=list)
    axioms: list[Any] = field(default_factory=list)
    obligations: list[Any] = field(default_factory=list)
    defined: dict[Any, Any] = field(default_factory=dict)
    result: Any = None
    error: Exception | None = None

    def prove(self, claim: Any, what: str) -> None:
        """Prove the obligations of this path, then a claim, for all values that take it."""
        if self.error is not None:
            claim = z3.BoolVal(False)
            what = f"{what}: {type(self.error).__name__}: {self.error}"
        everything = (*self.conditions, *self.axioms)
        if refute(z3.And(*self.obligations, claim), everything) is None:
            return
        for obligation in self.obligations:  # which of them is wrong
            prove(obligation, *everything, what=f"{what}, an operation without a meaning")
        prove(claim, *everything, what=what)


@dataclass
class _Run:
    """One call: the given answers, then the chosen ones."""

    path: Path
    solver: Any
    given: list[bool]
    known: int
    """The first answers, whose conditions the solver still has from the call before."""
    taken: list[bool] = field(default_factory=list)
    other: list[list[bool]] = field(default_factory=list)

    def decide(self, condition: Any) -> bool:
        condition = z3.simplify(condition)
        if z3.is_true(condition) or z3.is_false(condition):
            return bool(z3.is_true(condition))
        at = len(self.taken)
        if at < len(self.given):
            answer = self.given[at]
        else:
            answer = self.possible(condition)
            if answer and self.possible(z3.Not(condition)):
                self.other.append([*self.taken, False])
        self.taken.append(answer)
        self.path.conditions.append(condition if answer else z3.Not(condition))
        if at >= self.known:
            self.solver.push()
            self.solver.add(self.path.conditions[-1])
        return answer

    def possible(self, condition: Any) -> bool:
        return bool(self.solver.check(condition, *self.path.axioms) != z3.unsat)


_runs: list[_Run] = []


def current() -> Path:
    """Return the path that is being explored."""
    return _runs[-1].path


def require(condition: Any) -> None:
    """Add an obligation of the operation that is being executed."""
    current().obligations.append(condition)


class Flag:
    """A truth value that depends on symbolic values; Python's ``if`` asks it for a decision."""

    def __init__(self, term: Any) -> None:
        self.term = term

    def __bool__(self) -> bool:
        return _runs[-1].decide(self.term)

    def __eq__(self, other: object) -> Any:
        return Flag(self.term == truth(other))

    def __ne__(self, other: object) -> Any:
        return Flag(self.term != truth(other))

    __hash__ = None  # type: ignore[assignment]


def truth(value: Any) -> Any:
    """The term of a ``Flag`` or of a truth value."""
    return value.term if isinstance(value, Flag) else z3.BoolVal(bool(value))


def explore(
    function: Callable[[], Any], *assumptions: Any, errors: tuple[type[Exception], ...] = ()
) -> Iterator[Path]:
    """Yield every path through ``function``; ``errors`` end paths, too, other exceptions are raised.

    One solver has the conditions of the path. The next path has the same ones up to its last given answer.
    """
    waiting: list[list[bool]] = [[]]
    solver, level = z3.Solver(), 0
    solver.set("rlimit", MOST_STEPS)
    solver.add(*assumptions)
    for _ in range(MOST_PATHS):
        if not waiting:
            return
        given = waiting.pop()
        known = max(len(given) - 1, 0)
        solver.pop(level - known)
        run = _Run(Path(list(assumptions)), solver, given, known)
        _runs.append(run)
        try:
            run.path.result = function()
        except errors as error:
            run.path.error = error
        finally:
            _runs.pop()
        waiting += run.other
        level = len(run.taken)
        yield run.path
    raise AssertionError(f"more than {MOST_PATHS} ways")
