"""Programs with states, proved step by step: a step begins with the states that the last one left."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import TensorProto, helper

import tx8
from compiler.driver import Program
from compiler.tools.verification.findings import Proof, lines
from compiler.tools.verification.prove import Prover, prove
from emulator.session.session import ProgramSession
from emulator.watch.prove.memory import FieldMemory
from growing_models import decoder, group_query_decoder, states, step_inputs
from program_mutants import Mutant

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def compiled(model: Any, **options: Any) -> Program:
    found = tx8.compile(model, dtype="fp16", **options).compiled
    assert found is not None
    return found


def each_step(found: Proof) -> list[Proof]:
    return [*found.before, found]


@cache
def table() -> Program:
    """A table of which each step replaces one row, and a number of steps."""
    graph = tx8.GraphBuilder("table")
    past, row = graph.input("past", "float32", (4, 16)), graph.input("row", "float32", (1, 16))
    at, count = graph.input("at", "int64", (1, 1)), graph.input("count", "int64", (2,))
    present = graph.ScatterND(past, at, row)
    graph.output(present, "present")
    graph.output(graph.ReduceSum(present, keepdims=0), "sum")
    graph.output(count + count, "more")
    return compiled(graph, state={"past": "present", "count": "more"}, tiles=4)


def cached() -> Any:
    """Attention of one query over keys, to which each step appends one."""
    ends = {"q": [1, 4, 1, 32], "past": [1, 4, "p", 32], "k": [1, 4, 1, 32]}
    inputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in ends.items()]
    results = {"y": [1, 4, 1, 32], "keys": [1, 4, "after", 32]}
    outputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in results.items()]
    nodes = [
        helper.make_node("Concat", ["past", "k"], ["keys"], axis=2),
        helper.make_node("Attention", ["q", "keys", "keys"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "cached", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


@cache
def growing() -> Program:
    return compiled(cached(), dims={"p": (0, 8, 24)}, state={"past": "keys"})


def test_each_step_begins_with_what_the_one_before_has_left() -> None:
    found = prove(table(), steps=4)
    assert found.holds, lines(found)
    assert [each.step for each in each_step(found)] == [1, 2, 3, 4]
    assert all(each.proved == {"present": 64, "sum": 1, "more": 2} for each in each_step(found))
    assert lines(found)[0] == "at step 1: proved: present, 64 elements"


def test_states_that_grow_are_proved_from_empty_to_full() -> None:
    prover = Prover(growing())
    assert [point["p"] for point in prover.points] == [0, 5, 22]
    for point in prover.points:
        found = prover.at(point)
        assert found.holds, lines(found)
        assert [each.sizes["p"] for each in each_step(found)] == [point["p"] + at for at in range(3)]
        assert [each.proved["keys"] for each in each_step(found)] == [
            128 * (point["p"] + at) for at in (1, 2, 3)
        ]


def test_there_are_no_more_steps_than_room() -> None:
    found = prove(growing(), sizes={"p": 23}, steps=9)
    assert [each.sizes["p"] for each in each_step(found)] == [23, 24]
    assert found.holds


# --- mistakes ---------------------------------------------------------------------------------------------


def test_a_row_that_is_written_over_an_old_one_is_found_in_step_2() -> None:
    """All rows are stored at the place of the first one, so the second step has a stale row in the place of
    the new one."""
    program = growing()
    text = program.text.splitlines()
    number = next(
        at for at, line in enumerate(text) if re.search(r"slli\s+\w+, \w+, 6\s+# \(p mul 64\)", line)
    )
    register = text[number].split()[1].rstrip(",")
    wrong = Mutant("a constant place", number + 1, lambda _: f"        li {register}, 0")
    found = prove(wrong.of(program), sizes={"p": 0})
    first, second = each_step(found)
    assert first.holds, lines(first)
    assert [each.output for each in second.differences] == ["y", "keys"]
    assert second.differences[1].index == (0, 0, 0, 0)
    assert lines(found)[2].startswith("at p=1, step 2: WRONG: ")


def test_an_element_that_a_step_leaves_stale_is_found_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = FieldMemory.kept

    def stale(memory: FieldMemory, first: int, count: int) -> npt.NDArray[np.float32]:
        found = kept(memory, first, count)
        if count > 64:  # the table, not the number of steps
            third = count // 2  # the row; an element has two bytes
            found[:, third + 2 : third + 4] = found[:, third : third + 2]
        return found

    monkeypatch.setattr(FieldMemory, "kept", stale)
    first, second = each_step(prove(table()))
    assert first.holds, lines(first)
    assert [(each.output, each.index) for each in second.differences] == [("present", (2, 1)), ("sum", ())]


def test_numbers_that_a_step_leaves_stale_are_found_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of a step do not stay, but its elements do, so only integers are wrong."""
    end = ProgramSession._end
    monkeypatch.setattr(ProgramSession, "_end", lambda session, complete: end(session, False))
    first, second = each_step(prove(table()))
    assert first.holds, lines(first)
    assert [each.output for each in second.differences] == ["more"]


# --- decoders ---------------------------------------------------------------------------------------------

DIMS = {"new": (1, 1, 8), "past": (0, 10, 24)}


@pytest.mark.parametrize(
    ("model", "new", "past"),
    [
        (decoder, 3, 5),
        pytest.param(decoder, 8, 8, marks=pytest.mark.long),
        pytest.param(decoder, 1, 0, marks=pytest.mark.long),
        pytest.param(group_query_decoder, 1, 5, marks=pytest.mark.long),
        pytest.param(group_query_decoder, 8, 8, marks=pytest.mark.long),
    ],
)
def test_decoders_are_proved(model: Any, new: int, past: int) -> None:
    """Masks hide keys, also as the lengths of the cache say."""
    program = compiled(model(), dims=DIMS, state=states())
    rng = np.random.default_rng(1)
    given = [step_inputs(rng.integers(0, 50, new), past + at * new) for at in range(3)]
    names = {tensor.name for tensor in program.graph.inputs}
    steps = [{name: array for name, array in each.items() if name in names} for each in given]
    found = prove(program, sizes={"new": new, "past": past}, steps=steps)
    assert found.holds, lines(found)
    assert len(each_step(found)) == (3 if past + 2 * new <= 24 else 2)


def _of_integers() -> Program:
    """A product of rows of a table, which integers choose, and sums of rows: no input is a float."""
    random, graph = np.random.default_rng(3), tx8.GraphBuilder("rows")
    table, weights = (random.standard_normal(shape).astype(np.float32) for shape in ((40, 24), (24, 16)))
    rows = graph.Gather(graph.constant(table), graph.input("ids", "int64", (5,)))
    graph.output(graph.MatMul(rows, graph.constant(weights)), "products")
    graph.output(graph.ReduceSum(rows, keepdims=0), "sum")
    return compiled(graph)


def test_results_of_constants_alone_are_exact() -> None:
    """The chip rounds sums of products of constants, so that it stores other numbers than the exact ones."""
    program = _of_integers()
    found = prove(program)
    assert found.holds and found.proved == {"products": 5 * 16, "sum": 1}, lines(found)
    number = next(at for at, line in enumerate(program.text.splitlines(), 1) if "ne.gemm" in line)
    wrong = Mutant("", number, lambda line: line.replace("k=24", "k=23")).of(program)
    assert prove(wrong, explain=False).differences
