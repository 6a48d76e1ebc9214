"""A part of a result is computed from the parts of the operands that records name, and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from box_cases import Compute, PartCase, bits, box_problem, changed_part, replaced_outside, some_box
from box_draws import DRAWN, drawn
from compiler.evaluation.reference import run_reference
from compiler.graph import Array, Box, Graph, GraphError
from compiler.operators import OPERATORS
from compiler.operators.boxes.propagation import propagated
from compiler.operators.expansion.expander import expand_graph
from compiler.passes.rewrite import simplified
from network_draws import drawn as drawn_network
from network_draws import inputs_of
from onnx_models import imported
from onnx_node_tests import modules, node_tests_of
from onnx_oracle import as_array, describe, onnx, supported

BESIDE_ZEROS = ("Resize", "LRN")
"""Computed with matrices that are mostly zeros: NaN times zero is NaN, a number times zero is zero."""

# --- enough ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", DRAWN)
def test_a_part_needs_no_more_than_the_record_says(op: str) -> None:
    for seed in range(12):
        case, rng = drawn(op, seed)
        compute = case.by_reference()
        for number in range(case.outputs):
            with_nan = op not in BESIDE_ZEROS and seed % 3 > 0
            problem = changed_part(case, compute, rng, with_nan=with_nan, number=number)
            assert problem is None, f"{op}, seed {seed}, result {number}: {problem}"


@pytest.mark.parametrize("op", ["Gather", "GatherElements", "GatherND", "MatMul", "ReverseSequence", "Pad"])
def test_known_operands_narrow_what_is_needed_but_not_too_far(op: str) -> None:
    for seed in range(12):
        case, rng = drawn(op, seed)
        case = replace(case, known=list(case.operands)[1:])
        problem = changed_part(case, case.by_reference(), rng, with_nan=True)
        assert problem is None, f"{op}, seed {seed}: {problem}"


def test_every_operator_of_onnx_and_every_internal_one_is_drawn() -> None:
    own = {name for name, record in OPERATORS.items() if "." not in name and not record.bodies}
    assert own - set(DRAWN) == set()


# --- the tests of the onnx package, by its own evaluator -------------------------------------------------


SLOW = ("AveragePool", "LpPool", "MaxPool")
"""Operators whose large tests the evaluator computes element by element, which takes minutes."""


def part_case_of(test: Any) -> PartCase | None:
    """A node test as a call; None for one of several nodes, or that records or graphs do not allow."""
    nodes, values = test.model.graph.node, test.data_sets[0][0]
    if len(nodes) != 1 or not all(isinstance(v, onnx.TensorProto | np.ndarray | np.generic) for v in values):
        return None
    given = {info.name: as_array(v) for info, v in zip(test.model.graph.input, values, strict=True)}
    (node,) = nodes
    if not supported(test, given) or len(set(node.input)) != len(node.input):
        return None
    if node.op_type in SLOW and max(array.size for array in given.values()) > 1000:
        return None
    (described,) = describe(test, given).nodes
    operands = {name or f"omitted{at}": given.get(name) for at, name in enumerate(node.input)}
    opset = test.model.opset_import[0].version
    case = PartCase(node.op_type, operands, described.attrs, outputs=len(node.output), opset=opset)
    try:
        case.call()
    except GraphError:
        return None
    return case


def by_evaluator(test: Any, case: PartCase) -> Compute:
    """The results that onnx's reference evaluator computes."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(test.model)

    def compute(arrays: Sequence[Array | None]) -> Sequence[Array]:
        given = zip(case.operands, arrays, strict=True)
        with np.errstate(all="ignore"):
            found = evaluator.run(None, {name: array for name, array in given if array is not None})
        named = dict(zip(evaluator.output_names, found, strict=True))
        return [np.asarray(named.get(name, 0)) for name in test.model.graph.node[0].output]

    return compute


@pytest.mark.parametrize("module", modules())
def test_onnx_computes_the_part_from_no_more_too(module: str) -> None:
    rng = np.random.default_rng([*module.encode()])
    for test in node_tests_of(module):
        case = part_case_of(test)
        if case is None:
            continue
        wanted = [number for number, name in enumerate(test.model.graph.node[0].output) if name]
        for number in wanted:
            problem = changed_part(case, by_evaluator(test, case), rng, with_nan=False, number=number)
            assert problem is None, f"{test.name}, result {number}: {problem}"


# --- wrong records are noticed ---------------------------------------------------------------------------


def narrower(box: Box | None) -> Box | None:
    """Without the last element of an axis that has several."""
    if box is None:
        return None
    axis = next((axis for axis, size in enumerate(box.shape) if size > 1), None)
    return box if axis is None else box.along(axis, box.intervals[axis][0], box.intervals[axis][1] - 1)


@pytest.mark.parametrize(
    "op", ["Add", "Softmax", "MatMul", "Conv", "Transpose", "Reshape", "Concat", "Gather"]
)
@pytest.mark.parametrize("with_nan", [False, True])
def test_too_small_a_box_is_noticed(op: str, with_nan: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    record = OPERATORS[op]
    needs = record.needs
    assert needs is not None
    wrong = replace(record, needs=lambda *call: tuple(map(narrower, needs(*call))))
    monkeypatch.setitem(OPERATORS, op, wrong)
    cases = [drawn(op, seed) for seed in range(12)]
    found = [changed_part(case, case.by_reference(), rng, with_nan=with_nan) for case, rng in cases]
    assert any(text is not None and "needs more than" in text for text in found)


@pytest.mark.parametrize("intervals", [((0, 0), (0, 6)), ((0, 5), (0, 6)), ((-1, 4), (0, 6))])
def test_a_box_beside_its_operand_is_noticed(intervals: tuple[tuple[int, int], ...]) -> None:
    case = PartCase("Neg", {"x": np.ones((4, 6), np.float32)})
    assert box_problem(case.call(), [Box(intervals)]) is not None
    assert box_problem(case.call(), []) == "0 boxes for 1 operands"


# --- whole networks --------------------------------------------------------------------------------------


def rewritten(graph: Graph) -> Graph:
    """As the passes see it."""
    return expand_graph(simplified(graph))


@pytest.mark.parametrize("seed", range(20))
def test_a_part_of_a_network_needs_no_more_than_the_nodes_say(seed: int, tmp_path: Path) -> None:
    net, model = drawn_network(seed)
    plain, inputs, rng = imported(model, tmp_path), inputs_of(net), np.random.default_rng(seed)
    for graph in (plain, rewritten(plain)):
        with_nan = seed % 2 > 0 and not any(node.op in ("Resize", "MatMul") for node in graph.nodes)
        whole = run_reference(graph, inputs)
        for tensor in graph.outputs:
            box = some_box(rng, tensor.shape)
            found = propagated(graph, graph.nodes, {tensor.name: box})
            other = {
                name: replaced_outside(rng, array, found.get(name), with_nan)
                for name, array in inputs.items()
            }
            with np.errstate(all="ignore"):
                part = run_reference(graph, other)[tensor.name]
            assert bits(part[box.slices]) == bits(whole[tensor.name][box.slices]), f"{tensor.name} {box}"
