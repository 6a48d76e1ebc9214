"""The least time that work needs at the machine's peaks, by resource (docs/stats.md, The bound)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emulator.engines import tables
from emulator.timing.slices import TICKS
from tx8isa.machine.description import Machine
from tx8isa.machine.figures import Coefficient
from tx8isa.numbers.formats import Format
from tx8isa.records.record import Engine, Instruction

from .types import ResourceName

Ints = npt.NDArray[np.int64]

_CT_WIDTHS = {1: Format.BOOL, 8: Format.INT8, 16: Format.FP16, 32: Format.FP32, 64: Format.FP32}
"""The format that determines the rate of the vector engine, by storage bits."""
_KINDS = [("ct", fmt) for fmt in (Format.BOOL, Format.INT8, Format.FP16, Format.FP32)]
_KINDS += [("ne", fmt) for fmt in (Format.INT8, Format.FP16, Format.BF16, Format.TF32, Format.FP32)]
CLASSES = len(_KINDS) + 1
"""Classes of arithmetic, each with its own peak. The last one is not arithmetic."""
_NONE = CLASSES - 1


class Peak(NamedTuple):
    """A figure of the machine description, with its key."""

    key: str
    figure: Coefficient


def class_engine(number: int) -> str:
    """Return the engine of a class of arithmetic, as the machine description spells it."""
    return _KINDS[number][0]


def class_peak(machine: Machine, number: int) -> Peak:
    """Return the peak of a class of arithmetic."""
    engine, fmt = _KINDS[number]
    published = getattr(machine.engines, engine)
    if hasattr(published, fmt.token):
        return Peak(f"engines.{engine}.{fmt.token}", getattr(published, fmt.token))
    return Peak(f"timing.{engine}.rates.{fmt.token}", getattr(machine.timing.ct.rates, fmt.token))


def class_ticks(machine: Machine, number: int) -> float:
    """Return the ticks of one operation of a class on one tile at its peak."""
    return _per_operation(machine, class_peak(machine, number).figure)


def _per_operation(machine: Machine, figure: Coefficient) -> float:
    """Return the ticks of an operation at a peak."""
    per_cycle = figure.value / (machine.engines.clock.value if figure.unit == "op/s" else 1)
    return TICKS / per_cycle


@cache
def classes() -> Ints:
    """Return [record, format]: the class of an instruction's operations."""
    return np.array([[_class(record, code) for code in range(16)] for record in tables.records()])


def _class(record: Instruction, code: int) -> int:
    try:
        fmt = Format(code)
    except ValueError:
        return _NONE
    if record.engine is Engine.CT:
        kind = ("ct", _CT_WIDTHS[fmt.bits if record.formats else _widest(record)])
    else:
        kind = ("ne", fmt)
    return _KINDS.index(kind) if kind in _KINDS and record.engine in (Engine.CT, Engine.NE) else _NONE


def _widest(record: Instruction) -> int:
    """Return the bits of the widest elements that an instruction without a format touches."""
    firsts = [operand.extent.arguments[0] for operand in record.operands if operand.extent]
    return max((first for first in firsts if isinstance(first, int)), default=32)


# -- least times -----------------------------------------------------------------------------------


class Work(NamedTuple):
    """Work by tile."""

    operations: Ints
    """[tile, class]"""
    moved: Ints
    """[tile, track, 4]: bytes of SPM read, written, of DDR read, written."""
    sent: Ints
    """[from tile, to tile] in bytes."""


class Least(NamedTuple):
    """The least ticks of a resource, and the peaks they follow from."""

    ticks: float
    peaks: list[Peak]


def least(machine: Machine, work: Work, tiles: int) -> dict[ResourceName, Least]:
    """Return the least time for each resource with the work spread evenly over tiles, without unused
    resources."""
    operations, moved = work.operations.sum(axis=0).tolist(), work.moved.sum(axis=0).tolist()
    found: dict[ResourceName, Least] = {
        "NE": _arithmetic(machine, operations, "ne", tiles),
        "CT": _arithmetic(machine, operations, "ct", tiles),
    }
    for name, (track, peak) in transfer_peaks(machine).items():
        found[name] = Least(_bytes(moved[track]) * per_byte(machine, peak.figure) / tiles, [peak])
    peak, ddr = Peak("ddr.nominal", machine.ddr.nominal), sum(sum(bytes_of[2:]) for bytes_of in moved)
    found["DDR"] = Least(ddr * per_byte(machine, peak.figure), [peak])
    peak = Peak("noc.link_out", machine.noc.link_out)
    busiest = int(_carried(machine, work.sent).max(initial=0)) if work.sent.any() else 0
    found["NoC"] = Least(busiest * per_byte(machine, peak.figure), [peak])
    return {name: need for name, need in found.items() if need.ticks > 0}


def transfer_peaks(machine: Machine) -> dict[ResourceName, tuple[Engine, Peak]]:
    """Return the engines that move data, and their peaks."""
    timing = machine.timing
    return {
        "RDMA": (Engine.RDMA, Peak("timing.rdma.rate", timing.rdma.rate)),
        "WDMA": (Engine.WDMA, Peak("timing.wdma.rate", timing.wdma.rate)),
        "TDMA": (Engine.TDMA, Peak("spm.engine_rate", machine.spm.engine_rate)),
    }


def per_byte(machine: Machine, figure: Coefficient) -> float:
    """Return the ticks of a byte at a peak."""
    per_cycle = figure.value / (machine.engines.clock.value if figure.unit == "byte/s" else 1)
    return TICKS / per_cycle


def _bytes(moved: Sequence[int]) -> int:
    """Return the bytes that an engine moves: read or written, whichever is more."""
    return max(moved[0] + moved[2], moved[1] + moved[3])


def _arithmetic(machine: Machine, operations: Sequence[int], engine: str, tiles: int) -> Least:
    ticks, peaks = 0.0, []
    for number, count in enumerate(operations):
        if count and number < _NONE and class_engine(number) == engine:
            peaks.append(class_peak(machine, number))
            ticks += count * _per_operation(machine, peaks[-1].figure) / tiles
    return Least(ticks, peaks)


# -- the mesh --------------------------------------------------------------------------------------


def link_bytes(machine: Machine, sent: Ints) -> dict[tuple[int, int], int]:
    """Return bytes on each used link (from tile, to tile); ``sent`` is [from, to] in bytes.

    A packet goes along x first, then along y.
    """
    if not sent.any():
        return {}
    links, carried = _all_routes(machine.tiles, machine.grid.y)[0], _carried(machine, sent)
    return {links[number]: int(carried[number]) for number in np.flatnonzero(carried).tolist()}


def _carried(machine: Machine, sent: Ints) -> Ints:
    """Return the bytes on each link of the mesh; ``sent`` as for ``link_bytes``."""
    carried: Ints = sent.reshape(-1) @ _all_routes(machine.tiles, machine.grid.y)[1]
    return carried


@cache
def _all_routes(tiles: int, column: int) -> tuple[list[tuple[int, int]], Ints]:
    """Return the links of a mesh, and [from tile * tiles + to tile, link]: 1 if a packet passes the link."""
    routes = [_route(column, source, target) for source in range(tiles) for target in range(tiles)]
    numbers = {link: number for number, link in enumerate(sorted({link for way in routes for link in way}))}
    ways = np.zeros((len(routes), len(numbers)), dtype=np.int64)
    for row, way in zip(ways, routes, strict=True):
        row[[numbers[link] for link in way]] = 1
    return list(numbers), ways


def route(machine: Machine, source: int, target: int) -> list[tuple[int, int]]:
    """Return the links (from tile, to tile) on the way of a packet; none to the tile itself."""
    machine.tile_xy(source), machine.tile_xy(target)
    return _route(machine.grid.y, source, target)


def _route(column: int, source: int, target: int) -> list[tuple[int, int]]:
    (x, y), (to_x, to_y) = divmod(source, column), divmod(target, column)
    stops = [(step, y) for step in _steps(x, to_x)] + [(to_x, step) for step in _steps(y, to_y)[1:]]
    return list(pairwise(at * column + up for at, up in stops))


def _steps(first: int, last: int) -> Sequence[int]:
    return range(first, last + 1) if first <= last else range(first, last - 1, -1)
