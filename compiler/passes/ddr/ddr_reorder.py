"""Pass ``ddr_reorder``: where every value lies in DDR.

Graph inputs, outputs and constants have memory of their own, values share theirs with others that are not
alive at the same time. A value that becomes a graph output, or a piece of a joined tensor, lies there from
the start if its bytes are the same there; otherwise a copy is inserted.
"""

from __future__ import annotations

import re
from collections.abc import Container

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from compiler.dialect.ops import CastOp, InputOp, LoadConstOp, OutputOp, TensorOperation
from compiler.dialect.types import order_of, stored_bytes
from compiler.graph import GraphError
from compiler.passes.base import Context, computes, is_alias, operations
from tx8isa.table.scalar import REGISTERS

from .ddr_lives import Life, best_fit
from .ddr_pieces import Piece, joined_pieces, taken_piece
from .ddr_range import VARIABLES, Range, set_place


class DdrReorderPass:
    """Writes the places into dev_info, and inserts the copies that graph outputs and joins need."""

    name = "ddr_reorder"

    def run(self, context: Context, module: ModuleOp) -> None:
        homes = _Homes(context, module)
        homes.find()
        homes.write()


class _Homes:
    """``inside`` says of a value in which other it lies, and from which byte on; ``symbols`` are those of
    graph inputs and outputs, by the value that has their memory."""

    def __init__(self, context: Context, module: ModuleOp) -> None:
        self.context, self.module = context, module
        self.inside: dict[SSAValue, Piece] = {}
        self.symbols: dict[SSAValue, str] = {}
        self.in_place: set[TensorOperation] = set()

    def find(self) -> None:
        """Decide what lies in what."""
        for operation in operations(self.module):
            if is_alias(operation):
                self.inside[operation.results[0]] = (operation.operands[0], 0)
            elif isinstance(operation, InputOp):
                name = operation.node.data
                own = is_plain_name(name)
                self.symbols[operation.results[0]] = name if own else f"io.in{len(self.symbols)}"
        for operation in operations(self.module):
            if isinstance(operation, OutputOp):
                self._output(operation)
        for operation in reversed(list(operations(self.module))):
            self._join(operation)
        for operation in operations(self.module):
            self._take(operation)

    def home(self, value: SSAValue) -> Piece:
        """The value that has the memory in which a value lies, and its first byte there."""
        offset = 0
        while value in self.inside:
            value, step = self.inside[value]
            offset += step
        return value, offset

    def _output(self, operation: OutputOp) -> None:
        value = operation.operands[0]
        root, _ = self.home(value)
        if not self._is_free(root) or stored_bytes(root.type) > stored_bytes(value.type):
            root = operation.operands[0] = self._copied(value, operation, operation.node.data)
        name, taken = operation.node.data, {tensor.name for tensor in self.context.graph.inputs}
        self.symbols[root] = name if is_plain_name(name) and name not in taken else f"io.{len(self.symbols)}"

    def _is_free(self, root: SSAValue) -> bool:
        """Whether a phase computes a value, which has no place yet."""
        return not isinstance(root.owner, InputOp | LoadConstOp) and root not in self.symbols

    def _copied(self, value: SSAValue, user: TensorOperation, node: str) -> SSAValue:
        """A copy of a value, in front of its user."""
        attributes = {
            "node": StringAttr(node),
            "layout_str": StringAttr(order_of(value.type).value),
            "tile_parallel": IntegerAttr(self.context.tiles, i64),
            "chip_parallel": IntegerAttr(1, i64),
        }
        made = CastOp.create(operands=[value], result_types=[value.type], attributes=attributes)
        Rewriter().insert_op(made, InsertPoint.before(user))
        return made.results[0]

    def _join(self, operation: TensorOperation) -> None:
        """Let the pieces of a Concat be computed in its result, if that saves more copies than it needs."""
        pieces = joined_pieces(self.context, operation)
        if pieces is None:
            return
        free: set[SSAValue] = set()
        for value, _ in pieces:
            root, _ = self.home(value)
            if self._is_free(root) and stored_bytes(root.type) == stored_bytes(value.type):
                free.add(root)
        if 2 * len(free) < len(pieces):
            return
        for value, offset in pieces:
            root, _ = self.home(value)
            if root in free:
                free.remove(root)
            else:
                root = self._copied(value, operation, operation.node.data)
            self.inside[root] = (operation.results[0], offset)
        self.in_place.add(operation)

    def _take(self, operation: TensorOperation) -> None:
        """Let a Slice be a part of its operand, unless its result has another place."""
        piece = taken_piece(self.context, operation)
        result = operation.results[0] if operation.results else None
        if piece is None or result is None or result in self.inside or result in self.symbols:
            return
        self.inside[result] = piece
        self.in_place.add(operation)

    def write(self) -> None:
        """Give memory to what lies in nothing else, and write all places down."""
        places = self._places()
        for number, operation in enumerate(operations(self.module)):
            if not operation.results and not isinstance(operation, OutputOp):
                continue
            value = operation.results[0] if operation.results else operation.operands[0]
            root, offset = self.home(value)
            base, begin = places[root]
            place = Range(base, begin + offset, begin + offset + stored_bytes(value.type))
            symbol = base if place.begin == 0 and base != VARIABLES else f"v.{number}"
            set_place(operation, symbol, place, operation in self.in_place)

    def _places(self) -> dict[SSAValue, tuple[str, int]]:
        """Symbol of the memory and first byte there of all values that lie in no other."""
        places = {value: (symbol, 0) for value, symbol in self.symbols.items()}
        for number, operation in enumerate(operations(self.module)):
            if isinstance(operation, LoadConstOp):
                places[operation.results[0]] = (f"c.{number}", 0)
        own = sum(stored_bytes(value.type) for value in places)
        lives = self._lives(places)
        addresses = best_fit(list(lives.values()), self.context.machine.ddr.bank_bytes)
        ends = [address + life.size for address, life in zip(addresses, lives.values(), strict=True)]
        self._check_size(own + max(ends, default=0))
        shared = zip(lives, addresses, strict=True)
        return places | {value: (VARIABLES, address) for value, address in shared}

    def _lives(self, own: Container[SSAValue]) -> dict[SSAValue, Life]:
        """From when to when the values are needed that have no memory of their own."""
        lives: dict[SSAValue, Life] = {}
        for number, operation in enumerate(operations(self.module)):
            for result in operation.results:
                root, offset = self.home(result)
                if root not in own:
                    size = offset + stored_bytes(result.type)
                    lives[root] = lives.get(root, Life(number, number, 0)).with_size(size)
            if computes(operation) and operation not in self.in_place:
                for value in (*operation.operands, *operation.results):
                    root, _ = self.home(value)
                    if root not in own:
                        lives[root] = lives[root].until(number)
        return lives

    def _check_size(self, size: int) -> None:
        machine = self.context.machine
        if size > machine.ddr.bytes:
            found = f"the tensors of the graph take {size:,} bytes of DDR"
            raise GraphError([f"{found}, machine {machine.name} has {machine.ddr.bytes:,}"])


_NAME = re.compile(r"[A-Za-z_][\w.$]*")
_OURS = re.compile(r"(v|c|io|p\d+)\..*|_start|exit")


def is_plain_name(name: str) -> bool:
    """Whether assembly can use the name of a graph input or output as its symbol."""
    return bool(_NAME.fullmatch(name)) and name not in REGISTERS and not _OURS.fullmatch(name)
