"""Caches that steps make longer: sessions against onnxruntime with a cache that really grows."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, save

import tx8
from compiler.cli import main
from compiler.graph import GraphError
from emulator.memory.buffers import InputError
from emulator.memory.shapes import SizeError
from emulator.session.file import StateFileError
from growing_models import TOTAL, WORDS, Expected, decoder, states, step_inputs
from range_models import ModelWriter

DIMS = {"new": (1, 1, 8), "past": (0, 10, 24)}
KEY = "past_key_values.0.key"


@cache
def program() -> tx8.Program:
    return tx8.compile(decoder(), dtype="fp16", dims=DIMS, state=states())


def words(count: int) -> Any:
    return np.random.default_rng(count).integers(0, WORDS, count)


def logits(session: tx8.Session, ids: Any, past: int) -> Any:
    given = step_inputs(ids, past)
    (found,) = session.run({name: given[name] for name in session._steps.inputs(None)}).values()
    return found


def check_steps(made: tx8.Program, expected: Expected, counts: list[int], tolerance: float) -> None:
    """Steps of so many words each, beginning with an empty cache."""
    rng, past = np.random.default_rng(0), 0
    with tx8.Session(made) as session:
        for count in counts:
            ids = rng.integers(0, WORDS, count)
            wanted = expected.step(**step_inputs(ids, past))
            assert np.abs(logits(session, ids, past) - wanted).max() < tolerance
            past += count
            for name, values in session.state.items():
                assert values.shape == expected.cache[name].shape
                assert np.abs(values - expected.cache[name]).max() < 5 * tolerance


def test_steps_of_any_number_of_words_append_to_the_cache_in_place() -> None:
    assert all("writes new elements" in line for line in program().compiled.states)
    check_steps(program(), Expected(decoder()), [7, 1, 1, 8, 3, 4, 1], 1e-3)


@pytest.mark.long
def test_the_operator_attention_appends_to_the_cache_too() -> None:
    model = decoder(new=1, mask="places", written_out=False)
    made = tx8.compile(model, dtype="fp32", dims={"past": (0, 8, 20)}, state=states())
    assert all("writes new elements" in line for line in made.compiled.states)
    check_steps(made, Expected(model), [1, 1, 1, 1], 1e-5)


@pytest.mark.long
@pytest.mark.parametrize(
    ("mask", "written_out", "dtype", "new"),
    [
        *product(["attention_mask", "position_ids", "places"], [True], ["fp32", "fp16"], [(1, 3, 8)]),
        *product(["places"], [False], ["fp32", "fp16"], [(1, 3, 8), (1, 1, 8)]),
    ],
)
def test_masks_and_formats(mask: str, written_out: bool, dtype: str, new: tuple[int, int, int]) -> None:
    model = decoder(2, mask=mask, written_out=written_out)
    dims = {"new": new, "past": (0, 10, 24)}
    made = tx8.compile(model, dtype=dtype, dims=dims, state=states(2))
    assert all("writes new elements" in line for line in made.compiled.states)
    check_steps(made, Expected(model), [7, 1, 1, 8, 3], 1e-5 if dtype == "fp32" else 2e-3)


@pytest.mark.long
@pytest.mark.parametrize(
    ("tables", "dtype"), [*product(["sliced", "gathered", "computed"], ["fp16"]), ("computed", "fp32")]
)
def test_rows_of_tables_move_along_with_the_cache(tables: str, dtype: str) -> None:
    model = decoder(mask="places", tables=tables)
    made = tx8.compile(model, dtype=dtype, dims=DIMS, state=states())
    check_steps(made, Expected(model), [3, 1, 8, 4], 1e-5 if dtype == "fp32" else 1e-3)
    ones = dict.fromkeys(states(), np.ones((1, 2, 9, 16), np.float32))
    given = {**step_inputs(words(3), 9), **ones}
    made.emulated.run({each.name: given[each.name] for each in made.emulated.inputs}, strict=True)
    assert made.emulated.hazards == ()


@pytest.mark.long
@pytest.mark.parametrize("new", [1, 4])
@pytest.mark.parametrize("mask", ["attention_mask", "position_ids", "places"])
def test_steps_of_a_known_number_of_words(mask: str, new: int) -> None:
    model = decoder(new=new, mask=mask)
    made = tx8.compile(model, dtype="fp32", dims={"past": (0, 8, 20)}, state=states())
    check_steps(made, Expected(model), [new] * 4, 1e-5)


def test_words_one_by_one_are_as_all_at_once() -> None:
    ids = words(8)
    with tx8.Session(program()) as session:
        together = logits(session, ids, 0)
        cache = session.state[KEY]
        session.reset()
        assert session.state[KEY].shape == (1, 2, 0, 16)
        apart = [logits(session, ids[:5], 0), *(logits(session, ids[at : at + 1], at) for at in (5, 6, 7))]
        assert np.abs(np.concatenate(apart, axis=1) - together).max() < 1e-3
        assert np.abs(session.state[KEY] - cache).max() < 5e-3


def test_host_threads_make_no_difference() -> None:
    sessions = [tx8.Session(program(), threads=threads) for threads in (1, 2)]
    for past, count in ((0, 6), (6, 1)):
        first, second = (logits(session, words(count), past) for session in sessions)
        assert first.tobytes() == second.tobytes()


def test_the_sanitizer_finds_nothing() -> None:
    for past, count in ((0, 3), (9, 1)):
        shape = (1, 2, past, 16)
        caches = {name: np.ones(shape, np.float32) for name in states()}
        program().emulated.run({**step_inputs(words(count), past), **caches}, strict=True)
        assert program().emulated.hazards == ()


def test_a_single_run_takes_and_gives_arrays_as_onnxruntime_does() -> None:
    expected, rng = Expected(decoder()), np.random.default_rng(3)
    for past in (0, 11):
        expected.cache = {
            name: rng.standard_normal((1, 2, past, 16)).astype(np.float32) for name in expected.cache
        }
        inputs = {**step_inputs(words(4), past), **expected.cache}
        run = program().run(inputs)
        expected.step(**inputs)
        assert run["present.0.key"].shape == (1, 2, past + 4, 16)
        assert np.abs(run["present.0.key"] - expected.cache[KEY]).max() < 5e-3


# --- what a session knows --------------------------------------------------------------------------------


def test_a_step_without_room_is_refused_and_changes_nothing() -> None:
    with tx8.Session(program()) as session:
        past = 0
        for count in (8, 8, 8, 8):
            logits(session, words(count), past)
            past += count
        before = session.state[KEY]
        with pytest.raises(SizeError) as refusal:
            logits(session, words(1), past)
        assert str(refusal.value) == f"state '{KEY}': past is 32; allowed are 0 to 24"
        assert session.steps == 4
        assert session.state[KEY].tobytes() == before.tobytes()


def test_the_length_of_the_mask_must_be_that_of_the_cache() -> None:
    with tx8.Session(program()) as session:
        logits(session, words(5), 0)
        inputs = {**step_inputs(words(2), 5), "attention_mask": np.ones((1, 6), np.int64)}
        with pytest.raises(SizeError) as refusal:
            session.run(inputs)
        assert str(refusal.value) == "input 'attention_mask': past + new is 6; expected 5 + 2"
        assert session.steps == 1


def test_states_are_set_together() -> None:
    values = np.ones((1, 2, 5, 16), np.float32)
    with tx8.Session(program(), state=dict.fromkeys(states(), values)) as session:
        assert session.state[KEY].tobytes() == values.tobytes()
        logits(session, words(1), 5)
        session.reset()
        assert session.state[KEY].tobytes() == values.tobytes()
        for arrays, problem in (
            ({KEY: values[:, :, :3]}, "set them together, with one length"),
            (dict.fromkeys(states(), np.ones((1, 2, 25, 16), np.float32)), "past is 25; allowed are 0 to 24"),
        ):
            with pytest.raises(SizeError, match=problem):
                session.set_state(arrays)
        with pytest.raises(InputError, match="is 1x3x5x16 float32, expected 1x2x5x16 float32"):
            session.set_state(dict.fromkeys(states(), np.ones((1, 3, 5, 16), np.float32)))
        assert session.state[KEY].tobytes() == values.tobytes()


def test_saved_states_know_their_length(tmp_path: Path) -> None:
    file = tmp_path / "cache.steps"
    with tx8.Session(program()) as session:
        logits(session, words(6), 0)
        session.save(file)
        wanted = logits(session, words(2), 6)
    with tx8.Session(program()) as other:
        other.load(file)
        assert other.steps == 1
        assert other.state[KEY].shape == (1, 2, 6, 16)
        assert logits(other, words(2), 6).tobytes() == wanted.tobytes()


def test_a_file_with_an_impossible_length_is_refused(tmp_path: Path) -> None:
    from emulator.session.file import SavedStates, write

    file = tmp_path / "cache.steps"
    with tx8.Session(program()) as session:
        steps = session._steps
        session.save(file)
        found = {name: chip.saved(own).tobytes() for name, (chip, own, _) in steps._states.items()}
        write(file, SavedStates(steps._digest, 1, found, {"past": 99}))
        with pytest.raises(StateFileError, match=r"damaged: lengths .'past': 99., expected at most"):
            session.load(file)


# --- what is refused when compiling ----------------------------------------------------------------------


def refusal(model: Any, dims: dict[str, Any], state: dict[str, str] | None = None) -> str:
    with pytest.raises(GraphError) as caught:
        tx8.compile(model, dims=dims, state=states() if state is None else state)
    return str(caught.value)


def test_ranges_that_no_program_has() -> None:
    model = decoder()
    wanted = "expected least, usual, most, from 1 on"
    assert refusal(model, {**DIMS, "new": (0, 1, 8)}) == f"dimension new: 0:1:8; {wanted}"
    wanted = "expected least, usual, most, from 0 on, the usual size from 1 on"
    assert refusal(model, {**DIMS, "past": (0, 0, 8)}) == f"dimension past: 0:0:8; {wanted}"
    unknown = "dimension total: 'pats' has no range; those with one: new, past; did you mean 'past'?"
    assert refusal(model, {**DIMS, "total": "pats+new"}) == unknown
    own = "dimension past + new: a sum has no range of its own; give those of its parts"
    assert refusal(model, {**DIMS, TOTAL: (1, 9, 30)}) == own


def test_a_state_that_grows_needs_a_range() -> None:
    shapes = dict.fromkeys(states(), (1, 2, 4, 16))
    shapes |= {"input_ids": (1, 2), "position_ids": (1, 2), "attention_mask": (1, 6)}
    with pytest.raises(GraphError, match="a state that grows needs the range of its length: --dim"):
        tx8.compile(decoder(), shapes=shapes, state=states())


def cut(joined: list[str], more: Any = None, axis: int = 1) -> Any:
    """A model whose output joins values along the axis that grows, with another output perhaps."""
    value, kind = helper.make_tensor_value_info, 1
    inputs = [value("past", kind, [2, "past", 4]), value("x", kind, [2, "new", 4])]
    outputs = [value("present", kind, [2, TOTAL, 4])]
    nodes = [helper.make_node("Concat", joined, ["present"], "join", axis=axis)]
    if more is not None:
        nodes.append(helper.make_node(*more, "other"))
        outputs.append(value(more[2][0], kind, None))
    graph = helper.make_graph(nodes, "cut", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def places(new: str | int = "new") -> Any:
    """A cache, and new rows times the rows of a table at their places."""
    w = ModelWriter(7)
    w.nodes.append(helper.make_node("Concat", ["past", "x"], ["present"], "join", axis=1))
    first, last = (w.add("Shape", name, start=1, end=2) for name in ("past", "present"))
    y = w.add("Mul", "x", w.add("Slice", w.constant(PLACES), first, last, w.integers(0)))
    shapes = {"past": [2, "past", 4], "x": [2, new, 4], "present": [2, TOTAL, 4], y: [2, new, 4]}
    values: Any = {name: (1, shape) for name, shape in shapes.items()}
    return w.model({name: values.pop(name) for name in ("past", "x")}, values)


PLACES = np.random.default_rng(8).standard_normal((32, 4)).astype(np.float32)


def test_what_is_new_meets_the_rows_of_its_places() -> None:
    made = tx8.compile(places(), dims=DIMS, state={"past": "present"})
    x, past = np.random.default_rng(9).standard_normal((2, 8, 4)).astype(np.float32), 0
    with tx8.Session(made) as session:
        for count in (5, 8, 1, 8, 2, 8):
            (found,) = session.run(x=x[:, :count]).values()
            assert (found == x[:, :count] * PLACES[past : past + count]).all()
            past += count


def test_rows_that_a_table_does_not_have_are_refused() -> None:
    text = refusal(places(), {**DIMS, "past": (0, 10, 25)}, {"past": "present"})
    assert "(node 'mul4')" in text
    assert text.endswith("found [2, 8, 4] and [7, 4]")
    text = refusal(places(1), {"past": (0, 10, 24)}, {"past": "present"})
    assert "(Mul) has a constant whose numbers depend on the sizes" in text


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (
            cut(["x", "past"]),
            "its new value is node 'join' (Concat); "
            "a state grows by a Concat of its old value and new elements",
        ),
        (
            cut(["past", "x"], ("ReduceSum", ["past"], ["sum"])),
            "node 'other' (ReduceSum) reads it, too; a state that grows is only appended to",
        ),
    ],
)
def test_a_state_is_only_appended_to(model: Any, problem: str) -> None:
    assert refusal(model, DIMS, {"past": "present"}) == f"state past=present: {problem}"


def test_only_one_axis_of_a_state_that_grows_is_free() -> None:
    model = cut(["past", "x"])
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.shape.dim[0].dim_param = "batch"
    text = refusal(model, {**DIMS, "batch": (1, 2, 4)}, {"past": "present"})
    assert "the axis along which a state grows must be the only one of a free size" in text


def test_names_of_sums_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = cut(["past", "x"])
    save(model, tmp_path / "join.onnx")
    arguments = [str(tmp_path / "join.onnx"), "--dim", "past=0:3:9", "--dim", "new=1:2:4", "--run"]
    arguments += ["--state", "past=present", "-o", str(tmp_path / "out"), "--no-cache"]
    assert main(arguments) == 0
    assert "present  2x5x4" in capsys.readouterr().out
    text = (tmp_path / "out" / "prog.s").read_text()
    assert '.extents output, "present", 2, "past + new", 4' in text
    assert '.room output, "present", 1' in text
