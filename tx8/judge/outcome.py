"""The judgement of a kernel in a word."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """The judgement in a word."""

    PASSED = "passed"
    REFUSED = "refused"
    FAULT = "fault"
    WRONG = "wrong"
    HAZARDS = "hazards"
    SLOW = "slow"
