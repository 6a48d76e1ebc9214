"""What records say that a part of a result needs of the operands: enough of them, and not too much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from box_cases import Compute, PartCase, changed_part
from box_draws import OTHERS
from compiler.graph import Array, GraphError
from compiler.operators import OPERATORS
from onnx_node_tests import modules, node_tests_of
from onnx_oracle import as_array, describe, onnx, supported
from operator_cases import DRAWS
from operator_draws import Random

BESIDE_ZEROS = ("Resize", "LRN")
"""Computed with matrices that are mostly zeros: NaN times zero is NaN, a number times zero is zero."""

DRAWN = sorted({*DRAWS, *OTHERS})


def drawn(op: str, seed: int) -> tuple[PartCase, Random]:
    """A call, and the generator for what is done with it."""
    rng = np.random.default_rng([seed, *op.encode()])
    if op in OTHERS:
        return OTHERS[op](rng), rng
    operands, attrs = DRAWS[op](rng)
    return PartCase(op, operands, attrs), rng


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
    own = {name for name in OPERATORS if "." not in name}
    assert own - set(DRAWN) == set()


# --- the tests of the onnx package, by its own evaluator -------------------------------------------------


def part_case_of(test: Any) -> PartCase | None:
    """A node test as a call; None for one of several nodes, or that records or graphs do not allow."""
    nodes, values = test.model.graph.node, test.data_sets[0][0]
    if len(nodes) != 1 or not all(isinstance(v, onnx.TensorProto | np.ndarray | np.generic) for v in values):
        return None
    given = {info.name: as_array(v) for info, v in zip(test.model.graph.input, values, strict=True)}
    (node,) = nodes
    if not supported(test, given) or len(set(node.input)) != len(node.input):
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
        for number in wanted * 2:
            problem = changed_part(case, by_evaluator(test, case), rng, with_nan=False, number=number)
            assert problem is None, f"{test.name}, result {number}: {problem}"
