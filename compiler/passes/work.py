"""Makes the ``Work`` of a group or an operation of the module, which its lowering receives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Operation, OpResult, SSAValue

from compiler.codegen.kernel import Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.dialect.attributes import decoded, decoded_array
from compiler.dialect.exchanges import ExchangeOperation, home_of
from compiler.dialect.group import before_exchanges, tensor_operations
from compiler.dialect.ops import (
    CastOp,
    GroupOp,
    LoadConstOp,
    LoadVarOp,
    NodeOperation,
    SubgraphOp,
    TensorOperation,
)
from compiler.dialect.orders import Order
from compiler.dialect.types import format_of, order_of, storage_permutation
from compiler.graph import Array, Tensor
from compiler.lowering import LOWERINGS
from compiler.lowering.record import (
    AnyWork,
    ChainNode,
    ChainWork,
    Cut,
    Placement,
    SequenceWork,
    StageExchange,
    Step,
    Work,
    without_exchanges,
)
from compiler.operators import OPERATORS
from compiler.operators.record import Call
from compiler.passes.extents import is_ranged, numbers_in, shape_in
from compiler.passes.patterns.sequences import SLICES, SequenceKind, kind_of
from tx8isa.numbers.formats import Format

from .base import Context, RangedContext, in_storage_order, is_alias, main_member

Symbols = Callable[[SSAValue], str]
"""Gives the symbol of a value in DDR."""


def symbol_of(value: SSAValue) -> str:
    """The symbol of a value in DDR, which pass ``ddr_reorder`` has chosen."""
    assert isinstance(value, OpResult) and isinstance(value.owner, TensorOperation)
    return value.owner.symbol_of(value.index)


def work_of(context: Context, operation: TensorOperation, symbols: Symbols = symbol_of) -> AnyWork:
    """The work of a group, or of an operation outside of groups."""
    builder = _Builder(context, operation, symbols)
    if isinstance(operation, GroupOp):
        return builder.group(operation)
    return builder.single(operation)


def target_of(context: Context) -> Target:
    """The target of the code of all operations: tiles, scratchpad, compute format and machine."""
    spm = min(context.machine.spm.reserved, context.machine.spm.bytes)
    ranged = isinstance(context, RangedContext)
    return Target(context.tiles, spm, context.compute, context.machine, ranged=ranged)


class _Builder:
    def __init__(self, context: Context, operation: TensorOperation, symbols: Symbols) -> None:
        self.context, self.operation, self.symbols = context, operation, symbols
        self.between: dict[SSAValue, str] = {}
        """Values that one stage of a stack computes for another, with names in place of symbols in DDR."""

    def group(self, group: GroupOp) -> AnyWork:
        """A sequence, a chain of pointwise operations, or an anchor with its steps."""
        cut, kind = cut_of(group), kind_of_group(group)
        if kind is not None:
            return self._sequence(kind, group, cut)
        return self._stage(group.members, group.results[0], cut)

    def _stage(self, members: Sequence[TensorOperation], result: SSAValue, cut: Cut | None = None) -> AnyWork:
        """A chain of pointwise operations, or an anchor with its steps."""
        if len(members) > 1 and not LOWERINGS[members[0].op].anchor:
            return self._chain(members, result, cut)
        return self._anchored(members, result, cut)

    def _anchored(self, members: Sequence[TensorOperation], result: SSAValue, cut: Cut | None = None) -> Work:
        """An operation with the steps after it. A cast is not a step: it decides the format of the output."""
        first, *others = members
        steps, running = [], first.results[0]
        for member in others:
            if not isinstance(member, CastOp):
                steps.append(self._step(member, running))
                running = member.results[0]
        return self.single(first, tuple(steps), result, cut)

    def _sequence(self, kind: SequenceKind, group: GroupOp, cut: Cut | None) -> SequenceWork:
        """Stages that exchange results in the scratchpad: anchors, chains, each with its steps."""
        stages = stages_of_group(group)
        computing = [[member for member in members if not is_alias(member)] for members in stages]
        results = [members[-1].results[0] for members in computing]
        self.between = {value: f"inner.{at}" for at, value in enumerate(results)}
        stored = {value: self.symbols(outer) for value, outer in zip(group.made, group.results, strict=True)}
        self.between |= stored
        for member in (member for members in stages for member in members if is_alias(member)):
            self.between[member.results[0]] = self.between[before_exchanges(member.operands[0])]
        works = [self._stage(*each) for each in zip(computing, results, strict=True)]
        made = together(kind, works, tuple(stored.values())[:-1], cut)
        return made if cut is None else replace(made, exchanges=tuple(self._exchanges()))

    def _exchanges(self) -> Iterator[StageExchange]:
        """The exchanges in a group, each before the stage that begins after it."""
        assert isinstance(self.operation, GroupOp)
        begun, begins = 0, {members[0] for members in stages_of_group(self.operation)}
        for each in tensor_operations(self.operation.body.block):
            begun += each in begins
            if isinstance(each, ExchangeOperation):
                before, after = home_of(each.operands[0]), home_of(each.results[0])
                assert before is not None and after is not None
                rows = after.above - before.above, after.below - before.below
                symbol = self.tensor(self.outer(each.operands[0]) or each.operands[0]).symbol
                yield StageExchange(each.kind, symbol, each.axis.data, begun, *rows)

    def _chain(self, members: Sequence[TensorOperation], result: SSAValue, cut: Cut | None) -> ChainWork:
        """A chain of pointwise operations, which use inputs of the chain and results of earlier ones."""
        inner = {value for member in members for value in member.results}
        used = (value for member in members for value in member.operands if value not in inner)
        inputs = list(dict.fromkeys(self.outer(value) or value for value in used))
        numbers = {value: at for at, value in enumerate(inputs)}
        nodes = []
        for member in members:
            operands: list[int | None] = [None] * (max(operand_positions(member)) + 1)
            for at, value in zip(operand_positions(member), member.operands, strict=True):
                operands[at] = numbers[value if value in inner else self.outer(value) or value]
            call = call_of(self.context, member, self.outer) if isinstance(member, NodeOperation) else None
            nodes.append(ChainNode(member.op, call, tuple(operands), format_of(member.results[0].type)))
            numbers[member.results[0]] = len(inputs) + len(nodes) - 1
        tensors = tuple(self.tensor(value) for value in inputs)
        name = main_member(members).node.data
        return ChainWork(name, "Chain", tensors, self.tensor(result), cut, nodes=tuple(nodes))

    def single(
        self,
        operation: TensorOperation,
        steps: tuple[Step, ...] = (),
        result: SSAValue | None = None,
        cut: Cut | None = None,
    ) -> Work:
        """One operation with ``steps`` after it; the last step gives ``result``."""
        name = operation.node.data
        output = self.tensor(operation.results[0] if result is None else result)
        if not isinstance(operation, NodeOperation):
            orders = order_of(operation.operands[0].type), order_of(operation.results[0].type)
            inputs = tuple(self.tensor(self.outer(value) or value) for value in operation.operands)
            return Work(name, operation.op, inputs, output, cut, orders=orders, steps=steps)
        call = call_of(self.context, operation, self.outer)
        last = _is_last(operation.results[0])
        operands = tuple(self._operands(operation, call))
        compute = Format.FP32 if name in self.context.graph.precise else self.context.compute
        others = tuple(map(self.tensor, operation.results[1:]))
        return Work(name, operation.op, operands, output, cut, others, 0, call, last, compute, steps)

    def _step(self, member: TensorOperation, running: SSAValue) -> Step:
        assert isinstance(member, NodeOperation)
        call = call_of(self.context, member, self.outer)
        positions = operand_positions(member)
        at = tuple(i for i, value in zip(positions, member.operands, strict=True) if value is running)
        return Step(member.node.data, member.op, call, tuple(self._operands(member, call)), at)

    def _operands(self, operation: NodeOperation, call: Call) -> Iterator[DdrTensor | None]:
        """A tensor per operand of the call; None if it is known when compiling, omitted, or in SPM."""
        present = dict(zip(operand_positions(operation), operation.operands, strict=True))
        for at in range(len(call.inputs)):
            value = self.outer(present[at]) if at in present else None
            yield None if value is None else self.tensor(value)

    def outer(self, value: SSAValue) -> SSAValue | None:
        """The value outside of the group for a value inside it; None if it stays in the scratchpad.

        A value that one stage of a sequence computes for another is returned unchanged.
        """
        value = before_exchanges(value)
        if value in self.between:
            return value
        return self.operation.outer(value) if isinstance(self.operation, GroupOp) else value

    def tensor(self, value: SSAValue) -> DdrTensor:
        return tensor_of(self.context, value, self.between.get(value) or self.symbols(value))


def _is_last(value: SSAValue) -> bool:
    """True if the channels of a value are its last axis in DDR."""
    return order_of(value.type) in (Order.CHANNELS_LAST, Order.BLOCKED)


def placement_of(context: Context, group: GroupOp) -> tuple[Placement, dict[str, SSAValue]] | None:
    """The placement of a sequence with a cut: homes of its values, and these values by their symbols.

    The values are results of members, and operands of the group. None for any other group.
    """
    kind = kind_of_group(group)
    if group.cut is None or kind is None:
        return None
    names: dict[SSAValue, str] = {}
    builder = _Builder(context, group, lambda value: names.setdefault(value, f"v.{len(names)}"))
    work = without_exchanges(builder.group(group))
    assert isinstance(work, SequenceWork)
    placement = kind.place(target_of(context), work)
    values = {symbol: value for value, symbol in reversed([*names.items(), *builder.between.items()])}
    values |= {names[outer]: value for outer, value in zip(group.results, group.made, strict=True)}
    return placement, values


def unaliased(value: SSAValue) -> SSAValue:
    """The original value of a view that may be reshaped."""
    while isinstance(value.owner, TensorOperation) and is_alias(value.owner):
        value = value.owner.operands[0]
    return value


def stages_of_group(group: GroupOp) -> list[list[TensorOperation]]:
    """The stages of a group that is a sequence; a single stage for any other group."""
    if group.stages is not None:
        members = iter(group.members)
        return [list(islice(members, int(count))) for count in group.stages.get_values()]
    kind = kind_of_group(group)
    return [group.members] if kind is None else _stages_in(group.members, kind)


def kind_of_group(group: GroupOp) -> SequenceKind | None:
    """The kind of sequence of a group; None for any other group."""
    return SLICES if group.stages is not None else kind_of([member.op for member in group.members])


def _stages_in(members: Sequence[TensorOperation], kind: SequenceKind) -> list[list[TensorOperation]]:
    """The members of a group, divided into stages: each operator that can begin a stage does."""
    stages = [[members[0]]]
    for member in members[1:]:
        if kind.begins is not None and kind.begins(member.op):
            stages.append([])
        stages[-1].append(member)
    return stages


def together(
    kind: SequenceKind, works: Sequence[AnyWork], stored: Collection[str] = (), cut: Cut | None = None
) -> SequenceWork:
    """The work of a sequence from the works of its stages; the last one computes the result.

    ``stored``: the symbols of stages' values that are results, too.
    """
    made = {work.output.symbol for work in works}
    inputs: dict[str, DdrTensor] = {}
    for work in works:
        inputs |= {t.symbol: t for t in work.operands if t is not None and t.symbol not in made}
    others = tuple(work.output for work in works[:-1] if work.output.symbol in stored)
    operands = tuple(inputs.values())
    return SequenceWork(
        works[0].name, kind.lowering, operands, works[-1].output, cut, others, stages=tuple(works)
    )


def tensor_of(context: Context, value: SSAValue, symbol: str) -> DdrTensor:
    """A value in DDR, with the shape it is stored in, and with its data if it is a constant."""
    order, shape = order_of(value.type), shape_in(context, value)
    stored = tuple(shape[axis] for axis in storage_permutation(len(shape), order))
    data = None
    if isinstance(value.owner, LoadConstOp) and not is_ranged(context, value) and not _is_table(value):
        data = in_storage_order(context.constants[value.owner.node.data], order)
    last = order in (Order.CHANNELS_LAST, Order.BLOCKED)
    return DdrTensor(
        symbol,
        format_of(value.type),
        stored,
        data,
        order is Order.BLOCKED,
        channels_last=last and len(shape) > 2,
    )


def _is_table(value: SSAValue) -> bool:
    """True if a constant is the table of a Gather and otherwise only an operand of products.

    An example is the embedding of a language model. It is stored once, in rows; products read it like a
    computed matrix.
    """
    operators = {reader.op for reader in _readers(value)}
    others = operators - {"Gather"}
    return others != operators and all(op in OPERATORS and OPERATORS[op].multiplies_matrices for op in others)


def _readers(value: SSAValue) -> Iterator[TensorOperation]:
    """The operations that read a value; members in place of their groups."""
    for use in value.uses:
        operation = use.operation
        if isinstance(operation, GroupOp):
            yield from _readers(operation.body.block.args[use.index])
        elif isinstance(operation, LoadVarOp | LoadConstOp | ExchangeOperation) and _is_inside(operation):
            yield from _readers(operation.results[0])
        elif isinstance(operation, TensorOperation):
            yield operation


def _is_inside(operation: Operation) -> bool:
    return isinstance(operation.parent_op(), GroupOp)


def operand_positions(operation: TensorOperation) -> list[int]:
    """For each operand of an operation its position among the operands of the specification."""
    if operation.operands_at is None:
        return list(range(len(operation.operands)))
    return [int(at) for at in operation.operands_at.get_values()]


OuterValue = Callable[[SSAValue], SSAValue | None]
"""Maps a value inside a group to the group's operand, or to None if a member computes it."""


def call_of(context: Context, operation: NodeOperation, outer: OuterValue = lambda value: value) -> Call:
    """The call of the specification that an operation makes, with the values of constant operands."""
    dtypes = [text.data for text in (operation.dtypes or ArrayAttr([]))]
    count = max(len(dtypes) - 1, len(OPERATORS[operation.operator].inputs))
    inputs: list[Tensor | None] = [None] * count
    values: list[Array | None] = [None] * count
    for at, value in zip(operand_positions(operation), operation.operands, strict=True):
        source = outer(value)
        name = _name(source if source is not None else value)
        inputs[at] = Tensor(name, dtypes[at], shape_in(context, value))
        if source is not None and isinstance(source.owner, LoadConstOp) and not is_ranged(context, source):
            values[at] = context.constants[source.owner.node.data]
    for key, attribute in (operation.known.data if operation.known is not None else {}).items():
        array = values[int(key)] = numbers_in(context, operation, key, decoded_array(attribute))
        inputs[int(key)] = Tensor(key, dtypes[int(key)], array.shape)
    attributes = operation.attributes_of_node or DictionaryAttr({})
    attrs = {
        name: numbers_in(context, operation, name, decoded(attribute))
        for name, attribute in attributes.data.items()
    }
    return Call(_opset(operation), attrs, tuple(inputs), tuple(values), (operation.node.data,))


def _name(value: SSAValue) -> str:
    owner = value.owner
    return owner.node.data if isinstance(owner, TensorOperation) else ""


def _opset(operation: TensorOperation) -> int:
    """The operator set of the subgraph that an operation belongs to."""
    parent = operation.parent_op()
    while parent is not None and not isinstance(parent, SubgraphOp):
        parent = parent.parent_op()
    if parent is None or parent.opset is None:
        raise ValueError(
            f"{operation.name} of node '{operation.node.data}' is not in a subgraph with an opset"
        )
    return parent.opset.value.data


def cut_of(group: GroupOp) -> Cut | None:
    """The cut in a group's attributes; None if it has none."""
    if group.cut is None:
        return None
    parts = {
        name: tuple((key, decoded(entry)) for key, entry in part.data.items())
        for name, part in group.cut.data.items()
        if isinstance(part, DictionaryAttr)
    }
    return Cut(parts.get("tiles", ()), parts.get("sizes", ()), parts.get("choices", ()))


def cut_attribute(cut: Cut) -> DictionaryAttr:
    """A cut as the attribute of a group."""
    numbers = {"tiles": cut.tiles, "sizes": cut.sizes}
    parts = {
        name: DictionaryAttr({key: IntegerAttr(n, i64) for key, n in part})
        for name, part in numbers.items()
        if part
    }
    if cut.choices:
        parts["choices"] = DictionaryAttr({key: StringAttr(text) for key, text in cut.choices})
    return DictionaryAttr(parts)
