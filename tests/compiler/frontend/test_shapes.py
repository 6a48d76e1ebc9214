"""Free dimensions of ONNX models: bound by ``--shape``, ``--batch`` and ``shapes=``; what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from compiler.cli import main
from compiler.frontend import reader
from compiler.graph import GraphError

Axes = list[int | str | None]


def model(path: Path, **inputs: Axes) -> Path:
    """A model that adds its inputs, saved."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, axes) for name, axes in inputs.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Sum", list(inputs), ["y"])], "sum", infos, [result])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


@pytest.mark.parametrize(
    ("inputs", "shapes", "batch", "expected"),
    [
        ({"x": ["N", 3]}, {"x": (4, 3)}, None, {"x": (4, 3)}),
        ({"x": ["N", 3]}, {}, 5, {"x": (5, 3)}),
        ({"x": [None, None]}, {"x": (2, 7)}, None, {"x": (2, 7)}),
        ({"x": [None, 3]}, {}, 2, {"x": (2, 3)}),
        ({"x": ["N", 3], "z": ["N", 3]}, {"x": (4, 3)}, None, {"x": (4, 3), "z": (4, 3)}),
        ({"x": ["N", "C"], "z": [1, "C"]}, {"z": (1, 6)}, 2, {"x": (2, 6), "z": (1, 6)}),
        ({"x": ["N", "N"]}, {}, 3, {"x": (3, 3)}),
        ({"x": [2, 3]}, {"x": (2, 3)}, 9, {"x": (2, 3)}),
    ],
)
def test_dimensions_are_bound(
    inputs: dict[str, Axes],
    shapes: dict[str, tuple[int, ...]],
    batch: int | None,
    expected: dict[str, tuple[int, ...]],
    tmp_path: Path,
) -> None:
    path = model(tmp_path / "m.onnx", **inputs)
    graph = reader(path, shapes, batch)(path)
    assert {tensor.name: tensor.shape for tensor in graph.inputs} == expected


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        ({}, "axis 0 is 'N'; shapes must be static: bind it with --shape NAME=1x3x224x224 or --batch N"),
        ({"xx": (1, 3)}, "a shape is given for 'xx', which is no input; did you mean 'x'?"),
        ({"x": (1,)}, "input 'x' has 2 axes; the shape given has 1: [1]"),
        ({"x": (1, 4)}, "input 'x': axis 1 is 3 in the model; 4 is given"),
        ({"x": (0, 3)}, "input 'x': axis 0 is given as 0; expected 1 or more"),
        ({"x": (1, 3), "z": (2, 3)}, "input 'z': axis 0 is 'N', given as 2 and as 1"),
    ],
)
def test_a_shape_that_does_not_fit_is_one_line(
    shapes: dict[str, tuple[int, ...]], text: str, tmp_path: Path
) -> None:
    path = model(tmp_path / "m.onnx", x=["N", 3], z=["N", 3])
    with pytest.raises(GraphError, match=re.escape(text)):
        reader(path, shapes)(path)


def test_the_command_binds_shapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(model(tmp_path / "m.onnx", x=["N", 3], z=["N", 3]))
    for option in (["--shape", "x=4x3"], ["--batch", "4"]):
        assert main([path, *option, "--run", "--tiles", "2", "--output-dir", str(tmp_path / "out")]) == 0
        assert np.load(tmp_path / "out" / "y.npy").shape == (4, 3)
    assert " 4x3 " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (["--shape", "x"], "'x' is not NAME=1x3x224x224"),
        (["--shape", "x=1xtwo"], "'x=1xtwo' is not NAME=1x3x224x224"),
        (["--shape", "x=0x3"], "extents of 1 or more"),
        (["--batch", "0"], "argument --batch: 0 is less than 1"),
        (["--batch", "two"], "invalid int value"),
    ],
)
def test_a_wrong_option_is_a_usage_error(
    option: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([str(model(tmp_path / "m.onnx", x=["N", 3])), *option])
    assert caught.value.code == 2
    assert text in capsys.readouterr().err


def test_shapes_are_for_onnx_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = tmp_path / "g.json"
    graph.write_text("{}")
    assert main([str(graph), "--batch", "2"]) == 1
    assert "shapes are bound in ONNX models" in capsys.readouterr().err
