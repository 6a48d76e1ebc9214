"""``import tx8``: models of every kind to programs, inputs of every kind to arrays, and facts about runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import emulator
import tx8
from compiler.graph import GraphError
from emulator import Fault

RNG = np.random.default_rng(5)
WEIGHTS = RNG.standard_normal((8, 4)).astype(np.float32)
X = RNG.standard_normal((3, 8)).astype(np.float32)

COPY = """
        .input  x, {format}, 16
        .output y, {format}, 16
_start: csrr    t0, mhartid
        bnez    t0, done
        la      a0, x
        la      a1, y
        rdma.{format} dst=0, src=a0, n=16
        {wait}
        wdma.{format} dst=a1, src=0, n=16
        ncc.wait
done:   li      a0, {status}
        li      a7, 93
        ecall
"""


def copy_program(fmt: str = "fp32", wait: str = "ncc.wait", status: int = 0) -> tx8.Program:
    return tx8.assemble(COPY.format(format=fmt, wait=wait, status=status), name="copy")


def linear() -> tx8.GraphBuilder:
    graph = tx8.GraphBuilder("linear")
    graph.output(graph.input("x", "float32", (3, 8)) @ WEIGHTS, "y")
    return graph


def onnx_linear() -> onnx.ModelProto:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 8])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4])]
    weights = [onnx.numpy_helper.from_array(WEIGHTS, "w")]
    graph = helper.make_graph([node], "linear", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_models_of_every_kind_are_the_same_program(tmp_path: Path) -> None:
    path = tmp_path / "linear.onnx"
    onnx.save(onnx_linear(), path)
    models = (linear(), linear().build(), onnx_linear(), onnx_linear().SerializeToString(), path, str(path))
    results = [np.asarray(tx8.compile(model).run(X)) for model in models]
    np.testing.assert_allclose(results[0], X @ WEIGHTS, rtol=1e-5, atol=1e-5)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (3, "a model of type int; expected a path"),
        (None, "a model of type NoneType"),
        (b"nonsense", "not an ONNX model, or a damaged one"),
        (onnx_linear().graph, "expected an onnx.ModelProto"),
        ("nowhere.onnx", "nowhere.onnx: cannot be read"),
        (tx8.GraphBuilder("empty"), "the graph has no output"),
    ],
)
def test_what_is_no_model_is_one_line(model: object, text: str) -> None:
    with pytest.raises(GraphError) as caught:
        tx8.compile(model)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_of_compile() -> None:
    program = tx8.compile(linear(), dtype="bf16", tiles=3, search="off", patterns="none")
    assert program.compiled is not None
    assert (program.compiled.dtype, program.compiled.tiles) == ("bf16", 3)
    with pytest.raises(tx8.Error, match="unknown dtype 'fp8'"):
        tx8.compile(linear(), dtype="fp8")
    with pytest.raises(tx8.Error, match="no-machine"):
        tx8.compile(linear(), machine="no-machine.toml")


# --- inputs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [X, X.astype(np.float64), X.tolist(), np.asfortranarray(X), X[::1]],
    ids=["float32", "float64", "list", "fortran", "view"],
)
def test_inputs_are_converted(given: object) -> None:
    program = tx8.compile(linear())
    expected = np.asarray(program.run(X))
    for run in (program.run(given), program.run(x=given), program.run({"x": given})):
        np.testing.assert_array_equal(np.asarray(run), expected)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_short_floats_are_widened(dtype: type) -> None:
    values = np.arange(16).astype(dtype)
    np.testing.assert_array_equal(np.asarray(copy_program().run(values)), values.astype(np.float32))


def test_integers_that_fit_are_converted() -> None:
    program = copy_program("int8")
    np.testing.assert_array_equal(program.run(list(range(-8, 8)))[0], np.arange(-8, 8))
    with pytest.raises(tx8.Error, match=r"input 'x' holds 200, expected -128\.\.127"):
        program.run(np.full(16, 200))


@pytest.mark.parametrize(
    ("arguments", "named", "text"),
    [
        ((), {}, "input 'x' is missing; the program's inputs: x"),
        ((X, X), {}, "2 inputs given; the program has 1: x"),
        ((X,), {"x": X}, "input 'x' is given twice"),
        ((), {"z": X}, "no input 'z'; its inputs: x"),
        (({"z": X},), {}, "no input 'z'; its inputs: x"),
        ((X[:2],), {}, "input 'x' is 2x8 float32, expected 3x8 float32"),
        ((X.astype(int),), {}, "input 'x' is int64, expected float32: convert it explicitly"),
        ((X > 0,), {}, "input 'x' is bool, expected float32"),
        ((X.astype(complex),), {}, "input 'x' is complex128, expected float32"),
        (([[1.0], [2.0, 3.0]],), {}, "input 'x': cannot be made an array"),
        (("text",), {}, "expected float32"),
    ],
)
def test_inputs_that_do_not_fit_are_one_line(arguments: tuple, named: dict, text: str) -> None:
    with pytest.raises(tx8.Error) as caught:
        tx8.compile(linear()).run(*arguments, **named)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


# --- runs ---------------------------------------------------------------------------------


def test_outputs_by_name_and_position() -> None:
    graph = tx8.GraphBuilder("two")
    x = graph.input("x", "float32", (3, 8))
    graph.output(graph.Relu(x), "positive")
    graph.output(-x, "negated")
    run = tx8.compile(graph).run(X)
    assert len(run) == 2
    positive, negated = run
    np.testing.assert_array_equal(positive, np.maximum(X, 0))
    np.testing.assert_array_equal(run["negated"], -X)
    np.testing.assert_array_equal(run[1], negated)
    with pytest.raises(KeyError, match="no output 'y'; the outputs: positive, negated"):
        run["y"]
    with pytest.raises(TypeError, match="2 outputs: choose one"):
        np.asarray(run)


def test_time_is_the_same_whenever_it_is_asked_for() -> None:
    program = tx8.compile(linear())
    now, later = program.run(X), program.run(X, timed=False)
    assert now.cycles == later.cycles > 0
    assert now.stats.to_dict()["cycles"] == now.cycles
    assert "losses" in str(now.stats)
    assert json.dumps(now.stats.to_dict()) == json.dumps(later.stats.to_dict())


def test_inputs_changed_after_the_run_do_not_change_what_it_says() -> None:
    x = X.copy()
    run = tx8.compile(linear()).run(x, timed=False)
    x[:] = np.nan
    assert run.hazards == ()
    assert run.cycles > 0


def test_a_race_is_found() -> None:
    assert copy_program().run(np.zeros(16)).hazards == ()
    hazards = tx8.assemble(RACE, name="race").run().hazards
    assert "race" in {hazard.kind for hazard in hazards}


RACE = """
        .output y, fp32, 16
_start: la      a0, y
        wdma.fp32 dst=a0, src=0x100, n=16
        ncc.wait
        li      a0, 0
        li      a7, 93
        ecall
"""


def test_pages_and_traces_are_written(tmp_path: Path) -> None:
    run = tx8.compile(linear()).run(X, timed=False)
    page, trace = run.report(tmp_path / "run.html"), run.trace(tmp_path / "run.json")
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert json.loads(trace.read_text())["traceEvents"]
    data = run.report(tmp_path / "data.json")
    assert json.loads(data.read_text())["run"] == json.loads(json.dumps(run.stats.to_dict()))
    with pytest.raises(tx8.Error, match="cannot be written"):
        run.report(tmp_path / "nowhere" / "run.html")
    with pytest.raises(tx8.Error, match=r"run\.txt' ends neither in"):
        run.report(tmp_path / "run.txt")
    assert not (tmp_path / "run.txt").exists()


def test_a_program_that_stops_is_a_fault() -> None:
    with pytest.raises(Fault, match="the program exited with status 4"):
        copy_program(status=4).run(np.zeros(16))
    with pytest.raises(Fault, match="the limit given"):
        copy_program().run(np.zeros(16), max_instructions=2)


def test_what_a_program_prints() -> None:
    hello = Path(__file__).parents[2] / "examples" / "assembly" / "hello.s"
    assert "hello from tile 03\n" in tx8.assemble(hello.read_text()).run().printed


# --- programs -----------------------------------------------------------------------------


def test_a_saved_program_is_the_same(tmp_path: Path) -> None:
    program = tx8.compile(linear())
    again = tx8.load(program.save(tmp_path / "made"))
    np.testing.assert_array_equal(np.asarray(again.run(X)), np.asarray(program.run(X)))
    assert (tmp_path / "made" / "prog.s").read_text() == program.text
    copied = tx8.load(copy_program().save(tmp_path / "copy"))
    assert "wdma.fp32" in copied.text
    with pytest.raises(tx8.Error, match="cannot be read"):
        tx8.load(tmp_path / "nothing.bin")


def test_texts_for_people_are_short() -> None:
    program = tx8.compile(linear())
    run = program.run(X)
    assert repr(program) == "<tx8.Program linear: (x: float32 3x8) -> (y: float32 3x4)>"
    assert repr(run).startswith("<tx8.Run of linear: y: float32 3x4; ")
    page = run._repr_html_()
    assert "<svg" in page and f"{run.cycles:,.0f} cycles" in page and "DDR" in page
    for kind, name, array in (("input", "x", X), ("output", "y", run["y"])):
        shape = "x".join(map(str, array.shape))
        row = f"<td>{kind}</td><td>{name}</td><td>float32</td><td>{shape}</td><td>{array.min():.4g}</td>"
        assert row in page
    assert "<td>input</td><td>x</td>" in program._repr_html_()


def test_names_are_escaped_in_pages() -> None:
    graph = tx8.GraphBuilder("<b>")
    graph.output(graph.Relu(graph.input("<script>", "float32", (4,))), "<i>")
    program = tx8.compile(graph)
    pages = program._repr_html_() + program.run(np.zeros(4))._repr_html_()
    assert "<script>" not in pages
    assert "&lt;script&gt;" in pages


def test_import_costs_nothing() -> None:
    code = "import tx8, sys; print({'numpy', 'numba', 'xdsl', 'onnx'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    with pytest.raises(AttributeError, match="no attribute 'compyle'"):
        tx8.compyle  # noqa: B018


@pytest.mark.parametrize("name", ["tx8", "emulator"])
def test_names_are_offered_before_they_are_imported(name: str) -> None:
    """The completion of a shell or a notebook asks for them in this way."""
    ask = f"import {name} as it, sys; print(dir(it) == sorted(it.__all__), 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"
    module = {"tx8": tx8, "emulator": emulator}[name]
    assert all(getattr(module, each).__name__ for each in dir(module))
