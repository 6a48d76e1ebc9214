"""Runs that are drawn: their traces, as slices of engines."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tx8

ROOT = Path(__file__).parents[2]
Event = dict[str, Any]
PROCESS = re.compile(r"(?:chip (\d+) )?tile (\d+) ")
LANE = re.compile(r" (?:worker \d|\(\d+\))")


@dataclass(frozen=True)
class Slice:
    """The work of an engine of a tile from one time to another, in microseconds."""

    chip: int
    tile: int
    track: str
    name: str
    begin: float
    end: float
    more: dict[str, Any]

    @property
    def to(self) -> tuple[int, int]:
        """The chip and tile to which a copy goes."""
        return int(self.more.get("of chip", self.chip)), int(self.more["to tile"])

    def operand(self, name: str) -> int:
        """The value of an operand."""
        found = re.search(rf"\b{name}=(\w+)", self.more["operands"])
        if found is None:
            raise ValueError(f"{self.name} has no operand {name}: {self.more['operands']}")
        return int(found[1], 0)

    def has(self, name: str) -> bool:
        return f"{name}=" in self.more.get("operands", "")


def of_program(program: tx8.Program, *inputs: Any) -> list[Slice]:
    """The slices of a run on one chip."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        program.run(*inputs).trace(str(path))
        return list(_slices(_read(path)))


def of_example(path: str, chips: str = "1x1") -> list[Slice]:
    """The slices of a program of ``examples``, run on random inputs."""
    return list(_slices(events_of_example(path, chips)))


def events_of_example(path: str, chips: str = "1x1") -> list[Event]:
    """The events of the trace of a program of ``examples`` (docs/trace.md)."""
    with tempfile.TemporaryDirectory() as name:
        image, trace = Path(name, "prog.bin"), Path(name, "trace.json")
        tool = Path(sys.executable).parent
        subprocess.run([tool / "tx8as", "-q", ROOT / path, "-o", image], check=True)
        options = ["--chips", chips, "--random", "0", "-q", "--output-dir", name, "--trace", trace]
        subprocess.run([tool / "tx8emu", image, *options], check=True)
        return _read(trace)


def _read(trace: Path) -> list[Event]:
    events: list[Event] = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    return events


def _slices(events: Sequence[Event]) -> Iterator[Slice]:
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    places = {
        e["pid"]: (int(found[1] or 0), int(found[2]))
        for e in events
        if e["name"] == "process_name" and (found := PROCESS.match(e["args"]["name"]))
    }
    for e in events:
        if e["ph"] == "X" and e["pid"] in places:
            track = LANE.sub("", names[e["pid"], e["tid"]])
            yield Slice(*places[e["pid"]], track, e["name"], e["ts"], e["ts"] + e["dur"], e["args"])


def of_tile(slices: Iterable[Slice], tile: int, chip: int = 0) -> list[Slice]:
    """The slices of one tile, in the order of time."""
    return sorted((s for s in slices if (s.chip, s.tile) == (chip, tile)), key=lambda s: (s.begin, s.end))


def array(*shape: int) -> np.ndarray:
    """Random numbers, the same in each run."""
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)
