"""Operator records against the definitions and the operator tests of the onnx package."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.evaluation.infer import build_graph
from compiler.evaluation.reference import run_reference
from compiler.evaluation.tolerance import judge
from compiler.graph import DTYPES, NEWEST_OPSET, GraphError, Node
from compiler.operators import OPERATORS
from compiler.operators.record import Attribute, Input, Operator
from compiler.operators.types import ANY
from onnx_node_tests import modules, node_tests_of
from onnx_oracle import Case, as_array, describe, onnx, supported

# --- records against the definitions of the onnx package ---------------------------------------------------

ONNX_NAMES = {"float": "float32"}
PUBLIC = sorted(name for name, record in OPERATORS.items() if not record.internal and "." not in name)
MICROSOFT = sorted(name for name in OPERATORS if name.startswith("com.microsoft."))
LEARNING = sorted(name for name in OPERATORS if name.startswith("ai.onnx.ml."))


def test_newest_opset_is_that_of_the_onnx_package() -> None:
    assert onnx.defs.onnx_opset_version() == NEWEST_OPSET


REWORDED = ("GridSample", "DFT")
"""Operators whose records begin with the operator set that renamed an attribute's values, or made an operand
of it."""


@pytest.mark.parametrize("name", PUBLIC)
def test_oldest_opset_is_not_older_than_the_operator(name: str) -> None:
    record = OPERATORS[name]
    assert onnx.defs.has(name, record.since, "")
    if record.since > 17 and name not in REWORDED:
        assert not onnx.defs.has(name, record.since - 1, "")


@pytest.mark.parametrize("name", PUBLIC)
def test_record_agrees_with_the_onnx_definition(name: str) -> None:
    for opset in range(max(17, OPERATORS[name].since), NEWEST_OPSET + 1):
        schema = onnx.defs.get_schema(name, opset, "")
        record = OPERATORS[name]
        option = onnx.defs.OpSchema.FormalParameterOption
        ours = [(i.optional, i.variadic) for i in record.inputs_at(opset)]
        theirs = [(i.option == option.Optional, i.option == option.Variadic) for i in schema.inputs]
        assert ours == theirs, opset
        assert [o.optional for o in record.outputs] == [o.option == option.Optional for o in schema.outputs]
        assert attributes_of(record, opset) == onnx_attributes(schema), opset


@pytest.mark.parametrize("name", LEARNING)
def test_record_of_another_domain_agrees_with_its_definition(name: str) -> None:
    """Optional outputs are this project's choice: a label that nothing reads is not computed."""
    domain, _, op = name.rpartition(".")
    schema, record = onnx.defs.get_schema(op, 1, domain), OPERATORS[name]
    assert [item.name for item in record.inputs] == [item.name for item in schema.inputs]
    assert [item.name for item in record.outputs] == [item.name for item in schema.outputs]
    assert attributes_of(record, NEWEST_OPSET) == onnx_attributes(schema)


@functools.cache
def of_onnxruntime() -> dict[str, Any]:
    """The definitions that onnxruntime has registered, by names."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    found = {item.name: item for item in state.get_all_operator_schema() if item.domain == ""}
    return found | {i.name: i for i in state.get_all_operator_schema() if i.domain == "com.microsoft"}


@pytest.mark.parametrize("name", MICROSOFT)
def test_record_agrees_with_the_definition_of_onnxruntime(name: str) -> None:
    """For an attribute without a default the description gives one; QLinearConcat has its triples in a
    row."""
    schema, record = of_onnxruntime()[name.rpartition(".")[2]], OPERATORS[name]
    ours = [(item.name, item.optional, item.variadic) for item in record.inputs]
    kinds = [(item.name, str(item.option).rpartition(".")[2]) for item in schema.inputs]
    assert ours == [(i, kind == "Optional", kind == "Variadic") for i, kind in kinds]
    assert [item.name for item in record.outputs] == [item.name for item in schema.outputs]
    wanted = registered_attributes(schema)
    found = attributes_of(record, NEWEST_OPSET)
    assert found.keys() == wanted.keys()
    for key, (kind, required, default) in wanted.items():
        assert found[key][:2] == (kind, required), key
        assert default is None or found[key][2] == default, key


def registered_attributes(schema: Any) -> dict[str, tuple[str, bool, object]]:
    """As :func:`onnx_attributes`, of a definition whose defaults are serialised."""
    found = {}
    for name, item in schema.attributes.items():
        value = onnx.AttributeProto.FromString(item._default_value)
        default = onnx.helper.get_attribute_value(value) if value.name else None
        default = default.decode() if isinstance(default, bytes) else default
        default = np.float32(default) if isinstance(default, float) else default
        found[name] = (str(item.type).rpartition(".")[2], item.required, default)
    return found


def attributes_of(record: Operator, opset: int) -> dict[str, tuple[str, bool, object]]:
    found = {}
    for item in record.attributes:
        if item.known_to(opset):
            default: object = item.default
            if item.kind == "float" and item.default is not None:
                default = np.float32(item.default)
            found[item.name] = (item.kind.upper(), item.required, default)
    return found


def onnx_attributes(schema: Any) -> dict[str, tuple[str, bool, object]]:
    found = {}
    for name, item in schema.attributes.items():
        has_default = bool(item.default_value.name)
        default = onnx.helper.get_attribute_value(item.default_value) if has_default else None
        if isinstance(default, bytes):
            default = default.decode()
        if isinstance(default, float):
            default = np.float32(default)
        if isinstance(default, list):
            default = tuple(v.decode() if isinstance(v, bytes) else v for v in default)
        found[name] = (item.type.name, item.required, default)
    return found


@pytest.mark.parametrize("name", PUBLIC)
def test_types_are_among_those_of_the_newest_definition(name: str) -> None:
    schema = onnx.defs.get_schema(name, NEWEST_OPSET, "")
    for ours, theirs in zip(OPERATORS[name].inputs, schema.inputs, strict=True):
        allowed = {text.removeprefix("tensor(").rstrip(")") for text in theirs.types}
        assert set(ours.types.allowed) <= {ONNX_NAMES.get(text, text) for text in allowed}
    groups = [{i.name for i in schema.inputs if i.type_str == item.type_str} for item in schema.inputs]
    ours_groups = [grouped(OPERATORS[name].inputs, item) for item in OPERATORS[name].inputs]
    names = [{schema.inputs[k].name for k in group} for group in ours_groups]
    assert names == groups


def grouped(inputs: tuple[Input, ...], item: Input) -> set[int]:
    return {index for index, other in enumerate(inputs) if other.types.name == item.types.name}


# --- the operator tests of the onnx package ----------------------------------------------------------------

REFUSED = {
    "BitCast": "to must be the number of",
    "Cast": "to must be the number of",
    "Dropout": "dropped elements are random otherwise",
    "EyeLike": "dtype must be the number of",
    "QuantizeLinear": "must be",
}


#: Tests whose expected values depend on a rounding to binary32, which the reference in binary64 omits.
BINARY32 = ("test_dynamicquantizelinear",)


def named_inputs(test: Any) -> dict[str, Any] | None:
    values, _ = test.data_sets[0]
    if not all(isinstance(v, onnx.TensorProto | np.ndarray | np.generic) for v in values):
        return None
    return {info.name: as_array(v) for info, v in zip(test.model.graph.input, values, strict=True)}


def without_optional_outputs(node: Node) -> Node:
    declared = OPERATORS[node.op].outputs
    first = next(at for at, name in enumerate(node.outputs) if name)
    kept = max(first + 1, sum(not item.optional for item in declared))
    kept = len(node.outputs) if declared[-1].variadic else kept
    return Node(node.op, node.name, node.inputs, node.outputs[:kept], node.attrs)


@pytest.mark.parametrize("module", modules())
def test_node_tests_of_onnx(module: str) -> None:
    for test in node_tests_of(module):
        inputs = named_inputs(test)
        if test.name not in BINARY32 and inputs is not None and supported(test, inputs):
            check_node_test(test, inputs)


@pytest.mark.long
def test_most_node_tests_are_within_the_operators() -> None:
    tests = [test for module in modules() for test in node_tests_of(module)]
    given = [(test, named_inputs(test)) for test in tests]
    assert sum(inputs is not None and supported(test, inputs) for test, inputs in given) >= 480


def check_node_test(test: Any, inputs: dict[str, Any]) -> None:
    description = describe(test, inputs)
    nodes = tuple(without_optional_outputs(node) for node in description.nodes)
    description = type(description)(**{**vars(description), "nodes": nodes})
    expected = as_array(test.data_sets[0][1][0])
    try:
        graph = build_graph(description)
    except GraphError as error:
        text = str(error)
        assert any(f"({op})" in text and rule in text for op, rule in REFUSED.items()), text
        assert is_beyond_the_rules(test), text
        return
    assert graph.outputs[0].dtype == expected.dtype.name, test.name
    assert graph.outputs[0].shape == expected.shape, test.name
    fed = {tensor.name: inputs[tensor.name] for tensor in graph.inputs}
    got = run_reference(graph, fed)[graph.outputs[0].name]
    verdict = judge("operator", "fp32", got, expected, declared=expected.dtype.name)
    assert verdict.ok, f"{test.name}: {verdict.text}"
    if all(OPERATORS[node.op].moves for node in graph.nodes):
        given = [array.ravel() for array in inputs.values() if array.dtype == expected.dtype]
        assert np.isin(expected, np.concatenate([*given, [0]]).astype(expected.dtype)).all(), "it computes"


def test_operators_of_any_type_without_an_expansion_move_or_choose() -> None:
    choosing = {"Where", "ScatterElements", "ScatterND", "Loop", "If", "Sized", "chips.Part", "chips.Take"}
    for name, record in OPERATORS.items():
        read = {each.types.name for each in record.inputs}
        of_any = all(out.types.name in read and out.types.allowed == ANY.allowed for out in record.outputs)
        if of_any and record.outputs and not record.expansion and name not in choosing:
            assert record.moves, name


def is_beyond_the_rules(test: Any) -> bool:
    """Node tests that are rightly refused, by their names: training, blocks, types that the chip lacks."""
    words = ("training", "with_dtype", "blocked_symmetric", "cast_", "empty_set_expanded")
    return any(word in test.name for word in words)


# --- any call is inferred or refused -----------------------------------------------------------------------


def random_operand(rnd: random.Random, item: Input, base: list[int]) -> np.ndarray[Any, Any]:
    """An operand that fits often but not always; constant operands hold small numbers."""
    if item.constant:
        length = rnd.choice([len(base), 1, 2, 2 * len(base)])
        dtype = np.float32 if item.types.name == "T" else np.int64
        return np.array([rnd.randint(-3, 4) for _ in range(length)], dtype)
    shape = rnd.choice([base, base, base, base[1:], base[1:2], base[::-1], [rnd.randint(1, 4) for _ in base]])
    dtype = np.dtype(np.float32) if rnd.random() < 0.9 else rnd.choice(list(DTYPES.values()))
    return np.ones(shape, dtype)


def random_attribute(rnd: random.Random, item: Attribute, rank: int) -> Any:
    if item.allowed:
        return rnd.choice(item.allowed)
    if item.kind == "ints":
        count = rnd.choice([rank, max(rank - 2, 1), max(2 * rank - 4, 1)])
        return tuple(rnd.randint(0, 4) for _ in range(count))
    return rnd.random() if item.kind == "float" else rnd.randint(-5, 5)


def random_case(rnd: random.Random) -> Case:
    record = OPERATORS[rnd.choice(PUBLIC)]
    base = [rnd.choice([0, 1, 1, 2, 3, 4, 5]) for _ in range(rnd.randint(0, 4))]
    operands, names = {}, []
    for index in range(rnd.choice([len(record.inputs)] * 4 + [1, 2, 3])):
        item = record.inputs[min(index, len(record.inputs) - 1)]
        names.append("" if item.optional and rnd.random() < 0.4 else f"i{index}")
        if names[-1]:
            operands[names[-1]] = random_operand(rnd, item, base)
    chosen = [item for item in record.attributes if item.required or rnd.random() < 0.4]
    attrs = {item.name: random_attribute(rnd, item, len(base)) for item in chosen}
    return Case(record.name, operands, attrs, rnd.choice([17, 18, 19, 20, 22, NEWEST_OPSET]), names)


@settings(max_examples=1000)
@given(st.randoms(use_true_random=False))
def test_any_call_is_refused_in_one_line_or_computed_as_inferred(rnd: random.Random) -> None:
    case = random_case(rnd)
    try:
        graph = case.graph()
    except GraphError as error:
        assert "\n" not in str(error)
        return
    output = graph.outputs[0]
    got = run_reference(graph, case.fed())["out"]
    assert got.shape == output.shape
    assert got.dtype == (np.float64 if output.is_float else DTYPES[output.dtype])
