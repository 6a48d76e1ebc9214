"""Programs whose outputs have data-dependent sizes: bounds, sessions, command lines, reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import emulator
import tx8
from compiler.cli import main
from compiler.driver import compile_entries, compile_graph
from compiler.evaluation.states import with_states
from compiler.graph import GraphError
from control_models import count, declared, node, truth
from emulator.cli import main as emulate
from found_models import (
    BOOL,
    FLOAT,
    INT64,
    boxes_and_scores,
    check_found,
    compiled,
    found_graph,
    sparse,
    suppression,
    with_outputs,
)
from onnx_models import saved


def places() -> Any:
    nodes = [
        node("NonZero", ["x"], ["n"], "nz"),
        node("Transpose", ["n"], ["/out/t"]),
        node("GatherND", ["x", "/out/t"], ["y"]),
    ]
    return with_outputs(nodes, [declared("x", [4, 8])], {"y": FLOAT, "/out/t": INT64})


def test_a_bound_makes_room_for_less() -> None:
    empty, some, full = sparse(1, 4, 8)
    program = check_found(places(), [{"x": empty}, {"x": some}], nz=20)
    assert {buffer.shape for buffer in program.image.buffers if buffer.kind == "output"} == {(20,), (20, 2)}
    with pytest.raises(emulator.Fault) as stopped:
        compiled(places(), bounds={"nz": 20}).run(full)
    text = str(stopped.value)
    assert text.startswith("tile 0 at ") and "node 'nz/" in text
    assert text.endswith("ebreak: 32 found by node 'nz'; --bound nz=20 allows at most 20")


def test_a_bound_of_boxes() -> None:
    known = {"most": np.array([9])}
    inputs, given = suppression((1, 2, 20), **known)
    model = with_outputs([given], inputs, {"found": INT64}, known)
    with pytest.raises(emulator.Fault, match="found by node 'nms'; --bound nms=2 allows at most 2"):
        compiled(model, bounds={"nms": 2}).run(**boxes_and_scores(1, 1, 2, 20))


@pytest.mark.parametrize("k", [10, -1])
def test_a_k_beyond_the_axis_stops(k: int) -> None:
    nodes = [node("TopK", ["x", "k"], ["v", "i"], "top")]
    model = with_outputs(nodes, [declared("x", [3, 9]), declared("k", [1], INT64)], {"v": FLOAT})
    with pytest.raises(emulator.Fault, match=f"ebreak: {k} is the k of node 'top'; its axis has 9"):
        compiled(model).run(x=np.zeros((3, 9), np.float32), k=np.array([k]))


def test_an_index_behind_what_was_found_stops() -> None:
    nodes = [node("NonZero", ["v"], ["m"], "nz"), node("Gather", ["m", "k"], ["y"], "pick", axis=1)]
    model = with_outputs(nodes, [declared("v", [6]), declared("k", [1], INT64)], {"y": INT64})
    program, v = compiled(model), np.float32([0, 5, 0, 7, 0, 0])
    assert program.run(v=v, k=np.array([-1]))["y"].tolist() == [[3]]
    with pytest.raises(emulator.Fault, match="node 'pick'"):
        program.run(v=v, k=np.array([2]))


def test_sessions_give_arrays_of_the_size_of_each_step() -> None:
    program = compiled(places(), bounds={"nz": 20})
    empty, some, full = sparse(2, 4, 8)
    with tx8.Session(program, threads=2) as session:
        for x in (some, empty, some):
            assert session.run(x)["y"].tolist() == x[x != 0].tolist()
        with pytest.raises(emulator.Fault):
            session.run(full)
        assert session.run(some)["y"].size == np.count_nonzero(some)
    assert "(y: float32 <=20, /out/t: int64 <=20x2)" in repr(program)


@pytest.mark.long
def test_the_size_is_the_same_for_threads_and_tiles() -> None:
    (_, x, _) = sparse(3, 4, 8)
    results = [tx8.compile(places(), tiles=tiles).run(x, threads=t) for tiles in (1, 3, 16) for t in (1, 2)]
    for found in results[1:]:
        assert all((found[name] == results[0][name]).all() for name in ("y", "/out/t"))


def test_command_lines_give_arrays_of_true_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = saved(places(), tmp_path)
    (_, x, full) = sparse(4, 4, 8)
    np.save("x.npy", x)
    np.save("full.npy", full)
    assert (
        main([str(file), "--run", "--tiles", "2", "--input", "x=x.npy", "--bound", "nz=31", "-o", "p"]) == 0
    )
    found = np.count_nonzero(x)
    assert f"y       {found} " in capsys.readouterr().out
    assert emulate(["p/prog.bin", "--input", "x=x.npy", "--output-dir", "out"]) == 0
    assert np.load("out/y.npy").shape == (found,) and np.load("out/_out_t.npy").shape == (found, 2)
    assert emulate(["p/prog.bin", "--input", "x=full.npy", "--output-dir", "more"]) == 3
    assert "32 found by node 'nz'; --bound nz=31 allows at most 31" in capsys.readouterr().err
    assert not list(Path("more").glob("*"))


def test_rows_of_a_loop_are_read_like_others() -> None:
    body = helper.make_graph(
        [node("Add", ["a", "x"], ["b"])],
        "body",
        [count("i"), truth("go"), declared("a", [3])],
        [truth("go"), declared("b", [3]), declared("b", [3])],
    )
    nodes = [
        node("Loop", ["n", "", "x"], ["last", "rows"], "loop", body=body),
        node("Relu", ["rows"], ["positive"]),
        node("ReduceSum", ["positive", "axes"], ["y"], keepdims=0),
        node("Shape", ["rows"], ["shape"]),
    ]
    outputs = {"last": FLOAT, "positive": FLOAT, "y": FLOAT, "shape": INT64}
    model = with_outputs(nodes, [declared("x", [3]), count("n")], outputs, {"axes": [0]})
    x = np.float32([1, -2, 0.5])
    check_found(model, [{"x": x, "n": np.array(n)} for n in (0, 1, 6)], loop=6)


def test_places_found_in_a_branch_stay_there() -> None:
    inside = [
        node("NonZero", ["x"], ["n"], "nz"),
        node("Transpose", ["n"], ["t"]),
        node("GatherND", ["x", "t"], ["g"]),
        node("ReduceSum", ["g"], ["z"], keepdims=0),
    ]
    chosen = helper.make_graph(inside, "then", [], [declared("z", [])])
    other = helper.make_graph([node("ReduceMax", ["x"], ["z"], keepdims=0)], "else", [], [declared("z", [])])
    nodes = [node("If", ["c"], ["y"], "choice", then_branch=chosen, else_branch=other)]
    model = with_outputs(nodes, [declared("x", [4, 8]), truth("c")], {"y": FLOAT})
    runs = [{"x": x, "c": np.array(c)} for x in sparse(5, 4, 8) for c in (True, False)]
    check_found(model, runs)


# --- refused where a program has no such outputs ------------------------------------------------------------


def test_refused_beside_ranges_entries_and_states() -> None:
    ranged = places()
    ranged.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    with pytest.raises(GraphError, match="data decides the size of output 'y': such a program runs no range"):
        tx8.compile(ranged, dims={"rows": (1, 4, 9)})
    graph = found_graph(places())
    with pytest.raises(
        GraphError, match="entry a: data decides the size of output 'y', which a program of one"
    ):
        compile_entries({"a": graph})
    nodes = [node("Compress", ["x", "c"], ["y"], "few", axis=0)]
    model = with_outputs(nodes, [declared("x", [4]), declared("c", [4], BOOL)], {"y": FLOAT})
    with pytest.raises(
        GraphError, match="state x=y: data decides the size of output 'y'; a state has the same"
    ):
        with_states(found_graph(model), {"x": "y"})


def test_refused_on_several_chips() -> None:
    from compiler.search.chips import Degrees
    from tx8isa.machine.description import load_machine

    machine = load_machine(None).of_chips(2, 1)
    with pytest.raises(GraphError, match="data decides the size of output 'y', which is for one chip"):
        compile_graph(found_graph(places()), machine=machine, parallel=Degrees(dp=1, tp=2))
