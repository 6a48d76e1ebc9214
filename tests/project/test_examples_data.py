"""The data of the examples, judged by ONNX's own checker, onnxruntime, scikit-learn and exact formulas.

The graphs are turned into ONNX models by the few lines below, not by the compiler's importer.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from safetensors.numpy import load_file

from paths import ROOT

EXAMPLES = ROOT / "examples"
GRAPHS = {
    "digits/digits.json": "digits/test_images.npy",
    "mlp/mlp.json": "mlp/x.npy",
    "attention/attention.json": "attention/x.npy",
    "batchnorm/bn30.json": "batchnorm/bn30_x.npy",
    "batchnorm/bn129.json": "batchnorm/bn129_x.npy",
}
"""Each graph with the file that feeds its input x."""

FOLDERS = sorted({graph.split("/")[0] for graph in GRAPHS})
LIMIT = 1_000_000

Array = np.ndarray[Any, np.dtype[Any]]


def graph_of(name: str) -> dict[str, Any]:
    return dict(json.loads((EXAMPLES / name).read_text(encoding="utf-8")))


def arrays_in(path: Path) -> dict[str, Array]:
    """The arrays of a data file by name; the one of an .npy file is called ""."""
    if path.suffix == ".safetensors":
        return dict(load_file(path))
    if path.suffix == ".npy":
        return {"": np.load(path)}
    with np.load(path) as arrays:
        return dict(arrays)


def constant(folder: Path, spec: dict[str, Any]) -> Array:
    """The array of one entry of "constants"; a missing file or key raises."""
    if "data" in spec:
        return np.array(spec["data"], spec["dtype"]).reshape(spec["shape"])
    path = folder / spec["file"]
    return arrays_in(path)[spec["key"]]


def onnx_model(name: str) -> onnx.ModelProto:
    """The graph as an ONNX model whose shapes the checker has inferred strictly."""
    graph = graph_of(name)
    folder = (EXAMPLES / name).parent
    nodes = [
        helper.make_node(n["op"], n["inputs"], n["outputs"], name=n["name"], **n.get("attrs", {}))
        for n in graph["nodes"]
    ]
    codes = [helper.np_dtype_to_tensor_dtype(np.dtype(i["dtype"])) for i in graph["inputs"]]
    inputs = [
        helper.make_tensor_value_info(i["name"], code, i["shape"])
        for i, code in zip(graph["inputs"], codes, strict=True)
    ]
    outputs = [onnx.ValueInfoProto(name=output) for output in graph["outputs"]]
    constants = [
        numpy_helper.from_array(np.ascontiguousarray(constant(folder, spec)), key)
        for key, spec in graph["constants"].items()
    ]
    opset = helper.make_operatorsetid("", graph["opset"])
    proto = helper.make_graph(nodes, graph["name"], inputs, outputs, constants)
    model = helper.make_model(proto, opset_imports=[opset], ir_version=9)
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    onnx.checker.check_model(model, full_check=True)
    return model


def run_onnxruntime(name: str) -> Array:
    """The graph's only output, computed by onnxruntime on the committed input."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        onnx_model(name).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (output,) = session.run(None, {"x": np.load(EXAMPLES / GRAPHS[name])})
    return np.asarray(output)


def run_script(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / script), *map(str, arguments)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


# --- all graphs ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", GRAPHS)
def test_onnxruntime_runs_the_graph(name: str) -> None:
    graph = graph_of(name)
    x = np.load(EXAMPLES / GRAPHS[name])
    assert [str(x.dtype), list(x.shape)] == [graph["inputs"][0]["dtype"], graph["inputs"][0]["shape"]]
    y = run_onnxruntime(name)
    assert y.dtype == x.dtype
    assert len(y) == len(x)
    assert np.isfinite(y).all()
    assert y.astype(np.float64).std() > 0.05, "the output says nothing"


@pytest.mark.parametrize("name", GRAPHS)
def test_names_are_unique_and_every_constant_is_used(name: str) -> None:
    graph = graph_of(name)
    nodes = [node["name"] for node in graph["nodes"]]
    produced = [output for node in graph["nodes"] for output in node["outputs"]]
    used = {value for node in graph["nodes"] for value in node["inputs"]}
    assert len(set(nodes)) == len(nodes)
    assert len({*produced, *graph["constants"], "x"}) == len(produced) + len(graph["constants"]) + 1
    assert set(graph["constants"]) <= used
    assert set(produced) - used == set(graph["outputs"])


@pytest.mark.parametrize("name", GRAPHS)
def test_weight_files_hold_what_the_graph_uses_and_no_more(name: str) -> None:
    folder = (EXAMPLES / name).parent
    specs = [spec for spec in graph_of(name)["constants"].values() if "file" in spec]
    assert len({spec["file"] for spec in specs}) == 1
    path = folder / specs[0]["file"]
    held = arrays_in(path)
    assert sorted(held) == sorted(spec["key"] for spec in specs)
    assert {str(array.dtype) for array in held.values()} == {"float32"}


def test_a_missing_key_is_not_invented() -> None:
    with pytest.raises(KeyError):
        constant(EXAMPLES / "mlp", {"file": "weights.npz", "key": "fc4.weight"})


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_stay_small(folder: str) -> None:
    sizes = {p.name: p.stat().st_size for p in (EXAMPLES / folder).iterdir() if p.is_file()}
    assert sum(sizes.values()) < LIMIT, sizes


@pytest.mark.parametrize("folder", FOLDERS)
def test_readme_shows_commands_with_files_that_exist(folder: str) -> None:
    text = (EXAMPLES / folder / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^ {4}tx8cc (examples/\S+\.json) .*--run", text, re.MULTILINE)
    assert set(commands) == {f"examples/{g}" for g in GRAPHS if g.startswith(folder + "/")}
    named = re.findall(r"examples/[\w./]+\.\w+", text)
    assert [path for path in named if not (EXAMPLES.parent / path).exists()] == []


@pytest.mark.parametrize(
    "script", ["mlp/make_weights.py", "attention/make_weights.py", "batchnorm/make_data.py"]
)
def test_script_makes_the_committed_data(script: str, tmp_path: Path) -> None:
    run = run_script(script, tmp_path)
    assert run.returncode == 0, run.stderr
    made = sorted(tmp_path.iterdir())
    assert len(made) >= 2
    for path in made:
        new, old = arrays_in(path), arrays_in(EXAMPLES / script.split("/")[0] / path.name)
        assert sorted(new) == sorted(old)
        for key, array in new.items():
            np.testing.assert_array_equal(array, old[key], strict=True)


# --- digits -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digit_probabilities() -> Array:
    return run_onnxruntime("digits/digits.json")


@pytest.fixture(scope="module")
def digit_labels() -> Array:
    return np.asarray(np.load(EXAMPLES / "digits/test_labels.npy"))


@pytest.fixture(scope="module")
def network() -> ModuleType:
    """examples/digits/network.py, which is not a part of a package."""
    spec = importlib.util.spec_from_file_location("digits_network", EXAMPLES / "digits/network.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_digits_accuracy_is_the_stated_one(digit_probabilities: Array, digit_labels: Array) -> None:
    right = int((digit_probabilities.argmax(axis=1) == digit_labels).sum())
    assert digit_probabilities.shape == (360, 10)
    np.testing.assert_allclose(digit_probabilities.sum(axis=1), 1, atol=1e-5)
    assert right >= 0.985 * 360
    assert f"{right} of 360" in (EXAMPLES / "digits/README.md").read_text(encoding="utf-8")


def test_numpy_reference_of_the_score_agrees(network: ModuleType, digit_probabilities: Array) -> None:
    weights = load_file(EXAMPLES / "digits/weights.safetensors")
    got = network.probabilities(np.load(EXAMPLES / "digits/test_images.npy"), weights)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, digit_probabilities, atol=1e-5)


def test_batch_normalization_is_not_the_identity() -> None:
    weights = load_file(EXAMPLES / "digits/weights.safetensors")
    for layer, channels in (("bn1", 32), ("bn2", 64)):
        assert weights[f"{layer}.variance"].shape == (channels,)
        assert (weights[f"{layer}.variance"] > 0).all()
        assert weights[f"{layer}.mean"].std() > 0.01
        assert np.abs(weights[f"{layer}.scale"] - 1).max() > 0.01


@pytest.mark.long
def test_digits_are_scikit_learns_and_stratified(digit_labels: Array) -> None:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip("scikit-learn is not installed")
    images = np.load(EXAMPLES / "digits/test_images.npy")
    assert images.dtype == np.float32
    digits = load_digits()
    known: dict[bytes, set[int]] = {}
    for pixels, label in zip(digits.images.astype(np.uint8), digits.target, strict=True):
        known.setdefault(pixels.tobytes(), set()).add(int(label))
    for image, label in zip(images * 16, digit_labels, strict=True):
        assert int(label) in known[image.astype(np.uint8).tobytes()]
    share = np.bincount(digits.target, minlength=10) * 360 / 1797
    assert np.abs(np.bincount(digit_labels, minlength=10) - share).max() <= 1


def answers(labels: Array, wrong: int) -> Array:
    """Certain probabilities for the labels, the first ``wrong`` ones moved to another class."""
    chosen = labels.copy()
    chosen[:wrong] = (chosen[:wrong] + 1) % 10
    return np.eye(10, dtype=np.float32)[chosen]


def test_score_prints_the_table(digit_probabilities: Array, tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", digit_probabilities)
    run = run_script("digits/score.py", tmp_path / "p.npy", "--dtype", "bf16")
    lines = run.stdout.splitlines()
    assert (run.returncode, run.stderr, len(lines)) == (0, "", 3)
    assert lines[0].startswith("emulated chip, bf16")
    assert lines[0].split()[3:] == lines[1].split()[3:]
    assert " 0 / 360" in lines[2]


def test_score_refuses_too_many_differences(digit_probabilities: Array, tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", answers(digit_probabilities.argmax(axis=1), 3))
    run = run_script("digits/score.py", tmp_path / "p.npy")
    assert run.returncode == 1
    assert run.stderr == "score.py: error: 3 answers differ from the reference, at most 2 allowed\n"


def test_score_refuses_too_few_right(digit_labels: Array, tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", answers(digit_labels, 11))
    run = run_script("digits/score.py", tmp_path / "p.npy")
    assert run.returncode == 1
    assert "score.py: error: 349 of 360 right, at least 97% expected\n" in run.stderr


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((359, 10), np.float32), "found shape [359, 10], expected [360, 10]"),
        (np.zeros((360, 10), np.int64), "found elements of type int64, expected floating point"),
        (np.full((360, 10), np.nan, np.float32), "found NaN or infinity, expected probabilities"),
        (None, "is not a readable .npy file"),
    ],
)
def test_score_refuses_in_one_line(array: Array | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "p.npy"
    if array is not None:
        np.save(path, array)
    run = run_script("digits/score.py", path)
    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (1, "", 1)
    assert run.stderr.startswith(f"score.py: error: {path}")
    assert message in run.stderr


@pytest.mark.long
def test_training_again_reaches_the_same_quality(tmp_path: Path) -> None:
    run = run_script("digits/train.py", tmp_path)
    assert run.returncode == 0, run.stderr
    match = re.search(r"^test:  (\d+) of 360", run.stdout, re.MULTILINE)
    assert match is not None and int(match[1]) >= 0.985 * 360
    for name in ("test_images.npy", "test_labels.npy"):
        assert (tmp_path / name).read_bytes() == (EXAMPLES / "digits" / name).read_bytes()


# --- the other three ----------------------------------------------------------------------


@pytest.mark.parametrize("channels", [30, 129])
def test_batchnorm_case(channels: int) -> None:
    x = np.load(EXAMPLES / f"batchnorm/bn{channels}_x.npy").astype(np.float64)
    stored = arrays_in(EXAMPLES / f"batchnorm/bn{channels}.npz")
    constants = {key: values.astype(np.float64) for key, values in stored.items()}
    assert x.shape == (4, channels, 112, 2)
    for values in (x, *constants.values()):
        assert np.array_equal(values.astype(np.float16), values), "not exact in fp16"
    scale, shift, mean, variance = (
        constants[key].reshape(channels, 1, 1) for key in ("scale", "shift", "mean", "variance")
    )
    assert (variance > 0).all()
    exact = scale * (x - mean) / np.sqrt(variance + 1e-6) + shift
    got = run_onnxruntime(f"batchnorm/bn{channels}.json").astype(np.float64)
    assert np.abs(got - exact).max() <= 2**-11 * np.abs(exact).max() + 1e-5


@pytest.mark.parametrize("channels", [30, 129])
def test_batchnorm_channels_cannot_be_mistaken(channels: int) -> None:
    constants = arrays_in(EXAMPLES / f"batchnorm/bn{channels}.npz")
    rows = np.stack([constants[key] for key in sorted(constants)], axis=1)
    assert len(np.unique(rows, axis=0)) == channels
    assert (np.abs(np.diff(rows, axis=0)).max(axis=1) > 0.25).all()


def test_mlp_sizes_are_awkward() -> None:
    weights = arrays_in(EXAMPLES / "mlp/weights.npz")
    assert [weights[f"fc{i}.weight"].shape for i in (1, 2, 3)] == [(130, 77), (67, 130), (10, 67)]
    for values in (*weights.values(), np.load(EXAMPLES / "mlp/x.npy")):
        assert np.array_equal(values.astype(np.float16), values), "not exact in fp16"


def gelu(x: Array) -> Array:
    return np.asarray(x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))))


def normalized(x: Array, w: dict[str, Array], name: str) -> Array:
    mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    return np.asarray((x - mean) / np.sqrt(variance + 1e-5) * w[f"{name}.scale"] + w[f"{name}.bias"])


def test_attention_is_self_attention_and_feed_forward() -> None:
    """The graph against the textbook formulas, head by head, in double precision."""
    w = {k: v.astype(np.float64) for k, v in arrays_in(EXAMPLES / "attention/weights.safetensors").items()}
    x = np.load(EXAMPLES / "attention/x.npy").astype(np.float64)
    n = normalized(x, w, "norm1")
    q, k, v = (n @ w[f"{name}.weight"] + w[f"{name}.bias"] for name in ("query", "key", "value"))
    heads = []
    for columns in (slice(0, 16), slice(16, 32), slice(32, 48)):
        scores = np.exp(np.einsum("bic,bjc->bij", q[..., columns], k[..., columns]) / 4)
        heads.append(scores / scores.sum(axis=-1, keepdims=True) @ v[..., columns])
    y = x + np.concatenate(heads, axis=-1) @ w["projection.weight"] + w["projection.bias"]
    hidden = gelu(normalized(y, w, "norm2") @ w["expand.weight"] + w["expand.bias"])
    y = y + hidden @ w["contract.weight"] + w["contract.bias"]
    np.testing.assert_allclose(run_onnxruntime("attention/attention.json"), y, atol=1e-4)
