"""The PyTorch front end: programs of torch.export give the numbers that PyTorch gives."""

from __future__ import annotations

import builtins
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement

import compiler
from compiler.cli import main
from compiler.evaluation.reference import run_reference
from compiler.frontend import load
from compiler.frontend.torch import from_exported, open_pt2
from compiler.graph import GraphError
from compiler.tools import run
from extras import needs_torch
from paths import ROOT

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch warns of its own deprecations


def network() -> Any:
    """A small convolutional network in evaluation mode."""
    import torch
    from torch import nn

    torch.manual_seed(3)
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(72, 10), nn.Softmax(1)).eval()


def attention() -> Any:
    """A module whose attention the exporter keeps as one operator."""
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.heads = nn.LayerNorm(16), nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            normal = self.norm(x)
            return x + self.heads(normal, normal, normal, need_weights=False)[0]

    torch.manual_seed(4)
    return Attention().eval()


def exported(module: Any, *shape: int) -> tuple[Any, Any]:
    """The program of a module, and its sample input."""
    import torch

    sample = torch.randn(*shape)
    return torch.export.export(module, (sample,)), sample


@needs_torch
@pytest.mark.parametrize(("module", "shape"), [(network, (2, 3, 6, 6)), (attention, (1, 5, 16))])
def test_the_reference_gives_what_pytorch_gives(module: Any, shape: tuple[int, ...]) -> None:
    made = module()
    program, sample = exported(made, *shape)
    graph = from_exported(program, name="net")
    assert graph.name == "net"
    (expected,) = (made(sample).detach().numpy(),)
    (tensor,) = graph.inputs
    (found,) = run_reference(graph, {tensor.name: sample.numpy()}).values()
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 1e-5


@needs_torch
def test_a_file_is_compiled_and_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    made = network()
    program, sample = exported(made, 2, 3, 6, 6)
    torch.export.save(program, tmp_path / "net.pt2")
    graph = load(tmp_path / "net.pt2")
    outputs, _ = run.execute(compiler.compile(graph), {graph.inputs[0].name: sample.numpy()})
    assert np.abs(next(iter(outputs.values())) - made(sample).detach().numpy()).max() < 1e-4
    assert main([str(tmp_path / "net.pt2"), "-q", "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "prog.bin").exists()
    assert capsys.readouterr() == ("", "")


@needs_torch
def test_what_pytorch_cannot_export_is_one_line() -> None:
    import torch

    class Odd(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.bessel_j0(x)

    program, _ = exported(Odd(), 2, 3)
    with pytest.raises(GraphError, match="bessel_j0") as caught:
        from_exported(program, "odd.pt2")
    assert str(caught.value).startswith("odd.pt2: PyTorch cannot write it as ONNX: ")


@needs_torch
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a program of torch.export: "),
        (b"not an archive", "text that begins with 'not', not "),
        (b"PK\x03\x04 damaged", "not a program of torch.export: "),
    ],
)
def test_a_damaged_file_is_one_line(
    data: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(data)
    assert main([str(path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"tx8cc: error: {path}: {message}")
    assert error.count("\n") == 1


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"none\.pt2: cannot be read: No such file"):
        open_pt2(tmp_path / "none.pt2")


@pytest.mark.parametrize("missing", ["torch", "onnxscript"])
def test_without_pytorch_the_error_says_how_to_get_it(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        package = "" if rest[3:] not in ((), (0,)) else name.partition(".")[0]  # relative imports are ours
        if package == missing:
            raise ModuleNotFoundError(f"No module named '{missing}'", name=missing)
        return real(name, *rest) if package not in ("torch", "onnxscript") else None

    path = tmp_path / "net.pt2"
    path.write_bytes(b"PK\x03\x04, which is all that is looked at")
    monkeypatch.setattr(builtins, "__import__", without)
    assert main([str(path)]) == 1
    found = f"({missing} is not installed)"
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["torch"]
    assert [Requirement(text).name for text in extra] == ["torch", "onnxscript"]
    wanted = f"tx8cc: error: {path}: reading it needs PyTorch: pip install torch onnxscript {found}\n"
    assert capsys.readouterr().err == wanted
