"""Compares the outputs of a run with the expected values, element by element."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from .symptoms import Wrong, symptom

Array = np.ndarray[Any, np.dtype[Any]]


class WrongElement(msgspec.Struct, frozen=True):
    """The first wrong element of an output, in the order of memory."""

    index: tuple[int, ...]
    got: float | str
    """A number, or the text ``nan`` or ``inf``, which JSON has no number for."""
    expected: float | str


class Compared(msgspec.Struct, frozen=True):
    """An output compared with its expected values."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    wrong: int
    """The number of wrong elements."""
    first: WrongElement | None
    largest_error: float | str
    """The largest difference from the expected value among the wrong elements."""
    where: str
    """The place of the wrong elements in words."""
    symptom: str
    """The common trait of the wrong values; empty if none is known."""
    fix: str

    @property
    def text(self) -> str:
        """The comparison as a line."""
        total = int(np.prod(self.shape, dtype=np.int64))
        if self.first is None:
            return f"{self.name}: all {total:,} elements are right"
        index = ", ".join(map(str, self.first.index))
        values = f"got {_shown(self.first.got)}, expected {_shown(self.first.expected)}"
        first = f"first {self.name}[{index}]: {values}"
        known = f"; {self.symptom}" if self.symptom else ""
        return f"{self.name}: {self.wrong:,} of {total:,} elements are wrong, {self.where}; {first}{known}"


def compare(name: str, got: Array, expected: Array, tolerance: float) -> Compared:
    """Compare an output with expected values, which are first rounded to its type.

    Shapes must be equal up to axes of one element. An element may differ by ``tolerance``, absolute and
    relative to its expected value. NaN is right only where it is expected.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = expected.astype(got.dtype).reshape(got.shape)
        values, right = got.astype(np.float64), wanted.astype(np.float64)
        if got.dtype.kind in "iub":
            values, right = got.astype(np.longdouble), wanted.astype(np.longdouble)
        wrong = ~np.isclose(values, right, rtol=tolerance, atol=tolerance, equal_nan=True)
        facts = name, got.shape, got.dtype.name, int(wrong.sum())
        if not wrong.any():
            return Compared(*facts, None, 0.0, "", "", "")
        index = tuple(int(at[0]) for at in np.nonzero(wrong))
        first = WrongElement(index, _number(values[index]), _number(right[index]))
        largest = _number(np.abs(values - right)[wrong].max())
        found = Wrong(values, right, wrong, tolerance)
        known = symptom(found)
        return Compared(*facts, first, largest, found.place, *known)


def _number(value: Any) -> float | str:
    """Return a number as JSON has it."""
    number = float(value)
    return number if np.isfinite(number) else str(number)


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.8g}"
