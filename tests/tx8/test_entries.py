"""Several networks in one program: one memory for their states, one copy of constants, each runs by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compiler.cli
import tx8
from emulator.cli.command import main
from tx8.program import Program

ROOM, WIDTH = 8, 32
RNG = np.random.default_rng(5)
WEIGHT = RNG.integers(-2, 3, (WIDTH, WIDTH)).astype(np.float32)
"""Small integers: their sums are exact in every format."""


def network(rows: int, room: int = ROOM, name: str = "table") -> tx8.GraphBuilder:
    """Writes rows times the weight into a table, and returns the sum of its rows."""
    graph = tx8.GraphBuilder(f"rows{rows}")
    table, at = graph.input(name, "float32", (room, WIDTH)), graph.input("at", "int64", (rows, 1))
    new = graph.ScatterND(table, at, graph.input("row", "float32", (rows, WIDTH)) @ WEIGHT)
    graph.output(new, "new")
    graph.output(graph.ReduceSum(new, np.array([0]), keepdims=0), "sum")
    return graph


@pytest.fixture(scope="module")
def program() -> Program:
    models = {"block": network(3), "step": network(1)}
    return tx8.compile_entries(models, dtype="fp16", tiles=4, state={"table": "new"})


def rows(count: int, seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-3, 4, (count, WIDTH)).astype(np.float32)


@pytest.fixture(scope="module")
def on_chips() -> Program:
    """The same on two chips, each with half of the columns."""
    models, state = {"block": network(3), "step": network(1)}, {"table": "new"}
    return tx8.compile_entries(models, dtype="fp16", tiles=4, state=state, chips=(2, 1), parallel="tp=2")


@pytest.mark.parametrize("threads", [1, 2])
def test_what_one_entry_leaves_in_a_state_another_one_finds(program: Program, threads: int) -> None:
    steps_are_right(program, threads)


def test_entries_on_several_chips(on_chips: Program) -> None:
    assert on_chips.spreads is not None
    local = on_chips.spreads["step"].graph_of((0, 1))
    assert local.tensors["table"].shape == local.tensors["new"].shape == (ROOM, WIDTH // 2)
    steps_are_right(on_chips, 1)


@pytest.fixture(scope="module")
def staged() -> Program:
    """The same on two chips; only one has the table."""
    models, state = {"block": network(3), "step": network(1)}, {"table": "new"}
    return tx8.compile_entries(models, dtype="fp16", tiles=4, state=state, chips=(2, 1), parallel="pp=2")


def test_entries_as_stages_of_a_pipeline(staged: Program) -> None:
    assert staged.spreads is not None
    stages = [staged.spreads["step"].stage_graph((0, stage)) for stage in range(2)]
    assert sorted(each.states for each in stages) == [(), (("table", "new"),)]
    assert [buffer.name for buffer in staged.entry("block").inputs] == ["table", "at", "row"]
    assert [buffer.name for buffer in staged.entry("block").outputs] == ["new", "sum"]
    steps_are_right(staged, 1)


def test_stages_of_entries_keep_their_states_in_files(staged: Program, tmp_path: Path) -> None:
    loaded = tx8.load(staged.save(tmp_path))
    assert loaded.entries == ("block", "step")
    assert staged.spreads is not None
    graphs = [staged.spreads["step"].stage_graph((0, stage)) for stage in range(2)]
    owner = next(stage for stage, graph in enumerate(graphs) if graph.states)
    with tx8.Session(loaded) as session:
        session.run({"at": [[4]], "row": rows(1, 3)}, entry="step")
        assert (session.state[f"chip{owner}.table"][4] == rows(1, 3)[0] @ WEIGHT).all()
        assert not session.state[f"chip{1 - owner}.table"].any()


def steps_are_right(program: Program, threads: int) -> None:
    """Assert that steps of both entries write the exact results."""
    table = np.zeros((ROOM, WIDTH), np.float32)
    with tx8.Session(program, threads=threads, timed=True) as session:
        for number, (entry, places) in enumerate([("block", [1, 2, 3]), ("step", [5]), ("block", [5, 6, 0])]):
            row = rows(len(places), number)
            table[places] = row @ WEIGHT
            found = session.run(at=np.array(places)[:, None], row=row, entry=entry)
            assert (found["sum"] == table.sum(axis=0)).all()
            assert (session.state["table"] == table).all()
            assert session.cycles
        assert session.steps == 3


def test_the_first_entry_is_that_of_steps_without_a_name(program: Program) -> None:
    with tx8.Session(program) as session:
        session.bind(row=rows(3, 1))
        session.bind({"row": rows(1, 2)}, entry="step")
        session.run(at=[[0], [1], [2]])
        session.submit(at=[[7]], entry="step").result()
        assert (
            session.state["table"][[0, 1, 2, 7]] == np.concatenate([rows(3, 1), rows(1, 2)]) @ WEIGHT
        ).all()


def test_equal_constants_are_stored_once(program: Program) -> None:
    alone = tx8.compile(network(3), dtype="fp16", tiles=4, state={"table": "new"})
    sizes = [
        sum(len(s.data) for s in each.image.segments if s.section == ".ddr") for each in (program, alone)
    ]
    assert sizes[0] == sizes[1] == WEIGHT.size * 2


def test_an_entry_is_a_program_of_its_own(program: Program, tmp_path: Path) -> None:
    loaded = tx8.load(program.save(tmp_path))
    assert loaded.entries == program.entries == ("block", "step")
    step = loaded.entry("step")
    assert [buffer.shape for buffer in step.inputs] == [(ROOM, WIDTH), (1, 1), (1, WIDTH)]
    assert step.states == (("table", "new"),)
    run = step.run(np.zeros((ROOM, WIDTH)), [[4]], rows(1, 3))
    assert (run["new"][4] == rows(1, 3)[0] @ WEIGHT).all()
    assert run.hazards == ()


def test_states_go_into_files_and_come_back(program: Program, tmp_path: Path) -> None:
    with tx8.Session(program) as session, tx8.Session(program) as other:
        session.run(at=[[1]], row=rows(1, 1), entry="step")
        session.save(tmp_path / "states")
        other.load(tmp_path / "states")
        assert (other.state["table"] == session.state["table"]).all()
        session.reset()
        assert not session.state["table"].any()


def refused(message: str, *models: tuple[str, Any], **options: Any) -> None:
    with pytest.raises(tx8.Error) as error:
        tx8.compile_entries(dict(models), **options)
    assert str(error.value) == message


def test_entries_that_do_not_go_together_are_refused() -> None:
    a, b = ("a", network(1)), ("b", network(1, ROOM + 1))
    state = {"table": "new"}
    refused("a program of several entries: no entry is given")
    refused("entry '1': expected a name of letters, digits and underscores", ("1", network(1)))
    refused("state tabel=nev: no entry has such an input or output", a, state={"tabel": "nev"})
    found = "8x32 float32 stored as fp32 in entry a, 9x32 float32 stored as fp32 in entry b"
    refused(f"state table: {found}; expected the same", a, b, state=state)
    other = "entry b: state table=new: the graph has no input 'table'; its inputs: cache, at, row"
    refused(other, a, ("b", network(1, name="cache")), state=state)
    refused("entry a: 99 tiles: expected 1 to 16 on machine tx81", a, tiles=99)


def test_runs_without_a_choice_are_refused(program: Program) -> None:
    with pytest.raises(tx8.Error) as error:
        program.run()
    assert str(error.value) == "the program has the entries block, step: run entry(NAME), or a session"
    with pytest.raises(tx8.Error) as error:
        program.emulated.run({})
    assert str(error.value) == "the program has the entries block, step: choose one of them"
    with tx8.Session(program) as session:
        for wrong in (lambda: session.run(entry="stp"), lambda: session.bind({}, entry="stp")):
            with pytest.raises(tx8.Error) as error:
                wrong()
            assert "no entry 'stp'; its entries: block, step; did you mean 'step'?" in str(error.value)
        with pytest.raises(tx8.Error, match="'at' is 1x1 int64, expected 3x1"):
            session.run(at=[[1]], row=rows(3, 1))
        assert session.steps == 0


# --- from a shell ------------------------------------------------------------------------------------------


def graph_file(count: int) -> dict[str, Any]:
    """A graph.json that writes rows into a state and returns the first of them."""
    shapes = {"past": [4, 16], "row": [count, 16]}
    inputs = [{"name": name, "dtype": "float32", "shape": shape} for name, shape in shapes.items()]
    inputs.append({"name": "at", "dtype": "int64", "shape": [count, 1]})
    put = {"op": "ScatterND", "name": "put", "inputs": ["past", "at", "row"], "outputs": ["present"]}
    first = {"op": "ReduceMax", "name": "most", "inputs": ["row", "axes"], "outputs": ["top"]}
    constants = {"axes": {"dtype": "int64", "data": [0, 1]}}
    outputs = ["present", "top"]
    return {"opset": 20, "inputs": inputs, "outputs": outputs, "nodes": [put, first], "constants": constants}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of two entries, and arrays."""
    for name, count in (("many", 2), ("one", 1)):
        (tmp_path / f"{name}.json").write_text(json.dumps(graph_file(count)))
        np.save(tmp_path / f"{name}_row.npy", np.full((count, 16), count, np.float32))
        np.save(tmp_path / f"{name}_at.npy", np.arange(count).reshape(count, 1) + count)
    entries = {"entries": {"many": "many.json", "one": "one.json"}, "state": {"past": "present"}}
    (tmp_path / "both.json").write_text(json.dumps(entries))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_compile_and_run_entries(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compiler.cli.main(["both.json", "--tiles", "2"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("both: entries many, one, fp32, 2 tiles; ")
    assert said[1:] == [
        f"entry {name}: state past=present: node 'put' writes new elements" for name in ("many", "one")
    ]
    given = [f"--input={name}=one_{name}.npy" for name in ("row", "at")]
    assert (
        main(["both/prog.bin", "-q", "--entry", "one", "--random", "1", *given, "--output-dir", "out"]) == 0
    )
    assert np.load("out/top.npy").item() == 1
    run = [
        {"run": {"entry": n, "inputs": {i: f"{n}_{i}.npy" for i in ("row", "at")}}} for n in ("many", "one")
    ]
    (folder / "steps.json").write_text(json.dumps({"steps": [*run, {"write": {"past": "past.npy"}}]}))
    assert main(["both/prog.bin", "-q", "--session", "steps.json"]) == 0
    assert np.load("past.npy")[:, 0].tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--entry", "on"], "the program has no entry 'on'; its entries: many, one; did you mean 'one'?"),
        ([], "both/prog.bin has the entries many, one: --entry chooses one"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_runs_of_unknown_entries_are_refused(
    given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compiler.cli.main(["both.json", "--tiles", "2", "-q"]) == 0
    assert main(["both/prog.bin", "--random", "1", *given]) == 1
    assert capsys.readouterr().err == f"tx8emu: error: {message}\n"


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (None, ["--run"], "both.json: --run is about one graph, this file has several entries"),
        (None, ["-v"], "both.json: --verbose is about one graph, this file has several entries"),
        (None, ["--chips", "2x1", "--parallel", "dp=2"], "entry many: dp=2: node 'put' "),
        (None, ["--chips", "2x1", "--parallel", "tp=4"], "--parallel tp=4: is for 4 chips; 2x1 chips are 2"),
        (None, ["--state", "at=top"], "entry many: state at=top: input is 2x1 int64, output is "),
        ('{"entries": {"many": 1}}', [], "both.json: Expected `str`, got `int` - at `$.entries[...]`"),
        ('{"entries": {}, "nodes": []}', [], "both.json: Object contains unknown field `nodes`"),
        ('{"entries": {"many": "no.json"}}', [], "no.json"),
    ],
)
def test_files_and_options_that_do_not_fit_are_refused(
    folder: Path, content: str | None, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (folder / "both.json").write_text(content)
    assert compiler.cli.main(["both.json", *options]) == 1
    err = capsys.readouterr().err
    assert err.startswith("tx8cc: error: ")
    assert message in err
    assert err.count("\n") == 1 or "state at=top" in err
