"""Properties in records, for all operands: laws, moved elements, axes along which operators are uniform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from box_cases import PartCase
from box_draws import DRAWN, drawn
from compiler.graph import Array, Box, Shape
from compiler.operators import OPERATORS
from compiler.operators.boxes.forms import elementwise, everywhere
from compiler.operators.record import Law

SEEDS = range(10)


def of_law(law: Law) -> list[str]:
    return [name for name, record in OPERATORS.items() if law in record.laws]


def floats(op: str) -> list[tuple[PartCase, list[Array]]]:
    """Random calls of an operator with floats as operands."""
    found = []
    for seed in SEEDS:
        case, rng = drawn(op, seed)
        operands = {
            name: None if array is None else rng.standard_normal(array.shape).astype(np.float32)
            for name, array in case.operands.items()
        }
        case = replace(case, operands=operands, outputs=1)
        found.append((case, [array for array in operands.values() if array is not None]))
    return found


def result(case: PartCase, arrays: Sequence[Array]) -> Array:
    given = iter(arrays)
    operands = [None if array is None else next(given) for array in case.arrays]
    return np.asarray(case.by_reference()(operands)[0])


def halved(array: Array) -> Array:
    return array.astype(np.float16).astype(np.float32)


def exact(case: PartCase, arrays: Sequence[Array]) -> bool:
    """The result of rounded operands equals the rounded result."""
    return np.array_equal(result(case, list(map(halved, arrays))), halved(result(case, arrays)))


def rising(case: PartCase, arrays: Sequence[Array]) -> bool:
    rng = np.random.default_rng(len(arrays))
    higher = [array + rng.exponential(size=array.shape).astype(np.float32) for array in arrays]
    return bool((result(case, arrays) <= result(case, higher)).all())


def homogeneous(case: PartCase, arrays: Sequence[Array]) -> bool:
    first, *others = arrays
    factors = np.exp2(np.arange(first.shape[1]) % 5 - 2.0) if first.ndim > 1 else np.full(1, 4.0)
    factors = factors.astype(np.float32).reshape(-1, *(1,) * max(first.ndim - 2, 0))
    return np.array_equal(result(case, [first * factors, *others]), result(case, arrays) * factors)


def summed(case: PartCase, arrays: Sequence[Array]) -> bool:
    return np.allclose(result(case, arrays), sum(array.astype(np.float64) for array in arrays))


LAWS = {Law.EXACT: exact, Law.RISING: rising, Law.HOMOGENEOUS: homogeneous, Law.SUM: summed}


@pytest.mark.parametrize(("law", "op"), [(law, op) for law in LAWS for op in of_law(law)])
def test_an_operator_keeps_the_laws_of_its_record(law: Law, op: str) -> None:
    assert all(LAWS[law](case, arrays) for case, arrays in floats(op))


@pytest.mark.parametrize(
    ("law", "op"),
    [(Law.EXACT, "Exp"), (Law.EXACT, "AveragePool"), (Law.RISING, "Neg"), (Law.RISING, "Abs"),
     (Law.HOMOGENEOUS, "Clip"), (Law.HOMOGENEOUS, "Sigmoid"), (Law.SUM, "Sub"), (Law.SUM, "Max")],
)  # fmt: skip
def test_a_law_that_does_not_hold_is_noticed(law: Law, op: str) -> None:
    assert law not in OPERATORS[op].laws
    assert not all(LAWS[law](case, arrays) for case, arrays in floats(op))


KEEPING = [name for name, record in OPERATORS.items() if record.keeps_elements]


@pytest.mark.parametrize("op", KEEPING)
def test_results_are_elements_of_the_first_operand(op: str) -> None:
    for seed in SEEDS:
        case, _ = drawn(op, seed)
        if (first := case.arrays[0]) is not None:
            found = case.by_reference()(case.arrays)[0]
            assert np.isin(found, first.astype(found.dtype)).all()


def test_operators_that_fill_or_join_keep_more_than_their_first_operand() -> None:
    filling = {"Pad", "InsertZeros", "Concat", "Append", "Relu", "Clip", "GlobalMaxPool", "Where"}
    assert filling.isdisjoint(KEEPING)


@pytest.mark.parametrize("op", [name for name, record in OPERATORS.items() if record.reshapes])
def test_what_reshapes_leaves_elements_in_their_order(op: str) -> None:
    for seed in SEEDS:
        case, _ = drawn(op, seed)
        (found,) = case.by_reference()(case.arrays)[:1]
        assert case.arrays[0] is not None
        assert np.array_equal(found.ravel(), case.arrays[0].ravel())


# --- uniform along an axis -------------------------------------------------------------------------------


def part_of(shape: Shape, needed: Sequence[Box | None]) -> Sequence[Box] | None:
    """The parts of an operand that halves of a result need, or None for both if they need all of it."""
    whole = Box.whole(shape)
    if needed[0] == needed[1]:
        return whole, whole
    for axis, size in enumerate(shape):
        halves = [whole.along(axis, at * (size // 2), (at + 1) * (size // 2)) for at in (0, 1)]
        if size % 2 == 0 and halves == list(needed):
            return halves
    return None


def halves_of(case: PartCase, axis: int) -> tuple[list[Array], Array] | None:
    """The halves of a result along an axis as computed from parts of the operands, and the result."""
    call, arrays = case.call(), case.arrays
    if any(array is not None and not array.size for array in arrays):
        return None
    whole = np.asarray(case.by_reference()(arrays)[0])
    size = whole.shape[axis]
    boxes = [Box.whole(whole.shape).along(axis, at * (size // 2), (at + 1) * (size // 2)) for at in (0, 1)]
    needs = [case.record.needed(call, [box]) for box in boxes]
    parts = [
        None if array is None else part_of(array.shape, [each[at] for each in needs])
        for at, array in enumerate(arrays)
    ]
    if any(part is None and array is not None for part, array in zip(parts, arrays, strict=True)):
        return None
    if all(part is None or part[0] == part[1] for part in parts):
        return None
    found = []
    for number in (0, 1):
        cut = [None if part is None else part[number].slices for part in parts]
        own = dict(zip(case.operands, arrays, strict=True))
        own = {
            name: array if array is None or at is None else array[at]
            for (name, array), at in zip(own.items(), cut, strict=True)
        }
        half = replace(case, operands=own)
        found.append(np.asarray(half.by_reference()(half.arrays)[0]))
    return found, whole


def problem_of(case: PartCase) -> tuple[int, str | None]:
    """Return the number of axes of a call that were divided, and the mistake found in one."""
    record, call, tried = case.record, case.call(), 0
    if record.uniform is None:
        return 0, None
    for axis, size in enumerate(record.shapes(call)[0]):
        if size and size % 2 == 0 and record.uniform(call, axis):
            divided = halves_of(case, axis)
            if divided is not None:
                tried += 1
                halves, whole = divided
                joined = np.concatenate(halves, axis)
                if joined.shape != whole.shape or not np.allclose(joined, whole, equal_nan=True):
                    return tried, f"axis {axis} of {whole.shape}"
    return tried, None


UNIFORM = [name for name, record in OPERATORS.items() if record.uniform is not None and name in DRAWN]


@pytest.mark.parametrize("op", UNIFORM)
def test_parts_of_operands_make_the_parts_of_a_result(op: str) -> None:
    found = [problem_of(drawn(op, seed)[0]) for seed in range(30)]
    assert [problem for _, problem in found if problem is not None] == []


def test_parts_are_tried_of_most_uniform_operators() -> None:
    declared = [op for op in UNIFORM if OPERATORS[op].expansion is None]
    tried = [op for op in declared if any(problem_of(drawn(op, seed)[0])[0] for seed in range(30))]
    assert set(declared) - set(tried) == set()


@pytest.mark.parametrize("op", ["CumSum", "Trilu", "Softmax"])
def test_an_operator_that_is_not_uniform_is_noticed(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATORS, op, replace(OPERATORS[op], uniform=everywhere, needs=elementwise))
    assert any(problem_of(drawn(op, seed)[0])[1] for seed in range(30))
