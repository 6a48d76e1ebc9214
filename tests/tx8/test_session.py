"""tx8.Session: compiled programs with states, step by step, compared with a loop on the host."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import tx8

HEADS, ROOM, WIDE = 2, 8, 32


def decoder() -> ModelProto:
    """Attention of one query over a cache with rows up to ``at``; its own row is written first."""
    shape = [1, HEADS, ROOM, WIDE]
    kinds = {"q": [1, HEADS, 1, WIDE], "k": [1, HEADS, 1, WIDE], "v": [1, HEADS, 1, WIDE]}
    kinds |= {"keys": shape, "values": shape, "new_keys": shape, "new_values": shape, "y": kinds["q"]}
    made = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, kind) for name, kind in kinds.items()
    }
    at = helper.make_tensor_value_info("at", TensorProto.INT64, [1])
    mask = helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1, 1, 1, ROOM])
    nodes = [
        helper.make_node("TensorScatter", ["keys", "k", "at"], ["new_keys"], "put_k", axis=2),
        helper.make_node("TensorScatter", ["values", "v", "at"], ["new_values"], "put_v", axis=2),
        helper.make_node("Attention", ["q", "new_keys", "new_values", "mask"], ["y"], "attend"),
    ]
    inputs = [*(made[name] for name in ("q", "k", "v", "keys", "values")), at, mask]
    outputs = [made[name] for name in ("y", "new_keys", "new_values")]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])


STATES = {"keys": "new_keys", "values": "new_values"}


def token(number: int) -> dict[str, np.ndarray]:
    """The inputs of a step that are not states."""
    generator = np.random.default_rng(number)
    rows = {name: generator.standard_normal((1, HEADS, 1, WIDE)).astype(np.float32) for name in "qkv"}
    mask = np.where(np.arange(ROOM) <= number, 0, -10000).astype(np.float32).reshape(1, 1, 1, ROOM)
    return {**rows, "at": np.array([number]), "mask": mask}


def attended(steps: list[dict[str, np.ndarray]]) -> np.ndarray:
    """Compute the last of some steps in binary64, by the definition of attention."""
    q = steps[-1]["q"][0, :, 0].astype(np.float64)
    k, v = (np.stack([step[name][0, :, 0] for step in steps], 1).astype(np.float64) for name in "kv")
    scores = np.exp(np.einsum("hd,htd->ht", q, k) / np.sqrt(WIDE))
    return np.einsum("ht,htd->hd", scores / scores.sum(1, keepdims=True), v)


@pytest.mark.parametrize("dtype, tolerance", [("fp32", 1e-5), ("fp16", 1e-2), ("bf16", 6e-2)])
def test_a_decoder_keeps_its_cache(dtype: str, tolerance: float) -> None:
    program = tx8.compile(decoder(), dtype=dtype, state=STATES)
    assert program.compiled is not None
    assert all("writes new elements" in line for line in program.compiled.states)
    plain, session = tx8.compile(decoder(), dtype=dtype), tx8.Session(program, threads=2)
    past = {name: np.zeros((1, HEADS, ROOM, WIDE), np.float32) for name in STATES}
    steps = []
    for number in range(ROOM):
        steps.append(token(number))
        found = session.run(steps[-1])
        once = plain.run({**steps[-1], **past}, timed=False)
        past = {name: once[STATES[name]] for name in STATES}
        assert found["y"].tobytes() == once["y"].tobytes()
        assert np.abs(found["y"][0, :, 0] - attended(steps)).max() < tolerance
    assert {name: array.tobytes() for name, array in session.state.items()} == {
        name: array.tobytes() for name, array in past.items()
    }


def test_saved_steps_go_on_elsewhere(tmp_path: Path) -> None:
    program = tx8.compile(decoder(), dtype="fp16", state=STATES)
    with tx8.Session(program) as one:
        for number in range(3):
            one.run(token(number))
        one.save(tmp_path / "three")
        wanted = one.run(token(3))["y"]
    other = tx8.Session(tx8.load(program.save(tmp_path / "net")))
    other.load(tmp_path / "three")
    np.testing.assert_array_equal(other.run(token(3))["y"], wanted)
    assert repr(other) == "<tx8.Session of prog: step 4>"


def counter() -> tx8.Program:
    graph = tx8.GraphBuilder("counter")
    past, x = graph.input("past", "float32", (16,)), graph.input("x", "float32", (16,))
    graph.output(past + x, "present")
    graph.output(graph.Neg(past), "y")
    return tx8.compile(graph, state={"past": "present"})


def test_inputs_are_converted_and_found_by_position() -> None:
    session = tx8.Session(counter(), state={"past": [1] * 16})
    assert session.run([2] * 16)["y"].tolist() == [-1] * 16
    assert session.run(x=np.full(16, 2.0))["y"].tolist() == [-3] * 16
    assert session.run({"x": [0] * 16})["y"].tolist() == [-5] * 16
    assert session.submit([1] * 16).result()["y"].tolist() == [-5] * 16
    session.reset()
    assert session.state["past"].tolist() == [1] * 16
    session.set_state(past=[7] * 16)
    x, y = np.zeros(16, np.float32), np.zeros(16, np.float32)
    session.bind(x=x, y=y)
    session.run()
    assert y.tolist() == [-7] * 16


def test_cycles_are_those_of_the_last_step() -> None:
    program = counter()
    session = tx8.Session(program, timed=True)
    session.run([1] * 16)
    assert session.cycles == int(program.run(past=[0] * 16, x=[1] * 16).cycles), "whole cycles"
    assert tx8.Session(program).cycles is None


def test_a_program_says_what_its_states_are() -> None:
    program = counter()
    assert program.states == (("past", "present"),)
    assert tx8.compile(decoder()).states == ()


@pytest.mark.parametrize(
    "given, named, message",
    [
        ([[0] * 16, [0] * 16], {}, "2 inputs given; a step has 1: x"),
        ([[0] * 16], {"x": [0] * 16}, "input 'x' is given twice, by position and by name"),
        ([], {"past": [0] * 16}, "input 'past' is a state, which the session keeps: set it with set_state"),
        ([], {"w": [0] * 16}, "the program has no input 'w'; known: x"),
        ([], {}, "input 'x' is missing: bind it, or give it to the step"),
        ([[0] * 8], {}, "input 'x' is 8 float32, expected 16 float32"),
    ],
)
def test_wrong_inputs_are_refused(given: list[object], named: dict[str, object], message: str) -> None:
    with pytest.raises(tx8.Error) as caught:
        tx8.Session(counter()).run(*given, **named)
    assert message in str(caught.value)


def test_a_session_is_one_of_a_program() -> None:
    with pytest.raises(tx8.Error, match=r"a session is one of a tx8\.Program, not of str"):
        tx8.Session("prog.bin")  # type: ignore[arg-type]


ADDS = """
        .input  past, fp32, 16
        .output present, fp32, 16
_start: li      a0, 0
        li      a7, 93
        ecall
"""


@pytest.mark.parametrize("name", ["prog.bin", "linked"])
@pytest.mark.parametrize("what", ["save", "report", "trace"])
def test_the_program_is_not_replaced(what: str, name: str, tmp_path: Path) -> None:
    """Neither by the states of its session nor by reports of a run."""
    program = tx8.load(tx8.assemble(ADDS).save(tmp_path))
    (tmp_path / "linked").symlink_to("prog.bin")
    before = (tmp_path / "prog.bin").read_bytes()
    with tx8.Session(program) as session, pytest.raises(tx8.Error) as refused:
        (session.save if what == "save" else getattr(program.run(past=np.zeros(16)), what))(tmp_path / name)
    role = "the saved states" if what == "save" else f"the {what}"
    assert str(refused.value) == f"{tmp_path / name}: {role} would replace the program; name another file"
    assert (tmp_path / "prog.bin").read_bytes() == before


def test_the_source_of_a_program_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "adds.s").write_text(ADDS)
    run = tx8.assemble_file(tmp_path / "adds.s").run(past=np.zeros(16))
    with pytest.raises(tx8.Error, match=r"adds\.s: the trace would replace the program"):
        run.trace(tmp_path / "adds.s")
    assert (tmp_path / "adds.s").read_text() == ADDS


def test_states_are_saved_again_under_one_name(tmp_path: Path) -> None:
    """A session may save its states to the same file again."""
    program = tx8.load(tx8.assemble(ADDS).save(tmp_path))
    with tx8.Session(program) as session:
        for _ in range(2):
            session.save(tmp_path / "states")
            session.load(tmp_path / "states")
    program.save(tmp_path)
