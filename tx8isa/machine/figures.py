"""Figures of a machine description: a value with its unit, its source and its certainty.

A figure that the sources leave open also has a range, ``least`` and ``most``.

``Record`` is the base of every table of the description. The range of each figure's value is given here
once; the parser, its messages and the JSON Schema follow (see ``description.py``).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

_VALUE = "The figure, in the stated unit."


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the description, whose keys are all required and which allows no others."""


_Any = Annotated[float, Meta(ge=1e-6, le=1e18, description=_VALUE)]
_Time = Annotated[float, Meta(ge=0, le=1e5, description=_VALUE)]
_Part = Annotated[float, Meta(ge=0, le=1, description=_VALUE)]
_Reached = Annotated[float, Meta(ge=0.01, le=1, description=_VALUE)]
_Multiple = Annotated[float, Meta(ge=0.01, le=100, description=_VALUE)]
_Rate = Annotated[float, Meta(ge=0.1, le=1e6, description=_VALUE)]


class Coefficient(Record, frozen=True, kw_only=True):
    """A figure; the classes below give its unit."""

    quickens: ClassVar[bool] = True
    """True when a larger figure makes programs faster, as a rate does."""

    value: _Any
    unit: str
    source: Annotated[str, Meta(min_length=1, description="Where the figure was published.")]
    evidence: Annotated[
        Literal["spec", "board", "inferred", "assumed"],
        Meta(
            description="spec: vendor figure; board: measured; inferred: arithmetic on those; "
            "assumed: chosen or stated without proof."
        ),
    ]
    least: _Any | UnsetType = UNSET
    """The smallest value that the sources allow; unset without a range."""
    most: _Any | UnsetType = UNSET
    """The largest value that the sources allow."""


class Frequency(Coefficient, frozen=True, kw_only=True):
    """A clock."""

    unit: Literal["Hz"]


class OperationRate(Coefficient, frozen=True, kw_only=True):
    """A peak of arithmetic; a multiply-add counts as two operations."""

    unit: Literal["op/s"]


class ElementRate(Coefficient, frozen=True, kw_only=True):
    """A peak of elementwise work."""

    unit: Literal["element/cycle"]


class Bandwidth(Coefficient, frozen=True, kw_only=True):
    """A peak of data movement."""

    unit: Literal["byte/s"]


class PortWidth(Coefficient, frozen=True, kw_only=True):
    """The bytes that a memory port moves in one clock cycle."""

    unit: Literal["byte/cycle"]


# Figures of the model of time. 2**32 blocks of any ``Cycles`` stay below 2**63 ticks.


class Cycles(Coefficient, frozen=True, kw_only=True):
    """A time."""

    quickens = False
    value: _Time
    least: _Time | UnsetType = UNSET
    most: _Time | UnsetType = UNSET
    unit: Literal["cycle"]


class Share(Coefficient, frozen=True, kw_only=True):
    """A part of a whole that is lost."""

    quickens = False
    value: _Part
    least: _Part | UnsetType = UNSET
    most: _Part | UnsetType = UNSET
    unit: Literal["ratio"]


class Efficiency(Coefficient, frozen=True, kw_only=True):
    """The part of a peak that is reached."""

    value: _Reached
    least: _Reached | UnsetType = UNSET
    most: _Reached | UnsetType = UNSET
    unit: Literal["ratio"]


class Slowness(Coefficient, frozen=True, kw_only=True):
    """The time of some work as a multiple of plain arithmetic on the same data."""

    quickens = False
    value: _Multiple
    least: _Multiple | UnsetType = UNSET
    most: _Multiple | UnsetType = UNSET
    unit: Literal["ratio"]


class ElementsPerCycle(Coefficient, frozen=True, kw_only=True):
    """Elementwise work that is reached."""

    value: _Rate
    least: _Rate | UnsetType = UNSET
    most: _Rate | UnsetType = UNSET
    unit: Literal["element/cycle"]


class BytesPerCycle(Coefficient, frozen=True, kw_only=True):
    """Data movement that is reached."""

    value: _Rate
    least: _Rate | UnsetType = UNSET
    most: _Rate | UnsetType = UNSET
    unit: Literal["byte/cycle"]


class StepsPerCycle(Coefficient, frozen=True, kw_only=True):
    """Matrix products of the array's size."""

    value: _Rate
    least: _Rate | UnsetType = UNSET
    most: _Rate | UnsetType = UNSET
    unit: Literal["step/cycle"]
