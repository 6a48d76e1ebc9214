"""Files with the constants of a graph: none outside the folder of an ONNX model, and none is written over."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from compiler.cli import main
from compiler.frontend import load
from compiler.graph import GraphError
from compiler.tools import opt

SECRET = np.arange(100, 104, dtype=np.float32).tobytes()


def external(location: str) -> TensorProto:
    """A constant of 2 x 2 floats in a file."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 2])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return tensor


def model_file(folder: Path, location: str) -> Path:
    """A model beside its weights in ``w.bin``, that names a file for them."""
    folder.mkdir(exist_ok=True)
    np.arange(4, dtype=np.float32).tofile(folder / "w.bin")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, [2, 2])],
        [value("y", TensorProto.FLOAT, [2, 2])],
        [external(location)],
    )
    path = folder / "net.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path.write_bytes(made.SerializeToString())
    return path


# --- what is read ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "location",
    [
        "../out.bin",
        "../../etc/passwd",
        "../../../../../../etc/passwd",
        "sub/../../out.bin",
        "./../out.bin",
        "/etc/passwd",
        "{folder}/out.bin",
        "{folder}/net/w.bin",
        "link.bin",
        "elsewhere/out.bin",
        "..",
        ".",
        "",
        "w.bin\0/../../out.bin",
    ],
)
def test_a_location_outside_the_folder_is_refused_in_one_line(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also through a link, and by an absolute path to a file inside."""
    (tmp_path / "out.bin").write_bytes(SECRET)
    path = model_file(tmp_path / "net", location.format(folder=tmp_path))
    (tmp_path / "net" / "sub").mkdir()
    (tmp_path / "net" / "link.bin").symlink_to("../out.bin")
    (tmp_path / "net" / "elsewhere").symlink_to(tmp_path, target_is_directory=True)
    monkeypatch.chdir(tmp_path / "net")
    assert main(["-q", str(path)]) == 1
    error = capsys.readouterr().err
    start = f"tx8cc: error: {path}: initializer 'w': external data cannot be read: "
    assert error.startswith(start) and len(error) > len(start) + 10
    assert error.count("\n") == 1
    assert not (tmp_path / "net" / "net").exists()


@pytest.mark.parametrize("location", ["w.bin", "./w.bin", "sub/../w.bin", "sub/w.bin"])
def test_a_location_inside_the_folder_is_read(location: str, tmp_path: Path) -> None:
    path = model_file(tmp_path / "net", location)
    (tmp_path / "net" / "sub").mkdir()
    (tmp_path / "net" / "sub" / "w.bin").write_bytes((tmp_path / "net" / "w.bin").read_bytes())
    graph = load(path)
    assert graph.constants["w"].tolist() == [[0, 1], [2, 3]]
    assert graph.files == (tmp_path / "net" / location,)


# --- what is written ------------------------------------------------------------------------


def graph_file(folder: Path, file: str, key: str | None) -> Path:
    """graph.json with a constant in a file next to it."""
    constant = {"file": file} | ({"key": key} if key else {})
    graph = {
        "opset": 20,
        "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 2]}],
        "constants": {"w": constant},
        "outputs": ["y"],
        "nodes": [{"op": "Add", "inputs": ["x", "w"], "outputs": ["y"]}],
    }
    path = folder / "net.json"
    path.write_text(json.dumps(graph))
    return path


def onnx_case(folder: Path) -> Path:
    return model_file(folder, "w.bin")


def in_a_constant_node(folder: Path) -> Path:
    """The weights in an attribute of a node in a branch, which no output needs."""
    path = model_file(folder, "w.bin")
    model = onnx.load(path, load_external_data=False)
    del model.graph.initializer[:]
    inner = helper.make_graph(
        [helper.make_node("Constant", [], ["c"], value=external("w.bin"))],
        "branch",
        [],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, [2, 2])],
    )
    yes = helper.make_tensor("yes", TensorProto.BOOL, [], [True])
    nodes = [
        helper.make_node("If", ["yes"], ["w"], then_branch=inner, else_branch=inner),
        helper.make_node("Add", ["x", "w"], ["y"]),
    ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.append(yes)
    path.write_bytes(model.SerializeToString())
    return path


def npz_case(folder: Path) -> Path:
    np.savez(folder / "w.npz", w=np.ones((2, 2), np.float32))
    return graph_file(folder, "w.npz", "w")


def npy_case(folder: Path) -> Path:
    np.save(folder / "y.npy", np.ones((2, 2), np.float32))
    return graph_file(folder, "y.npy", None)


@pytest.mark.parametrize(
    ("make", "options", "what"),
    [
        (onnx_case, ["--trace", "w.bin", "--run"], "w.bin: --trace would replace"),
        (onnx_case, ["--trace", "./sub/../w.bin", "--run"], "./sub/../w.bin: --trace would replace"),
        (onnx_case, ["--save-plan", "linked"], "linked: --save-plan would replace"),
        (in_a_constant_node, ["--save-plan", "w.bin"], "w.bin: --save-plan would replace"),
        (npz_case, ["--save-plan", "w.npz"], "w.npz: --save-plan would replace"),
        (npy_case, ["--run", "--output-dir", "."], "y.npy: output 'y' in --output-dir would replace"),
    ],
)
def test_no_output_replaces_a_file_with_constants(
    make: Callable[[Path], Path],
    options: list[str],
    what: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    path = make(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "linked").symlink_to("w.bin")
    before = {file: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    assert main(["-q", path.name, *options]) == 1
    expected = f"tx8cc: error: {what} a file with constants of {path.name}; name another file\n"
    assert capsys.readouterr().err == expected
    assert {file: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()} == before


def test_weights_named_as_the_program_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder of the program is the model's own, and its data have the name of the program's constants."""
    monkeypatch.chdir(tmp_path)
    path = model_file(tmp_path, "prog.const")
    (tmp_path / "w.bin").rename("prog.const")
    assert main(["-q", path.name, "-o", "."]) == 1
    found = "prog.const: the constants of net.onnx would replace a file with constants of net.onnx"
    assert capsys.readouterr().err.startswith(f"tx8cc: error: {found}")
    assert main(["-q", path.name, "-o", "out"]) == 0


def test_tx8opt_keeps_them_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = npz_case(tmp_path)
    before = (tmp_path / "w.npz").read_bytes()
    assert opt.main([path.name, "--until", "import", "-o", "w.mlir"]) == 1
    found = "w.npz: the constants would replace a file with constants of the input; name another file"
    assert capsys.readouterr().err == f"tx8opt: error: {found}\n"
    assert (tmp_path / "w.npz").read_bytes() == before
    assert not (tmp_path / "w.mlir").exists()
    assert opt.main([path.name, "--until", "import", "-o", "other.mlir"]) == 0


@pytest.mark.parametrize("location", ["a\0/b", "x" * 5000, "/" * 5000, "\ud7ff/\x7f", "~", "no/where"])
def test_odd_names_of_files_that_are_not_read(
    location: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is about a constant that nothing uses, whose name is only compared with those of outputs."""
    path = model_file(tmp_path, "w.bin")
    model = onnx.load(path, load_external_data=False)
    unused = external(location)
    unused.name = "unused"
    model.graph.initializer.append(unused)
    path.write_bytes(model.SerializeToString())
    assert main(["-q", str(path)]) == 0
    assert capsys.readouterr().err == ""


def test_a_graph_without_files_names_none(tmp_path: Path) -> None:
    path = graph_file(tmp_path, "w.npz", "w")
    graph = json.loads(path.read_text())
    graph["constants"]["w"] = {"dtype": "float32", "data": [[1, 2], [3, 4]]}
    path.write_text(json.dumps(graph))
    assert load(path).files == ()
    with pytest.raises(GraphError, match="not found"):
        load(graph_file(tmp_path, "w.npz", "w"))
