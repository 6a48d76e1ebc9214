"""torch.compile with the back end tx8: results compared with PyTorch's own, and what is refused."""

from __future__ import annotations

import builtins
import importlib.metadata
from collections.abc import Iterator
from typing import Any

import numpy as np
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
    """Other shapes and other numbers; PyTorch then takes the numbers for free ones, too."""
    model = network(torch)
    compiled = torch.compile(model, backend=pytorch.backend)
    for rows, scale in ((3, 2.5), (5, 2), (3, 4), (7, 4)):
        x = torch.randn(rows, 8)
        (y, places, same), (want, expected, _) = compiled(x, scale), model(x, scale)
        assert same is x
        assert (y.dtype, places.dtype, y.shape) == (torch.float32, torch.int64, want.shape)
        assert torch.allclose(y, want, atol=1e-5) and torch.equal(places, expected)
    assert pytorch.last_run().cycles > 0 and pytorch.last_run().hazards == ()


WEIGHT = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)


def nested(torch: Any, x: Any, _: Any, w: Any) -> Any:
    a = x @ w
    return {"b": torch.relu(a), "a": a, "rest": [a + 1, (a[0], None)]}


@needs_torch
@pytest.mark.parametrize(
    "function",
    [
        lambda torch, x, y, w: (torch.relu(x @ w), x @ w),
        lambda torch, x, y, w: (x, torch.relu(x), y, y - x, x),
        lambda torch, x, y, w: (None, torch.relu(x @ w), None, x @ w),
        lambda torch, x, y, w: ((b := torch.relu(a := x @ w)), a, b, a),
        lambda torch, x, y, w: ((a := x @ w).t(), a, a.reshape(-1), a[0], a[:0]),
        lambda torch, x, y, w: torch.topk(x, 3, dim=1)[::-1],
        lambda torch, x, y, w: (w, y, x + 1, x.shape[0], torch.ones(3)),
        nested,
    ],
    ids=["one size", "inputs", "none", "twice", "views", "indices", "constants", "nested"],
)
def test_results_have_their_places(torch: Any, function: Any) -> None:
    def same(found: Any, wanted: Any) -> bool:
        if isinstance(wanted, torch.Tensor):
            near = torch.allclose(found.double(), wanted.double(), atol=1e-4)
            return bool(near and (found.shape, found.dtype) == (wanted.shape, wanted.dtype))
        if isinstance(wanted, tuple | list):
            return len(found) == len(wanted) and all(map(same, found, wanted))
        if isinstance(wanted, dict):
            return [*found] == [*wanted] and same([*found.values()], [*wanted.values()])
        return bool(found == wanted)

    x, y, w = torch.randn(4, 8), torch.randn(4, 8), torch.from_numpy(WEIGHT)
    compiled = torch.compile(lambda x, y: function(torch, x, y, w), backend=pytorch.backend)
    assert same(compiled(x, y), function(torch, x, y, w))


@needs_torch
def test_a_graph_may_return_nothing_at_some_places(torch: Any) -> None:
    """PyTorch omits such results; other callers of the back end do not."""

    class Graph(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, y: Any) -> Any:
            a = x + y
            return None, a, x, None, a, torch.relu(a)

    x, y = torch.randn(3), torch.randn(3)
    found = pytorch.backend(torch.fx.symbolic_trace(Graph()), [x, y])(x, y)
    assert found[0] is found[3] is None
    for one, other in zip(found, (None, x + y, x, None, x + y, torch.relu(x + y)), strict=True):
        assert one is other or torch.allclose(one, other)


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
    for changing in (lambda y: y.add_(1) * 2, lambda y: (torch.relu(y), y.mul_(2))):
        found = message(changing, given := x.clone())
        assert found.startswith("torch.compile: the graph changes a tensor in place")
        assert torch.equal(given, x)
    found = message(lambda y: torch.linalg.svd(y)[1], x)
    assert found.startswith("torch.compile: ")


@needs_torch
def test_pytorch_finds_the_back_end() -> None:
    found = importlib.metadata.entry_points(group="torch_dynamo_backends")
    names = [entry.name for entry in found if entry.value == "tx8.pytorch:backend"]
    assert names in (["tx8"], [])  # nothing if the tests run without an installation


def test_without_pytorch_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **named: Any) -> Any:
        if name.partition(".")[0] in ("torch", "onnxscript"):
            raise ImportError(name=name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(tx8.Error, match=r"^torch\.compile: .*pip install torch onnxscript"):
        pytorch.backend(None, [])  # type: ignore[arg-type]
