"""Pass ``ddr_reorder``: every value gets its place in DDR.

Graph inputs, outputs and constants have separate memory. The other values share memory if they are not alive
in the same phase. Sharing may add barriers between phases of one layer (``group_order``). If it does, and DDR
is large enough, the values of one layer do not share memory. A value that becomes a graph output, or a part
of a Concat's result, is computed there directly if its bytes are the same. Otherwise a copy is inserted.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import accumulate

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from compiler.dialect.ops import CastOp, ControlOperation, InputOp, LoadConstOp, OutputOp, TensorOperation
from compiler.dialect.types import stored_bytes
from compiler.graph import GraphError
from compiler.passes.base import Context, computes, is_alias, operations
from compiler.passes.extents import most_bytes
from compiler.passes.groups.views import View, concat_offsets, on_core, slice_view, stays_in_place
from tx8isa.numbers.limits import CACHE_LINE
from tx8isa.riscv.registers import REGISTERS

from .barrier_opt import Accesses, accesses_of, barriers
from .group_order import layers
from .live_ranges import LiveRange, best_fit
from .placement import VARIABLES, DdrRange, Place, set_ranges

_Offset = tuple[str, int]
"""The symbol of a memory, and a byte offset there."""


class DdrReorderPass:
    """Writes the places into dev_info, and inserts the copies that graph outputs and joins need."""

    name = "ddr_reorder"

    def run(self, context: Context, module: ModuleOp) -> None:
        placer = _Placer(context, module)
        placer.find_views()
        placer.place()


class _Placer:
    """Places the values of a module.

    ``views`` maps values that are part of another value to that value and a byte offset. ``symbols`` has the
    symbol of each graph input and output by the value that has its memory. ``in_place`` are operations that
    need no code because of views.
    """

    def __init__(self, context: Context, module: ModuleOp) -> None:
        self.context, self.module = context, module
        self.views: dict[SSAValue, View] = {}
        self.symbols: dict[SSAValue, str] = {}
        self.in_place: set[TensorOperation] = set()

    def find_views(self) -> None:
        """Decide which values are part of others, and which have the memory of graph inputs and outputs."""
        for operation in operations(self.module):
            if is_alias(operation) or stays_in_place(self.context, operation):
                self.views[operation.results[0]] = (operation.operands[0], 0)
            elif isinstance(operation, InputOp):
                name = operation.node.data
                own = self._is_own(name) and name not in self.context.replaceable
                other = f"{self.context.prefix}io.in{len(self.symbols)}"
                self.symbols[operation.results[0]] = name if own else other
        self._place_updates()
        self._place_carried()
        for operation in operations(self.module):
            if isinstance(operation, OutputOp) and operation.state is None:
                self._place_output(operation)
        for operation in reversed(list(operations(self.module))):
            self._join(operation)
        for operation in operations(self.module):
            self._take_slice(operation)

    def _place_updates(self) -> None:
        """Give the results that update a state the memory of its input."""
        found = list(operations(self.module))
        inputs = {each.node.data: each.results[0] for each in found if isinstance(each, InputOp)}
        for operation in found:
            if operation.updates is not None:
                self.views[operation.results[0]] = (inputs[operation.updates.data], 0)

    def _place_carried(self) -> None:
        """Keep the values that loops carry in the memory of the first one, or of a copy of it if others need
        it."""
        for operation in operations(self.module):
            for value, result in operation.carried if isinstance(operation, ControlOperation) else ():
                home = value if self._is_spare(value) else self._copied(value, operation, operation.node.data)
                if home is not value:
                    at = list(operation.operands).index(value)
                    operation.operands[at] = home
                self.views[result] = (home, 0)

    def _is_spare(self, value: SSAValue) -> bool:
        """True if a value has its own memory and only one user."""
        owner = value.owner
        assert isinstance(owner, TensorOperation)
        own = computes(owner) and value not in self.views and owner.updates is None
        return own and len(list(value.uses)) == 1 and slice_view(self.context, owner) is None

    def root(self, value: SSAValue) -> View:
        """The value whose memory holds a value, and the byte offset of the value there."""
        offset = 0
        while value in self.views:
            value, step = self.views[value]
            offset += step
        return value, offset

    def _place_output(self, operation: OutputOp) -> None:
        value = operation.operands[0]
        root, _ = self.root(value)
        if not self._is_free(root) or stored_bytes(root.type) > stored_bytes(value.type):
            root = operation.operands[0] = self._copied(value, operation, operation.node.data)
        name, taken = operation.node.data, {tensor.name for tensor in self.context.graph.inputs}
        own = self._is_own(name) and name not in taken
        self.symbols[root] = name if own else f"{self.context.prefix}io.{len(self.symbols)}"

    def _is_own(self, name: str) -> bool:
        """True if the name of an input or output is the symbol of its memory."""
        return is_plain_name(name) and not self.context.prefix

    def _is_free(self, root: SSAValue) -> bool:
        """True if a phase computes a value that is not a graph output yet."""
        return not isinstance(root.owner, InputOp | LoadConstOp) and root not in self.symbols

    def _copied(self, value: SSAValue, user: TensorOperation, node: str) -> SSAValue:
        """Insert a copy of a value before its user."""
        attributes = {"node": StringAttr(node)}
        made = CastOp.create(operands=[value], result_types=[value.type], attributes=attributes)
        Rewriter().insert_op(made, InsertPoint.before(user))
        return made.results[0]

    def _join(self, operation: TensorOperation) -> None:
        """Compute the operands of a Concat directly in its result, unless most of them must be copied."""
        operands = concat_offsets(self.context, operation)
        if operands is None:
            return
        free: set[SSAValue] = set()
        _, first = self.root(operation.results[0])
        for value, offset in operands:
            root, _ = self.root(value)
            whole = self._is_free(root) and stored_bytes(root.type) == stored_bytes(value.type)
            if whole and self._may_begin(root, first + offset):
                free.add(root)
        if 2 * len(free) < len(operands):
            return
        for value, offset in operands:
            root, _ = self.root(value)
            if root in free:
                free.remove(root)
            else:
                root = self._copied(value, operation, operation.node.data)
            self.views[root] = (operation.results[0], offset)
        self.in_place.add(operation)

    def _may_begin(self, value: SSAValue, offset: int) -> bool:
        """True if the operation that computes a value may store it at an offset.

        Cores store whole lines of their caches, and no two cores store to one line (isa/timing.md 15.15,
        board). They divide the lines as if the value began with a line.
        """
        owner = value.owner
        return offset % CACHE_LINE == 0 or not (
            isinstance(owner, TensorOperation) and on_core(self.context, owner)
        )

    def _take_slice(self, operation: TensorOperation) -> None:
        """Make the result of a Slice a view of its operand, unless it has another place already."""
        view = slice_view(self.context, operation)
        result = operation.results[0] if operation.results else None
        if view is None or result is None or result in self.views or result in self.symbols:
            return
        self.views[result] = view
        self.in_place.add(operation)

    def place(self) -> None:
        """Place all values that are not views, and write the place of every value into dev_info."""
        places = self._places()
        for number, operation in enumerate(operations(self.module)):
            if not operation.results and not isinstance(operation, OutputOp):
                continue
            values = operation.results or operation.operands[:1]
            ranges = [self._range(value, places) for value in values]
            first = f"{self.context.prefix}v.{number}"
            names = [first, *(f"{first}.{at}" for at in range(1, len(ranges)))]
            found = list(map(_named, ranges, names))
            set_ranges(operation, found, operation in self.in_place)

    def _places(self) -> dict[SSAValue, _Offset]:
        """The symbol of the memory and the byte offset there of all values that are not views."""
        places = {value: (symbol, 0) for value, symbol in self.symbols.items()}
        for number, operation in enumerate(operations(self.module)):
            if isinstance(operation, LoadConstOp):
                places[operation.results[0]] = (f"{self.context.prefix}c.{number}", 0)
        own = sum(most_bytes(self.context, value) for value in places)
        found = list(operations(self.module))
        shared, size = self._shared(places, range(len(found)))
        self._check_size(own + size)
        roomy, more = self._shared(places, self._layers(found))
        waits, fewer = (sum(barriers(self._phases(found, places | each))) for each in (shared, roomy))
        fits = own + more <= self.context.machine.ddr.bytes
        return places | (roomy if fits and fewer < waits else shared)

    def _phases(
        self, found: Sequence[TensorOperation], places: Mapping[SSAValue, _Offset]
    ) -> Iterator[Accesses]:
        """The ranges that the phases read and write with these places."""
        for operation in found:
            if computes(operation) and operation not in self.in_place:
                yield accesses_of(self.context, operation, lambda value: self._range(value, places))

    def _range(self, value: SSAValue, places: Mapping[SSAValue, _Offset]) -> DdrRange:
        root, offset = self.root(value)
        base, begin = places[root]
        return DdrRange(base, begin + offset, begin + offset + most_bytes(self.context, value))

    def _shared(self, own: Container[SSAValue], steps: Sequence[int]) -> tuple[dict[SSAValue, _Offset], int]:
        """The places of the values that share memory, and the number of bytes that these take."""
        live = self._live_ranges(own, steps)
        addresses = best_fit(list(live.values()), self.context.machine.ddr.bank_bytes)
        ends = [address + each.size for address, each in zip(addresses, live.values(), strict=True)]
        shared = self.context.prefix + VARIABLES
        places = {value: (shared, address) for value, address in zip(live, addresses, strict=True)}
        return places, max(ends, default=0)

    def _layers(self, found: list[TensorOperation]) -> list[int]:
        """For each operation, the highest layer up to it; copies may be placed later than necessary."""
        layer = layers(found)
        return list(accumulate((layer[operation] for operation in found), max))

    def _live_ranges(self, own: Container[SSAValue], steps: Sequence[int]) -> dict[SSAValue, LiveRange]:
        """The live ranges of the values that are not views and have no memory of their own (``own``).

        ``steps`` are the times of the operations, in their order.
        """
        live: dict[SSAValue, LiveRange] = {}
        for number, operation in zip(steps, operations(self.module), strict=True):
            for result in operation.results:
                root, offset = self.root(result)
                if root not in own:
                    size = offset + most_bytes(self.context, result)
                    live[root] = live.get(root, LiveRange(number, number, 0)).with_size(size)
            if computes(operation) and operation not in self.in_place:
                for value in (*operation.operands, *operation.results):
                    root, _ = self.root(value)
                    if root not in own:
                        live[root] = live[root].until(number)
        return live

    def _check_size(self, size: int) -> None:
        machine = self.context.machine
        if size > machine.ddr.bytes:
            found = f"the tensors of the graph take {size:,} bytes of DDR"
            raise GraphError([f"{found}, machine {machine.name} has {machine.ddr.bytes:,}"])


def _named(ddr_range: DdrRange, own: str) -> Place:
    """A place with its symbol: the symbol of the memory if the place is its beginning, otherwise a new
    one."""
    base = ddr_range.symbol
    return (base if ddr_range.begin == 0 and not base.endswith(VARIABLES) else own), ddr_range


_NAME = re.compile(r"[A-Za-z_][\w.$]*")
_RESERVED = re.compile(r"(v|c|io|p\d+)\..*|_start|exit")
"""Symbols that the compiler makes itself."""


def is_plain_name(name: str) -> bool:
    """True if assembly can use the name of a graph input or output as its symbol."""
    return bool(_NAME.fullmatch(name)) and name not in REGISTERS and not _RESERVED.fullmatch(name)
