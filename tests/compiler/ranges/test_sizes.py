"""Sizes that represent integers, against the integers; formulas, against the numbers from which they are
found."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.evaluation.sizes import Domain, Size, always, chosen, dimension, ever, largest, least
from compiler.evaluation.sizes.formulas import (
    ExtentFormula,
    Undecided,
    fitted,
    found_formula,
    rounded_formula,
)
from compiler.evaluation.sizes.texts import size_of_text
from tx8isa.numbers.division import ceil_div, round_up

POINTS = np.arange(1, 41, dtype=np.int64)


def domain(anchor: int = 17) -> Domain:
    return Domain({"n": POINTS}, anchor - 1, np.ones(len(POINTS), bool))


@pytest.mark.parametrize(
    "compute",
    [
        lambda n: n * 3 + 5 - n // 4,
        lambda n: ceil_div(n, 16) * 7 % 5,
        lambda n: round_up(n + 1, 8) - n,
        lambda n: (100 - n) // (n + 1),
        lambda n: ceil_div(100, n) + -n + n * n,
        lambda n: least(n, 9, 3 * n - 40) + largest(n // 2, 7),
        lambda n: chosen(n > 20, n // 3, 2 * n) if isinstance(n, Size) else (n // 3 if n > 20 else 2 * n),
        lambda n: divmod(n + 6, 7)[1] * 2,
    ],
)
def test_arithmetic_is_that_of_integers_at_every_point(compute) -> None:  # type: ignore[no-untyped-def]
    of = domain()
    result = compute(dimension(of, "n"))
    assert result.values.tolist() == [compute(int(n)) for n in POINTS]
    assert of.count == len(POINTS)


def test_a_decision_is_that_of_the_point_and_others_leave() -> None:
    of = domain()
    n = dimension(of, "n")
    assert n > 10
    assert POINTS[of.alive].tolist() == list(range(11, 41))
    assert (n if n % 2 else 0) is n
    assert POINTS[of.alive].tolist() == list(range(11, 41, 2))
    assert list(range(n))[-1] == 16  # a number that must be known restricts the domain to its point
    assert POINTS[of.alive].tolist() == [17]


def test_what_holds_everywhere_takes_no_point_away() -> None:
    of = domain()
    n = dimension(of, "n")
    assert always(n < 41)
    assert not always(n < 40)
    assert ever(n == 40)
    assert not ever(n == 41)
    assert of.count == len(POINTS)


def test_a_size_that_is_the_same_everywhere_is_a_number() -> None:
    n = dimension(domain(), "n")
    assert n - n == 0
    assert n // n == 1
    assert not isinstance(n * 0, Size)


def test_equal_sizes_are_one() -> None:
    n = dimension(domain(), "n")
    assert n * 4 // 4 is n
    assert (n + 3) - 3 is n


def test_a_decision_after_the_code_is_complete_is_refused() -> None:
    of = domain()
    of.complete = True
    with pytest.raises(RuntimeError, match="depends on the sizes of a run"):
        bool(dimension(of, "n") > 3)


PLACES = [{"a": 3, "b": 7}, {"a": 5, "b": 11}, {"a": 8, "b": 13}, {"a": 2, "b": 40}]


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (ExtentFormula(0, (), 6), "6"),
        (ExtentFormula(1, ("a",)), "a"),
        (ExtentFormula(4, ("a", "b")), "4*a*b"),
        (ExtentFormula(1, ("b",), 1), "b + 1"),
        (ExtentFormula(2, ("a",), -3), "2*a - 3"),
        (ExtentFormula(3, ("a", "b"), 5), "3*a*b + 5"),
    ],
)
def test_formulas_are_found_from_their_values(formula: ExtentFormula, text: str) -> None:
    found = fitted([formula.at(place) for place in PLACES], PLACES)
    assert found == formula
    assert str(found) == text


def test_numbers_that_no_formula_gives() -> None:
    assert fitted([1, 2, 4, 9], PLACES) is None


@given(st.integers(1, 4), st.integers(-6, 30), st.integers(2, 16))
def test_a_rounded_quotient_is_found_for_all_sizes(factor: int, offset: int, divisor: int) -> None:
    """Even if few values are known at first: more are requested where formulas differ."""
    sizes = np.arange(20, 200)
    truth = (factor * sizes + offset) // divisor
    points = [{"n": 23}, {"n": 61}, {"n": 199}]
    for _ in range(30):
        try:
            values = [int(truth[point["n"] - 20]) for point in points]
            found = found_formula(values, points, {"n": sizes})
            break
        except Undecided as undecided:
            points.append({"n": int(sizes[undecided.number])})
    assert found is not None
    assert (found.at({"n": sizes}) == truth).all()


def test_numbers_that_no_rounded_quotient_gives() -> None:
    points = [{"n": size} for size in (8, 9, 20, 40)]
    assert rounded_formula([3, 1, 4, 1], points, {"n": np.arange(8, 41)}) is None


@pytest.mark.parametrize("text", ["n", "(n ceil 8)", "-(n sub 3)", "((n mul -2) max (past+new min 4))"])
def test_sizes_and_their_texts(text: str) -> None:
    assert str(size_of_text(text, ["n", "past+new"])) == text


@pytest.mark.parametrize(
    "text", ["", "3", "m", "(n ceil 8", "(n root 8)", "(n ceil 8))", "(n ceil)", "--3", "n "]
)
def test_texts_that_are_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"'{text}' is no size of n")):
        size_of_text(text, ["n"])


HALF = ExtentFormula(1, ("w",), 1, 2)
"""The extent after a window of 3 with stride 2 and pads."""
QUARTER = ExtentFormula(1, ("w",), 3, 4)
RANGE = {"b": (1, 3), "w": (8, 90)}


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (ExtentFormula(1, (HALF,)), "(w + 1)/2"),
        (ExtentFormula(24, (QUARTER,)), "24*((w + 3)/4)"),
        (ExtentFormula(6, ("b", QUARTER)), "6*b*((w + 3)/4)"),
        (ExtentFormula(2, (HALF,), 1), "2*((w + 1)/2) + 1"),
        (ExtentFormula(1, (QUARTER, QUARTER)), "((w + 3)/4)*((w + 3)/4)"),
        (ExtentFormula(3, (QUARTER,), 1, 2), "(3*((w + 3)/4) + 1)/2"),
        (ExtentFormula(1, ("b",), 0, 1, ExtentFormula(1, ("w",))), "b + w"),
        (ExtentFormula(2, ("b",), 5, 1, ExtentFormula(1, ("b", "w"))), "2*b + b*w + 5"),
        (ExtentFormula(4, ("b",), -1, 1, ExtentFormula(1, (QUARTER,))), "4*b + (w + 3)/4 - 1"),
    ],
)
def test_formulas_of_formulas_are_right_at_all_points(formula: ExtentFormula, text: str) -> None:
    """Points are added while several formulas agree with the known ones."""
    axes = np.meshgrid(*(np.arange(least, most + 1) for least, most in RANGE.values()), indexing="ij")
    of = {name: axis.reshape(-1) for name, axis in zip(RANGE, axes, strict=True)}
    points = [{"b": 1, "w": 32}, {"b": 2, "w": 41}, {"b": 1, "w": 59}, {"b": 3, "w": 90}]
    found: ExtentFormula | None = None
    for _ in range(12):
        try:
            found = found_formula([formula.at(at) for at in points], points, of, (HALF, QUARTER))
            break
        except Undecided as undecided:
            points.append({name: int(values[undecided.number]) for name, values in of.items()})
    assert found is not None
    assert np.array_equal(found.at(of), formula.at(of))
    assert str(formula) == text


def test_what_is_no_formula_is_none() -> None:
    points = [{"w": size} for size in (8, 13, 21, 32, 40, 41)]
    of = {"w": np.arange(8, 42)}
    assert found_formula([at["w"].bit_length() * 7 for at in points], points, of, (HALF,)) is None
