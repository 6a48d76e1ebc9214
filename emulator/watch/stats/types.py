"""The data of ``--stats=json``. The JSON Schema is made from these records; docs/stats.md explains them.

Cycles have fractions: a time is a whole number of thousandths of a cycle.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Cycles = Annotated[float, Meta(ge=0, description="Cycles of the engines' clock.")]
Share = Annotated[float, Meta(ge=0, description="A part of something, 1 for all of it.")]
Count = Annotated[int, Meta(ge=0)]
EngineName = Literal["CT", "NE", "RDMA", "WDMA", "TDMA", "SCALAR", "DTE"]
ResourceName = Literal["NE", "CT", "RDMA", "WDMA", "TDMA", "DDR", "NoC"]
By = dict[str, Cycles]
"""Cycles by the name of an engine, of CORE, of a resource, or "unknown"; without zeros."""


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Figure(_Record, frozen=True):
    """A peak of the machine description, with its ``key`` there."""

    key: str
    value: float
    unit: str
    source: str
    evidence: Literal["spec", "board", "inferred", "assumed"]


class CyclesRange(_Record, frozen=True):
    """Cycles of the run with the model's figures at the ends of their ranges, and with slower submissions."""

    least: Cycles
    most: Cycles
    c_runtime: Annotated[
        Cycles | None,
        Meta(description="With the C runtime's submissions; null: the run has them, or the library for C."),
    ] = None


class Resource(_Record, frozen=True):
    """The least time for the work of a resource; ``figures``: keys of the peaks that determine it."""

    name: ResourceName
    cycles: Cycles
    share: Annotated[Share, Meta(description="Of the run's cycles.")]
    figures: list[str]


class Loss(_Record, frozen=True):
    """Time that the bound does not need, and its cause. Losses may overlap."""

    text: str
    cycles: Cycles
    share: Annotated[Share, Meta(description="Of the run's cycles.")]
    fix: Annotated[str, Meta(description="What to try.")] = ""


class EngineTime(_Record, frozen=True):
    """Time of an engine of a tile: busy + waiting + bank + ddr + noc + idle is the run's cycles."""

    tile: Count
    engine: EngineName
    instructions: Count
    busy: Annotated[Cycles, Meta(description="In service, at the speed of an idle chip.")]
    waiting: Annotated[
        By,
        Meta(description="Has an instruction, which waits for an older one; by the engine of the older one."),
    ]
    bank: Annotated[Cycles, Meta(description="Longer in service: scratchpad banks or their path are taken.")]
    ddr: Annotated[Cycles, Meta(description="Longer in service: other tiles use the DDR.")]
    noc: Annotated[Cycles, Meta(description="Longer in service: links of the mesh are taken.")]
    idle: Annotated[Cycles, Meta(description="Has no instruction.")]


class CoreTime(_Record, frozen=True):
    """Time of the kernel core of a tile; the sum of all is the run's cycles."""

    tile: Count
    executing: Cycles
    queue: Annotated[By, Meta(description="Waits for room in a queue, by engine.")]
    engines: Annotated[By, Meta(description="Waits until engines are done, by the engine that was last.")]
    dte: Annotated[Cycles, Meta(description="Waits for copies that it started.")]
    arrival: Annotated[Cycles, Meta(description="Waits for what other tiles send.")]
    barrier: Cycles
    program: Annotated[Cycles, Meta(description="Time that a program takes at its end whatever it does.")]
    ended: Annotated[Cycles, Meta(description="From the tile's end to the end of the last tile.")]


class Path(_Record, frozen=True):
    """Bytes that were moved, and how fast, over the whole run and all tiles."""

    path: str
    bytes: Count
    rate: Annotated[float, Meta(ge=0, description="Bytes per second.")]
    peak: Annotated[float | None, Meta(description="Bytes per second of the tiles that take part.")]
    figure: Annotated[str | None, Meta(description="Key of the peak.")]


class Arithmetic(_Record, frozen=True):
    """Operations in one kind of arithmetic; a multiply-add of the NE counts as two."""

    engine: Literal["NE", "CT"]
    format: str
    operations: Count
    rate: Annotated[float, Meta(ge=0, description="Operations per second.")]
    peak: Annotated[float, Meta(ge=0, description="Operations per second of the tiles that take part.")]
    figure: str


class Link(_Record, frozen=True):
    """Bytes that one link of the mesh carried."""

    source: Count
    target: Count
    bytes: Count


class NodeTime(_Record, frozen=True):
    """A graph node, or all code that belongs to none (name ""), or a group of nodes."""

    name: str
    cycles: Annotated[Cycles, Meta(description="By which the last tile ends later because of it.")]
    share: Share
    bound: ResourceName | None
    reached: Annotated[Share, Meta(description="Cycles of its bound / its cycles.")]
    resources: Annotated[By, Meta(description="Least cycles by resource.")]
    busy: Annotated[By, Meta(description="Cycles in service on the tile that ends last, by engine.")]
    instructions: Count
    ddr_bytes: Count
    operations: Count


class Place(_Record, frozen=True):
    """An instruction of the text that took long, on all tiles together."""

    address: Count
    file: str | None
    line: Count | None
    instruction: Annotated[str, Meta(description="Mnemonic; empty for one of the core.")]
    node: str
    count: Annotated[Count, Meta(description="Engine instructions.")]
    busy: Cycles
    lost: Annotated[Cycles, Meta(description="Blocked in the engine, or waited by the core.")]


class Executed(_Record, frozen=True):
    """Executions of an instruction on all tiles, and the bytes that it touched."""

    instruction: str
    count: Count
    bytes_read: Count
    bytes_written: Count


class Report(_Record, frozen=True):
    """Statistics of one run in simulated time."""

    machine: str
    complete: Annotated[bool, Meta(description="Every tile has ended its program.")]
    clock: Annotated[float, Meta(description="Hz.")]
    cycles: Annotated[Cycles, Meta(description="Until the last tile ends.")]
    cycles_range: Annotated[CyclesRange | None, Meta(description="Null: not asked for.")]
    milliseconds: float
    last_tile: Annotated[Count, Meta(description="The tile that ends last.")]
    tiles: Count
    tiles_used: Annotated[Count, Meta(description="Tiles that gave an engine work.")]
    instructions: Annotated[Count, Meta(description="Of cores and engines.")]
    engine_instructions: Count
    bound: ResourceName | None
    reached: Annotated[Share, Meta(description="Cycles of the bound / cycles of the run.")]
    resources: list[Resource]
    losses: list[Loss]
    engines: list[EngineTime]
    cores: list[CoreTime]
    paths: list[Path]
    arithmetic: list[Arithmetic]
    links: list[Link]
    nodes: list[NodeTime]
    groups: Annotated[list[NodeTime], Meta(description="Empty when the program has no groups.")]
    places: Annotated[list[Place], Meta(description="The 50 that took longest, falling.")]
    executed: list[Executed]
    figures: list[Figure]
    evidence: Annotated[
        dict[str, Count],
        Meta(description="Coefficients of the model of time that the run used, by evidence."),
    ]
    version: Literal[1] = 1


def schema() -> dict[str, Any]:
    """The JSON Schema of a report."""
    return msgspec.json.schema(Report)
