"""A Pad with zeros becomes part of the pads of the convolution that reads it."""

from __future__ import annotations

from compiler.graph import Node
from compiler.operators.shapes.slicing import pad_widths

from .engine import Replacement, Rewrite, RewrittenGraph, can_be_compiled, replacement


def _widths(graph: RewrittenGraph, pad: Node) -> tuple[tuple[int, int], ...] | None:
    """Return the widths before and after each spatial axis, if a Pad adds zeros to these axes only."""
    call = graph.call(pad)
    value = call.values[2] if call.has(2) else None
    if call.string("mode") != "constant" or (call.has(2) and (value is None or value.any())):
        return None
    widths = pad_widths(call)
    cut = any(width < 0 for pair in widths for width in pair)
    return None if cut or any(map(any, widths[:2])) else widths[2:]


def _padded(graph: RewrittenGraph, node: Node) -> Replacement | None:
    pad = graph.sole_producer(node.inputs[0], "Pad")
    widths = _widths(graph, pad) if pad is not None else None
    call = graph.call(node)
    if pad is None or widths is None or call.string("auto_pad") not in ("NOTSET", "VALID"):
        return None
    given = call.integers("pads") or (0,) * (2 * len(widths))
    begins = (given[at] + before for at, (before, _) in enumerate(widths))
    ends = (given[len(widths) + at] + after for at, (_, after) in enumerate(widths))
    build = graph.builder(node)
    attrs = {**dict(node.attrs), "auto_pad": "NOTSET", "pads": (*begins, *ends)}
    result = build("Conv", pad.inputs[0], *node.inputs[1:], **attrs)
    return replacement(build, result) if can_be_compiled(build) else None


REWRITES = (Rewrite("pad-into-convolution", ("Conv",), _padded),)
