"""Slices along axes with found extents, and slices whose ends are computed."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.frontend.onnx.partial import Unsupported

from .site import FoundSite


def is_found_slice(site: FoundSite) -> bool:
    """Return True if a Slice takes a part of data-dependent size."""
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
    """The slice along an axis: from ``start`` to before ``stop``, with a count of valid elements if any."""

    start: int
    stop: int
    count: str = ""


def found_slice(site: FoundSite) -> None:
    """Take a known part, whose valid extent depends on data."""
    name = site.operand(0)
    counts, shape = dict(site.counts(name)), site.graph.tensor(name).shape
    axes, starts = _axes(site), _known(site, 1, [])
    steps = _known(site, 4, [1] * len(axes))
    taken: dict[int, tuple[int, int, int]] = {}
    for axis, start, end, step in zip(axes, starts, _ends(site, len(axes)), steps, strict=True):
        if isinstance(end, int) and axis not in counts:
            taken[axis] = start, end, step
            continue
        _check(site, axis, start, step)
        part = _part(site, shape[axis], counts.pop(axis, ""), (start, end))
        taken[axis] = part.start, part.stop, 1
        if part.count:
            counts[axis] = part.count
    rows = zip(*taken.values(), strict=True)
    first, end_of, step_of = (site.ints(*row) for row in rows)
    result = site.place("Slice", name, first, end_of, site.ints(*taken), step_of)
    site.finish([result], [counts], places=name in site.graph.places)


def _ends(site: FoundSite, count: int) -> list[int | str]:
    """Return the ends of the parts: numbers, or values of one element each."""
    if site.graph.value(site.operand(2)) is not None:
        return [*_known(site, 2, [])]
    ends = site.operand(2)
    each = (site.place("Gather", ends, site.flow.number(at), axis=0) for at in range(count))
    return [site.scalar(end) for end in each]


def _check(site: FoundSite, axis: int, start: int, step: int) -> None:
    """Raise Unsupported for a part that begins at an unknown place, or leaves out elements."""
    if step == 1 and start >= 0:
        return
    reason = f"it is sliced from {start} with step {step}; expected from 0 or more with step 1"
    if axis in site.counts(site.operand(0)):
        raise site.refuse(site.operand(0), axis, reason)
    raise Unsupported(f"its end along axis {axis} is computed, and {reason}")


def _part(site: FoundSite, most: int, count: str, span: tuple[int, int | str]) -> _Part:
    """Return the slice of an axis of ``most`` elements, of them ``count`` valid (empty: all)."""
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
