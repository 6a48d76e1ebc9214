"""Compares every node of a graph with its reference: ``tx8cc --verify-nodes``.

Every value becomes an output: the graph is compiled with all of them, in batches if they are many. A node is
judged on the operands that the emulated chip computed for it, so errors of earlier nodes do not count.
Further columns show how far the errors have accumulated. With every value as an output, no operators are
computed together. Therefore the outputs of the program itself are judged too; when only they are wrong, the
node that causes it is found by bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from compiler.driver import Program
from compiler.evaluation.folding import needed
from compiler.evaluation.judgement import FloatModel, Judgement, judged, kind_of
from compiler.evaluation.reference import run_reference
from compiler.evaluation.tolerance import Verdict, judge
from compiler.graph import DTYPES, Array, Graph, Node, Tensor
from compiler.tools.run import check, execute
from tx8isa.tools.command_line import one_line

from .excerpt import excerpt, with_outputs

Compile = Callable[[Graph], Program]
Values = Mapping[str, Array]

_SHARE_OF_DDR = 4
"""The outputs of one batch take at most the DDR divided by this."""


@dataclass(frozen=True)
class NodeCheck:
    """The verdicts on one result of a node.

    ``alone`` judges the node on the operands that the chip computed. ``so_far`` compares its result with a
    reference run of the whole graph, which includes the errors of earlier nodes.
    """

    node: Node
    tensor: Tensor
    alone: Verdict
    so_far: Verdict


@dataclass(frozen=True)
class FailingPart:
    """A graph of consecutive nodes whose result is wrong, and inputs with which it is."""

    graph: Graph
    inputs: Values
    first: str
    last: str


@dataclass(frozen=True)
class Verification:
    """The verdicts on all nodes: ``checks`` in the order of nodes, ``outputs`` on the program's outputs.

    ``at`` is the first node whose result is wrong, by itself or when computed together with others. ``part``
    is the smallest graph found that shows it; None if every smaller graph that was tried is right.
    """

    checks: tuple[NodeCheck, ...]
    outputs: Mapping[str, Judgement]
    at: Node | None = None
    part: FailingPart | None = None

    @property
    def wrong(self) -> NodeCheck | None:
        """The first check that failed."""
        return next((item for item in self.checks if not item.alone.ok), None)

    @property
    def ok(self) -> bool:
        return self.wrong is None and all(found.verdict.ok for found in self.outputs.values())

    @property
    def format_alone(self) -> bool:
        """True if only the error of the format is wrong."""
        return self.wrong is None and all(found.as_the_format_allows for found in self.outputs.values())


def verify(graph: Graph, inputs: Values, compile_: Compile, source: FloatModel | None = None) -> Verification:
    """Judge every node; ``compile_`` compiles a graph. RunFault when a program stops with a fault.

    ``source``: the graph before it was quantised, with which the outputs are compared.
    """
    program = compile_(graph)
    outputs, _ = execute(program, inputs)
    exact = run_reference(with_outputs(graph, _results(graph)), inputs)
    values, checks = dict(inputs), []
    for names in _batches(graph, program.machine.ddr.bytes // _SHARE_OF_DDR):
        shown = {**inputs, **execute(compile_(with_outputs(graph, _with_operands(graph, names))), inputs)[0]}
        values = {**shown, **values}
        checks += [_check(graph, node, name, shown, exact, program.dtype) for node, name in names]
    found = Verification(tuple(checks), judged(graph, program.dtype, outputs, inputs, source))
    at = None
    if found.wrong is not None:
        at = found.wrong.node
    elif not found.format_alone and _differs(outputs, values, program.dtype):
        at = _first_wrong_together(graph, inputs, values, compile_)
    return found if at is None else replace(found, at=at, part=_smallest_part(graph, at, values, compile_))


def _results(graph: Graph) -> list[str]:
    """The results of all nodes except for tensors without elements."""
    made = [name for node in graph.nodes for name in node.outputs if name]
    return [name for name in made if graph.tensors[name].size]


def _batches(graph: Graph, most: int) -> Iterator[list[tuple[Node, str]]]:
    """The results of the nodes in batches.

    A batch takes at most ``most`` bytes with the operands of its nodes, or consists of a single result.
    """
    batch: list[tuple[Node, str]] = []
    names: set[str] = set()
    for node in graph.nodes:
        for name in node.outputs:
            if not name or not graph.tensors[name].size:
                continue
            more = names | set(_with_operands(graph, [(node, name)]))
            if batch and _bytes(graph, more) > most:
                yield batch
                batch, more = [], set(_with_operands(graph, [(node, name)]))
            batch.append((node, name))
            names = more
    if batch:
        yield batch


def _with_operands(graph: Graph, results: Sequence[tuple[Node, str]]) -> list[str]:
    """The names of results and of the operands that other nodes compute for them.

    The operands must come from the same run, because their bits can depend on which values are outputs.
    """
    made = set(_results(graph))
    reads = [name for node, _ in results for name in node.inputs if name in made]
    return list(dict.fromkeys([*reads, *(name for _, name in results)]))


def _bytes(graph: Graph, names: Iterable[str]) -> int:
    tensors = [graph.tensors[name] for name in names]
    return sum(tensor.size * DTYPES[tensor.dtype].itemsize for tensor in tensors)


def _check(graph: Graph, node: Node, name: str, values: Values, exact: Values, dtype: str) -> NodeCheck:
    cut = excerpt(graph, [node])
    given = {tensor.name: values[cut.origin[tensor.name]] for tensor in cut.graph.inputs}
    expected = run_reference(cut.graph, given, storage=dtype)
    new = next(new for new, old in cut.origin.items() if old == name)
    tensor = graph.tensors[name]
    alone = judge(kind_of(cut.graph), dtype, values[name], expected[new], declared=tensor.dtype)
    return NodeCheck(
        node, tensor, alone, judge("model", dtype, values[name], exact[name], declared=tensor.dtype)
    )


def _differs(outputs: Values, values: Values, dtype: str) -> bool:
    """True if outputs of the program differ, beyond rounding, from the values of the single nodes."""
    both = [name for name in outputs if name in values]
    return not all(_agrees(outputs[name], values[name], dtype) for name in both)


def _agrees(got: Array, expected: Array, dtype: str) -> bool:
    """True if two arrays are equal within the tolerance of a model."""
    wide = expected if expected.dtype.kind in "iub" else expected.astype(np.float64)
    return judge("model", dtype, got, wide).ok


def _first_wrong_together(graph: Graph, inputs: Values, values: Values, compile_: Compile) -> Node:
    """Find by bisection a node that is wrong as the only output while the one before is right."""
    nodes = [node for node in graph.nodes if node.outputs[0] in values]
    right, wrong = -1, len(nodes) - 1
    while wrong - right > 1:
        middle = (right + wrong) // 2
        name = nodes[middle].outputs[0]
        program = compile_(with_outputs(graph, [name]))
        if _agrees(execute(program, inputs)[0][name], values[name], program.dtype):
            right = middle
        else:
            wrong = middle
    return nodes[wrong]


def _smallest_part(graph: Graph, last: Node, values: Values, compile_: Compile) -> FailingPart | None:
    """The smallest wrong graph of the last 1, 2, 4 ... nodes up to ``last``."""
    before, _ = needed(graph.nodes, [name for name in last.outputs if name])
    for count in _doubling(len(before)):
        nodes = before[-count:]
        cut = excerpt(graph, nodes)
        inputs = {tensor.name: values[cut.origin[tensor.name]] for tensor in cut.graph.inputs}
        found = check(compile_(cut.graph), inputs).judgements.values()
        if not all(item.as_the_format_allows for item in found):
            return FailingPart(cut.graph, inputs, nodes[0].name, last.name)
    return None


def _doubling(most: int) -> Sequence[int]:
    """1, 2, 4 and so on, and finally ``most``."""
    counts = [1]
    while counts[-1] < most:
        counts.append(min(2 * counts[-1], most))
    return counts


def table(found: Verification) -> str:
    """A table with a row for every result, and the conclusion."""
    head = ("node", "operator", "shape", "max abs error", "cosine", "so far", "cosine", "verdict")
    rows = [head, *(tuple(map(one_line, _row(item))) for item in found.checks)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head) - 1)]
    lines = ["  ".join([*_aligned(row, widths), row[-1]]) for row in rows]
    return "\n".join([*lines, *map(one_line, _conclusion(found))])


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        f"{cell:<{width}}" if at < 3 else f"{cell:>{width}}"
        for at, (cell, width) in enumerate(zip(row, widths, strict=False))
    ]


def _row(item: NodeCheck) -> tuple[str, ...]:
    """Node, operator, shape, error and cosine of the node alone and of all nodes so far, verdict."""
    shape = "x".join(map(str, item.tensor.shape)) or "scalar"
    errors = [
        text
        for verdict in (item.alone, item.so_far)
        for text in (f"{verdict.max_abs_error:.3g}", f"{verdict.cosine:.7f}")
    ]
    verdict = "pass" if item.alone.ok else f"FAIL: {item.alone.text}"
    return (item.node.name, item.node.op, shape, *errors, verdict)


def _cost(found: Verification) -> str:
    """The reason why outputs of a correct program are wrong."""
    quantising = any(each.blame == "quantising" for each in found.outputs.values())
    return "quantising alone costs" if quantising else "inputs and weights rounded to it alone cost"


def _conclusion(found: Verification) -> Iterator[str]:
    count = len({item.node.name for item in found.checks})
    if found.wrong is not None:
        failed = len({item.node.name for item in found.checks if not item.alone.ok})
        yield f"{failed} of {count} nodes differ; the first is {found.wrong.node}"
    elif found.ok:
        yield f"{count} nodes are right"
    else:
        names = ", ".join(name for name, item in found.outputs.items() if not item.verdict.ok)
        yield f"{count} nodes are right by themselves, the program's outputs ({names}) are not"
        if found.format_alone:
            yield f"they are what the format allows: {_cost(found)} as much"
        elif found.at is None:
            yield "their errors add up"
        else:
            yield f"computed together with others, {found.at} is wrong"
