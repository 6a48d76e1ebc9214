"""The networks with seeded weights, and the script that compares the chip's answer with the reference."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from compiler.graph import Graph
from compiler.operators import OPERATORS, call_of
from compiler.operators.boxes.divisions import is_divisible
from compiler.operators.expansion.expander import expand_graph
from compiler.passes.rewrite import simplified
from example_modules import example_modules
from onnx_models import imported
from paths import ROOT

FOLDER = ROOT / "examples/networks"
MODULES = ("light", "make", "compare")


@pytest.fixture(scope="module")
def example() -> Iterator[SimpleNamespace]:
    with example_modules(FOLDER, MODULES) as modules:
        yield modules


@pytest.fixture(scope="module")
def squeezenet(example: SimpleNamespace) -> onnx.ModelProto:
    model: onnx.ModelProto = example.light.light_model("squeezenet")
    return model


def by_onnxruntime(model: onnx.ModelProto, image: np.ndarray) -> np.ndarray:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {model.graph.input[0].name: image})[0])


# --- models -------------------------------------------------------------------------------


def test_a_model_is_the_same_every_time(example: SimpleNamespace, squeezenet: onnx.ModelProto) -> None:
    again = example.light.light_model("squeezenet")
    assert again.SerializeToString(deterministic=True) == squeezenet.SerializeToString(deterministic=True)
    first, second = (example.light.image(model)["data_0"] for model in (again, squeezenet))
    assert first.dtype == np.float32 and first.shape == (1, 3, 224, 224)
    assert first.tobytes() == second.tobytes()


def test_every_weight_is_there_and_none_like_another(squeezenet: onnx.ModelProto) -> None:
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in squeezenet.graph.initializer}
    convolutions = [node for node in squeezenet.graph.node if node.op_type == "Conv"]
    assert len(convolutions) == 26
    assert all(weights[name].std() > 0 for node in convolutions for name in node.input[1:])
    assert len({array.tobytes() for array in weights.values()}) == len(weights)


def test_the_model_says_something(example: SimpleNamespace, squeezenet: onnx.ModelProto) -> None:
    chances = by_onnxruntime(squeezenet, example.light.image(squeezenet)["data_0"])
    assert chances.shape == (1, 1000, 1, 1) and abs(chances.sum() - 1) < 1e-5
    assert 0.002 < chances.max() < 0.99


@pytest.mark.long
def test_the_block_is_the_beginning_of_the_network(example: SimpleNamespace) -> None:
    """onnxruntime computes the same as at this place of ResNet-50."""
    whole, block = example.light.light_model("resnet50"), example.make.resnet_block()
    (pixels,) = example.light.image(whole).values()
    inner = onnx.helper.make_tensor_value_info("r15", onnx.TensorProto.FLOAT, [1, 256, 56, 56])
    del whole.graph.output[:]
    whole.graph.output.append(inner)
    assert [node.op_type for node in block.graph.node].count("Conv") == 5
    assert np.array_equal(by_onnxruntime(block, pixels), by_onnxruntime(whole, pixels))


def divisible_share(graph: Graph) -> float:
    """Of the nodes that the passes see, the share that can be divided along an axis."""
    graph = expand_graph(simplified(graph))
    found = [is_divisible(OPERATORS[node.op], call_of(graph, node)) for node in graph.nodes]
    return sum(found) / len(found)


_LARGE = pytest.param("resnet50", marks=pytest.mark.long)


@pytest.mark.parametrize("name", ["squeezenet", "block", "transformer-128x256", "encoder", _LARGE])
def test_nearly_all_nodes_can_be_divided(example: SimpleNamespace, name: str, tmp_path: Path) -> None:
    sizes = example.make.SIZES
    if name in sizes:
        model = example.make.transformer(sizes[name])
    else:
        model = example.make.resnet_block() if name == "block" else example.light.light_model(name)
    assert divisible_share(imported(model, tmp_path)) >= 0.9


# --- the comparison -----------------------------------------------------------------------


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, FOLDER / script, *map(str, arguments)], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with squeezenet.onnx and image.npy."""
    folder = tmp_path_factory.mktemp("net") / "new"
    done = run("make.py", "squeezenet", folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


def test_the_reference_agrees_with_onnxruntime(made: Path) -> None:
    answer = by_onnxruntime(onnx.load(made / "squeezenet.onnx"), np.load(made / "image.npy"))
    np.save(made / "good.npy", answer)
    done = run("compare.py", made / "squeezenet.onnx", made / "image.npy", made / "good.npy")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 8 and lines[-1] == "cosine of all 1000 probabilities: 1.000000"
    best = int(answer.argmax())
    assert lines[1].split()[:2] == ["class", str(best)]
    assert lines[-2].split() == ["chosen", str(best), str(best)]


def test_a_wrong_answer_fails(example: SimpleNamespace) -> None:
    reference = np.array([0.1, 0.6, 0.3])
    assert example.compare.shortcomings(reference, reference, "fp16") == []
    wrong = example.compare.shortcomings(np.array([0.1, 0.3, 0.6]), reference, "fp16")
    assert wrong == [
        "the chip chooses class 2, the reference 1",
        "cosine 0.804348, at least 0.999 expected in fp16",
    ]
    near = np.array([0.1, 0.58, 0.36])
    assert len(example.compare.shortcomings(near, reference, "fp16")) == 1
    assert example.compare.shortcomings(near, reference, "bf16") == []
    assert len(example.compare.shortcomings(np.zeros(3), reference, "bf16")) == 2


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (None, "answer.npy is not a readable .npy file"),
        (np.zeros((1, 10), np.float32), "found shape [1, 10], expected [1, 1000, 1, 1]"),
        (np.full((1, 1000, 1, 1), np.nan, np.float32), "expected finite floating point numbers"),
        (np.zeros((1, 1000, 1, 1), np.int64), "expected finite floating point numbers"),
    ],
)
def test_what_is_no_answer_is_one_line(
    example: SimpleNamespace, tmp_path: Path, answer: np.ndarray | None, complaint: str
) -> None:
    path = tmp_path / "answer.npy"
    if answer is not None:
        np.save(path, answer)
    with pytest.raises(example.compare.CompareError) as refused:
        example.compare.answer_of(path, (1, 1000, 1, 1))
    assert complaint in str(refused.value) and "\n" not in str(refused.value)


def test_what_is_no_model_is_one_line(made: Path) -> None:
    (made / "no.onnx").write_bytes(b"no model")
    done = run("compare.py", made / "no.onnx", made / "image.npy", made / "good.npy")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("compare.py: error: ") and done.stderr.count("\n") == 1


def test_a_network_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = run("make.py", "alexnet", tmp_path / "out")
    assert done.returncode == 2 and "'alexnet'" in done.stderr
    assert not (tmp_path / "out").exists()
