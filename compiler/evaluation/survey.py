"""The fates of a model's nodes when it is read: all refusals, and the graph nodes of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compiler.graph import Array, Graph, GraphError, Node, RefusedNode, Tensor, joined


@dataclass(frozen=True)
class Fate:
    """The fate of one node of a model.

    ``refusal`` is its error; it may name a node inside of this one. ``parts`` are the nodes of the graph that
    replace it, none if it is computed when compiling. A node that uses results of a refused one is not
    ``examined``.
    """

    operator: str
    node: str
    refusal: GraphError | None = None
    examined: bool = True
    parts: tuple[Node, ...] = ()


@dataclass
class Survey:
    """The fates of the nodes that the outputs need, in their order, and mistakes outside of nodes."""

    fates: list[Fate] = field(default_factory=list)
    problems: list[GraphError] = field(default_factory=list)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    constants: Mapping[str, Array] = field(default_factory=dict)
    opset: int = 0
    free: int | None = None
    """The size of free dimensions; None refuses them."""
    assumed: list[str] = field(default_factory=list)
    """The dimensions that have it, and how another size is given."""

    def stop_if_refused(self) -> None:
        """GraphError with everything that is wrong, if anything is."""
        errors = [*self.problems, *(fate.refusal for fate in self.fates if fate.refusal is not None)]
        if errors:
            raise joined(errors)

    def graph(self) -> Graph:
        """The nodes that were not refused, as far as their types are known."""
        nodes = tuple(node for fate in self.fates for node in fate.parts)
        return Graph("", self.opset, (), (), self.constants, nodes, self.tensors)


def grouped(errors: Sequence[GraphError]) -> list[str]:
    """A line for each mistake; nodes of one operator that are refused for one reason share a line."""
    lines: dict[str | tuple[str, str], list[str]] = {}
    for error in errors:
        for cause in error.causes or (error,):
            if isinstance(cause, RefusedNode):
                lines.setdefault((cause.op, cause.reason), []).append(cause.messages[0])
            else:
                lines.update({message: [message] for message in cause.messages})
    return [found[0] + _more(len(found) - 1) for found in lines.values()]


def _more(count: int) -> str:
    return f" (and {count} more node{'s' * (count > 1)})" if count else ""
