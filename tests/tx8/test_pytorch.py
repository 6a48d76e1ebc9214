"""torch.compile with the back end tx8: results beside PyTorch's own, and what is refused."""

from __future__ import annotations

import builtins
import importlib.metadata
from collections.abc import Iterator
from typing import Any

import pytest

import tx8
from extras import needs_torch
from tx8 import pytorch

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch warns of its own deprecations


@pytest.fixture
def torch() -> Iterator[Any]:
    """PyTorch without graphs of other tests."""
    import torch

    torch.manual_seed(1)
    torch._dynamo.reset()
    with torch.no_grad():
        yield torch


def network(torch: Any) -> Any:
    """A network with parameters, buffers, several results and a number as an argument."""

    class Network(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4)
            self.register_buffer("factor", torch.full((4,), 0.5))

        def forward(self, x: Any, scale: float) -> tuple[Any, Any, Any]:
            y = self.norm(self.linear(x)) * self.factor * scale
            return y, y.argmax(-1), x

    return Network().eval()


@needs_torch
def test_results_are_those_of_pytorch(torch: Any) -> None:
    """Other shapes and other numbers, which PyTorch then takes for free ones, too."""
    model = network(torch)
    compiled = torch.compile(model, backend=pytorch.backend)
    for rows, scale in ((3, 2.5), (5, 2), (3, 4), (7, 4)):
        x = torch.randn(rows, 8)
        (y, places, same), (want, expected, _) = compiled(x, scale), model(x, scale)
        assert same is x
        assert (y.dtype, places.dtype, y.shape) == (torch.float32, torch.int64, want.shape)
        assert torch.allclose(y, want, atol=1e-5) and torch.equal(places, expected)
    assert pytorch.last_run().cycles > 0 and pytorch.last_run().hazards == ()


@needs_torch
def test_changed_parameters_count(torch: Any) -> None:
    model = network(torch)
    compiled = torch.compile(model, backend=pytorch.backend)
    x = torch.randn(3, 8)
    compiled(x, 1.0)
    model.linear.weight.mul_(2)
    assert torch.allclose(compiled(x, 1.0)[0], model(x, 1.0)[0], atol=1e-5)
    model.factor.fill_(3)
    assert torch.allclose(compiled(x, 1.0)[0], model(x, 1.0)[0], atol=1e-5)


@needs_torch
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_tensors_keep_their_types(torch: Any, name: str) -> None:
    dtype = getattr(torch, name)
    model = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.ReLU()).to(dtype).eval()
    x = torch.randn(4, 16).to(dtype)
    with torch.inference_mode():
        y = torch.compile(model, backend=pytorch.backend, options={"timed": False})(x)
    assert y.dtype == dtype
    assert torch.allclose(y.float(), model(x).float(), atol=0.02)


@needs_torch
def test_options_are_those_of_the_compiler(torch: Any) -> None:
    model = torch.nn.Linear(64, 64).eval()
    compiled = torch.compile(model, backend=pytorch.backend, options={"dtype": "fp16", "tiles": 4})
    x = torch.randn(8, 64)
    y = compiled(x)
    assert y.dtype == torch.float32 and torch.allclose(y, model(x), atol=0.02)
    assert not torch.equal(y, model(x))


@needs_torch
def test_a_transformer_runs_without_the_operator_that_is_no_graph(torch: Any) -> None:
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    x = torch.randn(2, 10, 32)
    wanted = r"_transformer_encoder_layer_fwd.*call torch\.backends\.mha\.set_fastpath_enabled\(False\)$"
    with pytest.raises(tx8.Error, match=wanted):
        torch.compile(layer, backend=pytorch.backend)(x)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        assert torch.allclose(torch.compile(layer, backend=pytorch.backend)(x), layer(x), atol=1e-4)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


@needs_torch
def test_what_is_refused(torch: Any) -> None:
    def message(model: Any, *arguments: Any, **options: Any) -> str:
        with pytest.raises(Exception) as error:
            torch.compile(model, backend=pytorch.backend, **options)(*arguments)
        return str(error.value)

    x = torch.randn(3, 8)
    with torch.enable_grad():
        found = message(network(torch), x, 1.0)
    assert "torch.compile: tx8 runs inference: call the model in 'with torch.no_grad():'" in found
    found = message(network(torch), x, 1.0, options={"dtyp": "fp16"})
    assert "unknown option 'dtyp'; did you mean 'dtype'?; there are dtype, tiles, machine" in found
    assert "17" in message(network(torch), x, 1.0, options={"tiles": 17})
    found = message(lambda y: y.add_(1) * 2, x.clone())
    assert found.startswith("torch.compile: the graph changes a tensor in place")
    found = message(lambda y: torch.linalg.svd(y)[1], x)
    assert found.startswith("torch.compile: ")


@needs_torch
def test_pytorch_finds_the_back_end() -> None:
    found = importlib.metadata.entry_points(group="torch_dynamo_backends")
    names = [entry.name for entry in found if entry.value == "tx8.pytorch:backend"]
    assert names in (["tx8"], [])  # nothing where the tests run without an installation


def test_without_pytorch_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **named: Any) -> Any:
        if name.partition(".")[0] in ("torch", "onnxscript"):
            raise ImportError(name=name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(tx8.Error, match=r"^torch\.compile: .*pip install torch onnxscript"):
        pytorch.backend(None, [])  # type: ignore[arg-type]
