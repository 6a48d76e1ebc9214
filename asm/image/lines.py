"""Names an instruction's place in messages: its source line and its graph node."""

from __future__ import annotations

from pathlib import PurePath


def named_place(line: str, node: str | None) -> str:
    """``prog.s:12, node 'conv1'``; the line alone where it is the node's name, as in kernels of Triton."""
    if not node or node == PurePath(line).name:
        return line
    return f"{line}, node '{node}'" if line else f"node '{node}'"
