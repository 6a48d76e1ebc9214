"""Free dimensions of ONNX models, bound by ``--shape``, ``--batch`` and ``shapes=``. Inputs that are
constants, by ``--constant`` and ``constants=``. Also what is refused."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tx8
from compiler.cli import main
from compiler.evaluation.reference import run_reference
from compiler.evaluation.sizes.ranges import ranges_of
from compiler.frontend import ModelFile
from compiler.graph import GraphError
from compiler.tools.options.dimensions import dimension

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
        ({"x": [-1, 3]}, {"x": (4, 3)}, None, {"x": (4, 3)}),
        ({"x": [-1, 3]}, {}, 5, {"x": (5, 3)}),
        ({"x": ["?", "?"]}, {"x": (2, 7)}, None, {"x": (2, 7)}),
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
    graph = ModelFile(path).reader(shapes, batch)(path)
    assert {tensor.name: tensor.shape for tensor in graph.inputs} == expected


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        ({}, "axis 0 is 'N'; shapes must be static: bind it with --batch 1, or --dim N=1, or a range with"),
        ({"xx": (1, 3)}, "a shape is given for 'xx', which is not an input; did you mean 'x'?"),
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
        ModelFile(path).reader(shapes)(path)


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


# --- inputs that are constants -----------------------------------------------------------------------------


def chosen(path: Path, kind: int = TensorProto.INT64, shape: Axes | None = None) -> Path:
    """A model whose input ``rate`` decides which branch computes y of x: its double, or its negative."""
    branches = [
        helper.make_graph(
            [helper.make_node(op, ["x", *more], ["z"])], op, [], [helper.make_tensor_value_info("z", 1, None)]
        )
        for op, more in (("Add", ["x"]), ("Neg", []))
    ]
    sixteen = helper.make_tensor("sixteen", kind, [], [1 if kind == TensorProto.BOOL else 16])
    nodes = [
        helper.make_node("Constant", [], ["k"], value=sixteen),
        helper.make_node("Equal", ["rate", "k"], ["is"]),
        helper.make_node("If", ["is"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", 1, ["N", 3]),
        helper.make_tensor_value_info("rate", kind, [] if shape is None else shape),
    ]
    graph = helper.make_graph(nodes, "chosen", inputs, [helper.make_tensor_value_info("y", 1, None)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


@pytest.mark.parametrize(
    ("kind", "shape", "value"),
    [
        (TensorProto.INT64, None, 16),
        (TensorProto.INT64, None, 8),
        (TensorProto.INT32, [1], 16),
        (TensorProto.INT32, [1], [8]),
        (TensorProto.INT64, ["K"], [16]),
        (TensorProto.FLOAT, None, 16.0),
        (TensorProto.FLOAT, None, 16),
        (TensorProto.BOOL, None, True),
        (TensorProto.BOOL, None, False),
        (TensorProto.INT64, None, np.array(16, np.int32)),
    ],
)
def test_an_input_that_is_a_constant_decides_a_branch(
    kind: int, shape: Axes | None, value: object, tmp_path: Path
) -> None:
    path = chosen(tmp_path / "m.onnx", kind, shape)
    graph = ModelFile(path).reader({"x": (2, 3)}, None, {"rate": value})(path)
    assert [tensor.name for tensor in graph.inputs] == ["x"]
    x = np.float32([[1, -2, 3], [4, 5, -6]])
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    wanted_type = {TensorProto.INT64: np.int64, TensorProto.INT32: np.int32, TensorProto.BOOL: np.bool_}
    rate = np.asarray(value, wanted_type.get(kind, np.float32)).reshape([] if shape is None else [1])
    np.testing.assert_array_equal(
        run_reference(graph, {"x": x})["y"], session.run(None, {"x": x, "rate": rate})[0]
    )


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        (
            TensorProto.INT64,
            {"rat": 1},
            "a value is given for 'rat', which is not an input; did you mean 'rate'?",
        ),
        (
            TensorProto.INT64,
            {"rate": 0.5},
            "input 'rate' is int64; the value given has 0.5, which that cannot be",
        ),
        (TensorProto.INT32, {"rate": 1 << 40}, "is int32; the value given has 1099511627776, which"),
        (TensorProto.BOOL, {"rate": 2}, "input 'rate' is bool; the value given has 2, which"),
        (TensorProto.FLOAT, {"rate": 1e300}, "is float32; the value given has numbers beyond its range"),
        (TensorProto.INT64, {"rate": "16"}, "the value given is not a number or array of numbers: <U2"),
        (TensorProto.INT64, {"rate": [16]}, "input 'rate' has 0 axes; the shape given has 1: [1]"),
    ],
)
def test_a_value_that_does_not_fit_is_one_line(
    kind: int, values: dict[str, object], text: str, tmp_path: Path
) -> None:
    path = chosen(tmp_path / "m.onnx", kind)
    with pytest.raises(GraphError, match=re.escape(text)):
        ModelFile(path).reader({"x": (1, 3)}, None, values)(path)


def test_a_number_for_an_input_of_a_free_shape_needs_the_shape(tmp_path: Path) -> None:
    path = chosen(tmp_path / "m.onnx", TensorProto.INT64, ["K"])
    with pytest.raises(GraphError, match="input 'rate': axis 0 is 'K'; shapes must be static"):
        ModelFile(path).reader({"x": (1, 3)}, None, {"rate": 16})(path)


def test_the_command_takes_constants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(chosen(tmp_path / "m.onnx"))
    np.save(tmp_path / "r.npy", np.array(8, np.int64))
    np.save(tmp_path / "x.npy", np.float32([[1, 2, 3]]))
    for value, factor in (("16", 2), (str(tmp_path / "r.npy"), -1)):
        given = ["--input", f"x={tmp_path / 'x.npy'}", "--output-dir", str(tmp_path / "out")]
        shapes = ["--batch", "1", "--constant", f"rate={value}"]
        assert main([path, *shapes, "--run", "--tiles", "1", *given]) == 0
        np.testing.assert_array_equal(np.load(tmp_path / "out" / "y.npy"), factor * np.float32([[1, 2, 3]]))
    assert main([path, "--batch", "1", "--constant", "rate=16", "--check"]) == 0
    capsys.readouterr()
    assert main([path, "--batch", "1", "--constant", f"rate={tmp_path / 'none.npy'}"]) == 1
    assert "none.npy" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (["--constant", "16"], "'16' is not NAME=VALUE"),
        (["--constant", "rate=many"], "'many' in 'rate=many' is not a number, true, false or FILE.npy"),
        (["--constant", "rate=1", "--constant", "rate=2"], "argument --constant: 'rate' is given twice"),
    ],
)
def test_a_wrong_constant_is_a_usage_error(
    option: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([str(chosen(tmp_path / "m.onnx")), *option])
    assert caught.value.code == 2
    assert text in capsys.readouterr().err


def test_constants_are_for_onnx_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "g.json").write_text("{}")
    assert main([str(tmp_path / "g.json"), "--constant", "x=2"]) == 1
    assert "values of inputs are bound in ONNX models" in capsys.readouterr().err
    builder = tx8.GraphBuilder("g")
    builder.output(builder.Relu(builder.input("x", "float32", (4,))), "y")
    with pytest.raises(GraphError, match=r"constants= is for inputs of ONNX models .* a GraphBuilder"):
        tx8.compile(builder, constants={"x": 1})


def test_constants_from_python(tmp_path: Path) -> None:
    path = chosen(tmp_path / "m.onnx")
    for model in (path, onnx.load(path), path.read_bytes()):
        program = tx8.compile(model, shapes={"x": (1, 3)}, constants={"rate": 8}, tiles=1)
        np.testing.assert_array_equal(program.run([[1, 2, 3]])["y"], [[-1, -2, -3]])


@pytest.mark.parametrize(
    ("given", "constants", "names"),
    [
        ({"n": 8}, {"n": 8}, []),
        ({"n": (8, 8)}, {"n": 8}, []),
        ({"n": (8, 8, 8), "m": (1, 2, 4)}, {"n": 8}, ["m"]),
        ({"past": 3, "new": (1, 2, 4), "total": "past+new"}, {"past": 3}, ["new"]),
        ({"past": 3, "new": 2, "total": "past+new"}, {"past": 3, "new": 2, "total": 5}, []),
    ],
)
def test_a_range_of_one_size_is_a_constant(
    given: dict[str, Any], constants: dict[str, int], names: list[str]
) -> None:
    ranges = ranges_of(given)
    assert (dict(ranges.constants), list(ranges.names)) == (constants, names)
    assert ranges.model_sizes(ranges.usual).keys() == given.keys()
    if "total" in given:
        sizes = ranges.model_sizes(ranges.usual)
        assert sizes["total"] == sizes["past"] + sizes["new"]


def test_of_two_sizes_the_usual_one_is_the_most() -> None:
    assert dimension("n=2:9") == ("n", (2, 9))
    assert [(each.least, each.usual, each.most) for each in ranges_of({"n": (2, 9)}).dimensions] == [
        (2, 9, 9)
    ]


@pytest.mark.parametrize("text", ["n", "n=", "=8", "n=a", "n=1:2:3:4", "n=1:", "n=1.5"])
def test_what_is_no_size_of_a_dimension(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is neither NAME=LEAST:USUAL:MOST"):
        dimension(text)


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_of_nothing_is_refused(size: int) -> None:
    with pytest.raises(GraphError, match=f"dimension n: {size}:{size}:{size}; expected least, usual, most"):
        ranges_of({"n": size})


@pytest.mark.parametrize("dims", [{"N": 4}, {"N": (4, 4, 4)}, {"N": (4, 4)}])
def test_one_size_makes_a_program_of_one_size(dims: dict[str, Any], tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", x=["N", 3], z=["N", 3])
    program = tx8.compile(path, dims=dims)
    x = np.ones((4, 3), np.float32)
    assert (program.run(x, x)["y"] == 2).all()
