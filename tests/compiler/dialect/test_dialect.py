"""Operations of the dialect: what their verifiers refuse; an operation has all facts about its node."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.utils.exceptions import VerifyException

from compiler import operators
from compiler.dialect.attributes import decoded, decoded_array, encoded, encoded_array
from compiler.dialect.group import LoadVarOp, StoreVarOp
from compiler.dialect.ops import GroupOp, LoadConstOp, NodeOperation
from compiler.graph import DTYPES, AttrValue
from compiler.lowering.record import Cut
from compiler.operators.record import Call
from compiler.passes.base import operations
from compiler.passes.compilation import context_of
from compiler.passes.groups.group_load_store import GroupLoadStorePass
from compiler.passes.groups.group_pattern import GroupPatternPass
from compiler.passes.layouts.import_graph import ImportPass
from compiler.passes.work import call_of, cut_attribute, cut_of
from compiler_harness import draw, graph, ints
from ir_text import after, constant, context, node, output, parsed, reparsed, source, zeros

S = "4x64"
PRODUCT = node("mat_mul", "m", "a", {"x": S, "w": "64x64"}, S)
ACTIVATED = "\n".join(
    [
        *(source("x", "x", S), constant("w", "w", "64x64")),
        *(PRODUCT, node("relu", "r", "b", {"a": S}, S), output("y", "b", S)),
    ]
)


def grouped() -> GroupOp:
    passes = (GroupPatternPass(), GroupLoadStorePass())
    module = after(parsed(ACTIVATED), context({"w": zeros(64, 64)}), *passes)
    return next(operation for operation in operations(module) if isinstance(operation, GroupOp))


def refused(operation: GroupOp, text: str) -> None:
    with pytest.raises(VerifyException, match=text):
        operation.verify()


def test_a_group_must_store_what_its_last_member_gives() -> None:
    group = grouped()
    store = next(op for op in group.body.block.ops if isinstance(op, StoreVarOp))
    store.operands[0] = group.members[0].results[0]
    refused(group, "tx8be.group of node 'm': stores something else")


def test_a_group_must_use_what_its_members_compute() -> None:
    group = grouped()
    group.members[1].operands[0] = group.body.block.first_op.results[0]  # type: ignore[union-attr]
    refused(group, "the result of member 'm' is not used")


def test_a_group_needs_an_argument_for_each_operand() -> None:
    group = grouped()
    group.operands = [group.operands[0]]
    refused(group, "1 operands do not match the 2 arguments of its region")


def test_a_group_needs_members() -> None:
    group = grouped()
    store = group.body.block.last_op
    assert store is not None
    for member in [store, *reversed(group.members)]:
        group.body.block.erase_op(member)
    refused(group, "no member")


def test_a_group_has_no_other_operations() -> None:
    group = grouped()
    group.body.block.add_op(ModuleOp([]))
    refused(group, "builtin.module cannot be a member")


def test_moves_stand_in_groups() -> None:
    module = parsed(ACTIVATED)
    value = next(iter(operations(module))).results[0]
    made = LoadVarOp.create(operands=[value], result_types=[value.type], attributes={"node": StringAttr("x")})
    with pytest.raises(VerifyException, match=r"load_var of node 'x': moves .* belong into a group"):
        made.verify()


def test_a_load_takes_an_operand_of_its_group() -> None:
    group = grouped()
    computed = group.members[0].results[0]
    made = LoadVarOp.create(
        operands=[computed], result_types=[computed.type], attributes={"node": StringAttr("x")}
    )
    group.body.block.insert_op_before(made, group.members[1])
    refused(group, "load_var of node 'x': loads an operand of its group; found a value computed there")


def test_a_load_keeps_the_type() -> None:
    group = grouped()
    load = next(op for op in group.body.block.ops if isinstance(op, LoadConstOp))
    made = LoadConstOp.create(
        operands=load.operands, result_types=[group.members[1].results[0].type], attributes=load.attributes
    )
    group.body.block.insert_op_before(made, group.members[0])
    refused(group, "load_const of node 'w': changes the type of what it loads")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("template", IntegerAttr(-1, i64), "template -1 is negative"),
        (
            "stages",
            DenseArrayBase.from_list(i64, [1, 9]),
            r"stages of \[1, 9\] members do not make up its 2 members",
        ),
        ("stages", DenseArrayBase.from_list(i64, [2]), r"stages of \[2\] members do not make up"),
        ("stages", DenseArrayBase.from_list(i64, [2, 0]), r"stages of \[2, 0\] members do not make up"),
        ("cut", DictionaryAttr({"rows": DictionaryAttr({})}), "cut has the parts .* found rows"),
        (
            "cut",
            DictionaryAttr({"tiles": DictionaryAttr({"m": IntegerAttr(0, i64)})}),
            "cut: tiles of 'm' cannot be 0",
        ),
        (
            "cut",
            DictionaryAttr({"choices": DictionaryAttr({"m": IntegerAttr(1, i64)})}),
            "cut: choices of 'm' cannot be 1",
        ),
    ],
)
def test_attributes_of_groups_are_checked(
    name: str, value: IntegerAttr | DictionaryAttr | DenseArrayBase, text: str
) -> None:
    group = grouped()
    group.attributes[name] = value
    refused(group, text)


def test_a_cut_survives_as_an_attribute() -> None:
    group = grouped()
    cut = Cut((("m", 4), ("n", 2)), (("m", 64),), (("stay", "a"),))
    group.attributes["cut"] = cut_attribute(cut)
    group.verify()
    assert cut_of(group) == cut


CALLS = [
    ("Conv", ["x", "w"], ["a"], {"pads": (1, 1, 1, 1), "auto_pad": "NOTSET"}),
    ("LeakyRelu", ["a"], ["b"], {"alpha": 0.1}),
    ("Reshape", ["b", "shape"], ["c"], {}),
    ("ReduceMean", ["c", "axes"], ["d"], {"keepdims": 1}),
    ("Greater", ["d", "k"], ["e"], {}),
    ("Where", ["e", "d", "k"], ["f"], {}),
    ("Clip", ["f", "", "k"], ["y"], {}),
]


def test_an_operation_alone_says_what_its_node_says() -> None:
    """The text has attributes, types, shapes and the values of operands that are not tensors at run time."""
    constants = {"w": draw(5, 3, 3, 3), "k": draw(1)[0], "shape": ints(2, 5, 12), "axes": ints(-1)}
    given = context_of(graph(CALLS, {"x": (2, 3, 4, 3)}, constants), "fp16", 4, None)
    module = ModuleOp([])
    ImportPass().run(given, module)
    again = reparsed(module)
    nodes = {node.name: node for node in given.graph.nodes}
    found = [operation for operation in operations(again) if isinstance(operation, NodeOperation)]
    assert len(found) == len(nodes)
    for operation in found:
        one, other = call_of(given, operation), operators.call_of(given.graph, nodes[operation.node.data])
        assert (one.opset, one.attrs) == (other.opset, other.attrs)
        assert [t and (t.dtype, t.shape) for t in one.inputs] == [
            t and (t.dtype, t.shape) for t in other.inputs
        ]
        for value, expected in zip(one.values, other.values, strict=True):
            assert (value is None) == (expected is None)
            assert value is None or np.array_equal(value, expected)


def _kinds(call: Call) -> list[tuple[str, tuple[int, ...]] | None]:
    return [None if tensor is None else (tensor.dtype, tensor.shape) for tensor in call.inputs]


@pytest.mark.parametrize("value", [3, -1, 0.1, 1e-5, 1e300, "text", (1, 2), (0.5, 1e-9), ("a", "b"), ()])
def test_attributes_keep_their_digits(value: AttrValue) -> None:
    module = ModuleOp([], {"value": encoded(value)})
    assert decoded(reparsed(module).attributes["value"]) == value


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_arrays_survive_as_attributes(dtype: str) -> None:
    array = np.array([[1, 0, 3], [2, 1, 1]]).astype(DTYPES[dtype])
    again = decoded_array(reparsed(ModuleOp([], {"value": encoded_array(array)})).attributes["value"])
    assert again.dtype == array.dtype
    assert np.array_equal(again, array)


def test_what_is_no_attribute_of_a_node() -> None:
    with pytest.raises(ValueError, match="is not a number, a string or a list of them"):
        decoded(DictionaryAttr({}))
    with pytest.raises(ValueError, match="is not an array of an element type of graphs"):
        decoded_array(StringAttr("x"))
