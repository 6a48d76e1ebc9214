"""Models of TensorFlow: tf2onnx converts them if it is installed; otherwise one line says how to get it."""

from __future__ import annotations

import importlib.util
import struct
import sys
import tomllib
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from packaging.requirements import Requirement

from compiler.evaluation.reference import run_reference
from compiler.frontend import load
from compiler.graph import GraphError
from onnx_models import model
from paths import ROOT

TFLITE = struct.pack("<I", 28) + b"TFL3" + bytes(90)
SAVED = b"\x08\x01\x12\x0e\x0a\x0c\x22\x05serve" + bytes(5)
GRAPHDEF = b"\x0a\x10\x0a\x01x\x12\x0bPlaceholder" * 3

CONVERTER = """\
import pathlib, sys
import argparse, logging, os
assert sys.argv[1] in ("--tflite", "--saved-model") and sys.argv[3] == "--output", sys.argv
assert pathlib.Path(sys.argv[2]).exists() and pathlib.Path(sys.argv[2]).is_absolute()
assert os.getcwd() == os.path.dirname(sys.argv[4])
here = pathlib.Path(__file__).parent
if (here / "model.onnx").exists():
    pathlib.Path(sys.argv[4]).write_bytes((here / "model.onnx").read_bytes())
else:
    sys.exit("reading the model\\nValueError: make_sure failure: Einsum is not supported")
"""
"""Stands for tf2onnx: gives the model beside it, or fails as tf2onnx does."""


@pytest.fixture
def converter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a package that stands for tf2onnx, installed in a virtual environment."""
    venv.create(tmp_path / "venv", symlinks=True)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "bin" / "python"))
    monkeypatch.syspath_prepend(str(packages))
    return package(packages)


def package(folder: Path) -> Path:
    """A package tf2onnx in a folder."""
    found = folder / "tf2onnx"
    found.mkdir()
    (found / "__init__.py").write_text("")
    (found / "convert.py").write_text(CONVERTER)
    return found


def models(folder: Path) -> list[Path]:
    """A .tflite file, a SavedModel as its folder and as its file."""
    saved = folder / "saved"
    saved.mkdir()
    (folder / "net.tflite").write_bytes(TFLITE)
    (saved / "saved_model.pb").write_bytes(SAVED)
    return [folder / "net.tflite", saved, saved / "saved_model.pb"]


def test_what_tf2onnx_writes_is_read(converter: Path, tmp_path: Path) -> None:
    relu = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (3,)})
    (converter / "model.onnx").write_bytes(relu.SerializeToString())
    for path, name in zip(models(tmp_path), ("net", "saved", "saved"), strict=True):
        graph = load(path)
        assert (graph.name, [node.op for node in graph.nodes], graph.files) == (name, ["Relu"], ())


@pytest.mark.parametrize("door", ["current folder", "PYTHONPATH", "both"])
def test_files_beside_a_model_are_not_executed(
    converter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: str
) -> None:
    relu = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (3,)})
    (converter / "model.onnx").write_bytes(relu.SerializeToString())
    path = models(tmp_path)[0]
    for name in ("numpy", "argparse", "logging", "sitecustomize", "usercustomize", "tf2onnx", "onnx"):
        marker = tmp_path / "executed"
        (tmp_path / f"{name}.py").write_text(f"open({str(marker)!r}, 'a').write({name!r})\n")
    if door != "PYTHONPATH":
        monkeypatch.chdir(tmp_path)
        path = path.relative_to(tmp_path)
    if door != "current folder":
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert [node.op for node in load(path).nodes] == ["Relu"]
    assert not (tmp_path / "executed").exists()


def test_a_converter_that_only_the_current_folder_has_is_not_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = models(tmp_path)[0]
    (package(tmp_path) / "convert.py").write_text("open('executed', 'w')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    venv.create(tmp_path / "venv", symlinks=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "bin" / "python"))
    with pytest.raises(GraphError, match=r"net\.tflite: .*needs tf2onnx: pip install tf2onnx"):
        load(path)
    assert not list(tmp_path.rglob("executed"))


def test_what_tf2onnx_cannot_convert_is_one_line(converter: Path, tmp_path: Path) -> None:
    for path in models(tmp_path):
        with pytest.raises(
            GraphError, match=r"tf2onnx cannot convert it: ValueError: .* Einsum is not supported"
        ):
            load(path)


def test_a_refusal_names_the_file_that_was_given(converter: Path, tmp_path: Path) -> None:
    free = model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("n",)})
    (converter / "model.onnx").write_bytes(free.SerializeToString())
    path = models(tmp_path)[0]
    with pytest.raises(GraphError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: input 'x': axis 0 is 'n'")


def test_without_tf2onnx_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "tf2onnx" else real(name, *rest)
    )
    for path in models(tmp_path):
        wanted = r"needs tf2onnx: pip install tf2onnx; or convert it to ONNX: python -m tf2onnx"
        with pytest.raises(GraphError, match=wanted):
            load(path)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert [Requirement(text).name for text in extras["tensorflow"]] == ["tf2onnx"]


def test_a_graphdef_does_not_say_what_its_inputs_are(converter: Path, tmp_path: Path) -> None:
    path = tmp_path / "frozen.pb"
    path.write_bytes(GRAPHDEF)
    with pytest.raises(
        GraphError, match=r"a GraphDef of TensorFlow; .*--graphdef .*--inputs x:0 --outputs y:0"
    ):
        load(path)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"none\.tflite: cannot be read: No such file"):
        load(tmp_path / "none.tflite")


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("tensorflow", "tf2onnx"))),
    reason="TensorFlow and tf2onnx are extras of their own: pip install tensorflow-cpu tf2onnx",
)
def test_a_network_of_tensorflow(tmp_path: Path) -> None:
    import tensorflow as tf

    rng = np.random.default_rng(3)
    kernel, dense = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 3, 3, 4), (36, 5)))

    class Network(tf.Module):  # type: ignore[misc]
        @tf.function(input_signature=[tf.TensorSpec([2, 6, 6, 3], tf.float32)])
        def __call__(self, x: Any) -> Any:
            y = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME")), 2, 2, "VALID")
            return tf.nn.softmax(tf.reshape(y, [2, 36]) @ dense)

    network = Network()
    tf.saved_model.save(network, str(tmp_path / "saved"))
    x = rng.standard_normal((2, 6, 6, 3)).astype(np.float32)
    graph = load(tmp_path / "saved")
    (found,) = run_reference(graph, {graph.inputs[0].name: x}).values()
    assert np.abs(found - network(x).numpy()).max() < 1e-5
