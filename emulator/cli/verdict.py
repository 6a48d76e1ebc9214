"""``tx8emu --json``: the result of a run as one JSON object. The records here are its schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from emulator.debug.explore import Difference
from emulator.tile.fault import Fault
from emulator.watch.strict.hazards import Hazard, Site, grouped


class OutputData(msgspec.Struct, frozen=True):
    """An output. Its numbers are null when it has no elements, or none that is finite."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    minimum: float | None
    maximum: float | None
    mean: float | None
    not_finite: int


class SiteData(msgspec.Struct, frozen=True):
    """An instruction; ``worker`` is null for the core and the DTE, file, line and node where unknown."""

    tile: int
    address: int
    instruction: str
    worker: int | None
    file: str | None
    line: int | None
    node: str | None
    chip: int | None
    """Null when there is one chip."""


class HazardData(msgspec.Struct, frozen=True):
    """A hazard; ``first`` and ``last`` are bytes of ``memory``, if not empty, as the engines see them."""

    kind: str
    category: str
    at: SiteData
    other: SiteData | None
    memory: str
    first: int
    last: int
    what: str
    fix: str
    count: int
    also: tuple[int, ...]
    """The other tiles with the same hazard, at the same instructions."""


class DifferenceData(msgspec.Struct, frozen=True):
    """An order with another result, and the instruction whose order mattered, if it was searched for."""

    order: str
    where: str
    at: SiteData | None
    hazard: HazardData | None


class Verdict(msgspec.Struct, frozen=True):
    """A run. ``status`` is the exit status."""

    program: str
    status: int
    fault: str | None
    fault_kind: str | None
    fault_category: str | None
    outputs: tuple[OutputData, ...]
    """The outputs; none after a fault, or when the run was saved before its end."""
    hazards: tuple[HazardData, ...] | None
    """Null without ``--strict``."""
    hazards_left_out: bool
    """True if there were more than are kept, or the rest of the run was not checked."""
    orders: int
    """Number of orders that ``--explore`` ran."""
    differences: tuple[DifferenceData, ...] | None
    """Null without ``--explore``."""


def output_data(name: str, array: np.ndarray[Any, Any]) -> OutputData:
    """Return the summary of an output."""
    values = array.astype(np.float64).reshape(-1)
    finite = values[np.isfinite(values)]
    least, most, mean = (
        (float(finite.min()), float(finite.max()), float(finite.mean()))
        if finite.size
        else (None, None, None)
    )
    not_finite = int(values.size - finite.size)
    return OutputData(name, str(array.dtype), array.shape, least, most, mean, not_finite)


def verdict(
    program: str,
    status: int,
    fault: Fault | None,
    outputs: Mapping[str, np.ndarray[Any, Any]],
    hazards: Sequence[Hazard] | None,
    left_out: bool,
    orders: int,
    differences: Sequence[Difference] | None,
) -> str:
    """Return the object as a line of text."""
    found = Verdict(
        program=program,
        status=status,
        fault=None if fault is None else str(fault),
        fault_kind=None if fault is None else fault.kind,
        fault_category=None if fault is None else fault.category,
        outputs=tuple(output_data(name, array) for name, array in outputs.items()),
        hazards=None if hazards is None else hazards_data(hazards),
        hazards_left_out=left_out,
        orders=orders,
        differences=None if differences is None else tuple(map(_difference, differences)),
    )
    return msgspec.json.encode(found).decode()


def _site(site: Site) -> SiteData:
    return SiteData(site.tile, site.pc, site.name, site.worker, site.file, site.line, site.node, site.chip)


def hazards_data(found: Sequence[Hazard]) -> tuple[HazardData, ...]:
    """Return hazards as data, those of several tiles together; ``tx8cc --json`` has the same."""
    return tuple(_hazard(hazard, sorted(set(tiles))) for hazard, tiles in grouped(found))


def _hazard(hazard: Hazard, also: Sequence[int]) -> HazardData:
    other = None if hazard.other is None else _site(hazard.other)
    return HazardData(
        hazard.kind,
        hazard.category,
        _site(hazard.at),
        other,
        hazard.memory,
        hazard.first,
        hazard.last,
        hazard.what,
        hazard.fix,
        hazard.count,
        tuple(also),
    )


def _difference(found: Difference) -> DifferenceData:
    at = None if found.at is None else _site(found.at)
    hazard = None if found.hazard is None else _hazard(found.hazard, ())
    return DifferenceData(found.order, found.where, at, hazard)
