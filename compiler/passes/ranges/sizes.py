"""Pass ``sizes``: operations get the formulas of dynamic extents.

The graph is read and rewritten at several points of the ranges. An extent that varies is a product of
dimensions, perhaps plus a number; the attribute ``sizes`` of the operation has its formula. If a constant
grows along several axes, a Slice takes the part that a run needs. Programs of one size skip this pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute

from compiler.dialect.attributes import decoded
from compiler.dialect.ops import InputOp, LoadConstOp, NodeOperation, TensorOperation
from compiler.evaluation.sizes.formulas import ExtentFormula, Point, Undecided
from compiler.evaluation.sizes.growth import GrowingState
from compiler.evaluation.sizes.ranged import RangedGraph, ranged_graph, same_structure
from compiler.evaluation.sizes.shaped import at_sizes, without_odd_one
from compiler.evaluation.sizes.windows import AllRows
from compiler.graph import Graph, GraphError
from compiler.operators.reductions.found import sized_outputs
from compiler.passes.base import Context, RangedContext, operations
from compiler.passes.graph_operations import put_graph, with_constants_as_inputs
from compiler.passes.rewrite import RewritePass

_ONE_SIZE = "branches and loops of the program have one size; give it one with --shape"
_MOST_ODD = 8
"""Most graphs of another structure that are read, such as where a window leaves one place of an axis."""
_NO_RANGE = "such a program runs no range of sizes; give its dimensions one size with --shape"


class SizesPass:
    """Writes ``sizes`` and ``numbers``; GraphError where the ranges do not suit the graph."""

    name = "sizes"

    def run(self, context: Context, module: ModuleOp) -> None:
        if not isinstance(context, RangedContext):
            return
        for node in context.graph.nodes:
            if node.bodies:
                raise GraphError([f"{node} cannot run a range of sizes: {_ONE_SIZE}"])
        for output in sized_outputs(context.graph):
            raise GraphError([f"data decides the size of output '{output}': {_NO_RANGE}"])
        ranges = context.ranges
        usual, *others = ranges.samples()
        samples: list[tuple[Point, Graph]] = [(usual, context.graph)]
        samples += [(point, rewritten_at(context, point)) for point in others]
        alike = without_odd_one(samples)
        ranged = self._ranged(context, list(alike))
        ranged = context.ranged = ranged if alike is samples else at_sizes(ranged, usual)
        _check_inputs(context, ranged)
        if ranged.graph is not context.graph:
            context.graph = ranged.graph
            rewrites = {k: v for op in module.ops for k, v in op.attributes.items() if k == "rewrites"}
            put_graph(context, module, rewrites)
        for operation in operations(module):
            _write(ranged, operation)

    def _all_rows(self, context: RangedContext, first: Graph) -> AllRows:
        """A function that reads, once for each state, the graph of a step that writes all of its rows."""

        @cache
        def read(state: GrowingState) -> Graph | None:
            if state.new.isdigit():
                return None
            try:
                point = context.ranges.all_rows(state.before, state.new)
                graph = rewritten_at(context, point)
            except GraphError:  # the model refuses an empty cache, or this number of rows at once
                return None
            return graph if same_structure(graph, first) else None

        return read

    def _ranged(self, context: RangedContext, samples: list[tuple[Point, Graph]]) -> RangedGraph:
        """The formulas, from the samples and further points, until each extent has exactly one."""
        all_rows, odd = self._all_rows(context, samples[0][1]), list[tuple[Point, Graph]]()
        while True:
            try:
                return ranged_graph(context.ranges, samples, context.source.growing, all_rows, odd)
            except Undecided as undecided:
                point = context.ranges.point(undecided.number)
                graph = rewritten_at(context, point)
                alike = len(odd) == _MOST_ODD or same_structure(graph, samples[0][1])
                samples.insert(-1, (point, graph)) if alike else odd.append((point, graph))


def rewritten_at(context: RangedContext, point: Point) -> Graph:
    """The graph at a point, as pass ``rewrite`` leaves it; GraphError, with the point, if there is none."""
    try:
        source = context.source
        graph = with_constants_as_inputs(source.with_room(source.graph_at(point)))
        other = _for_graph(context, graph)
        module = ModuleOp([])
        put_graph(other, module)
        RewritePass().run(other, module)
    except GraphError as error:
        where = ", ".join(f"{name}={size}" for name, size in point.items())
        raise GraphError([f"at {where}: {message}" for message in error.messages]) from None
    return other.graph


def _for_graph(context: RangedContext, graph: Graph) -> RangedContext:
    """A copy of a compilation's context for another graph."""
    known = {name: getattr(context, name) for name in ("replaceable", "source", "twin")}
    return RangedContext(graph, context.machine, context.tiles, context.compute, **known)


def _check_inputs(context: RangedContext, ranged: RangedGraph) -> None:
    """GraphError unless every dimension is an axis of an input, and inputs have no other free extents.

    States are excluded: they keep their memory, so they do not show the size of a run.
    """
    found = {state.before for state in context.source.growing}
    states = dict(context.graph.states)
    allowed = (*ranged.ranges.names, *ranged.ranges.sums)
    for tensor in context.graph.inputs:
        for formula in ranged.extents[tensor.name]:
            follows = tensor.name not in states and _is_one_plus_number(formula)
            if not formula.fixed and str(formula) not in allowed and not follows:
                raise GraphError([f"input '{tensor.name}': an axis is {formula}; expected a dimension"])
            found |= {str(formula)} if tensor.name not in states else set()
    _check_empty(ranged)
    for past, present in states.items():
        _check_state(f"state {past}={present}", ranged.extents[past])
    missing = [name for name in ranged.ranges.names if name not in found]
    if missing:
        which = " that is no state" if states else ""
        raise GraphError([f"no axis of an input{which} depends on dimension '{missing[0]}'"])


def _is_one_plus_number(formula: ExtentFormula) -> bool:
    """True if a formula is a dimension plus a number, as the extent of a state after a known step."""
    (name, *_) = formula.names or ("",)
    return formula.offset > 0 and str(formula) == f"{name} + {formula.offset}"


def _check_empty(ranged: RangedGraph) -> None:
    """GraphError for a value without elements if a state that has none yet is the reason."""
    if not ranged.ranges.growing:
        return
    points = ranged.ranges.points
    for name, formulas in ranged.extents.items():
        for formula in formulas:
            if np.min(formula.at(points)) < 1:
                found = f"'{name}' has an extent of {formula}, which may be {np.min(formula.at(points))}"
                raise GraphError([f"{found}: tensors without elements are not supported"])


def _check_state(what: str, extents: Sequence[ExtentFormula]) -> None:
    """GraphError unless other elements keep their places in a run with fewer elements along a free axis."""
    free = [axis for axis, formula in enumerate(extents) if not formula.fixed]
    before = [str(formula) for formula in extents[: free[-1]]] if free else []
    if any(extent != "1" for extent in before):
        shape = " x ".join(map(str, extents))
        wanted = "only the first axis of a state that is longer than 1 may be of a free size"
        raise GraphError(
            [f"{what}: it is {shape}; {wanted}: transpose the state, or give the size with --shape"]
        )


def _write(ranged: RangedGraph, operation: TensorOperation) -> None:
    names = list(_names(operation))
    extents = [ranged.extents.get(name, ()) for name in names]
    if any(not formula.fixed for formulas in extents for formula in formulas):
        operation.attributes["sizes"] = ArrayAttr([_attribute(formulas) for formulas in extents])
    if isinstance(operation, NodeOperation):
        numbers: dict[str, Attribute] = {
            str(key): _attribute(formulas)
            for (node, key), formulas in ranged.numbers.items()
            if node == operation.node.data
        }
        if numbers:
            operation.attributes["numbers"] = DictionaryAttr(numbers)


def _attribute(formulas: tuple[ExtentFormula, ...]) -> Attribute:
    return ArrayAttr([StringAttr(str(formula)) for formula in formulas])


def _names(operation: TensorOperation) -> Iterator[str]:
    """The names of the values that an operation makes."""
    if isinstance(operation, InputOp | LoadConstOp):
        yield operation.node.data
    elif isinstance(operation, NodeOperation) and operation.values is not None:
        yield from (name for name in decoded(operation.values) if name)
