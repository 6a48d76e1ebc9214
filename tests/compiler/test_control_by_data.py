"""Branches and loops that the program decides: against onnxruntime and the reference, with --strict."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import emulator
import tx8
from asm.image import read_image, write_image
from compiler.cli import main
from compiler.driver import Program, compile_graph
from compiler.evaluation.reference import run_reference
from compiler.frontend.onnx.binding import Binding
from compiler.frontend.onnx.importer import graph_of_bytes
from compiler.graph import Array, Graph, GraphError
from compiler.tools import opt
from compiler.tools.cache import program_key
from control_models import ControlModel, constant, count, declared, made, node, truth
from onnx_models import saved
from tx8isa.machine.description import load_machine

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def graph_of(model: Any, **bounds: int) -> Graph:
    return graph_of_bytes(model.SerializeToString(), "model", Binding(bounds=bounds))


def wanted(model: Any, inputs: Mapping[str, Array]) -> dict[str, Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def strict(program: Program, inputs: Mapping[str, Array], threads: int = 1) -> Mapping[str, Array]:
    """A run in which the sanitizer finds nothing."""
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    found = loaded.run(dict(inputs), strict=True, threads=threads)
    assert loaded.hazards == ()
    return found


def random_arrays(seed: int, *shapes: tuple[int, ...]) -> list[Array]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def branch(*nodes: Any, result: str = "z", shape: Sequence[int] = (4, 8)) -> Any:
    return helper.make_graph(nodes, "branch", [], [declared(result, shape)])


# --- random nesting -------------------------------------------------------------------------


def check_random(seed: int) -> None:
    model, chance = ControlModel(seed), np.random.default_rng(seed)
    ways: list[dict[str, Any]] = [{}, {"residency": "off"}, {"patterns": "none"}, {"search": "off"}]
    program = compile_graph(graph_of(model.proto), "fp32", (1, 4, 16)[seed % 3], **ways[seed % 4])
    for steps in (0, 1, 4):
        x, y = random_arrays(seed + steps, (4, 8), (4, 8))
        inputs = {"x": x, "y": y, "n": np.array(steps), "k": chance.integers(-1, 4)}
        inputs = {name: np.asarray(array) for name, array in inputs.items()}
        expected, found = wanted(model.proto, inputs), strict(program, inputs, threads=1 + steps % 2)
        reference = run_reference(program.graph, inputs)
        for name in model.outputs:
            np.testing.assert_allclose(found[name], expected[name], **CLOSE)
            np.testing.assert_allclose(reference[name], expected[name], **CLOSE)


@pytest.mark.parametrize("seed", [3, 5, 7, 12, 23])
def test_random_nesting(seed: int) -> None:
    assert ControlModel(seed).operators & {"If", "Loop"}
    check_random(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 200))
def test_more_random_nesting(seed: int) -> None:
    check_random(seed)


# --- If -------------------------------------------------------------------------------------


def indexing() -> Any:
    """``y`` is row ``k`` of ``x`` if that is below 6, else row ``h``."""
    chosen = {
        f"{name}_branch": branch(node("Gather", ["x", index], ["z"], name), shape=[4])
        for name, index in (("then", "k"), ("else", "h"))
    }
    nodes = [node("Less", ["k", "six"], ["c"]), node("If", ["c"], ["y"], "choice", **chosen)]
    inputs = [declared("x", [6, 4]), count("k"), count("h")]
    return made(nodes, inputs, [declared("y", [4])], [constant("six", 6)])


def test_no_weights_are_loaded_over_a_branch_that_is_still_executed() -> None:
    """Nothing waits for the engines between the branch, two phases on the kernel core and the product."""
    taken = helper.make_graph([node("Abs", ["x"], ["z"], "first")], "branch", [], [declared("z", [33])])
    nodes = [
        node("If", ["c"], ["z"], "choice", then_branch=taken, else_branch=taken),
        node("Gather", ["t", "i"], ["g"], "one"),
        node("Gather", ["x", "i"], ["h"], "two"),
        node("MatMul", ["a", "w"], ["p"], "product"),
    ]
    inputs = [declared("x", [33]), declared("t", [9, 5]), declared("i", [2], TensorProto.INT64)]
    inputs += [declared("a", [3, 505]), truth("c")]
    outputs = [declared("z", [33]), declared("g", [2, 5]), declared("h", [2]), declared("p", [3, 7])]
    x, t, a, w = random_arrays(11, (33,), (9, 5), (3, 505), (505, 7))
    model = made(nodes, inputs, outputs, [constant("w", w)])
    given = {"x": x, "t": t, "i": np.array([3, 8]), "a": a, "c": np.array(True)}
    found = strict(compile_graph(graph_of(model), "fp32", 2, residency="off"), given)
    for name, expected in wanted(model, given).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("k", "h"), [(2, 77), (5, -9), (99, 3)])
def test_the_other_branch_cannot_stop_the_program(k: int, h: int) -> None:
    (x,) = random_arrays(1, (6, 4))
    inputs = {"x": x, "k": np.array(k), "h": np.array(h)}
    found = strict(compile_graph(graph_of(indexing()), "fp32", 4), inputs)
    np.testing.assert_array_equal(found["y"], x[k] if k < 6 else x[h])


def test_the_branch_that_is_taken_can() -> None:
    (x,) = random_arrays(1, (6, 4))
    with pytest.raises(emulator.Fault, match="choice/else_branch/else"):
        tx8.compile(indexing()).run(x=x, k=8, h=9)


def test_the_other_branch_costs_almost_nothing() -> None:
    weights = constant("w", np.eye(256, dtype=np.float32))
    products = [node("MatMul", ["x" if at == 0 else f"p{at}", "w"], [f"p{at + 1}"]) for at in range(6)]
    slow = branch(*products, result="p6", shape=[256, 256])
    fast = branch(node("Neg", ["x"], ["z"]), shape=[256, 256])
    inputs, outputs = [declared("x", [256, 256])], [declared("y", [256, 256])]
    choice = node("If", ["c"], ["y"], then_branch=slow, else_branch=fast)
    program = tx8.compile(made([choice], [*inputs, truth("c")], outputs, [weights]))
    alone = tx8.compile(made([node("Neg", ["x"], ["y"])], inputs, outputs))
    (x,) = random_arrays(2, (256, 256))
    taken, other, least = program.run(x=x, c=True), program.run(x=x, c=False), alone.run(x=x)
    np.testing.assert_allclose(taken["y"], x, **CLOSE)
    np.testing.assert_array_equal(other["y"], -x)
    lines = 2 * load_machine(None).timing.core.line.value  # code may begin within a line, or at its start
    assert other.cycles < least.cycles + 4000 + lines < taken.cycles


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_values_are_in_the_compute_format(dtype: str) -> None:
    chosen = {
        "then_branch": branch(node("MatMul", ["r", "w"], ["z"])),
        "else_branch": branch(node("Neg", ["r"], ["z"])),
    }
    nodes = [node("Relu", ["x"], ["r"]), node("If", ["c"], ["i"], **chosen), node("Add", ["i", "r"], ["y"])]
    weights = constant("w", random_arrays(4, (8, 8))[0])
    model = made(nodes, [declared("x"), truth("c")], [declared("y")], [weights])
    program = compile_graph(graph_of(model), dtype)
    for holds in (True, False):
        inputs = {"x": random_arrays(5, (4, 8))[0], "c": np.array(holds)}
        expected, found = wanted(model, inputs)["y"], strict(program, inputs)["y"]
        np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.05)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
def test_branches_of_single_numbers_have_the_compute_format_too(dtype: str) -> None:
    """Arithmetic of single numbers is in FP32, but operators that execute other graphs are not arithmetic."""
    chosen = {
        "then_branch": branch(node("Neg", ["x"], ["z"]), shape=[1]),
        "else_branch": branch(node("Abs", ["x"], ["z"]), shape=[1]),
    }
    model = made(
        [node("If", ["c"], ["y"], **chosen)], [declared("x", [1]), truth("c")], [declared("y", [1])], []
    )
    program = compile_graph(graph_of(model), dtype)
    for holds in (True, False):
        inputs = {"x": np.array([0.75], np.float32), "c": np.array(holds)}
        assert strict(program, inputs)["y"].tolist() == [-0.75 if holds else 0.75]


# --- Loop and Scan --------------------------------------------------------------------------


def collecting(conditional: bool) -> Any:
    """A loop over floats and a sum of integers that collects both, and truth values."""
    again = node("Less", ["s", "top"], ["go"]) if conditional else node("Identity", ["before"], ["go"])
    nodes = [
        node("Mul", ["a", "w"], ["a2"]),
        node("Add", ["sum", "i"], ["sum2"]),
        node("ReduceSum", ["a2"], ["s"], keepdims=0),
        node("Greater", ["a2", "w"], ["larger"]),
        again,
    ]
    takes = [count("i"), truth("before"), declared("a", [4]), count("sum")]
    gives = [truth("go"), declared("a2", [4]), count("sum2"), declared("a2", [4]), count("sum2")]
    gives.append(declared("larger", [4], TensorProto.BOOL))
    body = helper.make_graph(nodes, "body", takes, gives)
    loop = node(
        "Loop", ["n", "", "x", "zero"], ["last", "total", "rows", "sums", "truths"], "steps", body=body
    )
    inputs = [declared("x", [4]), declared("w", [4]), count("n"), declared("top", [])]
    kinds = {"last": 1, "total": 7, "rows": 1, "sums": 7, "truths": 9}
    outputs = [declared(name, None, kind) for name, kind in kinds.items()]
    return made([loop], inputs[: 3 + conditional], outputs, [constant("zero", 0)])


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("tiles", [1, 16])
def test_collected_results_have_a_row_for_each_step(conditional: bool, tiles: int) -> None:
    model = collecting(conditional)
    program = compile_graph(graph_of(model, steps=10), "fp32", tiles)
    for steps in (0, 1, 3, 10):
        x, w = random_arrays(steps, (4,), (4,))
        inputs = {"x": x, "w": w, "n": np.array(steps), "top": np.array(1.5, np.float32)}
        inputs = {tensor.name: inputs[tensor.name] for tensor in program.graph.inputs}
        expected, found = wanted(model, inputs), strict(program, inputs)
        for name in ("rows", "sums", "truths"):
            assert found[name].shape == expected[name].shape
            np.testing.assert_allclose(found[name], expected[name], **CLOSE)
        np.testing.assert_allclose(found["last"], expected["last"], **CLOSE)
        assert found["total"] == expected["total"]


def test_more_steps_than_the_bound_stop_the_program() -> None:
    program = tx8.compile(collecting(False), bounds={"steps": 3})
    with pytest.raises(
        emulator.Fault, match="ebreak: 4 steps of node 'steps', or more; --bound steps=3 allows at most 3"
    ):
        program.run(x=np.ones(4), w=np.ones(4), n=4)


SCANS: list[dict[str, list[int]]] = [
    {},
    {"scan_output_directions": [1], "scan_input_directions": [1]},
    {"scan_input_axes": [1], "scan_output_axes": [-1]},
]


@pytest.mark.parametrize("more", SCANS)
def test_a_long_scan_is_a_loop(more: dict[str, list[int]]) -> None:
    body = helper.make_graph(
        [node("Add", ["s", "row"], ["s2"]), node("Tanh", ["s2"], ["t"])],
        "body",
        [declared("s", [8]), declared("row", [8])],
        [declared("s2", [8]), declared("t", [8])],
    )
    shape = [8, 1001] if "scan_input_axes" in more else [1001, 8]
    scan = node("Scan", ["z", "x"], ["last", "y"], "scan", num_scan_inputs=1, body=body, **more)
    outputs = [declared("last", [8]), declared("y", None)]
    model = made([scan], [declared("x", shape)], outputs, [constant("z", np.zeros(8, np.float32))])
    graph = graph_of(model)
    assert [each.op for each in graph.nodes if each.bodies] == ["Loop"]
    inputs = {"x": random_arrays(6, tuple(shape))[0] / 10}
    expected, found = wanted(model, inputs), strict(compile_graph(graph, "fp32", 4), inputs)
    for name in ("last", "y"):
        assert found[name].shape == expected[name].shape
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-4)


def test_a_loop_in_a_session_keeps_its_state() -> None:
    body = helper.make_graph(
        [node("Add", ["a", "x"], ["b"])],
        "body",
        [count("i"), truth("go"), declared("a")],
        [truth("go"), declared("b")],
    )
    nodes = [node("Loop", ["n", "", "past"], ["present"], "loop", body=body)]
    model = made(nodes, [declared("past"), declared("x"), count("n")], [declared("present")])
    with tx8.Session(tx8.compile(model, state={"past": "present"}), threads=2) as session:
        for steps in (2, 0, 3):
            session.run(x=np.ones((4, 8)), n=steps)
        assert (session.state["past"] == 5).all()


# --- what is refused ------------------------------------------------------------------------


def uneven() -> Any:
    chosen = {
        "then_branch": branch(node("Relu", ["x"], ["z"])),
        "else_branch": branch(node("Concat", ["x", "x"], ["z"], axis=0)),
    }
    return made(
        [node("If", ["c"], ["y"], "choice", **chosen)], [declared("x"), truth("c")], [declared("y", None)]
    )


def growing() -> Any:
    body = helper.make_graph(
        [node("Concat", ["a", "a"], ["b"], axis=0)],
        "body",
        [count("i"), truth("go"), declared("a", None)],
        [truth("go"), declared("b", None)],
    )
    return made(
        [node("Loop", ["n", "", "x"], ["y"], "loop", body=body)],
        [declared("x"), count("n")],
        [declared("y", None)],
    )


def carried_rows() -> Any:
    model = collecting(False)
    inputs, outputs = [count("i"), truth("go"), declared("a", None)], [truth("go"), declared("b", None)]
    again = helper.make_graph([node("Relu", ["a"], ["b"])], "body", inputs, outputs)
    model.graph.node.append(node("Loop", ["n", "", "rows"], ["more"], "again", body=again))
    model.graph.output.append(declared("more", None))
    return model


REFUSED: dict[str, tuple[Any, dict[str, int], str]] = {
    "another shape": (
        uneven,
        {},
        "If (node 'choice'): Both branches must give results of the same types and shapes; "
        "found 4 and 8 for axis 0 of result 0",
    ),
    "a value that grows": (
        growing,
        {},
        "Loop (node 'loop'): Values that a loop carries must have the same type and shape after each step; "
        "found float32 [4, 8] before and float32 [8, 8] after for 'x'",
    ),
    "no bound": (
        lambda: collecting(False),
        {},
        "nothing bounds their number: --bound steps=STEPS (in Python: bounds=)",
    ),
    "a bound of no loop": (
        lambda: collecting(False),
        {"step": 4},
        "a bound is given for 'step', which is not a Loop and has no result of data-dependent size; "
        "nodes that can have one: steps; did you mean 'steps'?",
    ),
    "rows that another loop carries": (
        carried_rows,
        {"steps": 4},
        "Loop (node 'again'): its operand 'rows' has a size that data decides; branches and loops of",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    model, bounds, message = REFUSED[what]
    with pytest.raises(GraphError) as refused:
        graph_of(model(), **bounds)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_constant_inside_cannot_be_replaced() -> None:
    chosen = {
        "then_branch": branch(node("Add", ["x", "b"], ["z"])),
        "else_branch": branch(node("Neg", ["x"], ["z"])),
    }
    model = made(
        [node("If", ["c"], ["y"], "choice", **chosen)],
        [declared("x"), truth("c")],
        [declared("y")],
        [constant("b", np.float32(1))],
    )
    with pytest.raises(
        GraphError, match=r"'b' cannot be replaced: node 'choice' \(If\) computes with its value"
    ):
        tx8.compile(model, replaceable=["b"])


def test_programs_are_cached_by_what_their_branches_compute() -> None:
    graphs = []
    for number in (1, 2):
        chosen = {
            "then_branch": branch(node("Add", ["x", "b"], ["z"])),
            "else_branch": branch(node("Neg", ["x"], ["z"])),
        }
        choice = node("If", ["c"], ["y"], "choice", **chosen)
        known = [constant("b", np.float32(number))]
        graphs.append(graph_of(made([choice], [declared("x"), truth("c")], [declared("y")], known)))
    one, other = (program_key(graph, load_machine(), {}) for graph in graphs)
    assert one != other


# --- tools ----------------------------------------------------------------------------------


def test_what_runs_inside_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    products = branch(node("MatMul", ["x", "w"], ["z"]))
    choice = node("If", ["c"], ["y"], then_branch=products, else_branch=branch(node("Neg", ["x"], ["z"])))
    known = [constant("w", np.eye(8, dtype=np.float32))]
    path = saved(made([choice], [declared("x"), truth("c")], [declared("y")], known), tmp_path)
    assert main([str(path), "--check"]) == 0
    assert "If            1  matrix and vector engines" in capsys.readouterr().out


def test_a_plan_has_the_decisions_inside(tmp_path: Path) -> None:
    path = saved(ControlModel(7).proto, tmp_path)
    plan, report, texts = tmp_path / "plan.json", tmp_path / "report.json", []
    for at, options in enumerate(
        (["--save-plan", str(plan), "--report", str(report)], ["--plan", str(plan)])
    ):
        folder = tmp_path / str(at)
        assert main([str(path), "-q", "--tiles", "4", "-o", str(folder), *options]) == 0
        texts.append((folder / "prog.s").read_text())
    assert texts[0] == texts[1]
    phases = json.loads(report.read_text())["phases"]
    assert len({phase["name"] for phase in phases}) == len(phases)
    assert "control" in {phase["tag"] for phase in phases}
    assert any("/body/" in phase["name"] for phase in phases)


def test_textual_ir_runs_through_and_is_not_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, text = saved(indexing(), tmp_path), tmp_path / "text.mlir"
    assert opt.main([str(path), "--pipeline"]) == 0
    assert '"tx8be.if"' in capsys.readouterr().out
    assert opt.main([str(path), "--until", "cast", "-o", str(text)]) == 0
    assert opt.main([str(text), "--pipeline"]) == 1
    assert "the constants of graphs in if and loop are not in the text" in capsys.readouterr().err


def test_several_chips_refuse_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(indexing(), tmp_path)
    assert main([str(path), "--chips", "2x1", "--parallel", "dp=2"]) == 1
    message = "--parallel: node 'choice' (If) is decided by the program, which is for one chip"
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_loop_carries_the_result_of_a_loop_in_it(steps: int) -> None:
    """The inner loop keeps its value in separate memory, not in that of the outer one."""
    inner = helper.make_graph(
        [node("Neg", ["u"], ["v"])],
        "inner",
        [count("j"), truth("h"), declared("u")],
        [truth("h"), declared("v")],
    )
    body = helper.make_graph(
        [node("Loop", ["n", "", "x"], ["w"], body=inner)],
        "body",
        [count("i"), truth("g"), declared("a")],
        [truth("g"), declared("w")],
    )
    nodes = [node("Loop", ["n", "", "y"], ["z"], body=body)]
    model = made(nodes, [declared("x"), declared("y"), count("n")], [declared("z")])
    x, y = random_arrays(steps, (4, 8), (4, 8))
    inputs = {"x": x, "y": y, "n": np.array(steps)}
    found = strict(compile_graph(graph_of(model), "fp32", 4), inputs)
    np.testing.assert_array_equal(found["z"], wanted(model, inputs)["z"])
