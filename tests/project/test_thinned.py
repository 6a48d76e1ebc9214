"""The cases that the normal run leaves to ``make long``."""

from __future__ import annotations

from itertools import chain, pairwise

import pytest

from paths import ROOT
from thinned import THINNED, in_part, left_to_long, part_of, share_of


@pytest.mark.parametrize("place", THINNED)
def test_every_place_is_there(place: str) -> None:
    assert (ROOT / place).exists(), f"{place} is gone; take it out of THINNED"
    assert THINNED[place] > 1


def test_no_place_is_hidden_by_one_before_it() -> None:
    """The first matching place counts, so a file comes before its folder."""
    assert [b for a, b in pairwise(sorted(THINNED)) if b.startswith(a)] == []


def test_the_first_case_of_each_test_stays() -> None:
    cases = [f"tests/compiler/lowering/test_a.py::test_{test}[{case}]" for test in "bc" for case in range(80)]
    left = dict(zip(cases, left_to_long(cases), strict=True))
    assert not left[cases[0]] and not left[cases[80]]
    assert 2 * len(cases) / 3 < sum(left.values()) < len(cases)
    assert list(left_to_long(cases)) == list(left.values())


def test_parts_have_every_case_once_and_keep_tests_together() -> None:
    cases = [f"tests/test_a.py::test_{test}[{case}]" for test in range(60) for case in range(3)]
    parts = [[case for case in cases if in_part(case, part, 4)] for part in (1, 2, 3, 4)]
    assert sorted(chain(*parts)) == sorted(cases)
    assert all(20 < len(part) < 80 and len(part) % 3 == 0 for part in parts)
    assert all(in_part(case, 1, 1) for case in cases)


@pytest.mark.parametrize("text", ["", "2", "0/5", "6/5", "1/0", "-1/5", "1/5/5", "1 / 5", "a/b", "1/9999"])
def test_other_parts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"--part {text}: expected a part and the number of parts"):
        part_of(text)
    assert (part_of("1/5"), part_of("5/5")) == ((1, 5), (5, 5))


def test_other_places_stay_whole() -> None:
    cases = [f"tests/asm/test_a.py::test_b[{case}]" for case in range(80)]
    assert not any(left_to_long(cases))
    assert share_of(cases[0]) == 1
