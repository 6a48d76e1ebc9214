"""The verifier between passes, compared with xDSL's own, which verifies everything each time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from compiler.dialect.group import StoreVarOp
from compiler.dialect.ops import GroupOp, InputOp
from compiler.dialect.orders import Order
from compiler.dialect.types import tensor_type
from compiler.dialect.verifier import Verifier
from compiler.passes.base import operations
from compiler.passes.groups.group_load_store import GroupLoadStorePass
from compiler.passes.groups.group_pattern import GroupPatternPass
from ir_text import after, constant, context, node, output, parsed, source, zeros
from tx8isa.numbers.formats import Format

S = "4x64"
TEXT = "\n".join(
    [
        *(source("x", "x", S), constant("w", "w", "64x64")),
        *(node("mat_mul", "m", "a", {"x": S, "w": "64x64"}, S), node("relu", "r", "b", {"a": S}, S)),
        output("y", "b", S),
    ]
)


def grouped() -> ModuleOp:
    return after(parsed(TEXT), context({"w": zeros(64, 64)}), GroupPatternPass(), GroupLoadStorePass())


def group_of(module: ModuleOp) -> GroupOp:
    return next(operation for operation in operations(module) if isinstance(operation, GroupOp))


def _negative_size(module: ModuleOp) -> None:
    group_of(module).attributes["template"] = IntegerAttr(-8, i64)


def _positions(module: ModuleOp) -> None:
    group_of(module).members[0].attributes["operands_at"] = DenseArrayBase.from_list(i64, [0, 1, 2])


def _no_node(module: ModuleOp) -> None:
    del group_of(module).members[1].attributes["node"]


def _type_of_an_operand(module: ModuleOp) -> None:
    """The operation itself does not change, and its result could have this type."""
    first = next(iter(operations(module)))
    assert isinstance(first, InputOp)
    first.results[0]._type = tensor_type(Format.FP16, (4, 32), Order.PLAIN)


def _unused_member(module: ModuleOp) -> None:
    group = group_of(module)
    group.members[1].operands[0] = group.body.block.first_op.results[0]  # type: ignore[union-attr]


def _other_store(module: ModuleOp) -> None:
    group = group_of(module)
    store = next(op for op in group.body.block.ops if isinstance(op, StoreVarOp))
    store.operands[0] = group.members[0].results[0]


def _move_outside(module: ModuleOp) -> None:
    group = group_of(module)
    store = next(op for op in group.body.block.ops if isinstance(op, StoreVarOp))
    store.detach()
    assert group.parent is not None
    group.parent.insert_op_after(store, group)


DAMAGE: list[Callable[[ModuleOp], None]] = [
    *(_negative_size, _positions, _no_node, _type_of_an_operand, _unused_member, _other_store, _move_outside)
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_a_pass_breaks_is_found_as_by_a_full_verification(damage: Callable[[ModuleOp], None]) -> None:
    module, verifier = grouped(), Verifier()
    verifier.verify(module)
    damage(module)
    with pytest.raises(VerifyException):
        module.verify()
    for _ in range(2):  # it stays wrong
        with pytest.raises(VerifyException):
            verifier.verify(module)


def test_a_module_is_verified_the_first_time() -> None:
    module = grouped()
    _negative_size(module)
    with pytest.raises(VerifyException, match="template -8 is negative"):
        Verifier().verify(module)


def test_a_repaired_module_is_valid_again() -> None:
    module, verifier = grouped(), Verifier()
    _negative_size(module)
    with pytest.raises(VerifyException):
        verifier.verify(module)
    del group_of(module).attributes["template"]
    verifier.verify(module)


def test_only_what_changed_is_verified_again(monkeypatch: pytest.MonkeyPatch) -> None:
    module, verifier = grouped(), Verifier()
    verifier.verify(module)
    looked: list[str] = []
    own = Operation.verify

    def noted(self: Operation, verify_nested_ops: bool = True) -> None:
        looked.append(self.name)
        own(self, verify_nested_ops)

    monkeypatch.setattr(Operation, "verify", noted)
    verifier.verify(module)
    assert looked == []
    group_of(module).members[1].attributes["updates"] = StringAttr("x")
    verifier.verify(module)
    assert looked == ["tx8be.relu", "tx8be.group", "tx8be.subgraph", "builtin.module"]
