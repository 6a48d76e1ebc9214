"""tx8cc --dtype int8 --calibrate, and the same from Python: files, output and refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tx8
from compiler.cli import main
from compiler.quantise import Settings
from paths import ROOT

DIGITS = ROOT / "examples" / "digits"
IMAGES = DIGITS / "test_images.npy"
LABELS = DIGITS / "test_labels.npy"

GRAPH = {
    "name": "net",
    "opset": 20,
    "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 8]}],
    "outputs": ["y"],
    "constants": {"w": {"dtype": "float32", "shape": [8, 8], "data": [(7 * i) % 13 - 6 for i in range(64)]}},
    "nodes": [
        {"op": "MatMul", "name": "first", "inputs": ["x", "w"], "outputs": ["a"]},
        {"op": "Relu", "name": "relu", "inputs": ["a"], "outputs": ["r"]},
        {"op": "MatMul", "name": "second", "inputs": ["r", "w"], "outputs": ["y"]},
    ],
}
X = np.random.default_rng(2).standard_normal((8, 4, 8)).astype(np.float32)


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a graph and samples, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.json").write_text(json.dumps(GRAPH))
    np.savez(tmp_path / "x.npz", x=X)
    return tmp_path


INT8 = ["net.json", "--dtype", "int8", "--calibrate", "x.npz"]


def test_a_network_is_calibrated_compiled_and_run(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*INT8, "--run"]) == 0
    printed = capsys.readouterr().out
    assert "int8: 2 of 2 products and sums\n" in printed
    assert "node  operator" not in printed
    assert "ne.gemm.int8" in (net / "net" / "prog.s").read_text()


FAR = 100 * X[0]
"""An input far beyond the samples."""


def float_outputs(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Compute the network of floats by NumPy."""
    weights = np.array(GRAPH["constants"]["w"]["data"], np.float64).reshape(8, 8)  # type: ignore[index]
    result: np.ndarray[Any, Any] = np.maximum(x @ weights, 0) @ weights
    return result


def test_the_verdict_is_about_the_network_of_floats(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is in a separate column, and in the data; the program is right in both cases."""
    for name, x, status in (("near", X[0], 0), ("far", FAR, 3)):
        np.save(net / f"{name}.npy", x)
        given = ["--input", f"x={name}.npy", "-q"]
        assert main([*INT8, "--run", *given, "--output-dir", name]) == status
        head, row, *_ = capsys.readouterr().out.splitlines()
        assert "cosine   quantising alone      cosine   chip alone      cosine" in head
        found = np.load(net / name / "y.npy")
        error = np.abs(found - float_outputs(x)).max()
        assert float(row.split()[2]) == pytest.approx(error, rel=0.01)
        assert ("  pass" in row, "FAIL: " in row) == (status == 0, status == 3)
        assert main([*INT8, "--run", "--json", *given]) == status
        document = json.loads(capsys.readouterr().out)
        (output,) = document["outputs"]
        assert (document["dtype"], document["floats"]) == ("int8", "fp16")
        assert document["pass"] == output["pass"] == (status == 0)
        assert output["at_fault"] == ("quantising" if status else None)
        assert output["max_abs_error"] == pytest.approx(error)
        assert output["quantising_alone"]["max_abs_error"] == pytest.approx(error, rel=0.01)
        assert output["chip_alone"]["max_abs_error"] < 0.01 * output["quantising_alone"]["max_abs_error"]
    assert "the samples -" in output["problem"] and "try samples like the inputs" in output["problem"]


def test_nodes_that_are_right_do_not_make_quantising_right(
    net: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(net / "far.npy", FAR)
    assert main([*INT8, "--verify-nodes", "--input", "x=far.npy", "-q"]) == 3
    *_, count, cause = capsys.readouterr().out.splitlines()
    assert count.endswith("nodes are right by themselves, the program's outputs (y) are not")
    assert cause == "they are what the format allows: quantising alone costs as much"


def test_python_has_the_verdicts_too(net: Path) -> None:
    program = tx8.compile(net / "net.json", dtype="int8", calibrate={"x": X})
    near, far = (program.run(x).verdicts["y"] for x in (X[0], FAR))
    assert near.verdict.ok and far.blame == "quantising"
    assert near.quantised is not None and near.quantised.alone.cosine < near.quantised.chip.cosine
    floats = tx8.compile(net / "net.json", dtype="fp16").run(FAR).verdicts["y"]
    assert floats.verdict.ok and floats.quantised is None
    with pytest.raises(tx8.Error, match="prog: the program has no model to compare its outputs with"):
        tx8.load(program.save(net / "saved")).run(FAR).verdicts  # noqa: B018


@pytest.mark.parametrize("method", ["minmax", "percentile:99", "entropy", "mse"])
def test_methods_and_switches(method: str, net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    switches = ["--no-bias-correction", "--equalise", "--smooth", "0.4"]
    assert main([*INT8, "--calibration", method, *switches, "--run", "-q"]) == 0
    assert capsys.readouterr().out.count("pass") == 1


def test_the_table_is_printed_saved_edited_and_read(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*INT8, "--max-loss", "50%", "--save-formats", "f.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["node", "operator", "format", "sensitivity", "estimated", "cycles", "won"]
    assert [line.split()[0] for line in lines[1:3]] == ["first", "second"]
    assert all(line.split()[1:3] == ["MatMul", "int8"] for line in lines[1:3])
    assert "cosine lost 0." in lines[-1]
    saved = json.loads((net / "f.json").read_text())
    assert (saved["graph"], list(saved["nodes"])) == ("net", ["first", "second"])
    assert all(0 <= node["sensitivity"] < 0.01 for node in saved["nodes"].values())
    (net / "f.json").write_text((net / "f.json").read_text().replace('"int8"', '"fp16"', 1))
    assert main([*INT8, "--formats", "f.json"]) == 0
    assert "int8: 1 of 2 products and sums; in float: first; in fp16: 1 Relu\n" in capsys.readouterr().out


def test_a_metric_is_a_function_in_a_file(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (net / "metric.py").write_text("def sign(outputs):\n    return 1 + float((outputs['y'] > 0).mean())\n")
    assert main([*INT8, "--metric", "metric.py:sign", "--max-loss", "0.1"]) == 0
    assert "metric.py:sign lost " in capsys.readouterr().out


MISTAKES = {
    "samples that are not there": (
        "--calibrate none.npz",
        "none.npz: calibration data cannot be read: No such",
    ),
    "no samples": ("--calibrate net.json", "net.json: calibration data cannot be read: "),
    "another name": ("--calibrate z.npz", "z.npz: the graph has no input 'z'; its inputs: x"),
    "another shape": (
        "--calibrate shape.npz",
        "shape.npz: 'x' is [9, 7]; samples of this input are [count, 4, 8]",
    ),
    "another type": ("--calibrate type.npz", "type.npz: 'x' is int64; the input is float32"),
    "too few": ("--calibrate few.npz", "few.npz: 4 rows along the first axis; calibration needs at least 8"),
    "NaN": ("--calibrate nan.npz", "nan.npz: 'x' has NaN or infinities, first in sample 3 of 8"),
    "method": ("--calibration best", "unknown calibration 'best'; allowed are minmax, percentile, entropy"),
    "metric that raises": ("--metric m.py:raising", "metric m.py:raising raised ValueError: no labels"),
    "metric of text": ("--metric m.py:text", "metric m.py:text gave a str; expected a finite number"),
    "no such function": ("--metric m.py:rasing", "m.py: has no function 'rasing'; did you mean 'raising'?"),
    "no such file": ("--metric n.py:f", "n.py: cannot be read: No such file"),
    "no Python": ("--metric x.npz:f", "x.npz: a metric is read from Python files"),
    "formats of another model": ("--formats other.json", "other.json: the graph has no node 'third'; it was"),
    "no formats": ("--formats net.json", "net.json: not a file of formats: "),
    "no file of formats": ("--formats none.json", "none.json: No such file"),
    "replaced samples": ("--save-formats x.npz", "x.npz: --save-formats would replace the samples of"),
    "no folder": ("--save-formats nowhere/f.json", "nowhere"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_nothing_is_written(
    mistake: str, net: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, message = MISTAKES[mistake]
    wrong: dict[str, dict[str, Any]] = {
        "z": {"z": X},
        "shape": {"x": X.reshape(-1, 8)[:9, :7]},
        "type": {"x": X.astype(np.int64)},
        "few": {"x": X[:1]},
        "nan": {"x": np.where(np.arange(8)[:, None, None] == 3, np.nan, X)},
    }
    for name, arrays in wrong.items():
        np.savez(net / f"{name}.npz", **arrays)
    text = "def raising(outputs):\n    raise ValueError('no labels')\n\n\n"
    (net / "m.py").write_text(f"{text}def text(outputs):\n    return 'good'\n")
    other = {"version": 1, "graph": "other", "nodes": {"third": {"operator": "MatMul", "format": "int8"}}}
    (net / "other.json").write_text(json.dumps(other))
    before = sorted(path.name for path in net.iterdir())
    assert main([*INT8, "-q", *arguments.split()]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("tx8cc: error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert sorted(path.name for path in net.iterdir() if path.name != "__pycache__") == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["--calibrate", "x.npz", "--dtype", "fp16", "--equalise"],
        ["--calibrate", "x.npz", "--dtype", "fp16", "--max-loss", "1%"],
        ["--dtype", "fp16", "--formats", "f.json"],
        ["--dtype", "auto", "--smooth"],
        ["--dtype", "int8", "--max-loss", "1%"],
        ["--dtype", "int8", "--equalise"],
        [*INT8[1:], "--max-loss", "-1%"],
        [*INT8[1:], "--max-loss", "many"],
        [*INT8[1:], "--max-loss", "101%"],
        [*INT8[1:], "--smooth", "2"],
        [*INT8[1:], "--metric", "metric"],
        [*INT8[1:], "--metric", ":f"],
        [*INT8[1:], "net2.json"],
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], net: Path) -> None:
    shutil.copy(net / "net.json", net / "net2.json")
    with pytest.raises(SystemExit) as caught:
        main(["net.json", *arguments])
    assert caught.value.code == 2


def test_a_precise_node_is_another_program(net: Path) -> None:
    """The keys of cached programs include the nodes computed in FP32."""
    texts = []
    for found in ("fp16", "fp32"):
        nodes = {name: {"operator": "MatMul", "format": found} for name in ("first", "second")}
        (net / "f.json").write_text(json.dumps({"version": 1, "graph": "net", "nodes": nodes}))
        assert main([*INT8, "-q", "--formats", "f.json"]) == 0
        texts.append((net / "net" / "prog.s").read_text())
    assert "fp16" in texts[0] and "ne.gemm.fp16" not in texts[1] != texts[0]


def test_formats_are_chosen(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without data, formats are chosen for random inputs, with a note; the choice is saved and read again."""
    assert main(["net.json", "--dtype", "auto", "--save-formats", "f.json", "--run"]) == 0
    said = capsys.readouterr().out
    assert "formats  in wider ones" in said and "chosen\n" in said
    assert "fp16: 3 of 3 nodes; cosine lost 0.000% on random inputs (seed 0)" in said
    saved = json.loads((net / "f.json").read_text())
    assert saved["dtype"] == "fp16"
    saved["nodes"]["second"]["format"] = "fp32"
    (net / "f.json").write_text(json.dumps(saved))
    assert main(["net.json", "--dtype", "auto", "--formats", "f.json", "--calibrate", "x.npz"]) == 0
    said = capsys.readouterr().out
    assert "fp16: 2 of 3 nodes; in fp32: second; cosine lost 0.000%\n" in said
    assert main(["net.json", "--dtype", "auto", "--max-loss", "1%", "--calibrate", "x.npz", "-q"]) == 0
    assert capsys.readouterr().out == ""


def test_data_say_what_a_format_cannot_hold(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(net / "large.npz", x=X * np.float32(1e6))
    assert main(["net.json", "--dtype", "fp16", "--calibrate", "large.npz"]) == 0
    assert "FP16 ends at 65504, so these stay in FP32: 'x' (up to " in capsys.readouterr().out
    assert main(["net.json", "--dtype", "fp16", "--calibrate", "x.npz"]) == 0
    assert "stay in FP32" not in capsys.readouterr().out


# --- from Python ----------------------------------------------------------------------------------------


def test_the_digits_keep_their_answers() -> None:
    """357 of 360 images are right in floats; half a point is fewer than two images."""
    images, labels = np.load(IMAGES), np.load(LABELS)
    program = tx8.compile(DIGITS / "digits.json", dtype="int8", calibrate={"x": images})
    answers = program.run(images, timed=False)["probabilities"].argmax(axis=1)
    assert (answers == labels).sum() >= 356
    assert program.formats is not None
    assert set(program.formats.formats().values()) == {"int8"}


def test_from_python_as_from_the_shell(net: Path) -> None:
    assert main([*INT8, "-q", "--calibration", "minmax"]) == 0
    text = (net / "net" / "prog.s").read_text()
    for calibrate in ("x.npz", net / "x.npz", {"x": X}):
        assert tx8.compile("net.json", dtype="int8", calibrate=calibrate, calibration="minmax").text == text
    smoothed = tx8.compile("net.json", dtype="int8", calibrate="x.npz", calibration=Settings(smooth=0.5))
    assert smoothed.text != text


def test_the_goal_from_python(net: Path) -> None:
    everything: dict[str, Any] = {"dtype": "int8", "calibrate": "x.npz"}

    def crumbs(outputs: dict[str, Any]) -> float:
        return -float(abs(outputs["y"]).sum() % 1)

    kept = tx8.compile("net.json", **everything, max_loss=0.0, metric=crumbs)
    assert kept.formats is not None and kept.formats.metric == "crumbs"
    (net / "f.json").write_text(kept.formats.json())
    again = tx8.compile("net.json", **everything, formats="f.json")
    assert again.formats is not None and again.formats.formats() == kept.formats.formats()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"calibrate": {"x": X[:1]}, "dtype": "fp16"}, "calibration data: 4 rows"),
        ({"calibrate": {"x": X}, "dtype": "fp8"}, "unknown dtype 'fp8'"),
        ({"dtype": "int8"}, "--dtype int8 needs samples of the inputs"),
        ({"dtype": "int8", "max_loss": 0.1}, "max_loss needs calibrate, samples of the inputs"),
        ({"dtype": "fp16", "max_loss": 0.1}, 'max_loss needs dtype="int8" or "auto"; found dtype=\'fp16\''),
        ({"dtype": "auto", "calibrate": {"x": X[:1]}}, "calibration data: 4 rows"),
        ({"dtype": "int8", "formats": "f.json"}, "formats needs calibrate"),
        ({"dtype": "int8", "calibrate": {"x": X[:1]}}, "calibration data: 4 rows"),
        ({"dtype": "int8", "calibrate": {"x": X}, "calibration": "best"}, "unknown calibration 'best'"),
        ({"dtype": "int8", "calibrate": "none.npz"}, "none.npz: calibration data cannot be read"),
    ],
)
def test_what_python_refuses(arguments: dict[str, Any], message: str, net: Path) -> None:
    with pytest.raises(tx8.Error) as caught:
        tx8.compile("net.json", **arguments)
    assert message in str(caught.value)
