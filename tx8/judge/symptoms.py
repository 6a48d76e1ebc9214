"""Common traits of wrong values, and their usual causes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_ROUNDING = 0.02
"""The largest relative error that a format with fewer bits makes."""
_MOST = 0.9
"""The least share of wrong elements that a symptom explains."""
_CANDIDATES = 64
"""The most places at which the first wrong value is looked for."""


class Wrong(NamedTuple):
    """The values of an output, the expected ones, and the mask of the wrong elements."""

    got: Array
    expected: Array
    mask: Array
    tolerance: float

    @property
    def pairs(self) -> tuple[Array, Array]:
        """The wrong values and the expected ones."""
        return self.got[self.mask], self.expected[self.mask]

    @property
    def place(self) -> str:
        """The place of the wrong elements in words."""
        flat = np.flatnonzero(self.mask)
        first, last, total = int(flat[0]), int(flat[-1]), self.mask.size
        if flat.size >= _MOST * total:
            return "all of them" if flat.size == total else "nearly all of them"
        if flat.size == 1:
            return "a single one"
        if (found := self._axes()) is not None:
            return found
        if flat.size == last - first + 1:
            return (
                f"the last {flat.size:,} of them" if last == total - 1 else f"elements {first:,} to {last:,}"
            )
        return f"between elements {first:,} and {last:,}"

    def _axes(self) -> str | None:
        """Return ``rows 1 to 15`` if the wrong elements are whole parts along one axis."""
        shape = self.mask.shape
        for axis, name in ((0, "row"), (len(shape) - 1, "column")):
            if len(shape) < 2 or shape[axis] < 2:
                continue
            others = tuple(other for other in range(len(shape)) if other != axis)
            some, every = self.mask.any(axis=others), self.mask.all(axis=others)
            whole = bool((some == every).all())
            if not some.all() and (whole or some.mean() <= 0.5):
                return _listed(name, np.flatnonzero(some).tolist(), whole)
        return None

    def near(self, one: Any, other: Any) -> Any:
        """Compare values as the judge does, with a larger tolerance for rounding."""
        room = max(self.tolerance, 1e-3)
        return np.isclose(one, other, rtol=room, atol=1e-6, equal_nan=True)


def _listed(name: str, numbers: list[int], whole: bool) -> str:
    """Return the numbers of rows or columns in words."""
    run = numbers[-1] - numbers[0] == len(numbers) - 1
    if len(numbers) == 1:
        text = f"{name} {numbers[0]}"
    elif run:
        text = f"{name}s {numbers[0]} to {numbers[-1]}"
    else:
        shown = ", ".join(map(str, numbers[:6])) + (", ..." if len(numbers) > 6 else "")
        text = f"{name}s {shown}"
    return text if whole else f"in {text}"


def _unset(wrong: Wrong) -> tuple[str, str] | None:
    got, expected = wrong.pairs
    if np.isnan(got).mean() < _MOST or np.isnan(expected).any():
        return None
    return (
        "NaN, as the scratchpad is before somebody writes to it, and as 0/0 is",
        "load everything that is read: compare counts and addresses of load and computation",
    )


def _untouched(wrong: Wrong) -> tuple[str, str] | None:
    got, expected = wrong.pairs
    if got.any() or not expected.any():
        return None
    return (
        "zeros, as memory is where nothing was stored",
        "store these elements too: look at counts and tiles",
    )


def _transposed(wrong: Wrong) -> tuple[str, str] | None:
    expected = np.squeeze(wrong.expected)
    if expected.ndim != 2 or min(expected.shape) < 2:
        return None
    turned = expected.T.reshape(-1)
    if wrong.near(wrong.got.reshape(-1), turned).mean() < _MOST:
        return None
    return "the expected result transposed", "exchange the axes, or the strides of the store"


def _scaled(wrong: Wrong) -> tuple[str, str] | None:
    got, expected = wrong.pairs
    used = np.isfinite(got) & (np.abs(expected) > 1e-3) & np.isfinite(expected)
    if used.sum() < max(2, _MOST * used.size):
        return None
    factors = got[used] / expected[used]
    factor = float(np.median(factors))
    if (
        abs(factor) < 1e-6
        or abs(factor - 1) < _ROUNDING
        or not np.isclose(factors, factor, rtol=5e-3).mean() >= _MOST
    ):
        return None
    text = (
        "the expected values with the other sign"
        if abs(factor + 1) < 1e-3
        else f"{factor:.4g} times the expected"
    )
    return text, "look at scales, signs, and how often something is added"


def _shifted_by_constant(wrong: Wrong) -> tuple[str, str] | None:
    got, expected = wrong.pairs
    if got.size < 3 or not np.isfinite(got).all() or np.ptp(expected) < 1e-3:
        return None
    differences = got - expected
    step = float(np.median(differences))
    if abs(step) < 1e-6 or not np.isclose(differences, step, rtol=5e-3, atol=1e-6).mean() >= _MOST:
        return None
    return f"the expected values plus {step:.4g}", "look at the addends: a bias, or a constant added twice"


def _moved(wrong: Wrong) -> tuple[str, str] | None:
    got, expected = wrong.got.reshape(-1), wrong.expected.reshape(-1)
    places = np.flatnonzero(wrong.mask.reshape(-1) & (wrong.got.reshape(-1) != 0))
    if places.size < 4 or np.unique(expected).size < 4:
        return None
    at = int(places[places.size // 2])
    candidates = np.flatnonzero(wrong.near(expected, got[at]))[:_CANDIDATES] - at
    for step in sorted(map(int, candidates), key=abs):
        inside = places[(places + step >= 0) & (places + step < expected.size)]
        if inside.size >= 4 and wrong.near(got[inside], expected[inside + step]).sum() >= _MOST * places.size:
            return (
                f"the values expected {abs(step):,} elements {'further on' if step > 0 else 'before'}",
                "look at offsets, strides and the number of the tile",
            )
    return None


def _repeated(wrong: Wrong) -> tuple[str, str] | None:
    if wrong.got.ndim < 2 or wrong.got.shape[0] < 2:
        return None
    rows = wrong.got.reshape(wrong.got.shape[0], -1)
    if not (wrong.near(rows, rows[:1]).all() and not wrong.near(wrong.expected[:1], wrong.expected).all()):
        return None
    return "every row is the same", "use the number of the tile, or of the row, in the address"


def _rounded(wrong: Wrong) -> tuple[str, str] | None:
    got, expected = wrong.pairs
    scale = np.abs(wrong.expected[np.isfinite(wrong.expected)]).max(initial=0.0)
    if not np.isfinite(got).all() or not (np.abs(got - expected) <= _ROUNDING * max(scale, 1e-30)).all():
        return None
    return (
        "near the expected values, as with too few bits",
        "use a format with more bits for sums and results",
    )


def _infinite(wrong: Wrong) -> tuple[str, str] | None:
    got, expected = wrong.pairs
    if not np.isinf(got).any() or np.isinf(expected).any():
        return None
    return "infinite, beyond the range of the format", "scale the values, or use fp32"


_SYMPTOMS: tuple[Callable[[Wrong], tuple[str, str] | None], ...] = (
    *(_unset, _untouched, _transposed, _repeated, _scaled, _shifted_by_constant),
    *(_moved, _rounded, _infinite),
)


def symptom(wrong: Wrong) -> tuple[str, str]:
    """Name the symptom of the wrong values and what to try; the symptom is empty if none is known."""
    found = next((known for check in _SYMPTOMS if (known := check(wrong)) is not None), None)
    return found or ("", "look at the first wrong element: which instruction makes it, and from which bytes?")
