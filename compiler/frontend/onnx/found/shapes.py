"""Shapes of found values: computed vectors whose extents are tracked."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto

from compiler.frontend.onnx.model import onnx_node, plain
from compiler.graph import DTYPES

from .site import FoundSite, renamed

READ_SHAPES = ("Shape", "Size")
"""Operators whose result is the shape of their operand."""
_FOLLOWED = ("Gather", "Concat", "Unsqueeze", "Squeeze", "Slice", "Cast", "Identity")
"""Operators that pick and join the extents of shapes."""
_INTEGERS = (TensorProto.INT32, TensorProto.INT64)
_TOKEN = -(1 << 30)
"""Numbers in place of extents that are values; this is the first, the next ones are lower."""
Part = int | str
"""A known extent, or the name of the value that holds it."""


def shape(site: FoundSite) -> None:
    """Add a vector of known extents and counts."""
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
    """Add the product of the extents."""
    name = site.operand(0)
    counts, known = site.counts(name), site.graph.tensor(name).shape
    result = site.flow.number(int(np.prod([n for axis, n in enumerate(known) if axis not in counts])))
    for count in counts.values():
        result = site.place("Mul", result, count)
    site.flow.finish([result])


def followed(site: FoundSite) -> bool:
    """Add a node that picks or joins extents of shapes, and record the extents of its result."""
    graph, node = site.graph, site.node
    if node.op_type not in _FOLLOWED or not any(name in graph.extents for name in node.input):
        return False
    if any(name in graph.bounded for name in node.input):
        return False
    inputs, numbers = [], dict[str, int]()
    for name in node.input:
        parts = graph.extents.get(name, ())
        numbers |= {part: _TOKEN - len(numbers) for part in parts if isinstance(part, str)}
        inputs.append(_with_numbers(site, name, numbers))
    site.place_plain(node)
    if all(name is not None for name in inputs) and plain(node, "to", TensorProto.INT64) in _INTEGERS:
        copy = onnx_node(node.op_type, map(str, inputs), [graph.fresh()], f"{node.name}/shape")
        copy.attribute.extend(node.attribute)
        site.place_plain(copy)
        result = graph.value(copy.output[0])
        if result is not None:
            names = {number: part for part, number in numbers.items()}
            graph.extents[node.output[0]] = tuple(names.get(int(n), int(n)) for n in result.reshape(-1))
    return True


def _with_numbers(site: FoundSite, name: str, numbers: Mapping[str, int]) -> str | None:
    """Return a constant with numbers in place of a shape's values; None for a value that is not a shape."""
    parts = site.graph.extents.get(name)
    if parts is None:
        return name if not name or site.graph.value(name) is not None else None
    known = [numbers[part] if isinstance(part, str) else part for part in parts]
    tensor = site.graph.tensor(name)
    return site.graph.constant(np.array(known, DTYPES[tensor.dtype]).reshape(tensor.shape))


def takes_shape(site: FoundSite) -> bool:
    """Add a ConstantOfShape or a Range of data-dependent size; False for any other node."""
    graph, node, op = site.graph, site.node, site.node.op_type
    if op == "ConstantOfShape" and site.operand(0) in graph.extents:
        parts = graph.extents[site.operand(0)]
        most = site.ints(*(graph.most[part] if isinstance(part, str) else part for part in parts))
        site.place_plain(renamed(node, {0: most}))
        graph.mark(node.output[0], {at: part for at, part in enumerate(parts) if isinstance(part, str)})
        return True
    if op != "Range" or site.operand(1) not in graph.extents:
        return False
    (part,), ends = graph.extents[site.operand(1)], [graph.value(site.operand(at)) for at in (0, 2)]
    if not isinstance(part, str) or [int(end) for end in ends if end is not None] != [0, 1]:
        return False
    site.finish([graph.constant(np.arange(graph.most[part]))], [{0: part}], places=True)
    return True
