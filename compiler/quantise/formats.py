"""The table of decisions: the format of each node, its loss and the cycles that it saves."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from compiler.graph import Graph, GraphError
from tx8isa.tools.command_line import one_line
from tx8isa.tools.suggestions import hint

from .places import Places

FORMATS = ("int8", "fp16", "fp32")
"""Formats that a node of a quantised network can compute in."""
FLOAT = "fp16"
"""The format of nodes that do not compute with bytes."""
_VERSION = 1


@dataclass(frozen=True)
class Decision:
    """The format of one node.

    ``sensitivity``: the cosine that the outputs lose when only this node computes in the narrow format.
    ``cycles``: the cycles that bytes are expected to save. None: not known.
    """

    node: str
    operator: str
    format: str
    sensitivity: float | None = None
    cycles: int | None = None


@dataclass(frozen=True)
class ComparedFormats:
    """A choice of formats for a network, as compared with others.

    ``aside``: the number of nodes in a wider format. ``loss``: the share that it loses. ``cycles``: the
    expected cycles; None for a choice that was not compiled.
    """

    name: str
    aside: int
    loss: float
    cycles: int | None = None


class SavedDecision(msgspec.Struct, forbid_unknown_fields=True):
    """A decision in a file."""

    operator: str
    format: str
    sensitivity: float | None = None
    cycles_won: int | None = None


class SavedFormats(msgspec.Struct, forbid_unknown_fields=True):
    """The file of ``--save-formats``: decisions by the names of the nodes."""

    version: int
    graph: str
    nodes: dict[str, SavedDecision]
    dtype: str = FLOAT


@dataclass(frozen=True)
class DecisionTable:
    """The decisions for one graph, in the order of its nodes.

    ``loss``: the loss in terms of ``metric`` on the calibration data; None if it was not asked for.
    ``others``: other operators that stay in float, as text. ``narrow`` is the format of nodes without a wider
    one, ``dtype`` that of the floats. ``trials``: the compared choices, the chosen one first; empty without a
    comparison. ``origin``: the data of the loss, if not the calibration data.
    """

    graph: str
    decisions: tuple[Decision, ...]
    others: str
    metric: str = "cosine"
    loss: float | None = None
    narrow: str = "int8"
    dtype: str = FLOAT
    trials: tuple[ComparedFormats, ...] = ()
    origin: str = ""

    def formats(self) -> dict[str, str]:
        """The formats by node."""
        return {decision.node: decision.format for decision in self.decisions}

    def summary(self) -> str:
        """Return the number of nodes in the narrow format, and the nodes in a wider one, as text."""
        names = [decision.node for decision in self.decisions if decision.format != self.narrow]
        count, with_bytes = len(self.decisions) - len(names), self.narrow == "int8"
        what = "products and sums" if with_bytes else "nodes"
        text = f"{self.narrow}: {count} of {len(self.decisions)} {what}"
        if names:
            text += f"; in {'float' if with_bytes else 'fp32'}: {', '.join(names)}"
        if self.others:
            text += f"; in {self.dtype}: {self.others}"
        if self.loss is not None:
            text += f"; {self.metric} lost {self.loss:.3%}"
        return f"{text} {self.origin}".rstrip()

    def text(self) -> str:
        """Return a line for each choice that was compared, then one for each node."""
        width = max((len("node"), *(len(one_line(decision.node)) for decision in self.decisions)))
        lines = [*self._compared()]
        head = f"{'node':<{width}}  {'operator':<8}  format  {'sensitivity':>11}"
        lines.append(f"{head}  {'estimated cycles won':>20}")
        for item in self.decisions:
            loss = "-" if item.sensitivity is None else f"{item.sensitivity:.2e}"
            won = "-" if item.cycles is None else f"{item.cycles:,}"
            line = f"{one_line(item.node):<{width}}  {item.operator:<8}  {item.format:<6}"
            lines.append(f"{line}  {loss:>11}  {won:>20}")
        return "\n".join(lines)

    def _compared(self) -> Iterator[str]:
        """Yield the lines of the compared choices; the first is the chosen one."""
        if not self.trials:
            return
        width = max((len("formats"), *(len(trial.name) for trial in self.trials)))
        yield f"{'formats':<{width}}  {'in wider ones':>13}  {'lost':>9}  {'estimated cycles':>16}"
        for at, trial in enumerate(self.trials):
            cycles = "-" if trial.cycles is None else f"{trial.cycles:,}"
            line = f"{trial.name:<{width}}  {trial.aside:>13}  {trial.loss:>9.4%}  {cycles:>16}"
            yield line if at else f"{line}  chosen"
        yield ""

    def json(self) -> str:
        """Return the content of the file of ``--save-formats``: a line for each node, to be edited."""
        nodes = {
            item.node: SavedDecision(item.operator, item.format, item.sensitivity, item.cycles)
            for item in self.decisions
        }
        rows = [f"  {_json(name)}: {_json(saved)}" for name, saved in nodes.items()]
        head = f'{{"version": {_VERSION}, "graph": {_json(self.graph)}, "dtype": "{self.dtype}", "nodes": {{'
        return head + "\n" + ",\n".join(rows) + "\n}}\n"


def _json(value: object) -> str:
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)


def read_formats(path: Path, places: Places) -> dict[str, str]:
    """Read the formats of a file, by node; GraphError for a broken file, or one for another graph."""
    saved = saved_formats(path)
    formats = {name: decision.format for name, decision in saved.nodes.items()}
    _check(path, saved.graph, formats, places)
    return formats


def saved_formats(path: Path) -> SavedFormats:
    """Read the content of a file of formats; GraphError for a file without formats."""
    try:
        saved: SavedFormats = msgspec.json.decode(path.read_bytes(), type=SavedFormats)
    except msgspec.DecodeError as error:
        raise GraphError([f"{path}: not a file of formats: {error}"]) from None
    if saved.version != _VERSION:
        raise GraphError([f"{path}: formats of version {saved.version}; known is {_VERSION}"])
    return saved


def check_nodes(
    path: Path, made_for: str, formats: Mapping[str, str], graph: Graph, allowed: Collection[str]
) -> None:
    """Raise GraphError unless the nodes of a file are in a graph, and their formats among ``allowed``."""
    names = {node.name for node in graph.nodes}
    for name, found in formats.items():
        if name not in names:
            made = f"it was made for graph '{made_for}', this is '{graph.name}'"
            raise GraphError([f"{path}: the graph has no node '{name}'; {made}{hint(name, names)}"])
        if found not in allowed:
            near = hint(found, allowed)
            raise GraphError([f"{path}: node '{name}' in '{found}'; allowed are {', '.join(allowed)}{near}"])


def _check(path: Path, graph: str, formats: Mapping[str, str], places: Places) -> None:
    check_nodes(path, graph, formats, places.graph, FORMATS)
    for name, found in formats.items():
        if found == "int8" and name not in places.candidates:
            reason = "only products with known weights and sums between them compute with bytes"
            raise GraphError([f"{path}: node '{name}' cannot be int8: {reason}"])
    missing = [name for name in places.candidates if name not in formats]
    if missing:
        made = f"it was made for graph '{graph}', this is '{places.graph.name}'"
        raise GraphError([f"{path}: says nothing of node '{missing[0]}'; {made}"])
