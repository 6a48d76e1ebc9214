"""States of programs that run a range of sizes: sessions against onnxruntime step by step."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto

import tx8
from compiler.cli import main
from emulator.memory.shapes import SizeError
from range_models import decoder_step, recurrent_cell

ROOM = 24
CACHES = {"keys": "new_keys", "values": "new_values"}
STREAMS = {"streams": (1, 3, 9)}


@cache
def decoder() -> tx8.Program:
    return tx8.compile(decoder_step(ROOM), dtype="fp16", dims={"new": (1, 3, 16)}, state=CACHES)


@cache
def cell() -> tx8.Program:
    return tx8.compile(recurrent_cell(), dtype="fp16", dims=STREAMS, state={"h": "new_h"})


class Reference:
    """A model step by step, with its states as inputs and outputs."""

    def __init__(self, model: ModelProto) -> None:
        self.session = onnxruntime.InferenceSession(model.SerializeToString())
        self.names = [output.name for output in self.session.get_outputs()]

    def run(self, **inputs: Any) -> dict[str, Any]:
        return dict(zip(self.names, self.session.run(None, inputs), strict=True))


def streams(count: int) -> Any:
    return np.random.default_rng(count).standard_normal((count, 24)).astype(np.float32)


def test_tokens_of_any_number_go_into_caches_of_a_fixed_room() -> None:
    assert all("writes new elements" in line for line in decoder().compiled.states)
    reference, rng, at = Reference(decoder_step(ROOM)), np.random.default_rng(0), 0
    caches = {name: np.zeros((ROOM, 32), np.float32) for name in CACHES}
    with tx8.Session(decoder()) as session:
        for count in (3, 1, 16, 1, 2, 1):
            ids = rng.integers(0, 40, count)
            wanted = reference.run(ids=ids, at=np.array([at]), **caches)
            (y,) = session.run(ids=ids, at=[at]).values()
            assert np.abs(y - wanted[reference.names[0]]).max() < 2e-3
            caches = {past: wanted[present] for past, present in CACHES.items()}
            for name, values in session.state.items():
                assert np.abs(values - caches[name]).max() < 2e-3
            at += count
    assert at == ROOM


def test_a_state_has_room_for_the_most_and_a_step_changes_the_first_of_it() -> None:
    reference, state = Reference(recurrent_cell()), np.zeros((9, 32), np.float32)
    with tx8.Session(cell()) as session:
        assert session.state["h"].shape == (9, 32)
        for count in (3, 9, 1, 5, 9, 2):
            before = session.state["h"]
            wanted = reference.run(x=streams(count), h=state[:count])
            (y,) = session.run(x=streams(count)).values()
            state[:count] = wanted["new_h"]
            assert np.abs(y - wanted[reference.names[0]]).max() < 4e-3
            assert np.abs(session.state["h"] - state).max() < 4e-3
            assert (session.state["h"][count:] == before[count:]).all()


def test_a_session_gives_the_bytes_of_single_runs_that_pass_the_state_on() -> None:
    state = np.zeros((9, 32), np.float32)
    with tx8.Session(cell(), threads=2) as session:
        for count in (9, 4, 7):
            (y,) = session.run(x=streams(count)).values()
            run = cell().run(x=streams(count), h=state[:count])
            assert run["new_h"].shape == (count, 32)
            assert (y == run[0]).all()
            state[:count] = run["new_h"]
            assert (session.state["h"] == state).all()


def test_a_size_out_of_range_leaves_the_state_untouched(tmp_path: Path) -> None:
    with tx8.Session(cell()) as session:
        session.run(x=streams(5))
        before = session.state["h"]
        for count in (0, 10):
            with pytest.raises(SizeError, match=rf"^input 'x': streams is {count}; allowed are 1 to 9$"):
                session.run(x=np.zeros((count, 24), np.float32))
        with pytest.raises(tx8.Error, match=r"^input 'h' is a state"):
            session.run(x=streams(5), h=before)
        assert (session.state["h"] == before).all()
        assert session.steps == 1
        session.save(tmp_path / "steps")
        (one,) = session.run(x=streams(2)).values()
    with tx8.Session(cell()) as other:
        other.load(tmp_path / "steps")
        (two,) = other.run(x=streams(2)).values()
    assert one.tobytes() == two.tobytes()


def test_a_state_of_the_largest_size_can_be_set_and_no_other() -> None:
    first = np.random.default_rng(1).standard_normal((9, 32)).astype(np.float32) / 4
    with tx8.Session(cell(), state={"h": first}) as session:
        (y,) = session.run(x=streams(2)).values()
        wanted = Reference(recurrent_cell()).run(x=streams(2), h=first[:2])
        assert np.abs(y - next(iter(wanted.values()))).max() < 4e-3
        with pytest.raises(tx8.Error, match="'h' is 2x32 float32, expected 9x32 float32"):
            session.set_state(h=first[:2])


def test_inputs_that_disagree_with_a_state_of_a_single_run_are_refused() -> None:
    with pytest.raises(SizeError, match=r"^streams is \d in input '\w' and \d in input '\w'; it must be"):
        cell().run(x=streams(3), h=np.zeros((4, 32), np.float32))


@pytest.mark.parametrize("made", [cell, decoder])
def test_the_sanitizer_finds_nothing(made: Any) -> None:
    inputs: dict[str, Any] = {"x": streams(5), "h": np.zeros((5, 32), np.float32)}
    if made is decoder:
        caches = dict.fromkeys(CACHES, np.ones((ROOM, 32), np.float32))
        inputs = {"ids": np.arange(7), "at": np.array([4]), **caches}
    assert made().run(inputs, timed=False).hazards == ()


@pytest.mark.parametrize(
    ("axes", "dims", "message"),
    [
        (
            (2, "n"),
            {"n": (1, 2, 4)},
            r"state h=new_h: it is 2 x n x 32; only the first axis of a state that is",
        ),
        ((1, "n", 3), {"n": (1, 2, 4)}, ""),
        (
            ("n", "m"),
            {"n": (1, 2, 4), "m": (1, 2, 3)},
            r"state h=new_h: it is n x m x 32; only the first axis",
        ),
    ],
)
def test_the_free_axis_of_a_state_is_its_first(axes: Any, dims: Any, message: str) -> None:
    model = recurrent_cell(axes)
    if message:
        with pytest.raises(tx8.Error, match=message):
            tx8.compile(model, dims=dims, state={"h": "new_h"})
    else:
        shape = [2 if axis == "n" else axis for axis in axes]
        program = tx8.compile(model, dims=dims, state={"h": "new_h"})
        with tx8.Session(program) as session:
            session.run(x=np.ones((*shape, 24), np.float32))
            assert session.state["h"][0, :2].all()
            assert not session.state["h"][0, 2:].any()


def test_a_dimension_of_states_alone_is_refused() -> None:
    model = recurrent_cell()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    with pytest.raises(
        tx8.Error, match=r"no axis of an input that is no state depends on dimension 'streams'"
    ):
        tx8.compile(model, dims=STREAMS, state={"h": "new_h"})


def test_the_command_says_how_states_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "cell.onnx", tmp_path / "out"
    file.write_bytes(recurrent_cell().SerializeToString())
    options = ["--dim", "streams=1:3:9", "--state", "h=new_h", "-o", str(out), "--run"]
    assert main([str(file), *options]) == 0
    assert "state h=new_h: copied, node" in capsys.readouterr().out
    assert '.extents input, "h", "streams", 32' in (out / "prog.s").read_text()
