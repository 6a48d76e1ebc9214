"""Transposes by boxes: long runs of DDR on both sides, and moves between them in the scratchpad."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import compiler
from compiler.codegen.phase import Target
from compiler.codegen.slices.boxes import box_plans
from compiler.codegen.slices.tensors import DdrTensor, View, collapse, whole
from compiler.driver import Program
from compiler.graph import Graph
from compiler.tools import run
from compiler_harness import graph, small_machine, strict_outputs
from time_bench import warm
from tx8isa.machine.description import load_machine
from tx8isa.numbers.formats import Format

CASES = [
    ((64, 48), (1, 0)),
    ((1024, 7), (1, 0)),
    ((2, 53, 24), (0, 2, 1)),
    ((1, 20, 16, 12), (0, 2, 1, 3)),
    ((9, 10, 8, 6), (3, 1, 0, 2)),
    ((3, 5, 7, 100), (3, 1, 2, 0)),
]


def transposed(shape: tuple[int, ...], perm: tuple[int, ...], dtype: str) -> Graph:
    return graph([("Transpose", ["x"], ["y"], {"perm": perm})], {"x": shape}, dtype=dtype)


def ways(program: Program) -> list[object]:
    """The choices of the divisions of all phases."""
    assert program.report is not None
    return [phase.cut and phase.cut.choices.get("way") for phase in program.report.phases]


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "uint8"])
@pytest.mark.parametrize(("shape", "perm"), CASES)
def test_values_are_where_they_belong(shape: tuple[int, ...], perm: tuple[int, ...], dtype: str) -> None:
    x = np.arange(math.prod(shape)).reshape(shape).astype(dtype) % 201
    program = compiler.compile(transposed(shape, perm, dtype))
    found = run.execute(program, {"x": x})[0]["y"]
    np.testing.assert_array_equal(found, x.transpose(perm))


@pytest.mark.parametrize(("shape", "perm"), [CASES[0], CASES[2], CASES[4]])
@pytest.mark.parametrize("tiles", [16, 3])
def test_boxes_have_no_hazards(shape: tuple[int, ...], perm: tuple[int, ...], tiles: int) -> None:
    made = transposed(shape, perm, "float16")
    program = compiler.compile(made, None, tiles, small_machine(0x10000))
    assert tiles < 16 or ways(program) == ["boxes"]
    strict_outputs(made, program)


def test_boxes_save_time() -> None:
    """The rule of the lowering reads every element in a run of its own. Where nothing is cold."""
    program = compiler.compile(transposed((64, 48), (1, 0), "float16"), machine=warm(load_machine(None)))
    assert program.report is not None
    (template,) = program.report.templates
    rule = next(tried for tried in template.tried if tried.cut is None)
    assert rule.cycles is not None and template.cycles is not None
    assert template.cycles < 0.25 * rule.cycles


def test_long_runs_are_not_cut_into_boxes() -> None:
    tensor, target = DdrTensor("x", Format.FP16, (4, 6, 256)), DdrTensor("y", Format.FP16, (6, 4, 256))
    space = collapse((6, 4, 256), (View(tensor, (256, 1536, 1)), whole(target)))
    machine = load_machine(None)
    assert not list(box_plans(Target(16, 1 << 20, Format.FP16, machine), space))


def test_boxes_fit_the_scratchpad() -> None:
    tensor, target = DdrTensor("x", Format.FP16, (500, 300)), DdrTensor("y", Format.FP16, (300, 500))
    space = collapse((300, 500), (View(tensor, (1, 300)), whole(target)))
    found = box_plans(Target(16, 0x4000, Format.FP16, load_machine(None)), space)
    boxes = list(itertools.islice(found, 20))
    assert boxes and all(4 * 2 * math.prod(box) <= 0x4000 for box in boxes)
