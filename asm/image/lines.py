"""Names an instruction's place in messages: its source line and its graph node."""

from __future__ import annotations

from pathlib import PurePath

from .types import Image


def named_place(line: str, node: str | None) -> str:
    """``prog.s:12, node 'conv1'``; the line alone where it is the node's name, as in kernels of Triton."""
    if not node or node == PurePath(line).name:
        return line
    return f"{line}, node '{node}'" if line else f"node '{node}'"


def names_nodes(image: Image) -> bool:
    """True if instructions name nodes of a graph, and not their own lines, as in kernels of Triton."""
    lines = image.lines
    places = (
        f"{PurePath(file).name}:{line}" for file, line in (lines.get(at, ("", 0)) for at in image.nodes)
    )
    return bool(image.nodes) and not any(map(str.__eq__, image.nodes.values(), places))
