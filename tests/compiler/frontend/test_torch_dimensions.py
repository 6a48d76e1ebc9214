"""Free dimensions of torch.export: programs for ranges of sizes give what PyTorch gives at each of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tx8
from compiler.cli import main
from extras import needs_torch
from tx8 import pytorch

pytestmark = [needs_torch, pytest.mark.filterwarnings("ignore")]  # PyTorch warns of its own deprecations


@cache
def sums() -> tuple[Any, Any]:
    """A module of two inputs with as many rows, up to 16, and its program."""
    import torch

    class Sums(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 4)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.softmax(self.linear(x) + y, -1)

    torch.manual_seed(1)
    rows = torch.export.Dim("batch", max=16)
    shapes = ({0: rows}, {0: rows})
    module = Sums().eval()
    return module, torch.export.export(module, (torch.randn(3, 8), torch.randn(3, 4)), dynamic_shapes=shapes)


def refusal(model: Any, **options: Any) -> str:
    with pytest.raises(tx8.Error) as caught:
        tx8.compile(model, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text.removeprefix("torch.export: ")


def draw(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def check(module: Any, program: Any, *inputs: Any) -> None:
    """A run has the results of PyTorch."""
    import torch

    with torch.no_grad():
        expected = module(*map(torch.from_numpy, inputs)).numpy()
    found = program.run(*inputs)[0]
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 1e-5


def test_one_program_runs_every_size_of_a_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    module, exported = sums()
    conversions, real = [], torch.onnx.export
    monkeypatch.setattr(torch.onnx, "export", lambda *p, **n: conversions.append(1) or real(*p, **n))
    program = tx8.compile(exported, dims={"batch": (1, 4, 16)}, dtype="fp32")
    assert conversions == [1]
    for rows in (1, 2, 7, 16):
        check(module, program, draw(rows, 8), draw(rows, 4))
    with pytest.raises(tx8.Error, match="input 'x': batch is 17; allowed are 1 to 16"):
        program.run(draw(17, 8), draw(17, 4))


def test_sizes_that_the_program_was_not_exported_for() -> None:
    from compiler.frontend.torch import open_exported

    model = open_exported(sums()[1])
    exported_for = "the program was exported for"
    for dims, wanted in (
        ({"batch": (1, 4, 64)}, f"dimension batch: 1 to 64; {exported_for} 0 to 16"),
        ({"bath": (1, 4, 6)}, "the inputs have no free dimension 'bath'; its free dimensions: batch"),
        (None, "input 'x': axis 0 is 'batch'; shapes must be static"),
    ):
        assert refusal(model, dims=dims).startswith(wanted)
    wide = {"x": (17, 8)}
    assert refusal(model, shapes=wide) == f"input 'x': axis 0 is 17; {exported_for} batch from 0 to 16"
    unequal = {"x": (4, 8), "y": (5, 4)}
    assert refusal(model, shapes=unequal) == "input 'y': axis 0 is 'batch', given as 5 and as 4"
    assert tx8.compile(model, shapes={"x": (5, 8)}).inputs[1].shape == (5, 4)


@pytest.mark.parametrize(("write", "name"), [(pytorch.save, "batch"), (None, "s17")])
def test_a_file_has_the_names_that_were_written_with_it(
    write: Callable[[Any, Path], None] | None,
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    module, exported = sums()
    monkeypatch.chdir(tmp_path)
    (write or torch.export.save)(exported, Path("net.pt2"))
    arguments = ["net.pt2", "-q", "--dtype", "fp32", "-o", "out", "--dim"]
    assert main([*arguments, f"{name}=1:4:12"]) == 0
    program = tx8.load("out/prog.bin")
    for rows in (1, 12):
        check(module, program, draw(rows, 8), draw(rows, 4))
    assert main([*arguments, f"{name}=1:4:20"]) == 1
    wanted = f"net.pt2: dimension {name}: 1 to 20; the program was exported for 0 to 16"
    assert capsys.readouterr() == ("", f"tx8cc: error: {wanted}\n")


def test_damaged_names_are_one_line(tmp_path: Path) -> None:
    import torch

    from compiler.frontend.torch import NAMES_FILE

    path = tmp_path / "net.pt2"
    for damaged in ("{", "[1]", '{"s17": 3}'):
        torch.export.save(sums()[1], path, extra_files={NAMES_FILE: damaged})
        wanted = f"{path}: {NAMES_FILE} in it is damaged: expected names of dimensions by symbols"
        assert refusal(path) == wanted


def test_an_axis_may_be_a_dimension_plus_a_number() -> None:
    import torch

    from compiler.frontend.torch import open_exported

    rows = torch.export.Dim("rows", min=3, max=9)

    class Steps(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.softmax(x[1:] + y, -1)

    inputs = (torch.randn(6, 8), torch.randn(5, 8))
    model = open_exported(
        torch.export.export(Steps(), inputs, dynamic_shapes=({0: rows + 1}, {0: rows})), "net", "net"
    )
    program = tx8.compile(model, dims={"rows": (3, 4, 9)}, dtype="fp32")
    for count in (3, 7, 9):
        check(Steps(), program, draw(count + 1, 8), draw(count, 8))
    with pytest.raises(tx8.Error, match=r"input 'x': rows \+ 1 is 7; expected 7 \+ 1"):
        program.run(draw(7, 8), draw(7, 8))
    wanted = "net: dimension rows: 2 to 9; the program was exported for 3 to 9"
    assert refusal(model, dims={"rows": (2, 4, 9)}) == wanted
    unequal = {"x": (9, 8), "y": (9, 8)}
    assert refusal(model, shapes=unequal) == "net: input 'x': axis 0 is 9; expected rows + 1, such as 10"


def test_other_derived_dimensions_need_a_size() -> None:
    import torch

    from compiler.frontend.torch import open_exported

    pairs = torch.export.Dim("pairs", min=2, max=9)

    class Pairs(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(-1, 2, 8).relu()

    exported = torch.export.export(Pairs(), (torch.randn(6, 8),), dynamic_shapes=({0: 2 * pairs},))
    model = open_exported(exported)
    expected = "expected a dimension, perhaps plus others or a number; give the input a shape with --shape"
    for name in ("pairs", "2*pairs"):
        assert refusal(model, dims={name: (2, 4, 8)}) == f"input 'x': axis 0 is 2*pairs; {expected}"
    assert refusal(model, shapes={"x": (5, 8)}) == "input 'x': axis 0 is 5; expected 2*pairs, such as 4"
    wanted = "input 'x': axis 0 is 22; the program was exported for pairs from 0 to 9"
    assert refusal(model, shapes={"x": (22, 8)}) == wanted
    check(Pairs(), tx8.compile(model, shapes={"x": (6, 8)}, dtype="fp32"), draw(6, 8))
