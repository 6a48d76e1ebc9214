"""``tx8cc --check``: every operator of a model, how it will run, and all refusals, without compiling.

The records of the lowerings that a node or its expansion uses say what computes an operator. No groups are
formed and no rewrites applied, although these can join several operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from compiler.evaluation.survey import Fate, Survey
from compiler.frontend import Reader
from compiler.graph import Graph, GraphError, Node, RefusedNode
from compiler.lowering import LOWERINGS
from compiler.lowering.record import Engine
from compiler.operators import OPERATORS, Call, Operator, call_of
from compiler.operators.boxes.divisions import is_divisible
from compiler.operators.expansion.expander import Expander, expand_graph
from compiler.passes.rewrite import refusal_of
from tx8isa.tools.command_line import one_line

from .support import engines_text

_SHOWN_NODES = 3
"""Names of nodes in a row of the table."""
_FREE = 1
"""The size that free dimensions of a model get."""
_FEW = 64
"""Constants up to this many elements, such as bounds of a slice, are compared; larger ones by identity."""


class Row(msgspec.Struct, frozen=True):
    """Nodes of one operator that run on the same unit.

    ``state`` is ``engines`` (of the chip, perhaps with some parts on the kernel core), ``kernel core``, ``no
    code``, ``constant`` (computed at compile time), ``refused``, or ``not examined`` for a node that uses the
    result of a refused one. ``kernel_core`` lists the operators that the core computes element by element:
    this one, or parts of it. ``reason`` tells why nodes are refused.
    """

    operator: str
    state: str
    engines: list[str]
    kernel_core: list[str]
    reason: str
    nodes: list[str]

    @property
    def count(self) -> int:
        return len(self.nodes)


class Check(msgspec.Struct, frozen=True):
    """The findings of ``--check``.

    ``problems`` are mistakes outside of nodes, such as inputs without shape; ``assumed`` are free dimensions,
    and the options that give them sizes. ``parts`` is the number of nodes after expansion. ``whole`` counts,
    by operator, nodes that cannot be divided along an axis: a part of the result needs the whole operands.
    """

    source: str
    supported: bool
    operators: list[Row]
    problems: list[str]
    assumed: list[str]
    parts: int
    whole: dict[str, int]

    def json(self) -> str:
        """Return the findings as JSON, which docs/compiler_tools.md describes.

        Each row has its ``count`` too.
        """
        plain = msgspec.to_builtins(self)
        for row, found in zip(plain["operators"], self.operators, strict=True):
            row["count"] = found.count
        return msgspec.json.format(msgspec.json.encode(plain)).decode()


@dataclass
class _Ways:
    """The units that compute a node of the model after expansion."""

    engines: set[Engine] = field(default_factory=set)
    on_core: set[str] = field(default_factory=set)

    @property
    def state(self) -> str:
        if self.engines:
            return "engines"
        return "kernel core" if self.on_core else "no code"

    def add(self, graph: Graph, node: Node) -> None:
        """Add the units of a node without expansion, or of the nodes in graphs that it executes.

        GraphError for a refused node.
        """
        for body in node.bodies:
            expanded = expand_graph(body)
            for inner in expanded.nodes:
                self.add(expanded, inner)
        refusal = refusal_of(graph, node)
        if refusal is not None:
            raise refusal
        entry = LOWERINGS[node.op]
        if node.bodies:
            return
        if entry.on_core is not None and entry.on_core(call_of(graph, node)):
            self.on_core.add(node.op)
        else:
            self.engines |= set(entry.engines)


def check_model(read: Reader, path: Path, survey: Survey | None = None) -> Check:
    """Read a model and find how its operators will run. GraphError for a file that cannot be read at all.

    ``survey`` receives the fates of the nodes.
    """
    survey, supported, used = survey or Survey(free=_FREE), True, None
    try:
        used = {node.name for node in read(path, survey).nodes}
    except GraphError as error:
        supported = False
        if not survey.fates and not survey.problems:
            raise
        if not survey.problems and all(fate.refusal is None for fate in survey.fates):
            survey.problems.append(error)  # of outputs, or of the graph as a whole
    expander = Expander(survey.graph())
    rows = _rows(survey, used, expander)
    supported = supported and all(row.state != "refused" for row in rows)
    problems = [text for error in survey.problems for text in error.messages]
    return Check(str(path), supported, rows, problems, survey.assumed, len(expander.nodes), _whole(expander))


def _whole(expander: Expander) -> dict[str, int]:
    """Count the nodes after expansion that cannot be divided, by operator; single numbers do not count."""
    graph, found, known = expander.state(), Counter[str](), dict[Any, bool]()
    for node in expander.nodes:
        call = call_of(graph, node)
        key = _same_calls(node.op, call)
        if key not in known:
            known[key] = _is_whole(OPERATORS[node.op], call)
        found[node.op] += known[key]
    return {op: count for op, count in sorted(found.items()) if count}


def _is_whole(record: Operator, call: Call) -> bool:
    sizes = (tensor.size for tensor in (*call.inputs, *record.infer(call)) if tensor is not None)
    return any(size > 1 for size in sizes) and not is_divisible(record, call)


def _same_calls(op: str, call: Call) -> Hashable:
    """Return a key for equal calls, so that each is examined once: unrolled layers repeat."""
    shapes = tuple(None if tensor is None else tensor.shape for tensor in call.inputs)
    values = [
        value.tobytes() if value is not None and value.size <= _FEW else id(value) for value in call.values
    ]
    return op, shapes, tuple(sorted(call.attrs.items())), tuple(values), tuple(map(bool, call.outputs))


def _rows(survey: Survey, used: set[str] | None, expander: Expander) -> list[Row]:
    """Return the rows by operator, refused ones last. ``used``: the graph's nodes, None if it was refused."""
    found: dict[tuple[str, ...], Row] = {}
    for fate in survey.fates:
        row = _row(fate, expander, used)
        key = (row.operator, row.state, row.reason, *row.engines, "", *row.kernel_core)
        found.setdefault(key, row)
        if found[key] is not row:
            found[key].nodes.extend(row.nodes)
    return sorted(found.values(), key=lambda row: (row.state == "refused", row.operator))


def _row(fate: Fate, expander: Expander, used: set[str] | None) -> Row:
    parts = [node for node in fate.parts if used is None or node.name in used]
    if fate.refusal is None and fate.examined and parts:
        try:
            return _computed(fate, parts, expander)
        except GraphError as error:
            return _refused(fate, error)
    if fate.refusal is not None:
        return _refused(fate, fate.refusal)
    return Row(fate.operator, "constant" if fate.examined else "not examined", [], [], "", [fate.node])


def _computed(fate: Fate, parts: list[Node], expander: Expander) -> Row:
    """Return the row of a node whose nodes in the graph are ``parts``."""
    ways, before = _Ways(), len(expander.nodes)
    for node in parts:
        expander.node(node)
    state = expander.state()
    for node in expander.nodes[before:]:
        ways.add(state, node)
    engines = [engine.value for engine in Engine if engine in ways.engines]
    return Row(fate.operator, ways.state, engines, sorted(ways.on_core), "", [fate.node])


def _refused(fate: Fate, error: GraphError) -> Row:
    """Return the row of a refused node. The reason may name an operator inside of it, or in its expansion."""
    first = error.causes[0] if error.causes else error
    if not isinstance(first, RefusedNode):
        return Row(fate.operator, "refused", [], [], first.messages[0], [fate.node])
    reason = " ".join(part for part in (first.reason, first.hint.removeprefix(";").strip()) if part)
    if first.op != fate.operator:
        reason = f"it contains {first.op}" + (f": {reason}" if reason else "")
    return Row(fate.operator, "refused", [], [], reason, [fate.node])


def table(check: Check) -> str:
    """Format the rows as a table for people, with a last line about the whole model."""
    rows = [(one_line(row.operator), row.count, one_line(how(row))) for row in check.operators]
    width = max(len("operator"), *(len(operator) for operator, _, _ in rows), 0)
    lines = [f"{'operator':<{width}}  {'nodes':>5}  runs on"]
    lines += [f"{operator:<{width}}  {count:>5}  {how}" for operator, count, how in rows]
    return "\n".join(
        [*lines, *map(one_line, (*check.problems, *check.assumed)), one_line(", ".join(_summary(check)))]
    )


def how(row: Row) -> str:
    """Return the text that says what computes the nodes of a row, or why they are refused."""
    if row.state == "refused":
        names = ", ".join(f"'{name}'" for name in row.nodes[:_SHOWN_NODES])
        more = ", ..." if row.count > _SHOWN_NODES else ""
        return f"refused: {row.reason or 'not supported'} ({names}{more})"
    if row.state in _TEXTS:
        return _TEXTS[row.state]
    parts = [engines_text(engine for engine in Engine if engine.value in row.engines)] if row.engines else []
    inner = [op for op in row.kernel_core if op != row.operator]
    if row.kernel_core:
        parts.append("kernel core" + (f" ({', '.join(inner)})" if inner else ""))
    return "; ".join(parts)


_TEXTS = {
    "no code": "no code: the same bytes in another shape",
    "constant": "computed when compiling",
    "not examined": "not examined: an operand comes from a refused node",
}


def _summary(check: Check) -> Iterator[str]:
    total, refused = (sum(row.count for row in rows) for rows in (check.operators, _in(check, "refused")))
    on_core = sum(row.count for row in check.operators if row.kernel_core)
    yield f"{check.source}: {total} node{'s' * (total != 1)}"
    if on_core:
        yield f"{on_core} with elements computed one by one on the kernel core"
    if check.whole:
        count = sum(check.whole.values())
        yield f"{count} of {check.parts} after expansion not divisible ({', '.join(check.whole)})"
    yield "all supported" if check.supported else f"{refused} refused" if refused else "not supported"


def _in(check: Check, state: str) -> list[Row]:
    return [row for row in check.operators if row.state == state]
