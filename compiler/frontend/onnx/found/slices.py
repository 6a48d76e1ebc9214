"""Slices along axes with found extents, and slices whose ends are computed."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.frontend.onnx.partial import Unsupported

from .site import FoundSite


def is_found_slice(site: FoundSite) -> bool:
    """Whether a Slice takes a part whose size data decides."""
    if site.graph.value(site.operand(2)) is None:
        return True
    return any(axis in site.counts(site.operand(0)) for axis in _axes(site))


def _known(site: FoundSite, at: int, otherwise: list[int]) -> list[int]:
    name = site.operand(at)
    if not name:
        return otherwise
    value = site.graph.value(name)
    if value is None:
        title = ("data", "starts", "ends", "axes", "steps")[at]
        raise Unsupported(f"its {title} '{name}' must be known when compiling; computed may be its ends")
    return [int(each) for each in value.reshape(-1)]


def _axes(site: FoundSite) -> list[int]:
    rank = site.graph.tensor(site.operand(0)).rank
    count = site.graph.tensor(site.operand(1)).size
    return [axis % rank if rank else 0 for axis in _known(site, 3, list(range(count)))]


@dataclass
class _Part:
    """What is taken along an axis: from ``start`` to before ``stop``, of which a count may be valid."""

    start: int
    stop: int
    count: str = ""


def found_slice(site: FoundSite) -> None:
    """A known part, of which as much is valid as data says."""
    name = site.operand(0)
    counts, shape = dict(site.counts(name)), site.graph.tensor(name).shape
    axes, starts = _axes(site), _known(site, 1, [])
    steps = _known(site, 4, [1] * len(axes))
    computed = site.graph.value(site.operand(2)) is None
    ends: list[int | str] = [*(_known(site, 2, []) if not computed else [""] * len(axes))]
    if computed:
        ends = [
            site.scalar(site.place("Gather", site.operand(2), site.flow.number(at), axis=0))
            for at in range(len(axes))
        ]
    parts: dict[int, _Part] = {}
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if isinstance(end, str) or axis in counts:
            if step != 1 or start < 0:
                reason = f"it is sliced from {start} with step {step}; expected 0 or more, step 1"
                raise (
                    site.refuse(name, axis, reason)
                    if axis in counts
                    else Unsupported(f"its end along axis {axis} is computed, and {reason}")
                )
            parts[axis] = _part(site, shape[axis], counts.pop(axis, ""), (start, end))
    taken = {axis: (part.start, part.stop, 1) for axis, part in parts.items()}
    taken |= {
        axis: (start, end, step)
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True)
        if axis not in parts and isinstance(end, int)
    }
    rows = zip(*taken.values(), strict=True)
    start_of, end_of, step_of = (site.ints(*row) for row in rows)
    result = site.place("Slice", name, start_of, end_of, site.ints(*taken), step_of)
    counts |= {axis: part.count for axis, part in parts.items() if part.count}
    site.finish([result], [counts], places=name in site.graph.places)


def _part(site: FoundSite, most: int, count: str, span: tuple[int, int | str]) -> _Part:
    """What is taken of an axis of ``most`` elements, of which ``count`` are valid (empty: all)."""
    start, end = span
    if isinstance(end, int) and start == 0 and end >= most:
        return _Part(0, most, count)
    extent = count or site.flow.number(most)
    stop = most
    if isinstance(end, str):
        negative = site.place("Less", end, site.flow.number(0))
        end = site.place("Where", negative, site.place("Add", end, extent), end)
        last = site.place("Min", site.place("Max", end, site.flow.number(0)), extent)
    elif end < 0:
        last = site.place("Add", extent, site.flow.number(end))
    else:
        stop = min(most, end)
        last = site.place("Min", extent, site.flow.number(stop))
    if start >= stop:
        raise Unsupported(f"it takes nothing: from {start} to {stop} of at most {most}")
    taken = site.place("Max", site.place("Sub", last, site.flow.number(start)), site.flow.number(0))
    room, taken = site.bound(stop - start, taken)
    return _Part(start, start + room, taken)
