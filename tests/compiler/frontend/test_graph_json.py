"""graph.json: valid graphs, refusals with their messages; the schema agrees with the parser."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.evaluation.infer import build_graph
from compiler.evaluation.reference import run_reference
from compiler.frontend.json import reader as graph_json
from compiler.frontend.json.reader import GraphRecord, load_graph, parse_description, schema_text
from compiler.graph import GraphError
from compiler.operators import call_of

SCHEMA = Path(graph_json.__file__).with_name("graph.schema.json")

Json = dict[str, Any]


def example() -> Json:
    """A graph with every kind of entry: 1x1 convolution with inline weights, Relu, nodes out of order."""
    return {
        "name": "small",
        "opset": 17,
        "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 2, 3, 3]}],
        "outputs": ["y"],
        "constants": {"w": {"dtype": "float32", "shape": [3, 2, 1, 1], "data": [1, 0, 0, 1, 1, 1.5]}},
        "nodes": [
            {"op": "Relu", "name": "r", "inputs": ["c"], "outputs": ["y"]},
            {
                "op": "Conv",
                "name": "n3",
                "inputs": ["x", "w", ""],
                "outputs": ["c"],
                "attrs": {"strides": [2, 2]},
            },
        ],
    }


def read(document: Json | str, directory: Path = Path()) -> Any:
    text = document if isinstance(document, str) else json.dumps(document)
    return build_graph(parse_description(text, source="g.json", directory=directory))


def refused(document: Json | str, directory: Path = Path()) -> GraphError:
    with pytest.raises(GraphError) as caught:
        read(document, directory)
    assert "\n" not in str(caught.value)
    return caught.value


# --- what is read ------------------------------------------------------------------------------------------


def test_example() -> None:
    graph = read(example())
    assert (graph.name, graph.opset) == ("small", 17)
    assert [node.name for node in graph.nodes] == ["n3", "r"]
    assert graph.tensors["c"].shape == graph.outputs[0].shape == (1, 3, 2, 2)
    assert graph.outputs[0].dtype == "float32"
    conv = call_of(graph, graph.nodes[0])
    assert (conv.shape(0), conv.has(2), conv.integers("strides")) == ((1, 2, 3, 3), False, (2, 2))
    assert (conv.integer("group"), conv.string("auto_pad")) == (1, "NOTSET")
    x = np.arange(18, dtype=np.float32).reshape(1, 2, 3, 3) - 8
    even = x[0, :, ::2, ::2]
    expected = np.maximum(np.stack([even[0], even[1], even[0] + 1.5 * even[1]]), 0)[None]
    np.testing.assert_array_equal(run_reference(graph, {"x": x})["y"], expected)


def test_load_from_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    document = example()
    del document["name"]
    path = tmp_path / "net.json"
    path.write_text(json.dumps(document), encoding="utf-8-sig")
    assert load_graph(path).name == "net"


def test_nodes_without_a_name_get_one_of_their_own() -> None:
    document = example()
    del document["nodes"][0]["name"]
    document["nodes"][1]["name"] = "Relu_0"
    assert [node.name for node in read(document).nodes] == ["Relu_0", "Relu_0_"]


def test_independent_nodes_keep_the_order_of_the_file() -> None:
    document = example()
    document["outputs"] = [f"y{index}" for index in range(12)]
    document["nodes"] = [
        {"op": "Relu", "name": f"r{index}", "inputs": ["x"], "outputs": [f"y{index}"]} for index in range(12)
    ]
    assert [node.name for node in read(document).nodes] == [f"r{index}" for index in range(12)]


def test_float_attributes_are_stored_as_onnx_does() -> None:
    document = example()
    document["nodes"][0] |= {"op": "LeakyRelu", "attrs": {"alpha": 0.1}}
    assert read(document).nodes[1].attrs == {"alpha": float(np.float32(0.1))}
    document["nodes"][0]["attrs"] = {}
    assert read(document).nodes[1].attrs == {"alpha": float(np.float32(0.01))}


# --- what is refused ---------------------------------------------------------------------------------------


def edit(path: str, value: Any) -> Json:
    """The example with the entry at a path such as ``nodes.1.attrs`` set, or removed if the value is None."""
    document: Any = example()
    *parents, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    target = document
    for step in parents:
        target = target[step]
    if value is None:
        del target[last]
    else:
        target[last] = value
    assert isinstance(document, dict)
    return document


EDITS = [
    ("nodes.1.op", "NonMaxSuppression", "unsupported operator NonMaxSuppression (node 'n3')"),
    (
        "nodes.1.op",
        "GridSample",
        "unsupported operator GridSample (node 'n3'): needs opset 20 or newer; the graph declares opset 17",
    ),
    ("nodes.1.op", "Conw", "unsupported operator Conw (node 'n3'); did you mean 'Conv'?"),
    ("nodes.0.op", "relu", "unsupported operator relu (node 'r'); did you mean 'Relu'?"),
    ("nodes.1.op", None, "g.json: node 'n3': key 'op' is missing"),
    ("nodes.1.outputs", None, "g.json: node 'n3' (Conv): key 'outputs' is missing"),
    (
        "nodes.1.input",
        [],
        "g.json: node 'n3' (Conv): unknown key 'input'; known are op, inputs, outputs, name, attrs; "
        "did you mean 'inputs'?",
    ),
    (
        "node",
        [],
        "g.json: unknown key 'node'; known are opset, inputs, outputs, nodes, name, constants; "
        "did you mean 'nodes'?",
    ),
    ("outputs", None, "g.json: key 'outputs' is missing"),
    ("outputs", [], "g.json: outputs must be a list of length >= 1; found []"),
    ("opset", 16, "g.json: opset must be an integer from 17 to 28; found 16"),
    ("opset", 29, "g.json: opset must be an integer from 17 to 28; found 29"),
    ("opset", "17", 'g.json: opset must be an integer from 17 to 28; found "17"'),
    ("inputs.0.shape", [1, 2, 0, 3], "g.json: input 'x': shape[2] must be an integer >= 1; found 0"),
    ("inputs.0.shape", ["N", 2], "g.json: input 'x': shape[0] must be an integer; found \"N\""),
    ("inputs.0.shape", None, "g.json: input 'x': key 'shape' is missing"),
    ("inputs.0.name", "", "g.json: input '': name must be a string of length >= 1; found \"\""),
    ("inputs.0.name", 5, "g.json: inputs[0]: name must be a string; found 5"),
    (
        "inputs.0.dtype",
        "float33",
        "g.json: input 'x': dtype \"float33\" is unknown; allowed are float32, float16, bfloat16, int8, "
        "uint8, int16, uint16, int32, uint32, int64, bool",
    ),
    ("nodes.1", 7, "g.json: nodes[1]: it must be an object; found 7"),
    ("nodes.1.inputs", ["x", 1], "g.json: node 'n3' (Conv): inputs[1] must be a string; found 1"),
    (
        "nodes.1.attrs",
        {"strides": [1, None]},
        "g.json: node 'n3' (Conv): attrs.strides[1] must be an integer, a number or a string; found null",
    ),
    (
        "nodes.1.attrs",
        {"group": 1, "strides": {}},
        "g.json: node 'n3' (Conv): attrs.strides must be an integer, a number, a string or a list; found {}",
    ),
    (
        "nodes.1.attrs",
        {"group": True},
        "g.json: node 'n3' (Conv): attrs.group must be an integer, a number, a string or a list; found true",
    ),
    ("nodes.1.name", "r", "g.json: 2 nodes are named 'r'; node names must differ"),
    (
        "nodes.0.outputs",
        ["c"],
        "g.json: node 'n3' (Conv): tensor 'c' is already defined by node 'r' (Relu) (and 1 more error)",
    ),
    (
        "nodes.1.outputs",
        ["x"],
        "g.json: node 'n3' (Conv): tensor 'x' is already defined by the graph inputs (and 1 more error)",
    ),
    ("nodes.0.inputs", ["C"], "g.json: node 'r' (Relu): input 'C' is not defined; did you mean 'c'?"),
    ("nodes.0.inputs", ["nowhere"], "g.json: node 'r' (Relu): input 'nowhere' is not defined"),
    ("outputs", ["z"], "g.json: output 'z' is not produced by any node"),
    ("nodes.1.inputs", ["y", "w"], "g.json: the nodes form a cycle: 'r' -> 'n3' -> 'r'"),
    ("nodes.0.inputs", ["y"], "g.json: the nodes form a cycle: 'r' -> 'r'"),
    (
        "constants.x",
        {"dtype": "int8", "data": 1},
        "g.json: the constants: tensor 'x' is already defined by the graph inputs",
    ),
    (
        "constants.w.dtype",
        "float64",
        "g.json: constant 'w': dtype \"float64\" is unknown; allowed are "
        "float32, float16, bfloat16, int8, uint8, int16, uint16, int32, uint32, int64, bool",
    ),
    (
        "constants.w.dtype",
        None,
        "g.json: constant 'w': inline data needs 'dtype'; allowed are float32, "
        "float16, bfloat16, int8, uint8, int16, uint16, int32, uint32, int64, bool",
    ),
    ("constants.w.data", None, "g.json: constant 'w': has neither 'data' nor 'file'; give one of them"),
    ("constants.w.file", "a.npy", "g.json: constant 'w': has both 'data' and 'file'; give one of them"),
    ("constants.w.key", "k", "g.json: constant 'w': 'key' belongs to 'file'; inline data has none"),
    ("constants.w.shape", [3, -2], "g.json: constant 'w': shape[1] must be an integer >= 0; found -2"),
    ("constants.w.shape", [3, 3], "g.json: constant 'w': has 6 values; shape [3, 3] needs 9"),
    (
        "constants.w.data",
        [[1, 2], [3, 4]],
        "g.json: constant 'w': data is nested as [2, 2]; declared shape is [3, 2, 1, 1]",
    ),
    (
        "constants.w.data",
        [[1, 2], [3]],
        "g.json: constant 'w': data is ragged: at depth 1 the lists differ in length",
    ),
    (
        "constants.w.data",
        [1, [2]],
        "g.json: constant 'w': data is ragged: lists and values are mixed at depth 1",
    ),
    (
        "constants.w.data",
        [1, 2, 3, 4, 5, "nan"],
        "g.json: constant 'w': \"nan\" where a number belongs "
        '(or "NaN", "Infinity", "-Infinity"), at [2, 1, 0, 0]',
    ),
    (
        "constants.w.data",
        [1, 2, 3, True, 5, 6],
        "g.json: constant 'w': true where a number belongs "
        '(or "NaN", "Infinity", "-Infinity"), at [1, 1, 0, 0]',
    ),
    (
        "constants.w.data",
        [1, 2, 3, 1e39, 5, 6],
        "g.json: constant 'w': 1e+39 is beyond float32, at [1, 1, 0, 0]",
    ),
    ("constants.", {"dtype": "int8", "data": 1}, "g.json: a constant has an empty name"),
]


@pytest.mark.parametrize(("path", "value", "message"), EDITS)
def test_refused_with_the_exact_message(path: str, value: Any, message: str) -> None:
    assert str(refused(edit(path, value))) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "g.json:1:1: not valid JSON: Expecting value"),
        ('{"opset": 17,\n "inputs": [}', "g.json:2:13: not valid JSON: Expecting value"),
        ('{"opset": 17 "inputs"', "g.json:1:14: not valid JSON: Expecting ',' delimiter"),
        ('{"opset": 17} x', "g.json:1:15: not valid JSON: Extra data"),
        ("[]", "g.json: it must be an object; found []"),
        (
            '{"name": "NaN",\n "k": [1, NaN]}',
            'g.json:2:11: NaN is not JSON; in float data write "NaN" as a string',
        ),
        (
            '{"k": -Infinity}',
            'g.json:1:7: -Infinity is not JSON; in float data write "-Infinity" as a string',
        ),
        ('{"opset": 17, "opset": 18}', "g.json: key 'opset' occurs twice in one object"),
        ('{"opset": ' + "1" * 5000 + "}", "g.json: an integer has more digits than any dtype can hold"),
        ('{"opset": 1e999}', "g.json: opset must be an integer from 17 to 28; found Infinity"),
    ],
)
def test_refused_text(text: str, message: str) -> None:
    assert str(refused(text)) == message


def test_all_mistakes_of_a_level_are_kept() -> None:
    document = example()
    document["nodes"][0]["op"] = "Foo"
    document["nodes"][1]["op"] = "Bar"
    error = refused(document)
    assert error.messages == (
        "unsupported operator Bar (node 'n3')",
        "unsupported operator Foo (node 'r'); did you mean 'Floor'?",
    )
    assert str(error) == "unsupported operator Bar (node 'n3') (and 1 more error)"


def test_a_longer_cycle_is_named_in_the_direction_of_the_data() -> None:
    document = example()
    links = [("a", "d", "b"), ("b", "b", "c"), ("c", "c", "d"), ("tail", "d", "y")]
    document["nodes"] = [{"op": "Relu", "name": n, "inputs": [i], "outputs": [o]} for n, i, o in links]
    assert str(refused(document)) == "g.json: the nodes form a cycle: 'a' -> 'b' -> 'c' -> 'a'"


def test_deeply_nested_text_is_no_crash() -> None:
    assert str(refused('{"a":' + "[" * 100_000)) == "g.json: nested too deeply"


def test_unreadable_graph(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"no\.json: cannot be read: No such file or directory$"):
        load_graph(tmp_path / "no.json")
    (tmp_path / "latin.json").write_bytes(b'{"name": "\xe9"}')
    with pytest.raises(GraphError, match=r"latin\.json: not UTF-8 text; found byte 0xe9 at offset 10$"):
        load_graph(tmp_path / "latin.json")


# --- the schema --------------------------------------------------------------------------------------------


def test_the_shipped_schema_is_the_generated_one() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == schema_text()


VALIDATOR = jsonschema.Draft202012Validator(json.loads(schema_text()))

PIECES: list[Any] = [
    None,
    True,
    0,
    1,
    -1,
    17,
    29,
    1.5,
    "",
    "x",
    "float32",
    "float33",
    [],
    [1],
    [0],
    ["x"],
    [""],
    [1.5],
    [[1]],
    {},
    {"a": 1},
    {"a": [1, "b"]},
    {"a": None},
    {"a": {}},
    {"w": {"dtype": "int8", "data": 3}},
    {"w": {"file": "a.npy"}},
    {"": {"file": "a.npy"}},
]


@st.composite
def changed_documents(draw: Any) -> Json:
    """The example with one to three entries replaced, removed or added anywhere but inside constants."""
    document = example()
    for _ in range(draw(st.integers(1, 3))):
        places = list(containers(document))
        place = draw(st.sampled_from(places))
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        action = draw(st.sampled_from(["replace", "remove", "add"]))
        if action == "add" and isinstance(place, dict):
            place[draw(st.sampled_from(["name", "extra", "shape", "attrs"]))] = copy.deepcopy(
                draw(st.sampled_from(PIECES))
            )
        elif keys:
            key = draw(st.sampled_from(keys))
            if action == "remove":
                del place[key]
            else:
                place[key] = copy.deepcopy(draw(st.sampled_from(PIECES)))
    return document


def containers(value: Any) -> list[Any]:
    found = [value] if isinstance(value, dict | list) else []
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if found else ():
        if key != "w":
            found += containers(item)
    return found


@settings(max_examples=300)
@given(changed_documents())
def test_schema_and_parser_agree(document: Json) -> None:
    accepted = VALIDATOR.is_valid(document)
    try:
        msgspec.convert(document, GraphRecord)
        converted = all(one_way(record) for record in document.get("constants", {}).values())
    except msgspec.ValidationError:
        converted = False
    assert accepted == converted
    try:
        read(document)
        assert accepted
    except GraphError as error:  # an accepted file may still not make sense; nothing else may come out
        assert "\n" not in str(error)


def one_way(record: Json) -> bool:
    """A constant is given in exactly one way: inline with its dtype, or in a file."""
    if "file" in record:
        return "data" not in record
    return "data" in record and "dtype" in record and "key" not in record


@pytest.mark.parametrize("path", [path for path, _, _ in EDITS if path.startswith(("opset", "inputs.0"))])
def test_the_schema_refuses_what_it_can_tell(path: str) -> None:
    for edited, value, _ in EDITS:
        if edited == path:
            assert not VALIDATOR.is_valid(edit(path, value))


def test_reading_does_not_load_the_heavy_libraries() -> None:
    heavy = ["onnx", "onnxruntime", "numba", "llvmlite", "xdsl", "emulator"]
    code = (
        f"import compiler.frontend.json.reader, sys; print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "\ud800"},
        {"outputs": ["\udc00"]},
        {"nodes": [{"op": "Relu", "name": "a\ud800b", "inputs": ["x"], "outputs": ["y"]}]},
        {"nodes": [{"op": "\udfff", "inputs": ["x"], "outputs": ["y"]}]},
        {"constants": {"\ud800": {"dtype": "float32", "data": [1.0]}}},
        {"\udbff": 1},
    ],
)
def test_half_a_surrogate_pair_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    """JSON can write what UTF-8 cannot: no file and no terminal can show such a name."""
    graph = {
        "opset": 20,
        "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],
        "outputs": ["y"],
        "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}],
    }
    path = tmp_path / "g.json"
    path.write_text(json.dumps(graph | changes))
    with pytest.raises(GraphError, match="holds half of a surrogate pair, which is not a character"):
        load_graph(path)


def test_a_whole_surrogate_pair_is_a_character(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_text(
        '{"opset": 20, "name": "\\ud83d\\ude00", "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],'
        ' "outputs": ["y"], "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}]}'
    )
    assert load_graph(path).name == "\U0001f600"
