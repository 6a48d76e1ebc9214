"""Pass ``group_load_store``: groups get their loads, their stores, and what tiles exchange in between.

Every operand of a group is loaded, its results are stored. In a sequence, values that stay in the scratchpads
get their homes. Where a stage needs more of a value than a tile has, an exchange is inserted; so the code of
a sequence follows from these operations. In other groups the lowering decides when data move, and in which
slices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue, Use

from compiler.dialect.exchanges import EXCHANGES, ExchangeOperation, home_of, text_of
from compiler.dialect.group import tensor_operations
from compiler.dialect.homes import Home, HomeAttr
from compiler.dialect.ops import GroupOp, LoadConstOp, LoadVarOp, StoreVarOp, TensorOperation
from compiler.graph import GraphError
from compiler.lowering.record import ALL_GATHER, StageExchange
from compiler.passes.base import Context, is_alias, operations
from compiler.passes.work import placement_of, stages_of_group


class GroupLoadStorePass:
    """Inserts load_var, load_const and store_var; and homes, all_gather and halo_exchange in sequences."""

    name = "group_load_store"

    def run(self, context: Context, module: ModuleOp) -> None:
        for operation in operations(module):
            if isinstance(operation, GroupOp):
                _complete(context, operation)


def check_homes(context: Context, module: ModuleOp) -> None:
    """GraphError for a home that is not the one that the cut of its group gives; for code from text.

    The code of a sequence follows from its cut and its exchanges, so another home would be a false statement.
    """
    for group in operations(module):
        if isinstance(group, GroupOp):
            wanted = _homes(context, group)
            for operation in tensor_operations(group.body.block):
                if not isinstance(operation, ExchangeOperation):
                    _check_home(operation, wanted.get(operation))


def _homes(context: Context, group: GroupOp) -> dict[TensorOperation, Home]:
    """The homes that the cut of a group gives the results of its members and loads."""
    placed = placement_of(context, group)
    if placed is None:
        return {}
    placement, values = placed
    made = (op for op in tensor_operations(group.body.block) if isinstance(op, LoadVarOp | LoadConstOp))
    loads = {group.outer(load.results[0]): load.results[0] for load in made}
    owners = {symbol: loads.get(values[symbol], values[symbol]).owner for symbol in placement.homes}
    return {
        owner: placement.homes[symbol]
        for symbol, owner in owners.items()
        if isinstance(owner, TensorOperation)
    }


def _check_home(operation: TensorOperation, wanted: Home | None) -> None:
    """GraphError for another home than the wanted one. A tile may load more of a constant than its shard."""
    given = operation.home.data if operation.home is not None else None
    right = {wanted}
    if isinstance(operation, LoadConstOp) and wanted is not None:
        right |= {wanted.gathered(axis) for axis in wanted.mesh_axes}
    if given not in right:
        found, needed = ("DDR" if home is None else text_of(home) for home in (given, wanted))
        what = f"node '{operation.node.data}': {operation.name} puts its result in {found}"
        raise GraphError([f"{what}, but the cut of its group in {needed}; change the cut to move it"])


def _complete(context: Context, group: GroupOp) -> None:
    placed, stages = placement_of(context, group), stages_of_group(group)
    loads = _load(group)
    _store(group)
    if placed is None:
        return
    placement, values = placed
    inside = {symbol: loads.get(value, value) for symbol, value in values.items()}
    for symbol, home in placement.homes.items():
        owner = inside[symbol].owner
        assert isinstance(owner, TensorOperation)
        owner.attributes["home"] = HomeAttr(home)
    for exchange in placement.exchanges:
        _insert(group, exchange, inside[exchange.symbol], [members[0] for members in stages])


def _load(group: GroupOp) -> dict[SSAValue, SSAValue]:
    """Insert the loads; returns the loaded values by the operands of the group."""
    block, first = group.body.block, group.members[0]
    loads: dict[SSAValue, SSAValue] = {}
    for argument, value in zip(list(block.args), group.operands, strict=True):
        kind = LoadConstOp if isinstance(value.owner, LoadConstOp) else LoadVarOp
        made = kind.create(operands=[argument], result_types=[value.type], attributes=_named(value))
        argument.replace_uses_with_if(made.results[0], _others(made))
        block.insert_op_before(made, first)
        loads[value] = made.results[0]
    return loads


def _others(made: TensorOperation) -> Callable[[Use], bool]:
    """A predicate for the uses of a value by other operations than ``made``."""
    return lambda use: use.operation is not made


def _store(group: GroupOp) -> None:
    for value in group.made:
        group.body.block.add_op(StoreVarOp.create(operands=[value], attributes=_named(value)))


def _insert(group: GroupOp, exchange: StageExchange, value: SSAValue, begins: list[TensorOperation]) -> None:
    """Insert an exchange before a stage, for the stages from there on; ``begins``: first members of stages.

    Earlier stages use the tile's own share.
    """
    before, owner = home_of(value), value.owner
    assert before is not None and isinstance(owner, TensorOperation)
    made = EXCHANGES[exchange.kind].create(
        operands=[value],
        result_types=[value.type],
        attributes={
            "node": owner.node,
            "axis": StringAttr(exchange.axis),
            "home": HomeAttr(_after(before, exchange)),
        },
    )
    place, users = begins[exchange.before], {*begins[exchange.before :]}
    while isinstance(place.prev_op, TensorOperation) and is_alias(place.prev_op):
        place = place.prev_op
    group.body.block.insert_op_before(made, place)
    value.replace_uses_with_if(
        made.results[0], lambda use: use.operation in users or _is_alias(use.operation)
    )


def _is_alias(operation: Operation) -> bool:
    return isinstance(operation, TensorOperation) and is_alias(operation)


def _after(before: Home, exchange: StageExchange) -> Home:
    """The home of a value after an exchange."""
    if exchange.kind == ALL_GATHER:
        return before.gathered(exchange.axis)
    return replace(before, above=before.above + exchange.above, below=before.below + exchange.below)


def _named(value: SSAValue) -> dict[str, Attribute]:
    """The attribute ``node`` with the name of the operation that makes a value."""
    owner = value.owner
    return {"node": owner.node if isinstance(owner, TensorOperation) else StringAttr("")}
