"""Files of other formats are known by their content, whatever their names; messages say what to do."""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from safetensors.numpy import save

from compiler.cli import main
from compiler.frontend import load
from compiler.frontend.formats import JSON, ONNX, STABLEHLO, TENSORFLOW, TORCH, format_of
from compiler.graph import GraphError
from onnx_models import model


def zipped(names: Mapping[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in names.items():
            archive.writestr(name, content)
    return file.getvalue()


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field of a protobuf message; short ones only."""
    return bytes([number << 3 | 2, len(content)]) + content


def npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    return file.getvalue()


NODE = field(1, field(1, b"x") + field(2, b"Placeholder"))
GRAPH = json.dumps(
    {
        "opset": 20,
        "inputs": [{"name": "x", "dtype": "float32", "shape": [3]}],
        "outputs": ["y"],
        "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}],
    }
).encode()
RELU = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (3,)}).SerializeToString()

FOREIGN = {
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(90), "an HDF5 file", "model.export('model.onnx', format='onnx')"),
    "keras": (zipped({"config.json": b"{}", "model.weights.h5": b""}), "a model of Keras", "model.export("),
    "gguf": (b"GGUF\x03" + bytes(90), "weights in GGUF, without a graph", "export the model"),
    "safetensors": (save({"w": np.zeros(3, np.float32)}), "weights in safetensors", "graph.json"),
    "tx8opt": (b'builtin.module {\n  "tx8be.subgraph"() ({', "the text of a module", "tx8opt "),
    "pth": (zipped({"net/data.pkl": b"", "net/version": b"3"}), "pickled by PyTorch", "torch.export.save("),
    "torchscript": (
        zipped({"net/data.pkl": b"", "net/code/a.py": b""}),
        "a TorchScript",
        "torch.export.save(",
    ),
    "pickle": (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + bytes(90), "a pickle", "torch.export.save("),
    "npz": (zipped({"x.npy": npy()}), "arrays of NumPy (.npz)", "not a model"),
    "npy": (npy(), "an array of NumPy", "--input NAME="),
    "zip": (zipped({"readme": b""}), "a zip archive that holds no model", "tx8cc reads ONNX models"),
    "cut zip": (zipped({"net/data.pkl": b""})[:40], "a damaged zip archive", "tx8cc reads ONNX models"),
    "image": (b"\x7fELF\x02" + bytes(90), "a program, not a model", "tx8emu"),
    "gzip": (b"\x1f\x8b\x08" + bytes(90), "compressed by gzip", "unpack it"),
    "git lfs": (b"version https://git-lfs.github.com/spec/v1\noid", "a pointer of Git LFS", "git lfs pull"),
    "xml": (b'<?xml version="1.0"?>\n<net>', "XML, as of OpenVINO or PMML", "tx8cc reads ONNX models"),
    "text": ("grüße, world\n".encode(), "text that begins with 'grüße,'", "tx8cc reads ONNX models"),
    "noise": (b"\x07\x11\x12\x13" * 9, "not a model: it begins with b'\\x07\\x11", "tx8cc reads ONNX models"),
}


@pytest.mark.parametrize("suffix", ["", ".bin", ".onnx"])
@pytest.mark.parametrize("kind", FOREIGN)
def test_another_format_is_named(
    kind: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if (kind, suffix) == ("noise", ".onnx"):
        pytest.skip("the reader of ONNX says that it is none")
    content, name, remedy = FOREIGN[kind]
    path = tmp_path / f"file{suffix}"
    path.write_bytes(content)
    for arguments in ([str(path)], [str(path), "--check"], [str(path), "--batch", "2"]):
        assert main(arguments) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"tx8cc: error: {path}: ")
        assert name in line and remedy in line
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["a.json", "a.txt", "a", "a.onnx"])
def test_graphs_in_json_are_read_under_any_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf\n " + GRAPH)
    assert [node.op for node in load(tmp_path / name).nodes] == ["Relu"]


@pytest.mark.parametrize("name", ["a.onnx", "a.pb", "a", "a.json"])
def test_onnx_models_are_read_under_any_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(RELU)
    assert [node.op for node in load(tmp_path / name).nodes] == ["Relu"]


def test_programs_of_torch_export_are_known_by_their_parts(tmp_path: Path) -> None:
    for at, part in enumerate(("serialized_exported_program.json", "net/archive_format")):
        path = tmp_path / f"{at}.bin"
        path.write_bytes(zipped({part: b"", "net/data.pkl": b""}))
        assert format_of(path) == TORCH
    path = tmp_path / "cut.pt2"
    path.write_bytes(zipped({"a": b""})[:30])
    assert format_of(path) == TORCH


@pytest.mark.parametrize("suffix", ["", ".mlir", ".onnx", ".txt"])
@pytest.mark.parametrize(
    "content",
    [
        b"module @jit_f {\n  func.func public @main() {\n",
        b"// made\n#loc = loc(unknown)\nmodule {\n}\n",
        b'"builtin.module"() ({\n  "func.func"() ({\n',
        b"ML\xefR\x01" + bytes(90),
    ],
)
def test_modules_of_mlir_are_known_by_their_beginning(content: bytes, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    assert format_of(path) == STABLEHLO


@pytest.mark.parametrize("suffix", ["", ".pb", ".tflite", ".onnx"])
@pytest.mark.parametrize(
    "content",
    [
        struct.pack("<I", 28) + b"TFL3" + bytes(90),
        NODE * 3,
        b"\x08\x01" + field(2, field(1, field(4, b"serve"))),
    ],
)
def test_models_of_tensorflow_are_known_by_their_content(content: bytes, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    assert format_of(path) == TENSORFLOW


def test_what_is_damaged_is_left_to_the_reader_of_its_suffix(tmp_path: Path) -> None:
    for name, content, expected in (("a.onnx", b"", ONNX), ("a.json", b"[1]", JSON), ("b.json", b"", JSON)):
        (tmp_path / name).write_bytes(content)
        assert format_of(tmp_path / name) == expected
    assert format_of(tmp_path / "absent.onnx") == ONNX
    assert format_of(tmp_path / "absent.tflite") == TENSORFLOW
    assert format_of(tmp_path / "absent.mlir") == STABLEHLO
    assert format_of(tmp_path / "absent.pb") == JSON


def test_an_array_is_given_by_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(npy())
    with pytest.raises(GraphError, match=rf"with --input NAME={re.escape(str(tmp_path))}/x\.npy$"):
        load(tmp_path / "x.npy")


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="a folder, not a model; tx8cc reads ONNX models"):
        load(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01")
    assert format_of(tmp_path) == TENSORFLOW
