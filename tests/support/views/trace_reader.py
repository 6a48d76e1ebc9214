"""Reads a trace file back and checks the rules that viewers of Chrome's trace event format rely on.

The schema is written from the public description of the format ("Trace Event Format", the JSON object form):
complete events, flow events, counters and metadata, the only phases that are used here.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema

Event = dict[str, Any]
SLACK = 1e-6
"""Microseconds: a tick, the last digit of a time."""

_NUMBER, _WHOLE, _TEXT = (
    {"type": "number", "minimum": 0},
    {"type": "integer", "minimum": 0},
    {"type": "string"},
)


def _event(phase: str, required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    members = {"ph": {"const": phase}, "pid": _WHOLE, "name": _TEXT, **required}
    return {
        "type": "object",
        "properties": {**members, **optional},
        "required": list(members),
        "additionalProperties": False,
    }


_FLOW = {"tid": _WHOLE, "ts": _NUMBER, "id": _WHOLE, "cat": _TEXT}
_ARGUMENTS = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
_VALUES = {"type": "object", "additionalProperties": _NUMBER, "minProperties": 1}


def _named(suffix: str, **member: Any) -> dict[str, Any]:
    (name,) = member
    arguments = {"type": "object", "properties": member, "required": [name], "additionalProperties": False}
    names = {"enum": [f"process_{suffix}", f"thread_{suffix}"]}
    return _event("M", {"tid": _WHOLE, "args": arguments, "name": names})


_EVENTS = {
    "X": _event("X", {"tid": _WHOLE, "ts": _NUMBER, "dur": _NUMBER}, cat=_TEXT, args=_ARGUMENTS),
    "s": _event("s", _FLOW),
    "f": _event("f", _FLOW | {"bp": {"const": "e"}}),
    "C": _event("C", {"ts": _NUMBER, "args": _VALUES}),
    "M": {"oneOf": [_named("name", name=_TEXT), _named("sort_index", sort_index={"type": "integer"})]},
}
_FILE = {
    "type": "object",
    "properties": {
        "traceEvents": {"type": "array"},
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "otherData": {"type": "object"},
    },
    "required": ["traceEvents"],
    "additionalProperties": False,
}


class Read:
    """The events of a file, by phase; AssertionError or ValidationError when it is not a trace."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        self.text = (gzip.decompress(data) if path.name.endswith(".gz") else data).decode()
        file = json.loads(self.text)
        jsonschema.Draft202012Validator(_FILE).validate(file)
        validators = {phase: jsonschema.Draft202012Validator(schema) for phase, schema in _EVENTS.items()}
        self.events: list[Event] = file["traceEvents"]
        self.summary: dict[str, Any] = file["otherData"]
        for event in self.events:
            assert event.get("ph") in validators, event
            assert validators[event["ph"]].is_valid(event), event
        self._check()

    def _check(self) -> None:
        assert self.overlapping() == []
        assert self.loose_arrows() == []
        names = [e["pid"] for e in self.phase("M") if e["name"] == "process_name"]
        assert len(names) == len(set(names))
        threads = [(e["pid"], e["tid"]) for e in self.phase("M") if e["name"] == "thread_name"]
        assert len(threads) == len(set(threads))
        assert {(e["pid"], e["tid"]) for e in self.phase("X")} <= set(threads)

    def phase(self, phase: str) -> Iterator[Event]:
        return (event for event in self.events if event["ph"] == phase)

    def slices(self, *categories: str) -> list[Event]:
        return [e for e in self.phase("X") if not categories or e["cat"] in categories]

    def engine_slices(self) -> list[Event]:
        """Return the slices of instructions."""
        return [e for e in self.phase("X") if "instruction number" in e["args"] and e["cat"] != "arriving"]

    @cached_property
    def threads(self) -> dict[tuple[int, int], list[Event]]:
        """Slices by thread, in the order of time."""
        found = defaultdict(list)
        for event in self.phase("X"):
            found[event["pid"], event["tid"]].append(event)
        return {key: sorted(events, key=lambda e: (e["ts"], e["dur"])) for key, events in found.items()}

    def overlapping(self) -> list[tuple[Event, Event]]:
        return [
            (one, other)
            for events in self.threads.values()
            for one, other in pairwise(events)
            if one["ts"] + one["dur"] > other["ts"] + SLACK
        ]

    def arrows(self) -> list[tuple[Event, Event]]:
        """(begin, end) of every arrow; AssertionError when they do not pair up."""
        begins, ends = ({e["id"]: e for e in self.phase(phase)} for phase in "sf")
        assert len(begins) == sum(1 for _ in self.phase("s"))
        assert len(ends) == sum(1 for _ in self.phase("f"))
        assert begins.keys() == ends.keys()
        return [(begins[number], ends[number]) for number in begins]

    def loose_arrows(self) -> list[tuple[Event, Event]]:
        """Arrows that go back in time or have an end outside of all slices."""
        threads = self.threads

        def bound(event: Event) -> bool:
            slices = threads.get((event["pid"], event["tid"]), [])
            return any(s["ts"] - SLACK <= event["ts"] <= s["ts"] + s["dur"] + SLACK for s in slices)

        return [(s, f) for s, f in self.arrows() if s["ts"] > f["ts"] or not bound(s) or not bound(f)]

    def at(self, event: Event) -> list[Event]:
        """The slices that an arrow's end lies in."""
        slices = self.threads[event["pid"], event["tid"]]
        return [s for s in slices if s["ts"] - SLACK <= event["ts"] <= s["ts"] + s["dur"] + SLACK]

    def counter(self, pid: int, name: str, key: str) -> list[tuple[float, float]]:
        """(time, value) of a counter."""
        return [(e["ts"], e["args"][key]) for e in self.phase("C") if (e["pid"], e["name"]) == (pid, name)]

    def integral(self, pid: int, name: str, key: str) -> float:
        """Value times microseconds."""
        points = self.counter(pid, name, key)
        return sum(value * (after - at) for (at, value), (after, _) in pairwise(points))
