"""Models that cannot be read or compiled: one line gives the mistake, the place, and what is allowed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, external_data_helper, helper

from compiler.frontend import load
from compiler.graph import GraphError
from onnx_models import draw, model, saved, value
from refused_models import node, one, refusal

MODELS = {
    "an operator of ONNX": (
        model(
            [
                one(
                    "TfIdfVectorizer",
                    max_gram_length=1,
                    max_skip_count=0,
                    min_gram_length=1,
                    mode="TF",
                    ngram_counts=[0],
                    ngram_indexes=[0],
                )
            ],
            {"x": (3,)},
        ),
        "unsupported operator TfIdfVectorizer (node 'n3')",
    ),
    "an operator of somebody else": (
        model([one("FusedThing", domain="com.example")], {"x": (3,)}),
        "unsupported operator com.example.FusedThing (node 'n3')",
    ),
    "an operator that does not exist": (
        model([one("Rleu")], {"x": (3,)}),
        "unsupported operator Rleu (node 'n3')",
    ),
    "a rank": (
        model([one("MaxPool", kernel_shape=[2])], {"x": (3, 3)}),
        "unsupported operator MaxPool (node 'n3'): X must have rank",
    ),
    "randomness": (
        model([one("RandomNormalLike")], {"x": (3,)}),
        "unsupported operator RandomNormalLike (node 'n3')",
    ),
    "an attribute that ONNX does not have": (
        model([one("Relu", speed=3)], {"x": (3,)}),
        "node 'n3' (Relu): Unrecognized attribute: speed",
    ),
    "too many operands": (model([one("Relu", "x", "x")], {"x": (3,)}), "node 'n3' (Relu): Node"),
    "a dynamic shape": (
        model([one("Relu")], {"x": ("N", 3)}),
        "input 'x': axis 0 is 'N'; shapes must be static",
    ),
    "a cycle": (
        model([one("Add", "x", "b"), node("Relu", ["y"], ["b"], name="m")], {"x": (3,)}),
        "the nodes form a cycle: 'n3' -> 'm' -> 'n3'",
    ),
    "an operand nobody makes": (
        model([one("Relu", "z")], {"x": (3,)}),
        "node 'n3' (Relu): input 'z' is not defined",
    ),
    "an output nobody makes": (
        model([one("Relu")], {"x": (3,)}, ["q"]),
        "output 'q' is not produced by any node",
    ),
    "a value made twice": (
        model([one("Relu"), node("Exp", ["x"], ["y"], name="m")], {"x": (3,)}),
        "tensor 'y' is already defined by node 'n3' (Relu)",
    ),
    "shapes that do not fit": (
        model([one("Add", "x", "w")], {"x": (3,)}, constants={"w": np.ones(4, "f4")}),
        "unsupported operator Add (node 'n3'): The shapes of the operands must broadcast",
    ),
    "types that do not fit": (
        model([one("Add", "x", "w")], {"x": (3,)}, constants={"w": np.ones(3, np.int64)}),
        "unsupported operator Add (node 'n3'): inputs A ('x') and B ('w') must have one dtype",
    ),
    "an old form": (
        model([one("Cast", to="FLOAT")], {"x": (3,)}, opset=5),
        "unsupported operator Cast (node 'n3'): as opset 5 has it",
    ),
    "an opset of the future": (
        model([one("Relu")], {"x": (3,)}, opset=99),
        "declares opset 99; supported are 6 to 28",
    ),
    "arithmetic on constants that fails": (
        model([one("Reshape", "w", "s")], {}, constants={"w": np.ones(4, "f4"), "s": np.array([3])}),
        "unsupported operator Reshape (node 'n3'): on constants: ",
    ),
    "a constant beyond all memory": (
        model([one("ConstantOfShape", "s")], {}, constants={"s": np.array([1 << 20, 1 << 20])}),
        "ConstantOfShape (node 'n3'): on constants: would take 4,398,046,511,104 bytes",
    ),
    "an operator of a later opset": (
        model([one("Gelu")], {"x": (3,)}, opset=19),
        "unsupported operator Gelu (node 'n3'): ONNX has it from opset 20 on; the model declares 19",
    ),
    "an operand that must be known": (
        model([one("Reshape", "x", "s"), node("Cast", ["t"], ["s"], to=7)], {"x": (4,), "t": (1,)}),
        "unsupported operator Reshape (node 'n3'): input shape must be a constant",
    ),
}


@pytest.mark.parametrize("what", MODELS)
def test_refused_in_one_line(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, message = MODELS[what]
    assert message in refusal(saved(made, tmp_path), capsys)


def test_an_output_of_another_type_than_declared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = model([one("Relu")], {"x": (3,)})
    made.graph.output[0].CopyFrom(value("y", (3,), np.int64))
    message = refusal(saved(made, tmp_path), capsys)
    assert message.endswith("m.onnx: output 'y' is declared as int64; the nodes give float32")


def test_an_output_of_another_shape_than_declared_is_taken(tmp_path: Path) -> None:
    """As in onnxruntime: shapes of outputs are often forgotten when the batch of a model is edited."""
    made = model([one("Relu")], {"x": (3,)})
    made.graph.output[0].CopyFrom(value("y", (7,)))
    assert load(saved(made, tmp_path)).outputs[0].shape == (3,)


def test_integers_of_four_bits_are_for_known_weights_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    constants = {"s": np.asarray(0.1, np.float32), "z": np.asarray(1).astype(ml_dtypes.int4)}
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "n0")]
    nodes.append(helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], "n1"))
    made = model(nodes, {"x": (2, 4)}, constants=constants, opset=21, ir_version=10)
    message = refusal(saved(made, tmp_path), capsys)
    assert "QuantizeLinear (node 'n0'): input y_zero_point ('z') is int4; allowed are int8, uint8" in message

    made = model(
        [helper.make_node("DequantizeLinear", ["x", "s"], ["y"], "n1")], {"x": (2, 4)}, constants=constants
    )
    made.graph.input[0].CopyFrom(value("x", (2, 4), ml_dtypes.int4))
    assert "input 'x' is int4; supported are float32" in refusal(saved(made, tmp_path), capsys)


@pytest.mark.parametrize("dtype", [np.float64, np.complex64, np.uint64, object])
def test_inputs_of_other_types(dtype: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = model([one("Relu")], {"x": (3,)})
    made.graph.input[0].CopyFrom(value("x", (3,), dtype))
    name = "string" if dtype is object else np.dtype(dtype).name
    assert f"input 'x' is {name}; supported are float32" in refusal(saved(made, tmp_path), capsys)


def test_inputs_that_are_no_tensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = model([one("Relu")], {"x": (3,)})
    made.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("x", 1, (3,)))
    assert "input 'x' is sequence; only tensors are supported" in refusal(saved(made, tmp_path), capsys)


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"\x08\x07\x12\x04abcd"])
def test_files_that_are_no_models(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert f"{path}: not an ONNX model, or a damaged one" in refusal(path, capsys)


def test_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "no.onnx"
    assert refusal(path, capsys) == f"{path}: cannot be read: No such file or directory"


@pytest.mark.parametrize("damage", ["missing", "short", "outside"])
def test_external_data_that_cannot_be_read(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = model([one("MatMul", "x", "w")], {"x": (2, 64)}, constants=draw({"w": (64, 32)}))
    external_data_helper.convert_model_to_external_data(made, location="w.bin", size_threshold=16)
    path = tmp_path / "m.onnx"
    onnx.save(made, path)
    if damage == "missing":
        (tmp_path / "w.bin").unlink()
    elif damage == "short":
        (tmp_path / "w.bin").write_bytes(b"1234")
    else:
        stored = onnx.load(path, load_external_data=False)
        stored.graph.initializer[0].external_data[0].value = "../../etc/passwd"
        path.write_bytes(stored.SerializeToString())
    assert f"{path}: initializer 'w': external data cannot be read: " in refusal(path, capsys)


def test_a_weight_with_too_few_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = model([one("Add", "x", "w")], {"x": (4,)}, constants={"w": np.ones(4, np.float32)})
    made.graph.initializer[0].raw_data = b"12345"
    assert "initializer 'w': damaged tensor: " in refusal(saved(made, tmp_path), capsys)


@pytest.mark.parametrize(
    ("field", "value"), [("data_type", 0), ("data_type", 77), ("dims", [-4]), ("dims", [1 << 60])]
)
def test_a_weight_that_is_no_tensor(
    field: str, value: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = model([one("Add", "x", "w")], {"x": (4,)}, constants={"w": np.ones(4, np.float32)})
    weight = made.graph.initializer[0]
    if field == "dims":
        weight.dims[:] = value
    else:
        weight.data_type = value
    message = refusal(saved(made, tmp_path), capsys)
    assert "initializer 'w': " in message
    assert str(value) in message or "reshape" in message


@pytest.mark.parametrize(
    ("location", "offset"),
    [
        ("x" * 5000, "0"),
        ("a\0b", "0"),
        ("", "0"),
        (".", "0"),
        ("/dev/zero", "0"),
        ("w.bin", "-4"),
        ("w.bin", "abc"),
        ("w.bin", str(1 << 62)),
    ],
)
def test_external_data_at_odd_places(
    location: str, offset: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = model([one("Add", "x", "w")], {"x": (4,)}, constants={"w": np.ones(4, np.float32)})
    weight = made.graph.initializer[0]
    (tmp_path / "w.bin").write_bytes(weight.raw_data)
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    for key, text in (("location", location), ("offset", offset)):
        weight.external_data.add(key=key, value=text)
    message = refusal(saved(made, tmp_path), capsys)
    assert "initializer 'w': external data cannot be read: " in message
    assert len(message) < 700


def test_a_truncated_or_damaged_file_never_ends_in_a_traceback(tmp_path: Path) -> None:
    """Bytes removed or changed at random give a graph or a GraphError."""
    weights = {"w": np.ones((3, 2, 1, 1), np.float32), "s": np.array([1, -1], np.int64)}
    nodes = [
        one("Conv", "x", "w", kernel_shape=[1, 1]),
        node("Reshape", ["y", "s"], ["z"], name="r"),
        node("Softmax", ["z"], ["p"], axis=1),
    ]
    whole = model(nodes, {"x": (1, 2, 3, 3)}, ["p"], weights, opset=11).SerializeToString()
    chance = random.Random(11)
    path, refused = tmp_path / "m.onnx", 0
    for number in range(400):
        data = bytearray(whole)
        if number % 4 == 0:
            del data[chance.randrange(len(data)) :]
        for _ in range(number % 4):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        try:
            load(path)
        except GraphError:
            refused += 1
    assert 100 < refused < 400


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        (TensorProto.UINT8, 300, "300 is outside uint8, 0 to 255"),
        (TensorProto.UINT8, -1, "-1 is outside uint8, 0 to 255"),
        (TensorProto.INT8, -200, "-200 is outside int8, -128 to 127"),
    ],
)
def test_a_zero_point_that_its_type_does_not_have(
    kind: int, value: int, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file stores bytes as 32-bit numbers; onnx would keep their lowest eight bits."""
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], name="q")]
    made = model(nodes, {"x": (2, 3)}, constants={"s": np.array(0.5, np.float32)})
    made.graph.output[0].type.tensor_type.elem_type = kind
    zero = TensorProto(name="z", data_type=kind)
    zero.int32_data.append(value)
    made.graph.initializer.append(zero)
    assert f"initializer 'z': {found}" in refusal(saved(made, tmp_path), capsys)
