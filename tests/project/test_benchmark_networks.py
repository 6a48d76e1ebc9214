"""The models that the benchmark of whole networks makes, and its comparison of outputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from scripts import benchmark_modules

MODULES = ("_report", "_graphs", "networks")


@pytest.fixture(scope="module")
def benchmark() -> Iterator[SimpleNamespace]:
    """The modules of the folder, which is not a package."""
    with benchmark_modules(*MODULES) as modules:
        yield modules


def test_every_goal_is_of_a_model(benchmark: SimpleNamespace) -> None:
    assert set(benchmark.networks.GOALS) == set(benchmark.graphs.NAMES)


@pytest.mark.parametrize("kind", [onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16])
def test_the_product_is_that_of_matrices(benchmark: SimpleNamespace, kind: int) -> None:
    model = benchmark.graphs.gemm(kind, 8)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    a, b = (np.arange(64, dtype=dtype).reshape(8, 8) / 64 + shift for shift in (0, 1))
    (found,) = benchmark.networks.onnxruntime_case(model, {"a": a, "b": b})().values()
    assert found.dtype == dtype
    assert np.allclose(found, a @ b, rtol=1e-2)


def test_the_attention_is_that_of_the_specification(benchmark: SimpleNamespace) -> None:
    """The result is a weighted mean of the rows of v, with weights that add up to one."""
    model = benchmark.graphs.attention(onnx.TensorProto.FLOAT, (2, 4, 16))
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 2, 4, 16)).astype(np.float32)
    (found,) = benchmark.networks.onnxruntime_case(model, {"q": q, "k": k, "v": v})().values()
    shares = np.exp(np.einsum("bhid,bhjd->bhij", q, k) / 4)
    shares /= shares.sum(-1, keepdims=True)
    assert np.allclose(found, shares @ v, atol=1e-5)


def test_inputs_are_numbers_that_the_declared_type_has(benchmark: SimpleNamespace) -> None:
    first, second = benchmark.graphs.cases("attention")
    kinds = [case.model.graph.input[0].type.tensor_type.elem_type for case in (first, second)]
    assert kinds == [onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT]
    assert first.single is second.single is second.model
    for name, array in first.inputs.items():
        assert array.dtype == np.float32 and array.shape == (1, 16, 2048, 128), name
        assert np.array_equal(array.view(np.uint32) & 0xFFFF, np.zeros(array.shape)), name


def test_the_cosine_is_that_of_the_worst_output(benchmark: SimpleNamespace) -> None:
    one, other = np.float32([1, 0]), np.float32([1, 1])
    found = benchmark.networks.cosine({"a": one, "b": one}, {"a": one, "b": other})
    assert found == pytest.approx(0.5**0.5)


def test_a_network_that_is_not_there_is_one_line(benchmark: SimpleNamespace) -> None:
    with pytest.raises(
        SystemExit, match="no model 'alexnet'; there are: squeezenet, resnet50, gemm4096, attention"
    ):
        benchmark.networks.main(["squeezenet", "alexnet"])


def test_a_model_that_does_not_compile_is_one_line(benchmark: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "no.onnx").write_bytes(b"no model")
    with pytest.raises(SystemExit, match=r"tx8cc no\.onnx --dtype fp16: exit status 1"):
        benchmark.networks.compiled(tmp_path / "no.onnx", "fp16", tmp_path / "out")
