"""Programs that run a range of sizes: against onnxruntime, and against the image of each size alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, ValueInfoProto, helper, numpy_helper

import tx8
from compiler.cli import main
from control_models import declared, node, truth
from control_models import made as model_of
from emulator.memory.shapes import SizeError
from range_models import encoder, one_node, perceptron, recurrent_cell, residual_products
from time_bench import warm
from tx8isa.machine.description import Machine, load_machine

ROWS = {"rows": (1, 64, 200)}
TEXTS = {"batch": (1, 1, 3), "seq": (1, 32, 160)}


@cache
def program(name: str, residency: str = "on", machine: Machine | None = None) -> tx8.Program:
    model, dims = {"perceptron": (perceptron(), ROWS), "encoder": (encoder(), TEXTS)}[name]
    return tx8.compile(model, dtype="fp16", dims=dims, residency=residency, machine=machine)


def reference(model: ModelProto, inputs: dict[str, Any]) -> Any:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)[0]


def rows(count: int) -> dict[str, Any]:
    return {"x": np.random.default_rng(count).standard_normal((count, 96)).astype(np.float32)}


def texts(batch: int, seq: int) -> dict[str, Any]:
    rng = np.random.default_rng(seq)
    seen = rng.integers(1, seq + 1, (batch, 1))
    return {"ids": rng.integers(0, 50, (batch, seq)), "mask": (np.arange(seq) < seen).astype(np.int64)}


SOME = [int(size) for size in np.random.default_rng(0).integers(1, 201, 3)]
"""Sizes in the midst of the range."""


def test_a_sequence_in_parts_stores_all_of_its_results() -> None:
    """Far from the usual size the cell is computed in parts, and both of its results are stored there."""
    model = recurrent_cell()
    made = tx8.compile(model, dtype="fp16", dims={"streams": (1, 8, 300)})
    rng = np.random.default_rng(5)
    for count in (8, 33, 300):
        inputs = {
            name: rng.standard_normal((count, n)).astype(np.float32) for name, n in (("x", 24), ("h", 32))
        }
        found = made.run(inputs, timed=False)
        wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
        for output, array in zip(model.graph.output, wanted, strict=True):
            np.testing.assert_allclose(found[output.name], array, atol=0.02)


def test_shares_of_several_planes_that_overlap_store_each_row_once() -> None:
    """The last tiles have rows of their neighbours, too, where the shares do not divide the rows evenly."""
    model = residual_products()
    made = tx8.compile(model, dtype="fp16", dims={"rows": (1, 16, 100)})
    for count in (1, 15, 16, 17, 99, 100):
        x = np.random.default_rng(count).standard_normal((count, 256)).astype(np.float32)
        wanted = reference(model, {"x": x})
        found = made.run({"x": x}, timed=False)
        assert found.hazards == ()
        assert np.abs(found[0] - wanted).max() < 4e-3 * np.abs(wanted).max()


@pytest.mark.parametrize("residency", ["on", "off"])
def test_rows_of_any_number(residency: str) -> None:
    made = program("perceptron", residency)
    for count in (1, 64, 200, *SOME):
        y = made.run(rows(count), timed=False)[0]
        wanted = reference(perceptron(), rows(count))
        assert y.shape == wanted.shape
        assert np.abs(y - wanted).max() < 2e-3


@pytest.mark.parametrize(("batch", "seq"), [(1, 32), (1, 1), (3, 160), (2, 37), (3, 5)])
def test_texts_of_any_length(batch: int, seq: int) -> None:
    inputs = texts(batch, seq)
    y = program("encoder").run(inputs, timed=False)[0]
    wanted = reference(encoder(), inputs)
    assert y.shape == wanted.shape
    assert np.abs(y - wanted).max() < 2e-2


def alone_and_in_a_range(residency: str) -> list[tx8.Run]:
    """Runs of the encoder at the usual size: an image for that size, and one for a range."""
    shapes = {"ids": (1, 32), "mask": (1, 32)}
    alone = tx8.compile(encoder(), dtype="fp16", shapes=shapes, residency=residency)
    return [made.run(texts(1, 32)) for made in (alone, program("encoder", residency))]


def test_the_usual_size_takes_nearly_the_time_of_its_own_image() -> None:
    alone, ranged = alone_and_in_a_range("on")
    assert np.abs(alone[0] - ranged[0]).max() < 2e-2
    assert ranged.cycles <= 1.10 * alone.cycles


def test_the_usual_size_gives_the_bytes_of_its_own_image() -> None:
    """Without sequences, which may be others for a range, both divide the work in the same way."""
    alone, ranged = alone_and_in_a_range("off")
    assert alone[0].tobytes() == ranged[0].tobytes()
    assert ranged.cycles <= 1.10 * alone.cycles


def test_rows_that_tiles_cannot_share_evenly_take_hardly_longer_than_in_an_image_of_their_own() -> None:
    """Beside first uses: a program for a range has more lines of code and kinds of commands."""
    machine, inputs = warm(load_machine(None)), texts(2, 37)
    alone = tx8.compile(encoder(), dtype="fp16", shapes=dict.fromkeys(inputs, (2, 37)), machine=machine)
    run = program("encoder", machine=machine).run(inputs)
    assert run.cycles <= 1.10 * alone.run(inputs).cycles
    assert run.hazards == ()


def test_threads_do_not_change_a_byte() -> None:
    inputs = texts(2, 50)
    one, two = (program("encoder").run(inputs, threads=n, timed=False)[0] for n in (1, 2))
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("size", [1, 77, 200])
def test_the_sanitizer_finds_nothing(size: int) -> None:
    assert program("perceptron").run(rows(size), timed=False).hazards == ()


def test_a_session_takes_any_size_and_refuses_others_untouched() -> None:
    made = program("perceptron")
    with tx8.Session(made) as session:
        for count in (3, 200, 1):
            assert (session.run(rows(count))[made.outputs[0].name] == made.run(rows(count))[0]).all()
        with pytest.raises(SizeError, match=r"^input 'x': rows is 201; allowed are 1 to 200$"):
            session.run(rows(201))
        with pytest.raises(tx8.Error, match=r"^input 'x' is 3, expected rows x 96$"):
            session.run(x=np.zeros(3, np.float32))
        assert session.steps == 3


def test_an_output_that_is_bound_must_have_the_size_of_the_step() -> None:
    made = program("perceptron")
    name, y = made.outputs[0].name, np.zeros((5, 96), np.float32)
    with tx8.Session(made) as session:
        session.bind(**{name: y})
        session.run(rows(5))
        assert (y == made.run(rows(5))[0]).all()
        with pytest.raises(tx8.Error, match=rf"^output '{name}' is 5x96 float32, expected 6x96 float32$"):
            session.run(rows(6))
        assert session.steps == 1


def test_sizes_of_inputs_must_agree() -> None:
    ids, mask = texts(1, 7)["ids"], texts(1, 8)["mask"]
    with pytest.raises(
        SizeError, match=r"^seq is 7 in input 'ids' and 8 in input 'mask'; it must be the same$"
    ):
        program("encoder").run(ids=ids, mask=mask)


def test_an_input_may_have_a_number_of_rows_more() -> None:
    bounds = [numpy_helper.from_array(np.array([at]), name) for name, at in (("one", 1), ("end", 1 << 40))]
    nodes = [node("Slice", ["x", "one", "end"], ["later"]), node("Add", ["later", "y"], ["z"])]
    inputs = [declared("x", ["steps + 1", 24]), declared("y", ["steps", 24])]
    model = model_of(nodes, inputs, [declared("z", [None, 24])], bounds)
    made = tx8.compile(model, dims={"steps": (1, 6, 40)}, dtype="fp32")
    assert '.extents input, "x", "steps + 1", 24' in made.text
    rng = np.random.default_rng(1)
    for steps in (1, 7, 40):
        x, y = (rng.standard_normal((rows, 24)).astype(np.float32) for rows in (steps + 1, steps))
        assert np.array_equal(made.run(x, y)["z"], x[1:] + y)
    with pytest.raises(SizeError, match=r"input 'x': steps \+ 1 is 6; expected 6 \+ 1"):
        made.run(np.ones((6, 24)), np.ones((6, 24)))


def test_a_dimension_must_be_an_axis_of_an_input_by_itself() -> None:
    inputs, outputs = [declared("x", ["steps + 1", 24])], [declared("z", [None, 24])]
    model = model_of([node("Relu", ["x"], ["z"])], inputs, outputs)
    with pytest.raises(tx8.Error, match=r"no free dimension 'steps'; its free dimensions: steps \+ 1"):
        tx8.compile(model, dims={"steps": (1, 6, 40)})


def test_an_extent_that_is_computed_is_in_the_shape_block() -> None:
    made = tx8.compile(one_node("Concat", ["n", 16], axis=0), dims={"n": (1, 4, 9)})
    assert made.run(np.ones((3, 16), np.float32))[0].shape == (3, 16)
    node = one_node("Flatten", ["b", "n", 16], axis=2)
    made = tx8.compile(node, dims={"b": (1, 2, 3), "n": (1, 4, 9)})
    x = np.arange(2 * 7 * 16, dtype=np.float32).reshape(2, 7, 16)
    assert (made.run(x)[0] == x.reshape(14, 16)).all()


def test_a_node_without_code_for_a_range_is_named() -> None:
    kernel = numpy_helper.from_array(np.ones((8, 8, 4), np.float32), "k")
    spread = node("ConvTranspose", ["x", "k"], ["y"], strides=[4])
    model = model_of([spread], [declared("x", [1, 8, "n"])], [ValueInfoProto(name="y")], [kernel])
    with pytest.raises(tx8.Error, match=r"^node 'x' cannot run a range of n: .*; give it one size with"):
        tx8.compile(model, dims={"n": (1, 40, 99)})


def test_control_flow_has_one_size() -> None:
    branches = [
        helper.make_graph([node(op, ["x"], [op])], op, [], [declared(op, ["n", 8])]) for op in ("Neg", "Abs")
    ]
    chosen = node("If", ["c"], ["y"], name="choice", then_branch=branches[0], else_branch=branches[1])
    model = model_of([chosen], [truth("c"), declared("x", ["n", 8])], [declared("y", ["n", 8])])
    with pytest.raises(tx8.Error, match=r"^node 'choice' \(If\) cannot run a range of sizes: branches"):
        tx8.compile(model, dims={"n": (1, 4, 9)})


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"row": (1, 2, 3)}, "no free dimension 'row'; its free dimensions: rows; did you mean 'rows'"),
        ({"rows": (4, 2, 3)}, "dimension rows: 4:2:3; expected least, usual, most, from 1 on"),
        (
            {"rows": (1, 2, 3, 4)},
            r"dimension rows: \[1, 2, 3, 4\]; expected one size, least and most, or least, usual and most",
        ),
        ({"rows": (1, 2, 1 << 20)}, "combinations of sizes; at most 65,536 are possible"),
    ],
)
def test_ranges_that_are_none(dims: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(tx8.Error, match=message):
        tx8.compile(perceptron(), dims=dims)


def test_a_size_at_which_the_graph_is_wrong_is_named() -> None:
    with pytest.raises(tx8.Error, match=r"at batch=\d+, seq=\d+: "):
        tx8.compile(encoder(longest=100), dims=TEXTS)


@pytest.mark.parametrize("other", ["--chips 2x1", "--dtype auto", "--gdb 5555 --run", "--verify-nodes"])
def test_options_about_one_size_are_refused_beside_ranges(
    other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["a.onnx", "--dim", "n=1:4:9", *other.split()])
    assert "exclude each other: a program that runs a range of sizes has no" in capsys.readouterr().err
