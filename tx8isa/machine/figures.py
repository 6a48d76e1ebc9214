"""Figures of a machine description: a value with its unit, where it was published and how sure it is.

``Record`` is the base of every table of the description. The range of each figure's value is given here
once; the parser, its messages and the JSON Schema follow (see ``description.py``).
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

_VALUE = "The figure, in the stated unit."


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the description; every key is needed and no other is allowed."""


class Coefficient(Record, frozen=True):
    """A figure; the classes below give its unit."""

    value: Annotated[float, Meta(ge=1e-6, le=1e18, description=_VALUE)]
    unit: str
    source: Annotated[str, Meta(min_length=1, description="Where the figure was published.")]
    evidence: Annotated[
        Literal["spec", "board", "inferred", "assumed"],
        Meta(
            description="spec: vendor figure; board: measured; inferred: arithmetic on those; "
            "assumed: chosen or stated without proof."
        ),
    ]


class Frequency(Coefficient, frozen=True):
    """A clock."""

    unit: Literal["Hz"]


class OperationRate(Coefficient, frozen=True):
    """A peak of arithmetic; a multiply-add counts as two operations."""

    unit: Literal["op/s"]


class ElementRate(Coefficient, frozen=True):
    """A peak of elementwise work."""

    unit: Literal["element/cycle"]


class Bandwidth(Coefficient, frozen=True):
    """A peak of data movement."""

    unit: Literal["byte/s"]


class PortWidth(Coefficient, frozen=True):
    """The bytes that a memory port moves in one clock cycle."""

    unit: Literal["byte/cycle"]


# Figures of the model of time. What is paid for each of 2**32 blocks (``Cycles``) stays below 2**63 ticks.


class Cycles(Coefficient, frozen=True):
    """A time."""

    value: Annotated[float, Meta(ge=0, le=1e5, description=_VALUE)]
    unit: Literal["cycle"]


class Share(Coefficient, frozen=True):
    """A part of a whole."""

    value: Annotated[float, Meta(ge=0, le=1, description=_VALUE)]
    unit: Literal["ratio"]


class Efficiency(Coefficient, frozen=True):
    """The part of a peak that is reached."""

    value: Annotated[float, Meta(ge=0.01, le=1, description=_VALUE)]
    unit: Literal["ratio"]


class Slowness(Coefficient, frozen=True):
    """The time of some work as a multiple of plain arithmetic on the same data."""

    value: Annotated[float, Meta(ge=0.01, le=100, description=_VALUE)]
    unit: Literal["ratio"]


class ElementsPerCycle(Coefficient, frozen=True):
    """Elementwise work that is reached."""

    value: Annotated[float, Meta(ge=0.1, le=1e6, description=_VALUE)]
    unit: Literal["element/cycle"]


class BytesPerCycle(Coefficient, frozen=True):
    """Data movement that is reached."""

    value: Annotated[float, Meta(ge=0.1, le=1e6, description=_VALUE)]
    unit: Literal["byte/cycle"]


class StepsPerCycle(Coefficient, frozen=True):
    """Matrix products of the array's size."""

    value: Annotated[float, Meta(ge=0.1, le=1e6, description=_VALUE)]
    unit: Literal["step/cycle"]
