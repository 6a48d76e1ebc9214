"""The models that the benchmark of whole networks makes, and how it compares outputs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

ROOT = Path(__file__).resolve().parent.parent
MODULES = ("_report", "_light", "networks")


@pytest.fixture(scope="module")
def benchmark() -> Iterator[SimpleNamespace]:
    """The modules of the folder, which is no package."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield SimpleNamespace(**{name.strip("_"): __import__(name) for name in MODULES})
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
        for name in MODULES:
            sys.modules.pop(name)


@pytest.fixture(scope="module")
def squeezenet(benchmark: SimpleNamespace) -> onnx.ModelProto:
    model: onnx.ModelProto = benchmark.light.light_model("squeezenet")
    return model


def test_a_model_is_the_same_every_time(benchmark: SimpleNamespace, squeezenet: onnx.ModelProto) -> None:
    again = benchmark.light.light_model("squeezenet")
    assert again.SerializeToString(deterministic=True) == squeezenet.SerializeToString(deterministic=True)
    first, second = (benchmark.light.image(model)["data_0"] for model in (again, squeezenet))
    assert first.dtype == np.float32 and first.shape == (1, 3, 224, 224)
    assert first.tobytes() == second.tobytes()


def test_every_weight_is_there_and_none_like_another(squeezenet: onnx.ModelProto) -> None:
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in squeezenet.graph.initializer}
    convolutions = [node for node in squeezenet.graph.node if node.op_type == "Conv"]
    assert len(convolutions) == 26
    assert all(weights[name].std() > 0 for node in convolutions for name in node.input[1:])
    assert len({array.tobytes() for array in weights.values()}) == len(weights)


def test_the_model_says_something(benchmark: SimpleNamespace, squeezenet: onnx.ModelProto) -> None:
    outputs = benchmark.networks.onnxruntime_case(squeezenet, benchmark.light.image(squeezenet))()
    (chances,) = outputs.values()
    assert chances.shape == (1, 1000, 1, 1) and abs(chances.sum() - 1) < 1e-5
    assert 0.002 < chances.max() < 0.99


def test_every_goal_is_of_a_model(benchmark: SimpleNamespace) -> None:
    assert set(benchmark.networks.GOALS) == set(benchmark.light.NAMES)


def test_the_cosine_is_that_of_the_worst_output(benchmark: SimpleNamespace) -> None:
    one, other = np.float32([1, 0]), np.float32([1, 1])
    found = benchmark.networks.cosine({"a": one, "b": one}, {"a": one, "b": other})
    assert found == pytest.approx(0.5**0.5)


def test_a_network_that_is_not_there_is_one_line(benchmark: SimpleNamespace) -> None:
    with pytest.raises(SystemExit, match="no network 'alexnet'; there are: squeezenet, resnet50"):
        benchmark.networks.main(["squeezenet", "alexnet"])


def test_a_model_that_does_not_compile_is_one_line(benchmark: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "no.onnx").write_bytes(b"no model")
    with pytest.raises(SystemExit, match=r"tx8cc no\.onnx --dtype fp16: exit status 1"):
        benchmark.networks.compiled(tmp_path / "no.onnx", "fp16", tmp_path / "out")
