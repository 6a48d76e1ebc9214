"""The plugin of pytest: the text of a failed assertion about hazards; other assertions do not change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_tx8 import pytest_assertrepr_compare


@dataclass(frozen=True)
class Hazard:
    text: str


def test_a_failed_assertion_about_hazards_has_their_texts() -> None:
    lines = pytest_assertrepr_compare("==", (Hazard("a read races with a write"),), ())
    assert lines == ["no hazard, but 1 found", "a read races with a write"]


def test_comparisons_of_other_things_are_left_alone() -> None:
    array = np.arange(3)
    for op, left, right in [
        ("==", array, array),
        ("==", (), array),
        ("!=", (Hazard("a"),), ()),
        ("==", (1,), ()),
    ]:
        assert pytest_assertrepr_compare(op, left, right) is None
