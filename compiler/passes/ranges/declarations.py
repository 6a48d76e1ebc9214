"""A program's declarations of dynamic sizes: dimensions, extents, the shape block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from asm.instructions.text import quote
from compiler.codegen.program import SHAPE_BLOCK
from compiler.dialect.ops import InputOp, OutputOp
from compiler.evaluation.sizes import Domain, Size, dimension
from compiler.evaluation.sizes.formulas import ExtentFormula
from compiler.graph import Graph
from compiler.operators.record import call_of
from compiler.operators.reductions.found import SIZED
from compiler.passes.base import RangedContext, operations
from compiler.passes.extents import formulas_of


def declarations(context: RangedContext, module: ModuleOp) -> tuple[list[str], list[Size]]:
    """The directives, and the sizes that the program writes into the shape block after the dimensions."""
    ranges = context.ranges
    domain = Domain(
        ranges.points, ranges.number(ranges.usual), np.ones(ranges.count, bool), context.size_loads
    )
    lines, words = [], dict[str, Size]()
    for each in ranges.dimensions:
        lines.append(f"        .dimension {quote(each.name)}, {each.least}, {each.usual}, {each.most}")

    declared = {*ranges.names, *ranges.sums, *_of_tensors(context, module)}

    def extent(formula: ExtentFormula) -> str:
        if formula.fixed:
            return str(formula)
        if str(formula) in declared:
            return quote(str(formula))
        sizes = {name: dimension(domain, name) for name in ranges.names}
        words.setdefault(str(formula), formula.at(sizes))
        return quote(f"@{len(ranges.names) + list(words).index(str(formula))}")

    cached = _of_caches(context)
    for operation in operations(module):
        if isinstance(operation, InputOp | OutputOp):
            is_input = isinstance(operation, InputOp)
            if is_input and operation.node.data in context.replaceable:
                continue
            if operation.node.data in cached:
                lines += cached[operation.node.data]
                continue
            formulas = formulas_of(context, operation.results[0] if is_input else operation.operands[0])
            if formulas is not None:
                kind = "input" if is_input else "output"
                extents = ", ".join(map(extent, formulas))
                lines.append(f"        .extents {kind}, {quote(operation.node.data)}, {extents}")
    lines.append(f"        .shapes {SHAPE_BLOCK}, {len(ranges.names) + len(words)}")
    return lines, list(words.values())


def _of_tensors(context: RangedContext, module: ModuleOp) -> Iterator[str]:
    """The extents of states after a step, and of inputs, which may be dimensions plus numbers."""
    yield from (state.after for state in context.source.growing)
    for operation in operations(module):
        if isinstance(operation, InputOp):
            yield from map(str, formulas_of(context, operation.results[0]) or ())


def _of_caches(context: RangedContext) -> dict[str, list[str]]:
    """The directives for states that grow, by the names of their inputs and outputs."""
    lines: dict[str, list[str]] = {}
    for state in context.source.growing:
        for kind, name, length in (
            ("input", state.past, state.before),
            ("output", state.present, state.after),
        ):
            extents = [str(size) for size in context.graph.tensors[name].shape]
            extents[state.axis] = quote(length)
            lines[name] = [
                f"        .extents {kind}, {quote(name)}, {', '.join(extents)}",
                f"        .room {kind}, {quote(name)}, {state.axis}",
            ]
    return lines


def found_declarations(graph: Graph) -> list[str]:
    """The directives for outputs whose size data decides; the program writes the size into the shape
    block."""
    lines, words = [], 0
    for node in graph.nodes:
        if node.op == SIZED:
            extents = [str(size) for size in graph.tensors[node.outputs[0]].shape]
            call = call_of(graph, node)
            for axis, word in zip(call.integers("axes") or (), call.integers("words") or (), strict=True):
                extents[axis] = quote(f"@{word}")
                words = max(words, word + 1)
            lines.append(f"        .extents output, {quote(node.outputs[0])}, {', '.join(extents)}")
    return [*lines, f"        .shapes {SHAPE_BLOCK}, {words}"] if words else []
