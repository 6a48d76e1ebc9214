"""What the parts of the walk share: names inside functions and subgraphs, and the refusal of a node."""

from __future__ import annotations

from dataclasses import dataclass, field


class Unsupported(Exception):
    """A node that cannot be taken; the text says why, without naming the node."""


@dataclass
class Scope:
    """Names inside a function or subgraph, and the names of the same values in the graph."""

    names: dict[str, str] = field(default_factory=dict)
    prefix: str = ""
    """Of the names that values made inside get in the graph."""

    def inner(self, name: str) -> str:
        """The value's name in the graph."""
        return self.names.get(name, name) if name else ""
