"""Converts a module of StableHLO to the typed graph, operation by operation; loops are written out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from compiler.evaluation.infer import build_graph
from compiler.evaluation.survey import Fate, Survey
from compiler.frontend.onnx.nodes import NodeImporter
from compiler.frontend.onnx.partial import PartialGraph, Scope, Unsupported, finished_description
from compiler.graph import DTYPES, NEWEST_OPSET, Graph, GraphError, RefusedNode, Tensor
from tx8isa.errors import BudgetError
from tx8isa.tools.budget import NODE, Budget
from tx8isa.tools.suggestions import hint

from .attributes import tensor_type
from .control import CONTROL, Results
from .operations import REWRITES
from .operations.bodies import RETURNS, operation_name
from .site import SharedValues, Site, Value
from .text import SourceModule


def graph_of_module(source: SourceModule, name: str, survey: Survey | None = None) -> Graph:
    """Return the graph of a module's function ``main``. GraphError with everything that is refused.

    ``survey`` receives the fate of each operation.
    """
    survey = Survey() if survey is None else survey
    functions = _functions(source)
    entry = _entry(source, functions)
    inputs = _inputs(source, entry, survey)
    survey.stop_if_refused()
    importer = ModuleImporter(source, functions, inputs, survey)
    values = importer.function(entry)
    graph = importer.graph
    survey.tensors, survey.constants, survey.opset = graph.tensors, graph.constants, NEWEST_OPSET
    survey.stop_if_refused()
    outputs = _output_names(entry, len(values), [tensor.name for tensor in inputs])
    made = [importer.named(value) for value in values if value is not None]
    if len(made) != len(values) or not made:
        raise GraphError([f"{source.source}: its function main does not return what an operation computes"])
    importer.rename(made, outputs)
    scope = Scope(dict(zip(outputs, made, strict=True)))
    real = tuple(tensor for tensor in inputs if tensor.size)
    return build_graph(finished_description(name, graph, scope, real, outputs))


def _functions(source: SourceModule) -> dict[str, Operation]:
    """Return the functions of a module by name, those of inner modules included."""
    found = {}
    for op in source.module.walk():
        if operation_name(op) == "func.func":
            symbol = {**op.attributes, **op.properties}.get("sym_name")
            if isinstance(symbol, StringAttr) and len(op.regions) == 1 and len(op.regions[0].blocks) == 1:
                found[symbol.data] = op
    return found


def _entry(source: SourceModule, functions: dict[str, Operation]) -> Operation:
    """Return the function ``main``, or the only one."""
    if "main" in functions:
        return functions["main"]
    if len(functions) == 1:
        return next(iter(functions.values()))
    found = ", ".join(functions) or "none"
    raise GraphError([f"{source.source}: has no function main of one block; its functions: {found}"])


def _inputs(source: SourceModule, entry: Operation, survey: Survey) -> tuple[Tensor, ...]:
    """Return the arguments of the entry as inputs; record their problems in the survey."""
    found = []
    arguments = entry.regions[0].block.args
    names = (
        source.names if len(source.names) == len(arguments) else [f"arg{at}" for at in range(len(arguments))]
    )
    for name, argument in zip(_distinct_words(names), arguments, strict=True):
        head = f"{source.source}: input '{name}'"
        try:
            tensor = Tensor(name, *tensor_type(argument.type))
        except Unsupported as error:
            survey.problems.append(GraphError([f"{head}: {error}"]))
            continue
        wrong_type = f"is {tensor.dtype}; supported are {', '.join(DTYPES)}"
        problem = tensor.excess if tensor.dtype in DTYPES else wrong_type
        if problem:
            survey.problems.append(GraphError([f"{head} {problem}"]))
        found.append(tensor)
    return tuple(found)


def _output_names(entry: Operation, count: int, taken: Sequence[str]) -> tuple[str, ...]:
    """Return the names that JAX gives the results (``jax.result_info``), else ``result`` and a number.

    ``taken`` are names of inputs.
    """
    infos = {**entry.attributes, **entry.properties}.get("res_attrs")
    names = [f"result{at}" if count > 1 else "result" for at in range(count)]
    if isinstance(infos, ArrayAttr) and len(infos) == count:
        for at, info in enumerate(infos):
            given = info.data.get("jax.result_info") if isinstance(info, DictionaryAttr) else None
            if isinstance(given, StringAttr) and given.data:
                names[at] = given.data
    return tuple(_distinct_words(names, taken))


def _distinct_words(names: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    """Return different names of letters, digits and underscores: ``p['w']`` becomes ``p_w``."""
    words = [re.sub(r"\W+", "_", name).strip("_") or "value" for name in names]
    used = set(taken)
    for at in range(len(words)):
        while words[at] in used:
            words[at] += "_"
        used.add(words[at])
    return words


def _suggestion(name: str) -> str:
    """Return the end of a message about an unknown operation: a similar name, if there is one."""
    known = {full.rpartition(".")[2]: full for full in (*REWRITES, *CONTROL)}
    return hint(name.rpartition(".")[2], known).lstrip("; ")


class ModuleImporter:
    """Adds the operations of a module to a graph, one after another."""

    def __init__(
        self,
        source: SourceModule,
        functions: dict[str, Operation],
        inputs: tuple[Tensor, ...],
        survey: Survey,
    ) -> None:
        self.source, self.functions, self.survey = source, functions, survey
        self.graph = PartialGraph(Path(source.source), inputs, {}, Budget(source.size))
        self.nodes = NodeImporter(self.graph)
        self.given = [Value(tensor.name, tensor.shape) for tensor in inputs]
        self.calls: list[str] = []
        self.shared = SharedValues()
        self._values: dict[SSAValue, Value | None] = {}
        for tensor in inputs:
            if not tensor.size:
                self.graph.define(tensor.name, tensor.zeros)

    def function(self, entry: Operation) -> list[Value | None]:
        """Add the operations of the function that is called with the inputs; return its results."""
        try:
            return self.block(entry.regions[0].block, self.given, "")
        except Unsupported as error:
            raise GraphError([f"{self.source.source}: its function main {error}"]) from None
        except BudgetError as error:
            self.survey.fates.clear()  # values that they name were never described
            raise GraphError(
                [f"{self.source.source}: written out, with its loops and calls, it {error}"]
            ) from None

    def block(self, block: Block, operands: Sequence[Value | None], prefix: str) -> list[Value | None]:
        """Add the operations of a block on operands; return its results.

        Names of nodes begin with ``prefix``. None is a value that was refused.
        """
        self._values |= dict(zip(block.args, operands, strict=True))
        for op in block.ops:
            if operation_name(op) in RETURNS:
                return [self._values.get(operand) for operand in op.operands]
            self._add(op, prefix)
        raise Unsupported("has a body that returns nothing")

    def named(self, value: Value) -> str:
        """Return the name of a value after writing out all its repetitions."""
        site = Site(self.nodes, self.source.module, f"output {value.name}", (), self.shared)
        return site.full(value)

    def rename(self, names: list[str], outputs: Sequence[str]) -> None:
        """Give values that nodes compute the names of outputs, in the graph and in ``names``."""
        computed = {name for node in self.graph.nodes for name in node.outputs}
        chosen: dict[str, str] = {}
        for at, output in enumerate(outputs):
            if names[at] in computed and names[at] not in chosen:
                chosen[names[at]] = output
                self.graph.tensors[output] = replace(self.graph.tensors[names[at]], name=output)
        for at, node in enumerate(self.graph.nodes):
            sides = ([chosen.get(name, name) for name in side] for side in (node.inputs, node.outputs))
            inputs, results = map(tuple, sides)
            self.graph.nodes[at] = replace(node, inputs=inputs, outputs=results)
        names[:] = [chosen.get(name, name) for name in names]

    def _add(self, op: Operation, prefix: str) -> None:
        """Add an operation; if it is refused, its results count as refused too."""
        name = operation_name(op)
        node = f"{prefix}{name.rpartition('.')[2]}@{self.source.labels[op]}"
        operands = [self._values.get(operand) for operand in op.operands]
        nodes, before, refusal = self.graph.nodes, len(self.graph.nodes), None
        if prefix:
            self.graph.budget.work(NODE)
        examined = all(operand is not None for operand in operands)
        results: Results = [None] * len(op.results)
        try:
            if name not in REWRITES and name not in CONTROL:
                raise Unsupported(_suggestion(name))
            if examined:
                given = [operand for operand in operands if operand is not None]
                results = self._results(op, name, Site(self.nodes, op, node, given, self.shared))
        except Unsupported as error:
            refusal = self._refusal(op, name, node, str(error))
        except RefusedNode as error:
            refusal = self._refusal(op, name, node, f"as {error.op}: {error.reason}")
        except (
            ValueError,
            IndexError,
            KeyError,
        ) as error:  # no verifier has seen a module in the generic form
            refusal = self._refusal(op, name, node, f"its attributes do not fit its operands: {error}")
        if refusal is not None:
            del nodes[before:]
            results = [None] * len(op.results)
        self._values |= dict(zip(op.results, results, strict=True))
        if name in REWRITES or refusal is not None:
            self.survey.fates.append(Fate(name, node, refusal, examined, tuple(nodes[before:])))

    def _refusal(self, op: Operation, name: str, node: str, reason: str) -> RefusedNode:
        return RefusedNode(name, node, reason, hint=f" ({self.source.places[op]})")

    def _results(self, op: Operation, name: str, site: Site) -> Results:
        """Return the values of an operation's results, checked against their declared types."""
        if name in CONTROL:
            return CONTROL[name](self, site)
        made = REWRITES[name](site)
        values = [made] if isinstance(made, Value) else list(made)
        if len(values) != len(op.results):
            raise Unsupported(f"declares {len(op.results)} results; it has {len(values)}")
        for value, (dtype, shape) in zip(values, site.results, strict=True):
            if (site.type_of(value), value.shape) != (dtype, shape):
                found = f"{site.type_of(value)} {list(value.shape)}"
                raise Unsupported(f"declares a result {dtype} {list(shape)}; its operands give {found}")
        return list(values)
