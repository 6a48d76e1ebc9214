"""Shapes of found values: they are computed, and it is known of which extents they consist."""

from __future__ import annotations

import numpy as np

from compiler.frontend.onnx.model import plain

from .site import FoundSite

READ_SHAPES = ("Shape", "Size")
"""Operators whose result is the shape of their operand."""
_FOLLOWED = ("Gather", "Concat", "Unsqueeze", "Squeeze", "Slice", "Cast", "Identity")
"""Operators that pick and join the extents of shapes."""
Part = int | str
"""An extent, or the value that it is."""


def shape(site: FoundSite) -> None:
    """Extents that are known and extents that are counts, as a vector."""
    name = site.operand(0)
    known, counts = site.graph.tensor(name).shape, site.counts(name)
    begin, end = plain(site.node, "start", 0), plain(site.node, "end", len(known))
    assert isinstance(begin, int) and isinstance(end, int)
    parts: list[Part] = [counts.get(axis, extent) for axis, extent in enumerate(known)][begin:end]
    _finish(site, parts)


def _finish(site: FoundSite, parts: list[Part]) -> None:
    vectors = [site.place("Reshape", p, site.ints(1)) if isinstance(p, str) else site.ints(p) for p in parts]
    made = site.place("Concat", *vectors, axis=0) if vectors else site.ints()
    site.flow.finish([made])
    site.graph.extents[site.node.output[0]] = tuple(parts)


def size(site: FoundSite) -> None:
    """The product of the extents."""
    name = site.operand(0)
    counts, known = site.counts(name), site.graph.tensor(name).shape
    result = site.flow.number(int(np.prod([n for axis, n in enumerate(known) if axis not in counts])))
    for count in counts.values():
        result = site.place("Mul", result, count)
    site.flow.finish([result])


def followed(site: FoundSite) -> bool:
    """Add a node that picks or joins extents of shapes, and note which its result has."""
    graph, node = site.graph, site.node
    if node.op_type not in _FOLLOWED or not any(name in graph.extents for name in node.input):
        return False
    if any(name in graph.bounded for name in node.input):
        return False
    tokens: dict[str, int] = {}

    def stand_in(name: str) -> str | None:
        """A constant with numbers for the extents that are values."""
        parts = graph.extents.get(name)
        if parts is None:
            value = graph.value(name)
            return None if value is None else name
        numbers = [tokens.setdefault(p, -(1 << 40) - len(tokens)) if isinstance(p, str) else p for p in parts]
        return graph.constant(np.array(numbers, np.int64).reshape(graph.tensor(name).shape))

    inputs = [stand_in(name) if name else "" for name in node.input]
    site.place_plain(node)
    if all(name is not None for name in inputs) and plain(node, "to", 7) in (6, 7):
        attrs = {item.name: plain(node, item.name, 0) for item in node.attribute if item.name != "to"}
        op = "Identity" if node.op_type == "Cast" else node.op_type
        result = graph.value(site.flow.place(op, [name or "" for name in inputs], **attrs))  # type: ignore[arg-type]
        if result is not None:
            names = {number: name for name, number in tokens.items()}
            graph.extents[node.output[0]] = tuple(names.get(int(n), int(n)) for n in result.reshape(-1))
    return True


def takes_shape(site: FoundSite) -> bool:
    """Add a ConstantOfShape or a Range whose size data decides; False for any other node."""
    graph, node = site.graph, site.node
    if node.op_type == "ConstantOfShape" and site.operand(0) in graph.extents:
        parts = graph.extents[site.operand(0)]
        most = [graph.most[part] if isinstance(part, str) else part for part in parts]
        made = site.flow.place(
            "ConstantOfShape",
            [site.ints(*most)],
            **{a.name: a.t for a in node.attribute},  # type: ignore[arg-type]
        )
        site.finish([made], [{at: part for at, part in enumerate(parts) if isinstance(part, str)}])
        return True
    if node.op_type != "Range" or site.operand(1) not in graph.extents:
        return False
    (part,), known = graph.extents[site.operand(1)], [graph.value(site.operand(at)) for at in (0, 2)]
    if (
        not isinstance(part, str)
        or any(k is None for k in known)
        or [int(k) for k in known if k is not None] != [0, 1]
    ):
        return False
    site.finish([graph.constant(np.arange(graph.most[part]))], [{0: part}], places=True)
    return True
