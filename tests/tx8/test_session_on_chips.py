"""Sessions on several chips: the same as on one, with undivided arrays; and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import emulator
import tx8
from chip_nets import CACHES, decoder
from compiler.driver import compile_graph
from compiler.graph import Array, Graph
from compiler.search.chips import parsed_degrees
from emulator.cli.command import main
from emulator.session import ProgramSession, SessionError
from example_modules import example_modules
from mpi_tools import emulate, needs_mpi
from paths import ROOT
from tx8.program import Program
from tx8isa.machine.description import load_machine


def on_chips(made: Graph, mesh: tuple[int, int], degrees: str, dtype: str = "fp16") -> Program:
    machine = load_machine(None).of_chips(*mesh)
    found = compile_graph(made, dtype, machine=machine, parallel=parsed_degrees(degrees), search="off")
    assert found.spread is not None
    return Program(found.image, machine, "decoder", found)


def on_one(made: Graph, dtype: str = "fp16") -> Program:
    found = compile_graph(made, dtype, search="off")
    return Program(found.image, found.machine, "decoder", found)


def steps(batch: int, count: int = 3) -> list[dict[str, Array]]:
    random = np.random.default_rng(4)
    rows = random.standard_normal((count, batch, 1, 64)).astype(np.float32)
    return [{"x": row, "at": np.full(batch, at)} for at, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("mesh", "degrees", "batch"),
    [
        ((2, 1), "tp=2", 1),
        ((2, 1), "pp=2", 1),
        pytest.param((2, 1), "pp=2", 2, marks=pytest.mark.long),
        pytest.param((2, 2), "tp=2,pp=2", 1, marks=pytest.mark.long),
        pytest.param((2, 2), "dp=2,pp=2", 2, marks=pytest.mark.long),
        pytest.param((2, 1), "dp=2", 2, marks=pytest.mark.long),
        pytest.param((2, 2), "tp=4", 1, marks=pytest.mark.long),
        pytest.param((2, 2), "dp=2,tp=2", 2, marks=pytest.mark.long),
    ],
)
def test_a_session_is_that_of_a_single_chip(mesh: tuple[int, int], degrees: str, batch: int) -> None:
    made = decoder(batch=batch)
    several, one = on_chips(made, mesh, degrees), on_one(made)
    with tx8.Session(several, timed=True) as chips, tx8.Session(one) as alone:
        for step in steps(batch):
            found, wanted = chips.run(step), alone.run(step)
            assert list(found) == ["y"]
            np.testing.assert_allclose(found["y"], wanted["y"], rtol=0.02, atol=0.05)
        assert chips.cycles
        assert chips.steps == 3
        assert {name: array.shape for name, array in chips.state.items()} == dict.fromkeys(
            CACHES, (batch, 2, 16, 16)
        )
        for name, cache in alone.state.items():
            assert cache[:, :, 2].any()
            np.testing.assert_allclose(chips.state[name], cache, rtol=0.02, atol=0.02)


@pytest.fixture(scope="module")
def program() -> Program:
    return on_chips(decoder(), (2, 1), "tp=2")


def test_states_are_set_kept_and_saved_whole(program: Program, tmp_path: Path) -> None:
    keys = np.random.default_rng(1).standard_normal((1, 2, 16, 16)).astype(np.float16).astype(np.float32)
    first, second, *_ = steps(1)
    with tx8.Session(program, state={"keys": keys}) as session:
        assert np.array_equal(session.state["keys"], keys)
        y = np.empty((1, 1, 64), np.float32)
        session.bind(x=first["x"], y=y)
        assert session.run(at=[3])["y"] is y
        assert session.submit(x=second["x"], at=[4]).result()["y"] is y
        after = session.state
        assert np.array_equal(after["keys"][:, :, 5:], keys[:, :, 5:])
        assert (after["keys"][:, :, 3:5] != keys[:, :, 3:5]).any()
        session.save(tmp_path / "states")
        session.reset()
        assert np.array_equal(session.state["keys"], keys)
        assert not session.state["values"].any()
    with tx8.Session(program) as other:
        other.load(tmp_path / "states")
        assert all(np.array_equal(other.state[name], after[name]) for name in CACHES)
        assert other.steps == 2


def test_a_step_that_fails_changes_no_chip(program: Program) -> None:
    with tx8.Session(program) as session:
        session.set_state(keys=np.ones((1, 2, 16, 16)))
        with pytest.raises(emulator.Fault, match="chip 0"):
            session.run(steps(1)[0] | {"at": np.array([16])})  # this place does not exist
        assert (session.state["keys"] == 1).all()
        assert session.steps == 0


def test_chips_have_names_of_their_own_in_the_emulator(program: Program) -> None:
    with ProgramSession(program.emulated) as session:
        assert set(session.states) == {f"chip{chip}.{name}" for chip in (0, 1) for name in CACHES}
        session.set_state({"keys": np.ones((1, 1, 16, 16), np.float32)})
        session.set_state({"chip1.keys": np.zeros((1, 1, 16, 16), np.float32)})
        assert session.state["chip0.keys"].all()
        assert not session.state["chip1.keys"].any()
        step = steps(1)[0]
        found = session.run({"x": step["x"], "chip0.at": step["at"], "chip1.at": step["at"]})
        assert np.array_equal(found["chip0.y"], found["chip1.y"])
        with pytest.raises(SessionError, match=r"every chip has an output 'y': bind chip0.y or another"):
            session.bind({"y": found["chip0.y"]})
        with pytest.raises(
            SessionError, match=r"the program has no input or output 'chip2.x'; inputs of every"
        ):
            session.run({"chip2.x": step["x"]})
        with pytest.raises(SessionError, match="input 'at' is missing: bind it, or give it to the step"):
            session.run({"x": step["x"]})


def test_what_a_session_on_chips_cannot_do_is_refused(program: Program) -> None:
    step = steps(1)[0]
    with tx8.Session(program) as session:
        for message, call in [
            ("the program has no input 'z'; known: x, at", lambda: session.run(z=step["x"])),
            ("input 'keys' is a state, which the session keeps", lambda: session.run(keys=step["x"], at=[0])),
            ("input 'x' is 64 float32, expected 1x1x64 float32", lambda: session.run(x=step["x"][0, 0])),
            ("the program has no state 'kys'", lambda: session.set_state(kys=step["x"])),
            ("the program has no input or output 'new_keys'", lambda: session.bind(new_keys=step["x"])),
            ("the program has no constant 'o'; known: chip0.", lambda: session.replace(o=step["x"])),
            ("'x' is bound to list; expected a NumPy array", lambda: session.bind({"x": [1]})),
        ]:
            with pytest.raises(tx8.Error) as error:
                call()
            assert str(error.value).startswith(message)
    with pytest.raises(tx8.Error, match="input 'keys' is missing; the program's inputs: keys, values, x, at"):
        program.run(step)  # states are inputs of a run


def test_programs_of_several_sizes_or_of_bytes_are_refused_on_chips() -> None:
    graph = tx8.GraphBuilder("product")
    graph.output(graph.input("x", "float32", (8, 32)) @ np.ones((32, 32), np.float32), "y")
    samples = {"x": np.ones((2, 8, 32), np.float32)}
    with pytest.raises(tx8.Error, match="programs for several chips have one size and a format of floats"):
        tx8.compile(graph, dtype="int8", calibrate=samples, parallel="tp=2")


def test_a_session_from_a_shell(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program.save("prog")
    each = steps(1)
    for name in ("x", "at"):
        np.save(f"{name}.npy", np.stack([step[name] for step in each]))
    script = [
        {"run": {"each": {"x": "x.npy", "at": "at.npy"}, "outputs": {"chip1.y": "y.npy"}}},
        {"write": {"chip0.keys": "keys.npy"}},
    ]
    Path("steps.json").write_text(json.dumps({"steps": script}))
    assert main(["prog/prog.bin", "--session", "steps.json", "-q"]) == 0
    with tx8.Session(program) as session:
        wanted = [session.run(step)["y"] for step in each]
        assert np.array_equal(np.load("y.npy"), np.stack(wanted))
        assert np.array_equal(np.load("keys.npy"), session.state["keys"][:, :1])


@pytest.mark.long
@needs_mpi
def test_two_ranks_run_a_step_with_the_same_bytes_and_no_session(program: Program, tmp_path: Path) -> None:
    program.save(tmp_path)
    run = ["prog.bin", "--random", "0", "-q"]
    done = [emulate(ranks, *run, "--output-dir", f"out{ranks}", folder=tmp_path) for ranks in (1, 2)]
    assert [(each.returncode, each.stderr) for each in done] == [(0, "")] * 2
    for path in (tmp_path / "out1").iterdir():
        assert path.read_bytes() == (tmp_path / "out2" / path.name).read_bytes()
    (tmp_path / "steps.json").write_text('{"steps": []}')
    refused = emulate(2, "prog.bin", "--session", "steps.json", folder=tmp_path)
    assert refused.returncode == 1
    assert "--session runs in one process, also on several chips" in refused.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("mesh", "degrees"), [((2, 1), None), ((2, 2), None), ((2, 1), "pp=2"), ((2, 2), "tp=2,pp=2")]
)
def test_the_writer_writes_the_same_text(mesh: tuple[int, int], degrees: str | None) -> None:
    names = ("shape", "text", "network", "writer")
    with example_modules(ROOT / "examples" / "writer", names) as found:
        program = found.writer.compiled("fp16", chips=mesh, parallel=degrees)
        with found.writer.Writer(program) as chips:
            assert chips.answer("three times zero is") == "zero."
            assert chips.answer("nine minus sixty-eight is") == "minus fifty-nine."
            assert chips.session.state["keys0"].shape == (1, 2, 128, 32)
