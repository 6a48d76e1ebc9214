"""Zeros that a Pad puts around images become pads of the convolution that reads them."""

from __future__ import annotations

from compiler.graph import Node
from compiler.operators.shapes.slicing import pad_widths

from .engine import Replacement, Rewrite, Rewriting, can_be_compiled, made


def _widths(graph: Rewriting, pad: Node) -> tuple[tuple[int, int], ...] | None:
    """Zeros before and behind each spatial axis, if a Pad adds nothing else."""
    call = graph.call(pad)
    value = call.values[2] if call.has(2) else None
    if call.string("mode") != "constant" or (call.has(2) and (value is None or value.any())):
        return None
    widths = pad_widths(call)
    cut = any(width < 0 for pair in widths for width in pair)
    return None if cut or any(map(any, widths[:2])) else widths[2:]


def _padded(graph: Rewriting, node: Node) -> Replacement | None:
    pad = graph.sole(node.inputs[0], "Pad")
    widths = _widths(graph, pad) if pad is not None else None
    call = graph.call(node)
    if pad is None or widths is None or call.string("auto_pad") not in ("NOTSET", "VALID"):
        return None
    given = call.integers("pads") or (0,) * (2 * len(widths))
    begins = (given[at] + before for at, (before, _) in enumerate(widths))
    ends = (given[len(widths) + at] + behind for at, (_, behind) in enumerate(widths))
    build = graph.builder(node)
    attrs = {**dict(node.attrs), "auto_pad": "NOTSET", "pads": (*begins, *ends)}
    result = build("Conv", pad.inputs[0], *node.inputs[1:], **attrs)
    return made(build, result) if can_be_compiled(build) else None


REWRITES = (Rewrite("pad-into-convolution", ("Conv",), _padded),)
