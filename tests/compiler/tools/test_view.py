"""``tx8cc --view``: the model with facts about its nodes, for Netron and Model Explorer.

The oracles are ONNX's checker, the model itself, and the data of ``--report`` and ``--json`` of the same run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from compiler.cli import main

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
net (float[4, 8] x) => (float[4, 8] y) {
    p = MatMul (x, w)
    r = Relu (p)
    s = Shape (x)
    q = Reshape (r, s)
    y = Softmax (q)
}"""
NAMES = ("dense/product", "dense/relu", "shape", "same", "share")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product, functions of elements, a softmax, and a node that is computed when compiling."""
    made = parser.parse_model(MODEL)
    for node, name in zip(made.graph.node, NAMES, strict=True):
        node.name = name
    weights = np.random.default_rng(3).standard_normal((8, 8)).astype(np.float32)
    made.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    path = tmp_path_factory.mktemp("view") / "net.onnx"
    onnx.save(made, path)
    return path


@pytest.fixture(scope="module")
def viewed(model: Path) -> Path:
    """The folder with the view and the report of a verified run."""
    folder = model.parent
    options = ["--dtype", "fp16", "--tiles", "2", "-q", "--run", "--verify-nodes", "-o", folder / "out"]
    files = ["--view", folder / "view", "--report", folder / "report.json"]
    assert main([str(word) for word in (model, *options, *files)]) == 0
    return folder


def loaded(path: Path) -> Any:
    return json.loads(path.read_text())


def metadata(model: onnx.ModelProto) -> dict[str, dict[str, str]]:
    """The metadata of each node without the prefix of their keys."""
    pairs = {node.name: {each.key: each.value for each in node.metadata_props} for node in model.graph.node}
    return {
        name: {key.removeprefix("tx8 "): text for key, text in found.items()} for name, found in pairs.items()
    }


def test_the_model_is_the_same_with_metadata_of_its_nodes(model: Path, viewed: Path) -> None:
    made = onnx.load(viewed / "view/model.onnx")
    onnx.checker.check_model(made)
    found = metadata(made)
    phases = {phase["name"]: phase for phase in loaded(viewed / "report.json")["phases"]}
    bytes_ = {node["name"]: node["ddr_bytes"] for node in loaded(viewed / "report.json")["run"]["nodes"]}
    for name in ("dense/product", "dense/relu", "share"):
        phase = phases[found[name]["phase"]]
        assert found[name]["cycles of the phase"] == f"{phase['simulated']:.0f}"
        assert found[name]["DDR bytes of the phase"] == str(bytes_[phase["name"]])
        assert found[name]["format"] in {member["format"] for member in phase["members"]}
        assert found[name]["verdict"] == "pass"
        assert float(found[name]["max abs error"]) < 0.01
    assert found["share"]["format"] == "fp32", "the output is declared as float"
    assert found["dense/product"]["engine"] == "matrix engine"
    assert found["shape"] == {"engine": "computed when compiling"}
    for node in made.graph.node:
        del node.metadata_props[:]
    made.ir_version = 8
    assert made == onnx.load(model)


def test_model_explorer_gets_the_graph_by_phases_and_three_colourings(viewed: Path) -> None:
    graph = loaded(viewed / "view/graph.json")
    assert graph["label"] == "net.onnx"
    (net,) = graph["graphs"]
    nodes = {node["id"]: node for node in net["nodes"]}
    edges = {
        (edge["sourceNodeId"], name) for name, node in nodes.items() for edge in node.get("incomingEdges", ())
    }
    assert {("input x", "dense/product"), ("dense/product", "dense/relu"), ("same", "share")} <= edges
    assert all(source in nodes for source, _ in edges)
    found = metadata(onnx.load(viewed / "view/model.onnx"))
    assert nodes["share"]["namespace"] == found["share"]["phase"].replace("/", ".")
    for file, key in (
        ("cycles", "cycles of the phase"),
        ("bytes", "DDR bytes of the phase"),
        ("error", "max abs error"),
    ):
        data = loaded(viewed / f"view/{file}.json")[net["id"]]
        assert [stop["stop"] for stop in data["gradient"]] == [0, 0.5, 1]
        assert set(data["results"]) == {name for name in found if key in found[name]}
        assert data["results"]["share"]["value"] == pytest.approx(float(found["share"][key]), rel=1e-4)


def test_without_a_run_cycles_are_estimates_and_there_are_no_errors(model: Path, tmp_path: Path) -> None:
    options = ["--dtype", "fp16", "--tiles", "2", "-q", "-o", str(tmp_path / "out")]
    assert main([str(model), *options, "--view", str(tmp_path), "--report", str(tmp_path / "r.json")]) == 0
    assert not (tmp_path / "error.json").exists()
    estimates = {phase["name"]: phase["estimate"] for phase in loaded(tmp_path / "r.json")["phases"]}
    share = metadata(onnx.load(tmp_path / "model.onnx"))["share"]
    assert share["cycles of the phase"] == str(estimates[share["phase"]])
    assert "verdict" not in share


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a refused command prints."""
    try:
        status = main(arguments)
    except SystemExit as left:
        status = left.code
    assert status in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_what_has_no_view_is_refused(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = tmp_path / "net.json"
    graph.write_text("{}")
    said = refusal([str(graph), "--view", str(tmp_path / "v")], capsys)
    assert said.endswith("net.json: --view annotates ONNX models; this is json: export it to ONNX")
    assert "leave out --view, or --check" in refusal([str(model), "--check", "--view", "v"], capsys)
    assert "--view is for a single graph" in refusal([str(model), str(graph), "--view", "v"], capsys)
    own = tmp_path / "model.onnx"
    own.write_bytes(model.read_bytes())
    assert "model.onnx in --view" in refusal(
        [str(own), "--view", str(tmp_path), "-o", str(tmp_path / "o")], capsys
    )


def test_a_model_with_its_data_in_other_files_is_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(onnx.load(model), path, save_as_external_data=True, location="w.data", size_threshold=0)
    said = refusal([str(path), "--view", str(tmp_path / "v")], capsys)
    assert "--view annotates models of one file; this one has its data in" in said
    assert said.endswith("w.data too")
    assert not (tmp_path / "v").exists()
