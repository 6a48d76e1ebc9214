"""Pass ``state_update``: the new value of a state is written into the memory of the old one.

An operation that only replaces parts of the old value writes just these parts. Any other operation writes its
result there if it does not read the old value. In the step of a loop, it may also read just the elements that
it writes. Other readers of the old value are placed before. Where that is impossible, the end of the program
copies the new value there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue

from compiler.dialect.ops import (
    CastOp,
    ControlOperation,
    GroupOp,
    InputOp,
    LoadConstOp,
    OutputOp,
    SubgraphOp,
    TensorOperation,
)
from compiler.lowering import LOWERINGS
from compiler.lowering.pointwise.record import POINTWISE
from compiler.passes.base import Context, StateUpdate, computes, is_alias, main_member, operations
from compiler.passes.groups.dependences import Edges, in_order
from compiler.passes.groups.views import (
    concat_offsets,
    memory_root,
    outside,
    readers_of,
    same_memory,
    sole_member,
)


class StateUpdatePass:
    """Sets the attribute ``updates`` of operations, moves readers before them, and inserts copies."""

    name = "state_update"

    def run(self, context: Context, module: ModuleOp) -> None:
        for subgraph in module.ops:
            if isinstance(subgraph, SubgraphOp):
                _Updater(context, module, subgraph).run()


@dataclass(frozen=True)
class _State:
    """A state: the input of its old value, and the output of its new one."""

    past: InputOp
    present: OutputOp

    @property
    def old(self) -> SSAValue:
        return self.past.results[0]

    @property
    def new(self) -> SSAValue:
        """The new value, perhaps in another shape."""
        return same_memory(self.present.operands[0])


class _Updater:
    """Decides about the states of a subgraph one after the other.

    ``before`` has the edges for the states decided so far, ``writers`` the operations that write into the
    memory of a state.
    """

    def __init__(self, context: Context, module: ModuleOp, subgraph: SubgraphOp) -> None:
        self.context, self.module, self.block = context, module, subgraph.body.block
        self.before: dict[TensorOperation, set[TensorOperation]] = defaultdict(set)
        self.writers: set[TensorOperation] = set()
        self.found: dict[SSAValue, list[TensorOperation]] | None = None
        """The operations that read the memory of a value; None until the first search."""

    def run(self) -> None:
        states = list(self._states())
        if not states:
            return
        for state in states:
            self._stage(state, states)
        for state in states:
            if state.new is not state.old:
                self._decide(state)
        ordered = in_order(list(operations(self.module)), self.before)
        assert ordered is not None
        for operation in ordered:
            self.block.detach_op(operation)
        self.block.add_ops(ordered)

    def _states(self) -> Iterator[_State]:
        inputs = {op.node.data: op for op in operations(self.module) if isinstance(op, InputOp)}
        for operation in operations(self.module):
            if isinstance(operation, OutputOp) and operation.state is not None:
                yield _State(inputs[operation.state.data], operation)

    def _stage(self, state: _State, states: Sequence[_State]) -> None:
        """Copy a new value that is the old value of another state, whose memory may be overwritten first."""
        root = memory_root(state.new)
        if state.new is not state.old and any(root is other.old for other in states):
            state.present.operands[0] = self._copied(state).results[0]

    def _decide(self, state: _State) -> None:
        """Let operations write into the memory of the state, or insert a copy."""
        writers, problem = self._writers_of(state)
        if not problem:
            edges = self._edges_of(state, writers)
            if in_order(list(operations(self.module)), edges) is None:
                problem = self._reader_after(state, writers)
            else:
                self._accept(state, writers, edges)
        if problem:
            copy = self._copied(state)
            state.present.operands[0] = copy.results[0]
            self._accept(state, [copy], self._edges_of(state, [copy]))
        node = _last_node(writers[-1]) if writers else state.present.node.data
        parts = not problem and _updated(writers[0]) is state.old
        update = StateUpdate(state.past.node.data, state.present.node.data, node, parts, problem)
        self.context.updates.append(update)

    def _writers_of(self, state: _State) -> tuple[list[TensorOperation], str]:
        """The operations that could write into the state, in order; or the reason why they cannot."""
        last = state.new.owner
        assert isinstance(last, TensorOperation)
        if isinstance(last, InputOp | LoadConstOp):
            return [], f"it is the {'input' if isinstance(last, InputOp) else 'constant'} '{last.node.data}'"
        if last in self.writers:
            return [], f"it is the new value of state {last.updates.data if last.updates else ''} too"
        assert computes(last)
        if len(last.results) > 1:
            return [last], f"node '{_name(last)}' is computed in one phase with other results"
        if isinstance(last, ControlOperation) and last.carried:
            return [last], f"node '{_name(last)}' is a loop, whose result is where it carries its value"
        chain, value = [last], _updated(last)
        while value is not None and value is not state.old and isinstance(value.owner, TensorOperation):
            chain, value = [value.owner, *chain], _updated(value.owner)
        if value is state.old:
            wrong = next((each for each in chain if self._reads_more(each, state)), None)
            return (
                chain,
                "" if wrong is None else f"node '{_name(wrong)}' reads the old value while it writes",
            )
        reads = [value for value in last.operands if memory_root(value) is state.old]
        if reads and not (self.context.is_body and _element_by_element(last, reads)):
            return [last], f"node '{_name(last)}' reads the old value while it computes the new one"
        if concat_offsets(self.context, last) is not None:
            return [last], f"node '{_name(last)}' joins values that are computed one after the other"
        return [last], ""

    def _reads_more(self, writer: TensorOperation, state: _State) -> bool:
        """True if an operation that updates the state reads its memory through other operands as well."""
        memory = {state.old, _updated(writer)}
        others = [value for value in writer.operands if same_memory(value) not in memory]
        twice = sum(same_memory(value) in memory for value in writer.operands) > 1
        return twice or any(memory_root(value) in memory for value in others)

    def _edges_of(self, state: _State, writers: Sequence[TensorOperation]) -> Edges:
        """Edges that place each writer after all readers of the value that it overwrites."""
        edges = {operation: set(others) for operation, others in self.before.items()}
        values = [state.old, *(writer.results[0] for writer in writers[:-1])]
        for value, writer in zip(values, writers, strict=True):
            edges.setdefault(writer, set()).update(set(self._readers(value)) - {writer})
        return defaultdict(set, edges)

    def _readers(self, value: SSAValue) -> Iterator[TensorOperation]:
        """The operations that read the memory of a value, also under another shape or in part."""
        if self.found is None:
            self.found = readers_of(list(operations(self.module)))
        for operation in self.found.get(value, ()):
            own = isinstance(operation, OutputOp) and operation.state is not None
            if not own and not is_alias(operation):
                yield operation

    def _reader_after(self, state: _State, writers: Sequence[TensorOperation]) -> str:
        """The reason why a reader of the old value cannot be placed before the writers."""
        values = [state.old, *(writer.results[0] for writer in writers[:-1])]
        for value, writer in zip(values, writers, strict=True):
            for reader in self._readers(value):
                edges = defaultdict(set, {key: set(others) for key, others in self.before.items()})
                edges[writer] = edges[writer] | {reader} - {writer}
                if in_order(list(operations(self.module)), edges) is None:
                    return f"node '{_name(reader)}' reads the old value after node '{_name(writer)}'"
        return "what reads its old value cannot be placed before what writes the new values of other states"

    def _accept(self, state: _State, writers: Iterable[TensorOperation], edges: Edges) -> None:
        self.before = defaultdict(set, edges)
        for writer in writers:
            writer.attributes["updates"] = StringAttr(state.past.node.data)
            self.writers.add(writer)

    def _copied(self, state: _State) -> CastOp:
        """A copy of the new value, at the end of the program."""
        value, node = state.present.operands[0], state.present.node
        made = CastOp.create(operands=[value], result_types=[value.type], attributes={"node": node})
        self.block.insert_op_before(made, state.present)
        self.found = None
        return made


def _updated(operation: TensorOperation) -> SSAValue | None:
    """Return the value that an operation updates in part, if it can do so in place."""
    member = next(
        (found for op, each in LOWERINGS.items() if each.updates and (found := sole_member(operation, op))),
        None,
    )
    value = None if member is None else outside(operation, member.operands[0])
    return None if value is None else same_memory(value)


def _element_by_element(operation: TensorOperation, operands: Sequence[SSAValue]) -> bool:
    """True if an operation reads, of some operands, only elements that it writes, each before the write."""
    members = operation.members if isinstance(operation, GroupOp) and operation.stages is None else []
    pointwise = members and all(member.op in POINTWISE or isinstance(member, CastOp) for member in members)
    return bool(pointwise) and all(value.type == operation.results[0].type for value in operands)


def _last_node(operation: TensorOperation) -> str:
    """The node that computes the result of an operation; the last one in a sequence of groups."""
    if isinstance(operation, GroupOp) and "stages" in operation.attributes:
        return main_member(operation.members[::-1]).node.data
    return _name(operation)


def _name(operation: TensorOperation) -> str:
    return operation.node.data
