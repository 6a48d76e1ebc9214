"""Groups: operations that run in one phase, with the loads of operands and the stores of the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue
from xdsl.irdl import irdl_op_definition, opt_attr_def, region_def, traits_def
from xdsl.traits import IsolatedFromAbove, NoTerminator

from .exchanges import ExchangeOperation
from .tensor import TensorOperation


@irdl_op_definition
class LoadVarOp(TensorOperation):
    """Loads a graph input, or a tensor that another phase computed, from DDR into the scratchpad."""

    name = "tx8be.load_var"

    def verify_(self) -> None:
        super().verify_()
        _check_move(self, results=1)


@irdl_op_definition
class LoadConstOp(TensorOperation):
    """A constant of the graph; ``node`` is its name.

    In a group it has an operand, the constant, and loads it from DDR into the scratchpad.
    """

    name = "tx8be.load_const"

    def verify_(self) -> None:
        super().verify_()
        if self.operands:
            _check_move(self, results=1)


@irdl_op_definition
class StoreVarOp(TensorOperation):
    """Stores a result of a group from the scratchpad to DDR."""

    name = "tx8be.store_var"

    def verify_(self) -> None:
        super().verify_()
        _check_move(self, results=0)


def _check_move(operation: TensorOperation, results: int) -> None:
    if not isinstance(operation.parent_op(), GroupOp):
        raise operation.refuse("moves to and from the scratchpad belong into a group")
    if len(operation.operands) != 1 or len(operation.results) != results:
        raise operation.refuse(f"needs 1 operand and {results} results")
    if results and not isinstance(operation.operands[0], BlockArgument):
        raise operation.refuse("loads an operand of its group; found a value computed there")
    if results and operation.operands[0].type != operation.results[0].type:
        raise operation.refuse("changes the type of what it loads")


Move = LoadVarOp | LoadConstOp | StoreVarOp


@irdl_op_definition
class GroupOp(TensorOperation):
    """The operations of one phase: an anchor with pointwise steps, a chain, a stack, or a single operation.

    The region has one argument per operand and uses no other value from outside. The results of the group are
    the result of the last member, after the results of the members whose numbers ``results_at`` has; without
    it there is one result. ``node`` names the first member that is not a cast, which is the anchor if there
    is one. ``tag`` names the pattern that made the group; equal groups share the number ``template``. ``cut``
    is the division of the work (tiles, sizes, choices), ``estimate`` its expected cycles. ``stages``: the
    number of members of each stage of a sequence, where the members' operators do not show where stages
    begin.
    """

    name = "tx8be.group"
    body = region_def("single_block")
    tag = opt_attr_def(StringAttr)
    template = opt_attr_def(IntegerAttr)
    cut = opt_attr_def(DictionaryAttr)
    stages = opt_attr_def(DenseArrayBase)
    results_at = opt_attr_def(DenseArrayBase)
    estimate = opt_attr_def(IntegerAttr)
    traits = traits_def(NoTerminator(), IsolatedFromAbove())

    @property
    def members(self) -> list[TensorOperation]:
        """The members that compute, or reshape a value: the operations between the loads and the stores."""
        other = Move | ExchangeOperation
        return [op for op in tensor_operations(self.body.block) if not isinstance(op, other)]

    @property
    def made(self) -> list[SSAValue]:
        """The values inside the region that become the group's results, in their order."""
        members = self.members
        numbers = [-1] if self.results_at is None else [int(at) for at in self.results_at.get_values()]
        return [value for at in numbers for value in members[at].results]

    def outer(self, value: SSAValue) -> SSAValue | None:
        """Return the operand of the group for a value inside its region; None for the result of a member."""
        value = before_exchanges(value)
        if isinstance(value.owner, LoadVarOp | LoadConstOp):
            value = value.owner.operands[0]
        if isinstance(value, BlockArgument) and value.owner is self.body.block:
            return self.operands[value.index]
        return None

    def verify_(self) -> None:
        super().verify_()
        if isinstance(self.parent_op(), GroupOp):
            raise self.refuse("a group inside a group")
        given, wanted = [value.type for value in self.operands], [a.type for a in self.body.block.args]
        if given != wanted:
            raise self.refuse(f"{len(given)} operands do not match the {len(wanted)} arguments of its region")
        if not self.members:
            raise self.refuse("no member")
        self._check_members()
        self._check_homes()
        self._check_store()
        if self.template is not None and self.template.value.data < 0:
            raise self.refuse(f"template {self.template.value.data} is negative")
        if self.cut is not None:
            _check_cut(self, self.cut)
        if self.stages is not None:
            self._check_stages([int(count) for count in self.stages.get_values()])

    def _check_stages(self, counts: list[int]) -> None:
        if len(counts) < 2 or min(counts) < 1 or sum(counts) != len(self.members):
            raise self.refuse(f"stages of {counts} members do not make up its {len(self.members)} members")

    def _check_members(self) -> None:
        for op in self.body.block.ops:
            if not isinstance(op, TensorOperation):
                raise self.refuse(f"{op.name} cannot be a member")
        if self.results_at is not None:
            self._check_results_at([int(at) for at in self.results_at.get_values()])
        made = self.made
        for member in self.members[:-1]:
            if not any(result.uses or result in made for result in member.results):
                raise self.refuse(f"the result of member '{member.node.data}' is not used")
        if [result.type for result in self.results] != [value.type for value in made]:
            names = ", ".join(f"'{_node_of(value)}'" for value in made)
            whose = f"of {'its last member' if len(made) == 1 else 'the members'} {names}"
            raise self.refuse(f"its results do not have the types {whose}")

    def _check_results_at(self, numbers: list[int]) -> None:
        last = len(self.members) - 1
        if len(numbers) < 2 or numbers != sorted(set(numbers)) or numbers[0] < 0 or numbers[-1] != last:
            raise self.refuse(
                f"results_at {numbers} are not two or more of its members 0 to {last} in order, the last one "
                "among them"
            )

    def _check_homes(self) -> None:
        """Check that the cut of the group has the mesh axes of its homes."""
        tiles = self.cut.data.get("tiles") if self.cut is not None else None
        axes = tiles.data if isinstance(tiles, DictionaryAttr) else {}
        for op in tensor_operations(self.body.block):
            for axis in op.home.data.mesh_axes if op.home is not None else ():
                if axis not in axes:
                    raise op.refuse(
                        f"its home has the mesh axis '{axis}'; the cut has {', '.join(axes) or 'none'}"
                    )

    def _check_store(self) -> None:
        stores = [op for op in self.body.block.ops if isinstance(op, StoreVarOp)]
        if len(stores) > len(self.results):
            raise self.refuse(f"{len(stores)} stores for {len(self.results)} results")
        stored, made = [store.operands[0] for store in stores], self.made
        if stores and stored != made:
            names = ", ".join(f"'{_node_of(value)}'" for value in made)
            whose = f"its last member {names} gives" if len(made) == 1 else f"its members {names} give"
            raise self.refuse(f"stores something else than what {whose}")


def _node_of(value: SSAValue) -> str:
    assert isinstance(value.owner, TensorOperation)
    return value.owner.node.data


def before_exchanges(value: SSAValue) -> SSAValue:
    """Return the value that a series of exchanges began with."""
    while isinstance(value.owner, ExchangeOperation):
        value = value.owner.operands[0]
    return value


def _check_cut(group: GroupOp, cut: DictionaryAttr) -> None:
    for name, part in cut.data.items():
        if name not in ("tiles", "sizes", "choices") or not isinstance(part, DictionaryAttr):
            raise group.refuse(f"cut has the parts tiles, sizes and choices; found {name}")
        kind = StringAttr if name == "choices" else IntegerAttr
        for axis, entry in part.data.items():
            if not isinstance(entry, kind) or (isinstance(entry, IntegerAttr) and entry.value.data < 1):
                raise group.refuse(f"cut: {name} of '{axis}' cannot be {entry}")


def tensor_operations(block: Block) -> Iterator[TensorOperation]:
    """Yield the tensor operations of a block, in order; the block may be changed during the iteration."""
    yield from [op for op in block.ops if isinstance(op, TensorOperation)]


def new_group(
    members: list[TensorOperation],
    node: StringAttr,
    tag: str,
    outside: list[SSAValue],
    results_at: Sequence[int] = (),
) -> GroupOp:
    """Make a group of the detached ``members`` with the operands ``outside``; the caller has to insert it.

    ``results_at``: the numbers of the members whose results the group has, if they are several.
    """
    block = Block(arg_types=[value.type for value in outside])
    inside = dict(zip(outside, block.args, strict=True))
    for member in members:
        member.operands = [inside.get(value, value) for value in member.operands]
        block.add_op(member)
    attributes: dict[str, Attribute] = {"node": node, "tag": StringAttr(tag)}
    if results_at:
        attributes["results_at"] = DenseArrayBase.from_list(i64, list(results_at))
    return GroupOp.create(
        operands=outside,
        result_types=[value.type for at in results_at or (-1,) for value in members[at].results],
        attributes=attributes,
        regions=[Region(block)],
    )
