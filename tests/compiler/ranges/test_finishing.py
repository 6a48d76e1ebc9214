"""The final code of versions: its points and its copies of buffers, with invented code."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from compiler.codegen.spm import Copies, SpmOverflow
from compiler.evaluation.sizes import Domain
from compiler.passes.ranges.finishing import finished
from compiler.passes.ranges.phase_code import PhaseDivision, Way
from compiler.passes.ranges.versions import Version

POINTS = {"n": np.arange(1, 11, dtype=np.int64)}
SEARCHED = PhaseDivision(Way.SEARCHED)
EVERY, LARGE, SMALL = np.ones(10, bool), POINTS["n"] > 3, POINTS["n"] <= 3


class Code:
    """Invented code: ``rule`` receives its domain and copies, and may refuse or remove points."""

    def __init__(
        self, rule: Callable[[Domain, Copies | None], None], doubled: tuple[str, ...] = ("p2.x",)
    ) -> None:
        self.rule, self.doubled = rule, doubled
        self.context: Any = SimpleNamespace(domain=None, size_loads={})
        self.tried: list[tuple[int, str | None]] = []

    def kernel_of(self, prefix: str, division: PhaseDivision) -> Any:
        assert (prefix, division) == ("p2", SEARCHED)
        return self._kernel(self.context.domain, None)

    def _kernel(self, domain: Domain, copies: Copies | None) -> Any:
        self.tried.append((domain.count, None if copies is None else copies.apart))
        self.rule(domain, copies)
        found = Copies(frozenset(self.doubled), frozenset({0}), False)
        return SimpleNamespace(
            prefix="p2",
            copies=copies,
            spm=SimpleNamespace(found_copies=lambda: found),
            again=lambda decided: self._kernel(domain, decided),
        )

    def finished(self) -> Version:
        """A version for the larger sizes, made for all, in its last code."""
        first: Any = SimpleNamespace(prefix="p2")
        domain = Domain(POINTS, 7, EVERY)
        domain.alive, domain.complete = LARGE, True
        version = Version(first, LARGE, domain, 7, SEARCHED, 0, EVERY)
        made = finished(self.context, self, version)  # type: ignore[arg-type]  # made-up code
        assert (made.kernel is first) == (made is version)
        assert made.domain.complete and not (LARGE & ~made.domain.alive).any()
        assert self.context.domain is None
        return made


def nothing(domain: Domain, copies: Copies | None) -> None:
    pass


def test_it_is_for_its_own_points_with_one_distance() -> None:
    code = Code(nothing)
    assert code.finished().kernel.copies.apart == "p2.apart"
    assert code.tried == [(7, None), (7, "p2.apart")]


def test_without_copies_there_is_no_distance() -> None:
    code = Code(nothing, doubled=())
    assert code.finished().kernel.copies.apart == ""


def test_it_is_for_all_points_for_which_it_was_made_where_its_own_do_not_do() -> None:
    """The same holds when it is generated once more because decisions for all points change."""

    def rule(domain: Domain, copies: Copies | None) -> None:
        if not domain.alive[0]:
            raise ValueError("cannot be divided")
        domain.require(~SMALL)

    code = Code(rule)
    assert code.finished().kernel.copies.apart == "p2.apart"
    assert code.tried == [(7, None), (10, None), (10, "p2.apart")]


@pytest.mark.parametrize(("fits", "apart"), [("", ""), (None, None)])
def test_copies_that_do_not_fit_are_done_without(fits: str | None, apart: str | None) -> None:
    def rule(domain: Domain, copies: Copies | None) -> None:
        if copies is not None and copies.apart != fits:
            raise SpmOverflow("no room")

    found = Code(rule).finished().kernel.copies
    assert (None if found is None else found.apart) == apart


def test_code_that_is_right_for_fewer_points_is_not_taken() -> None:
    code = Code(lambda domain, copies: domain.require(POINTS["n"] > 5))
    assert code.finished().kernel.prefix == "p2"
    assert code.tried == [(7, None), (10, None)]


def test_copies_for_which_it_is_right_for_fewer_points_are_not_taken() -> None:
    def rule(domain: Domain, copies: Copies | None) -> None:
        if copies is not None:
            domain.require(POINTS["n"] > 5)

    made = Code(rule).finished()
    assert made.kernel.copies is None
    assert (made.domain.alive == LARGE).all()


def test_what_code_cannot_do_at_all_is_not_hidden() -> None:
    def rule(domain: Domain, copies: Copies | None) -> None:
        raise TypeError("a mistake")

    with pytest.raises(TypeError, match="a mistake"):
        Code(rule).finished()
