"""The cases that the normal run leaves to ``make long``."""

from __future__ import annotations

from itertools import pairwise

import pytest

from paths import ROOT
from thinned import THINNED, left_to_long, share_of


@pytest.mark.parametrize("place", THINNED)
def test_every_place_is_there(place: str) -> None:
    assert (ROOT / place).exists(), f"{place} is gone; take it out of THINNED"
    assert THINNED[place] > 1


def test_no_place_is_hidden_by_one_before_it() -> None:
    """The first place that fits counts, so a file stands before its folder."""
    assert [b for a, b in pairwise(sorted(THINNED)) if b.startswith(a)] == []


def test_the_first_case_of_each_test_stays() -> None:
    cases = [f"tests/compiler/lowering/test_a.py::test_{test}[{case}]" for test in "bc" for case in range(80)]
    left = dict(zip(cases, left_to_long(cases), strict=True))
    assert not left[cases[0]] and not left[cases[80]]
    assert 2 * len(cases) / 3 < sum(left.values()) < len(cases)
    assert list(left_to_long(cases)) == list(left.values())


def test_other_places_stay_whole() -> None:
    cases = [f"tests/asm/test_a.py::test_b[{case}]" for case in range(80)]
    assert not any(left_to_long(cases))
    assert share_of(cases[0]) == 1
