"""The text of the program, from the phases that the passes have left in the context."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from msgspec import UNSET
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from compiler.codegen import program
from compiler.codegen.kernel import Constant, Scratch
from compiler.codegen.phase import source_key
from compiler.codegen.slices.precision import stored
from compiler.dialect.ops import ControlOperation, GroupOp, InputOp, LoadConstOp, OutputOp, TensorOperation
from compiler.dialect.orders import Order
from compiler.dialect.types import DTYPE_FORMATS, format_of, order_of
from compiler.graph import Array, Graph, Tensor
from compiler.lowering.movement.chips.opening import greeting, opening
from compiler.operators import call_of
from compiler.operators.domains.chips.collectives import COLLECTIVES, groups_of, way_of
from compiler.passes.ddr.ddr_reorder import is_plain_name
from compiler.passes.ddr.placement import DdrRange, range_of
from compiler.passes.ddr.shared_states import shared_states
from compiler.passes.extents import constant_in, most_shape
from compiler.passes.layouts.move_const import bank_threshold
from compiler.passes.ranges.declarations import declarations, found_declarations
from compiler.passes.ranges.literals import with_literals
from compiler.passes.ranges.table import SizeTable
from compiler.passes.ranges.unused import without_unused
from compiler.search.cost import barrier_cycles
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout
from tx8isa.numbers.packing import pack
from tx8isa.tools.command_line import one_line
from tx8isa.tools.files import Bytes

from .base import Context, RangedContext, computes, in_storage_order, operations
from .work import symbol_of


class InterfaceTensor(NamedTuple):
    """A graph input or output, or a constant that a session may replace."""

    kind: str
    tensor: Tensor
    fmt: Format
    """The tensor's format in DDR."""
    symbol: str
    """The symbol of its begin in DDR."""

    @property
    def is_own(self) -> bool:
        """True if its memory has its name as symbol, so that its directive reserves it."""
        return self.symbol == self.tensor.name and is_plain_name(self.symbol)

    @property
    def directive(self) -> str:
        """The line that declares it."""
        tensor, place = self.tensor, None if self.is_own else self.symbol
        return program.interface(self.kind, tensor.name, self.fmt, tensor.shape, tensor.dtype, place)


Interface = list[InterfaceTensor]
"""The inputs and outputs of a graph, in its order."""
_KINDS = ("input", "constant", "output")


Network = tuple[Context, ModuleOp]
"""A network whose passes have run."""


def program_text(networks: Mapping[str, Network]) -> tuple[str, Bytes]:
    """The assembly text, without the checksum of the constants' file, and the bytes of that file.

    The keys are the names of entries; a single network has an empty name. Several networks share equal
    constants, and states of the same name. Each network has a separate scope. GraphError if such states
    differ.
    """
    each = [*networks.values()]
    first, _ = each[0]
    data = program.Data(bank=first.machine.ddr.bank_bytes, large=bank_threshold(first))
    shared = shared_states(each)
    # Constants come first: the memory after them is zero and needs no room in the file.
    for network in each:
        _constants(*network, data)
    unrecorded = {name: _memory(*network, data, shared) for name, network in networks.items()}
    data.shared_spaces()
    head = [f"# {one_line(first.graph.name)} in {first.compute.token}, made by tx8cc", ""]
    codes = [line for network in each for line in _code(*network, data)]
    return "\n".join([*head, *data.out.lines, *codes, *_records(unrecorded), ""]), data.blob


def constants_of(networks: Sequence[Network]) -> program.Data:
    """Return only the constants of some networks: the lines that declare them, and their bytes."""
    first, _ = networks[0]
    data = program.Data(bank=first.machine.ddr.bank_bytes, large=bank_threshold(first))
    for network in networks:
        _constants(*network, data)
    return data


def stages_text(
    stages: Sequence[Mapping[str, Network]], numbers: Sequence[int], graphs: Mapping[str, Graph]
) -> list[str]:
    """The memory and the code of the stages of pipelines, without constants.

    ``stages`` has, for each stage, its networks by entry; ``numbers`` is the stage of each chip, which begins
    with the code of that stage. ``graphs`` are those of all stages by entry. Inputs that several stages of an
    entry read are the same memory.
    """
    each = [(entry, network) for stage in stages for entry, network in stage.items()]
    networks, (first, _) = [network for _, network in each], each[0][1]
    data = program.Data(bank=first.machine.ddr.bank_bytes, large=bank_threshold(first))
    shared = shared_states(networks, [entry for entry, _ in each])
    found: dict[str, Interface] = {entry: [] for entry in graphs}
    for entry, network in each:
        found[entry] += _memory(*network, data, shared)
    data.shared_spaces()
    codes = [line for network in networks for line in _code(*network, data)]
    for entry in reversed([*stages[0]]):
        scopes = [stage[entry][0].prefix for stage in stages]
        codes[:0] = program.dispatch(numbers, first.machine.tiles, scopes, f"{entry}." if entry else "")
    unrecorded = {entry: _in_order(found[entry], graph) for entry, graph in graphs.items()}
    return [*data.out.lines, "", *codes, *_records(unrecorded), ""]


def _in_order(found: Interface, graph: Graph) -> Interface:
    """The inputs and outputs of a graph from its stages, once each and in the graph's order."""
    first = {(each.kind, each.tensor.name): each for each in reversed(found)}
    names = {"input": graph.inputs, "output": graph.outputs}
    keys = [(kind, tensor.name) for kind, tensors in names.items() for tensor in tensors]
    return [first[key] for key in keys if key in first]


def _records(unrecorded: Mapping[str, Iterable[InterfaceTensor]]) -> Iterator[str]:
    """Directives that record the start of each entry, and inputs and outputs without directives so far."""
    for name, interface in unrecorded.items():
        if name:
            yield program.entry_record(name)
        yield from (each.directive for each in interface)


def _constants(context: Context, module: ModuleOp, data: program.Data) -> None:
    """Declare the constants of a network."""
    sources = [operation for operation in operations(module) if operation.results]
    _constants_of(context, data, sources)
    for _, inner, body in context.all_regions(module):
        _constants_of(inner, data, [operation for operation in operations(body) if operation.results])


def _memory(
    context: Context, module: ModuleOp, data: program.Data, shared: Mapping[str, str]
) -> Iterable[InterfaceTensor]:
    """Declare the memory of a network that is not constant; returns inputs and outputs to declare later."""
    sources = [operation for operation in operations(module) if operation.results]
    symbols = {range_of(value).symbol for operation in sources for value in operation.results}
    elsewhere = {symbol: other for symbol, other in shared.items() if symbol in symbols}
    for symbol, other in elsewhere.items():
        data.part(symbol, other, 0)
    unrecorded = _declare(interface_of(context, module), data, sources, elsewhere)
    regions = list(context.all_regions(module))
    for each in (context, *(inner for _, inner, _ in regions)):
        for entry in each.data:
            if isinstance(entry, Scratch):
                (data.share if entry.shared else data.space)(entry.symbol, entry.size)
    for operation, inner, body in regions:
        _declare_body(data, operation, inner, body)
    return unrecorded


def _code(context: Context, module: ModuleOp, data: program.Data) -> list[str]:
    """Write the code of a network from its start to its end; it may declare more memory."""
    start, code = _start_and_phases(context)
    start, code = _with_sizes(context, module, data, start, code)
    if any(line.endswith("worker=1") for _, lines in context.phases for line in lines):
        start += program.background_workers(context.machine)
    copying = [number for number, phase in enumerate(context.phases) if _copies(phase)]
    if copying:
        copy = program.first_copy(data, context.tiles, context.prefix)
        if len(code) > 2 and copying[-1] and _completes_after_the_first_phase(context, module):
            # After the first phase the core has time for it; in later phases it would cost more time.
            code.insert(1, program.phase("", copy))
        else:
            start += copy
    parts = [[""], start, *code, [""], program.epilogue()]
    return [line for part in parts for line in part]


def _with_sizes(
    context: Context, module: ModuleOp, data: program.Data, start: list[str], code: list[list[str]]
) -> tuple[list[str], list[list[str]]]:
    """The start with the shape program after it, and the phases with the places of sizes in its table.

    Without ranges both are unchanged.
    """
    if not isinstance(context, RangedContext):
        data.out.lines.extend(found_declarations(context.graph))
        return start, code
    declared, words = declarations(context, module)
    data.out.lines.extend(declared)
    table = SizeTable(context.size_loads, words)
    code = [without_unused(lines) for lines in table.resolved(code)]
    sizes = table.code(context.ranges.names, words, code)
    start, (sizes, *code) = with_literals(start, [sizes, *code])
    return start + sizes, code


def _constants_of(context: Context, data: program.Data, sources: Sequence[TensorOperation]) -> None:
    """Declare the constants that are used by the phases of a module."""
    used = _used(context, sources)
    for operation in sources:
        if isinstance(operation, LoadConstOp) and operation.symbol in used:
            _constant(context, data, operation)
    for operation in sources:
        if isinstance(operation, InputOp) and operation.node.data in context.replaceable:
            _replaceable(context, data, operation)
    for entry in context.data:
        if isinstance(entry, Constant):
            data.made(entry.symbol, entry.fmt, entry.key, entry.compute)


def _declare_body(data: program.Data, operation: ControlOperation, context: Context, body: ModuleOp) -> None:
    """Declare the memory of a graph that an operation executes; its inputs and outputs are values of the
    operation."""
    found = list(operations(body))
    inputs = {each.node.data: each for each in found if isinstance(each, InputOp)}
    outputs = {each.node.data: each for each in found if isinstance(each, OutputOp)}
    outside: dict[str, DdrRange] = {}
    given = list(context.graph.inputs)
    if context.step_symbol:
        step = given.pop(0)
        outside[inputs[step.name].symbol] = DdrRange(context.step_symbol, 0, 8 * step.size)
    first = len(operation.operands) - len(given)
    for tensor, value in zip(given, operation.operands[first:], strict=True):
        outside[inputs[tensor.name].symbol] = range_of(value)
    for tensor, value in zip(context.graph.outputs, operation.results, strict=False):
        outside.setdefault(outputs[tensor.name].symbol, range_of(value))
    for symbol, place in outside.items():
        data.part(symbol, place.symbol, place.begin)
    _declare([], data, [each for each in found if each.results], outside)


def _used(context: Context, sources: Sequence[TensorOperation]) -> set[str]:
    """The symbols of the memory to which the phases refer."""
    values = (value for operation in sources for value in operation.results)
    return {range_of(value).symbol for value in values if symbol_of(value) in context.used}


def _start_and_phases(context: Context) -> tuple[list[str], list[list[str]]]:
    """The start and the phases, with the opening before the first exchange between chips, if there is one."""
    start = program.prologue(context.tiles, context.machine.tiles, context.prefix)
    code = [program.phase(node, lines) for node, lines in context.phases]
    nodes = {node.name: node for node in context.graph.nodes if node.op in COLLECTIVES}
    chips = context.machine.chips
    if nodes and chips is not UNSET:
        calls = [call_of(context.graph, node) for node in nodes.values()]
        exchanges = {(tuple(groups_of(call)), way_of(call)) for call in calls}
        first = next((number for number, (name, _) in enumerate(context.phases) if name in nodes), 0)
        inboxes = max((call.integer("inbox") + 1 for call in calls if "inbox" in call.attrs), default=0)
        start += opening(context.machine, inboxes)
        hello = greeting(context.machine, chips, sorted(exchanges), context.prefix)
        code[first] = [*program.phase("", hello), *code[first]]
    return start, code


def _completes_after_the_first_phase(context: Context, module: ModuleOp) -> bool:
    """True if the first copy, which is slow, should start after the first phase.

    It then completes before the next phase that copies. True also without estimates.
    """
    first = next(number for number, phase in enumerate(context.phases) if number and _copies(phase))
    if first == 1 or _copies(context.phases[0]):
        return False
    phases = [operation for operation in operations(module) if computes(operation)]
    between = [each.estimate for each in phases[1:first] if isinstance(each, GroupOp) and each.estimate]
    borders = sum(each.barrier is not None for each in phases[1 : first + 1])
    passed = sum(each.value.data for each in between) + borders * barrier_cycles(context.machine)
    timing = context.machine.timing.dte
    return not between or passed + timing.issue.value >= timing.first.value + timing.fixed.value


def _copies(phase: tuple[str, list[str]]) -> bool:
    """True if a phase copies by the DTE."""
    return any(line.lstrip().startswith("dte.") for line in phase[1])


def _constant(context: Context, data: program.Data, operation: LoadConstOp) -> None:
    kind = operation.results[0].type
    fmt, order = format_of(kind), order_of(kind)
    source = constant_in(context, operation)

    def arranged() -> Array:
        array = stored(in_storage_order(source, order), fmt)
        return pack(array, fmt, Layout.NCX).view(array.dtype) if order is Order.BLOCKED else array

    data.made(operation.symbol, fmt, source_key(source, fmt, order), arranged)


def _replaceable(context: Context, data: program.Data, operation: InputOp) -> None:
    """Declare a replaceable constant in separate memory, even if another one has the same content."""
    fmt = format_of(operation.results[0].type)
    array = stored(context.replaceable[operation.node.data], fmt)
    data.constant(operation.symbol, fmt, array.shape, array, own=True)


def _declare(
    interface: Interface, data: program.Data, sources: Sequence[TensorOperation], outside: Container[str] = ()
) -> Iterable[InterfaceTensor]:
    """Write the directives for the memory of all values that are not constants, and for symbols inside it.

    Inputs and outputs are declared in the order of the graph. One with separate memory is declared after its
    predecessors. Return the ones that are not declared yet.
    """
    sizes: dict[str, int] = {}
    constants = {operation.symbol for operation in sources if isinstance(operation, LoadConstOp)}
    constants |= {each.symbol for each in interface if each.kind == "constant"}
    values = [value for operation in sources for value in operation.results]
    for value in values:
        place = range_of(value)
        if place.symbol not in constants and place.symbol not in outside:
            sizes[place.symbol] = max(sizes.get(place.symbol, 0), place.end)
    undeclared = [each for each in interface if each.symbol not in constants or not each.is_own]
    waiting = {kind: iter([each for each in undeclared if each.kind == kind]) for kind in _KINDS}
    kinds = {each.symbol: each.kind for each in undeclared if each.is_own}
    for symbol, size in sizes.items():
        if symbol in kinds:
            _declare_next(data, waiting[kinds[symbol]], sizes)
        else:
            data.space(symbol, size)
    for value in values:
        symbol, place = symbol_of(value), range_of(value)
        if symbol != place.symbol:
            data.part(symbol, place.symbol, place.begin)
    return chain(*waiting.values())


def _declare_next(data: program.Data, waiting: Iterator[InterfaceTensor], sizes: Container[str]) -> None:
    """Declare the waiting inputs or outputs, up to the next one with separate memory."""
    for each in waiting:
        data.out.lines.append(each.directive)
        if each.is_own and each.symbol in sizes:
            return


def interface_of(context: Context, module: ModuleOp) -> Interface:
    """The inputs and outputs of a graph, in its order, and constants that a session may replace."""
    values: dict[tuple[str, str], tuple[SSAValue, str]] = {}
    for operation in operations(module):
        if isinstance(operation, InputOp):
            values["input", operation.node.data] = operation.results[0], operation.symbol
        elif isinstance(operation, OutputOp):
            values["output", operation.node.data] = operation.operands[0], operation.symbol
    graph, found = context.graph, []
    for kind, tensors in (("input", graph.inputs), ("output", graph.outputs)):
        for tensor in tensors:
            if not tensor.size:
                found.append(_without_elements(context, kind, tensor))
                continue
            value, symbol = values.pop((kind, tensor.name))
            own_kind = "constant" if kind == "input" and tensor.name in context.replaceable else kind
            whole = replace(tensor, shape=most_shape(context, value))
            found.append(InterfaceTensor(own_kind, whole, format_of(value.type), symbol))
    assert not values, f"the module has inputs or outputs that are none of the graph: {[*values]}"
    return found


def _without_elements(context: Context, kind: str, tensor: Tensor) -> InterfaceTensor:
    """An input or output for which the module has no operation.

    If assembly cannot spell its name, its symbol is the start of the program.
    """
    taken = kind == "output" and any(tensor.name == each.name for each in context.graph.inputs)
    own = is_plain_name(tensor.name) and not context.prefix and not taken
    symbol = tensor.name if own else f"{context.prefix}{program.START}"
    return InterfaceTensor(kind, tensor, DTYPE_FORMATS[tensor.dtype], symbol)
