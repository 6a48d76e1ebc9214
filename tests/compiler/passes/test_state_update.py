"""States: operators that write the new value of an input that is also an output, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tx8
from compiler.evaluation.states import with_states
from compiler.graph import Array, GraphError
from compiler.passes.ddr.state_update import StateUpdatePass
from compiler.tools.verification.nodes import verify
from ir_text import after, context, node, outline, output, parsed, source

S = "4x32"
Nodes = list[tuple[str, list[str], list[str]]]
ROWS = np.array([[1], [3]])


def model(nodes: Nodes, outputs: str, inputs: str = "past", **constants: Array) -> ModelProto:
    """A model of 4x32 tensors; ``x`` has two rows."""
    made = [
        helper.make_node(op, read, written, name=written[0], **({"axis": 0} if op == "Concat" else {}))
        for op, read, written in nodes
    ]
    shapes = {"x": [2, 32], "head": [1, 32], "flat": [128]}

    def described(name: str) -> object:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes.get(name, [4, 32]))

    graph = helper.make_graph(
        made,
        "g",
        [described(name) for name in inputs.split()],
        [described(name) for name in outputs.split()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def put(data: str, updates: str, result: str) -> tuple[str, list[str], list[str]]:
    return "ScatterND", [data, "rows", updates], [result]


SHIFT = {"begin": np.array([1]), "end": np.array([4]), "first": np.array([0]), "one": np.array([1])}
HALVES = {"begin": np.array([0]), "end": np.array([2]), "axes": np.array([0])}
CASES = {
    "rows": (model([put("past", "x", "present")], "present", "x past", rows=ROWS), "present' writes new"),
    "read before": (
        model([put("past", "x", "present"), ("Neg", ["past"], ["y"])], "present y", "x past", rows=ROWS),
        "present' writes new elements",
    ),
    "read after": (
        model(
            [put("past", "x", "present"), ("Add", ["present", "past"], ["y"])],
            "present y",
            "x past",
            rows=ROWS,
        ),
        "copied, node 'y' reads the old value after node 'present'",
    ),
    "two updates": (
        model(
            [put("past", "x", "m"), ("Neg", ["x"], ["n"]), put("m", "n", "present")],
            "present",
            "x past",
            rows=ROWS,
        ),
        "present' writes new elements",
    ),
    "updates from the old value": (
        model(
            [("Slice", ["past", "begin", "end", "axes"], ["u"]), put("past", "u", "present")],
            "present",
            rows=ROWS,
            **HALVES,
        ),
        "copied, node 'present' reads the old value while it writes",
    ),
    "in another shape": (
        model(
            [
                ("Reshape", ["past", "wide"], ["w"]),
                put("w", "x", "m"),
                ("Reshape", ["m", "deep"], ["present"]),
            ],
            "present",
            "x past",
            rows=ROWS,
            wide=np.array([4, 32]),
            deep=np.array([4, 32]),
        ),
        "writes new elements",
    ),
    "arithmetic": (
        model([("Neg", ["past"], ["present"])], "present"),
        "copied, node 'present' reads the old value while it computes the new one",
    ),
    "window": (
        model(
            [("Slice", ["past", "begin", "end", "first"], ["s"]), ("Concat", ["s", "head"], ["present"])],
            "present",
            "past head",
            **SHIFT,
        ),
        "copied, node 'present' reads the old value while it computes the new one",
    ),
    "nothing of the old value": (
        model([("Concat", ["x", "x"], ["c"]), ("Neg", ["c"], ["present"])], "present", "x past"),
        "node 'present' writes it",
    ),
    "joined": (
        model([("Neg", ["x"], ["n"]), ("Concat", ["x", "n"], ["present"])], "present", "x past"),
        "copied, node 'present' joins values",
    ),
    "an input": (model([("Identity", ["x4"], ["present"])], "present", "x4 past"), "x4'"),
    "unchanged": (model([("Identity", ["past"], ["present"])], "present"), ""),
}


def numbers(made: ModelProto) -> dict[str, Array]:
    """Small integers for each input."""
    generator = np.random.default_rng(3)
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in made.graph.input}
    return {name: generator.integers(-9, 9, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("case", CASES)
def test_a_state_gets_its_new_value(case: str, dtype: str) -> None:
    made, update = CASES[case]
    program = tx8.compile(made, dtype=dtype, state={"past": "present"})
    assert program.compiled is not None
    assert [update in line for line in program.compiled.states] == ([True] if update else [])
    given = numbers(made)
    run = program.run(given)
    for name, wanted in zip(run.outputs, ReferenceEvaluator(made).run(list(run.outputs), given), strict=True):
        np.testing.assert_array_equal(run[name], wanted)
    assert run.hazards == ()
    past, present = (next(b for b in program.image.buffers if b.name == name) for name in ("past", "present"))
    assert past.address == present.address
    assert (past.format, past.dtype) == (present.format, present.dtype)


def test_two_states_may_change_places() -> None:
    nodes = [("Identity", ["past"], ["other"]), ("Identity", ["before"], ["present"])]
    made = model(nodes, "present other", "past before")
    run = tx8.compile(made, state={"past": "present", "before": "other"}).run(given := numbers(made))
    np.testing.assert_array_equal(run["present"], given["before"])
    np.testing.assert_array_equal(run["other"], given["past"])


def test_one_value_may_be_two_states() -> None:
    nodes = [put("past", "x", "present"), ("Identity", ["present"], ["other"]), ("Neg", ["before"], ["y"])]
    made = model(nodes, "present other y", "x past before", rows=ROWS)
    run = tx8.compile(made, state={"past": "present", "before": "other"}).run(given := numbers(made))
    wanted = ReferenceEvaluator(made).run(["present", "other", "y"], given)
    for name, array in zip(("present", "other", "y"), wanted, strict=True):
        np.testing.assert_array_equal(run[name], array)


def test_a_state_is_stored_as_it_is_computed() -> None:
    """No byte of it is cast; the arrays of the host keep their type."""
    made = CASES["rows"][0]
    program = tx8.compile(made, dtype="fp16", state={"past": "present"})
    assert [(b.format, b.dtype) for b in program.image.buffers if b.name in ("past", "present")] == [
        ("fp16", "float32")
    ] * 2
    plain = tx8.compile(made, dtype="fp16")
    given = {name: array + np.float32(0.1) for name, array in numbers(made).items()}
    assert program.run(given)["present"].tobytes() == plain.run(given)["present"].tobytes()


def test_only_new_rows_are_written() -> None:
    """Two rows of 32 numbers of four bytes; without the state all 4 x 32 numbers."""
    made = CASES["rows"][0]
    programs = tx8.compile(made, state={"past": "present"}), tx8.compile(made)
    stats = [program.run(numbers(made)).stats.to_dict() for program in programs]
    written = [path["bytes"] for each in stats for path in each["paths"] if "WDMA" in path["path"]]
    assert written == [2 * 32 * 4, (2 + 4) * 32 * 4]


def test_what_reads_the_old_value_comes_first() -> None:
    text = [
        source("past", "x", S),
        node("softmax", "a", "a", {"x": S}, S),
        node("softmax", "new", "n", {"a": S}, S),
        node("relu", "late", "late", {"x": S}, S),
        output("y", "late", S),
        output("present", "n", S).replace('"present"}', '"present", state = "past"}'),
    ]
    given = context()
    module = after(parsed("\n".join(text)), given, StateUpdatePass())
    names = outline(module)
    assert names.index("relu late") < names.index("softmax new")
    assert [str(update) for update in given.updates] == ["state past=present: node 'new' writes it"]


def test_nodes_of_a_program_with_a_state_are_verified() -> None:
    program = tx8.compile(CASES["read before"][0], state={"past": "present"}).compiled
    assert program is not None
    found = verify(program.graph, numbers(CASES["read before"][0]), lambda graph: tx8.compile(graph).compiled)  # type: ignore[arg-type, return-value]
    assert found.ok


@pytest.mark.parametrize(
    "state, message",
    [
        ({"pats": "present"}, "no input 'pats'; its inputs: x, past; did you mean 'past'?"),
        ({"past": "presnt"}, "no output 'presnt'; its outputs: present, y; did you mean 'present'?"),
        (
            {"x": "present"},
            "state x=present: input is 2x32 float32, output is 4x32 float32; a state that grows needs",
        ),
    ],
)
def test_wrong_states_are_refused(state: dict[str, str], message: str) -> None:
    with pytest.raises(GraphError) as caught:
        tx8.compile(CASES["read before"][0], state=state)
    assert message in str(caught.value)


def test_an_output_is_one_state() -> None:
    made = model([("Add", ["past", "other"], ["present"])], "present", "past other")
    with pytest.raises(GraphError, match="output 'present' is the state of another input too"):
        tx8.compile(made, state={"past": "present", "other": "present"})


def test_every_mistake_is_named() -> None:
    program = tx8.compile(CASES["read before"][0]).compiled
    assert program is not None
    with pytest.raises(GraphError) as caught:
        with_states(program.graph, {"a": "present", "b": "y"})
    assert len(caught.value.messages) == 2
