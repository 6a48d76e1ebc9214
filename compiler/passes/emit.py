"""The text of the program, from the phases that the passes have left in the context."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from msgspec import UNSET
from xdsl.dialects.builtin import ModuleOp

from asm.image import Image
from compiler.codegen import program
from compiler.codegen.kernel import Constant, Scratch
from compiler.codegen.phase import source_key
from compiler.codegen.slices.precision import stored
from compiler.dialect.ops import ControlOperation, GroupOp, InputOp, LoadConstOp, OutputOp, TensorOperation
from compiler.dialect.orders import Order
from compiler.dialect.types import DTYPE_FORMATS, format_of, order_of
from compiler.graph import Array, Tensor
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
from tx8isa.tools.files import Bytes

from .base import Context, computes, in_storage_order, operations
from .work import symbol_of

Interface = list[tuple[str, Tensor, Format, str]]
"""Graph inputs and outputs: kind, tensor, format in DDR, symbol."""


Network = tuple[Context, ModuleOp]
"""A network whose passes have run."""


def program_text(networks: Sequence[Network]) -> tuple[str, Bytes]:
    """The assembly text, without the checksum of the constants' file, and the bytes of that file.

    Several networks share equal constants, and the states that have the same name; each has a scope of its
    own. GraphError if such states differ.
    """
    first, _ = networks[0]
    data = program.Data(bank=first.machine.ddr.bank_bytes, large=bank_threshold(first))
    shared = shared_states(networks)
    # Constants come first: the memory after them is zero and needs no room in the file.
    for network in networks:
        _constants(*network, data)
    for network in networks:
        _memory(*network, data, shared)
    data.shared_spaces()
    name = " ".join(first.graph.name.split())
    head = [f"# {name} in {first.compute.token}, made by tx8cc", ""]
    codes = [line for network in networks for line in _code(*network, data)]
    return "\n".join([*head, *data.out.lines, *codes, ""]), data.blob


def constants_of(networks: Sequence[Network]) -> program.Data:
    """The constants of some networks alone: the lines that declare them, and their bytes."""
    first, _ = networks[0]
    data = program.Data(bank=first.machine.ddr.bank_bytes, large=bank_threshold(first))
    for network in networks:
        _constants(*network, data)
    return data


def stages_text(stages: Sequence[Mapping[str, Network]], numbers: Sequence[int]) -> list[str]:
    """The memory and the code of the stages of pipelines, without constants.

    ``stages`` has, for each stage, its networks by entry; ``numbers`` is the stage of each chip, which begins
    with the code of that stage. Inputs that several stages of an entry read are the same memory.
    """
    each = [(entry, network) for stage in stages for entry, network in stage.items()]
    networks, (first, _) = [network for _, network in each], each[0][1]
    data = program.Data(bank=first.machine.ddr.bank_bytes, large=bank_threshold(first))
    shared = shared_states(networks, [entry for entry, _ in each])
    for network in networks:
        _memory(*network, data, shared)
    data.shared_spaces()
    codes = [line for network in networks for line in _code(*network, data)]
    for entry in reversed([*stages[0]]):
        scopes = [stage[entry][0].prefix for stage in stages]
        codes[:0] = program.dispatch(numbers, first.machine.tiles, scopes, f"{entry}." if entry else "")
    return [*data.out.lines, "", *codes, ""]


def _constants(context: Context, module: ModuleOp, data: program.Data) -> None:
    """Declare the constants of a network."""
    sources = [operation for operation in operations(module) if operation.results]
    _constants_of(context, data, sources)
    for _, inner, body in context.all_regions(module):
        _constants_of(inner, data, [operation for operation in operations(body) if operation.results])


def _memory(context: Context, module: ModuleOp, data: program.Data, shared: Mapping[str, str]) -> None:
    """Declare the memory of a network that is not constant."""
    sources = [operation for operation in operations(module) if operation.results]
    symbols = {range_of(value).symbol for operation in sources for value in operation.results}
    elsewhere = {symbol: other for symbol, other in shared.items() if symbol in symbols}
    for symbol, other in elsewhere.items():
        data.part(symbol, other, 0)
    _declare(interface_of(context, module), data, sources, elsewhere)
    for kind, tensor, fmt, symbol in empty_interface(context):
        if symbol == tensor.name:
            data.interface(kind, symbol, fmt, tensor.shape, tensor.dtype)
    regions = list(context.all_regions(module))
    for each in (context, *(inner for _, inner, _ in regions)):
        for entry in each.data:
            if isinstance(entry, Scratch):
                (data.share if entry.shared else data.space)(entry.symbol, entry.size)
    for operation, inner, body in regions:
        _declare_body(data, operation, inner, body)


def _code(context: Context, module: ModuleOp, data: program.Data) -> list[str]:
    """The code of a network from its start to its end; it may declare more memory."""
    start, code = _start_and_phases(context)
    start, code = _with_sizes(context, module, data, start, code)
    if context.waiting:
        start += program.first_submission(context.waiting)
    if any(line.endswith("worker=1") for _, lines in context.phases for line in lines):
        start += program.background_workers(context.machine)
    if any(map(_copies, context.phases[1:])):
        copy = program.first_copy(data, context.tiles, context.prefix)
        if len(code) > 2 and _completes_behind_the_first_phase(context, module):
            # After the first phase the core has time for it; later phases would delay it more.
            code.insert(1, program.phase("", copy))
        else:
            start += copy
    parts = [[""], start, *code, [""], program.epilogue()]
    return [line for part in parts for line in part]


def _with_sizes(
    context: Context, module: ModuleOp, data: program.Data, start: list[str], code: list[list[str]]
) -> tuple[list[str], list[list[str]]]:
    """The start with the shape program after it, and the phases with the places of sizes in its table.

    Both as they are in a program of one size.
    """
    if context.ranges is None:
        data.out.lines.extend(found_declarations(context.graph))
        return start, code
    declared, words = declarations(context, module)
    data.out.lines.extend(declared)
    table = SizeTable(context.size_loads, words)
    code = [without_unused(lines) for lines in table.resolved(code)]
    sizes = table.code(context.ranges.ranges.names, words, code)
    start, (sizes, *code) = with_literals(start, [sizes, *code])
    return start + sizes, code


def _constants_of(context: Context, data: program.Data, sources: Sequence[TensorOperation]) -> None:
    """Declare the constants that the phases of a module use."""
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
    """The memory of a graph that an operation executes; inputs and outputs are values of the operation."""
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
    """The start and the phases, with what comes before the first exchange between chips, if there is one."""
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


def _completes_behind_the_first_phase(context: Context, module: ModuleOp) -> bool:
    """Whether another phase that copies waits less for a copy after the first phase than its start takes.

    Without estimates it is taken to be so.
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
    """Whether a phase copies by the DTE."""
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
    """A constant with memory of its own, also if another one has the same content."""
    fmt = format_of(operation.results[0].type)
    array = stored(context.replaceable[operation.node.data], fmt)
    data.constant(operation.symbol, fmt, array.shape, array, own=True)


def _declare(
    interface: Interface, data: program.Data, sources: Sequence[TensorOperation], outside: Container[str] = ()
) -> None:
    """Write the directives for the memory of all values that are not constants, and for symbols inside it."""
    sizes: dict[str, int] = {}
    constants = {operation.symbol for operation in sources if isinstance(operation, LoadConstOp)}
    constants |= {symbol for kind, _, _, symbol in interface if kind == "constant"}
    values = [value for operation in sources for value in operation.results]
    for value in values:
        place = range_of(value)
        if place.symbol not in constants and place.symbol not in outside:
            sizes[place.symbol] = max(sizes.get(place.symbol, 0), place.end)
    named = {symbol: (kind, tensor, fmt) for kind, tensor, fmt, symbol in interface if symbol == tensor.name}
    for symbol, size in sizes.items():
        if symbol in named:
            kind, tensor, fmt = named[symbol]
            data.interface(kind, symbol, fmt, tensor.shape, tensor.dtype)
        else:
            data.space(symbol, size)
    for value in values:
        symbol, place = symbol_of(value), range_of(value)
        if symbol != place.symbol:
            data.part(symbol, place.symbol, place.begin)


def interface_of(context: Context, module: ModuleOp) -> Interface:
    """The graph inputs and outputs that have elements."""
    found = []
    for operation in operations(module):
        if isinstance(operation, InputOp | OutputOp):
            is_input = isinstance(operation, InputOp)
            kind, tensors = ("input", context.graph.inputs) if is_input else ("output", context.graph.outputs)
            kind = "constant" if is_input and operation.node.data in context.replaceable else kind
            tensor = next(tensor for tensor in tensors if tensor.name == operation.node.data)
            value = operation.results[0] if is_input else operation.operands[0]
            tensor = replace(tensor, shape=most_shape(context, value))
            found.append((kind, tensor, format_of(value.type), operation.symbol))
    return found


def empty_interface(context: Context) -> Interface:
    """Graph inputs and outputs without elements, for which the module has no operation.

    The symbol is empty if assembly cannot spell the name.
    """
    inputs, outputs = context.graph.inputs, context.graph.outputs
    taken = {tensor.name for tensor in inputs}
    found = []
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for tensor in tensors:
            if not tensor.size:
                own = is_plain_name(tensor.name) and (kind == "input" or tensor.name not in taken)
                found.append((kind, tensor, DTYPE_FORMATS[tensor.dtype], tensor.name if own else ""))
    return found


def foreign_buffers(context: Context, module: ModuleOp, image: Image) -> str:
    """Directives for inputs and outputs whose names are not symbols; ``image`` has their addresses."""
    lines = []
    for kind, tensor, fmt, symbol in (*interface_of(context, module), *empty_interface(context)):
        if symbol != tensor.name:
            address = image.symbols[symbol].address if symbol else image.entry
            lines.append(program.buffer_record(kind, tensor.name, fmt, tensor.shape, tensor.dtype, address))
    return "".join(f"{line}\n" for line in lines)


def entry_record(name: str, image: Image) -> str:
    """The directive that records where one of several networks starts; ``image`` has the address."""
    return program.entry_record(name, image.symbols[f"{name}.{program.START}"].address)
