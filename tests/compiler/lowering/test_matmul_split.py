"""Products whose terms are divided among tiles: every cut gives equal numbers, no race, and the choice is
good.

Matrices of small integers, so that every order of summation gives NumPy's exact integers.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import compiler
from compiler.cli import main
from compiler.codegen.kernel import Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.graph import Graph
from compiler.lowering.generate import attempt
from compiler.lowering.record import Cut
from compiler.tools import run
from compiler_harness import draw, graph, one
from matmul_cases import SPM, Case, integers, made, step
from phase_harness import output_of, phase_program, travelling
from tx8isa.numbers.formats import Format


def is_split(cut: Cut) -> bool:
    return cut.choice("way", "plan") == "split"


def split_cuts(case: Case, tiles: int = 16) -> list[Cut]:
    """Return the proposed splits, each with both methods of exchange."""
    found = [cut for cut in case.all_cuts(tiles) if is_split(cut)]
    ways = [(("way", "split"), ("exchange", way)) for way in ("dte", "ddr")]
    return list(dict.fromkeys(replace(cut, choices=choices) for cut in found for choices in ways))


def check(case: Case, tiles: int = 16) -> None:
    """Exact, free of hazards, the same on any number of threads."""
    program, _ = phase_program(case.lower, case.tensors, case.work.output, tiles)
    given = travelling(case.inputs, case.tensors)
    once = output_of(program, given)
    assert np.array_equal(once.astype(np.float64).reshape(case.want.shape), case.want), case.work.cut
    for threads in (1, 2):
        assert program.run(given, threads=threads)["y"].tobytes() == once.tobytes()


SHAPES = [
    (1, 1100, 10),
    (4, 1536, 64),
    (2, 513, 80),
    (6, 700, 128),
    (3, 640, 72),
    (16, 1024, 40),
    (1, 2000, 1),
    (7, 1000, 96),
    (64, 600, 64),
]


@pytest.mark.parametrize("tiles", [4, 16])
@pytest.mark.parametrize(("m", "terms", "n"), SHAPES)
def test_every_split_gives_the_same_result(m: int, terms: int, n: int, tiles: int) -> None:
    """Blocks with and without a narrower plane, parts of rows and of planes, a shorter chunk of terms."""
    case = made((m, terms), (terms, n), Format.FP16, constant=n % 20 == 0)
    for cut in split_cuts(case, tiles)[:2]:
        check(case.cut(cut), tiles)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("stored", [None, Format.FP32])
@pytest.mark.parametrize("fmt", [Format.FP16, Format.BF16, Format.TF32, Format.FP32])
def test_formats(fmt: Format, stored: Format | None, constant: bool) -> None:
    case = made((4, 900), (900, 48), fmt, constant, stored, out=Format.FP32 if stored else fmt)
    for cut in split_cuts(case)[:2]:
        if fmt is Format.BF16 and not stored:  # the result must be exact in 8 bits
            case = replace(case, want=case.want.astype(np.float32).astype("bfloat16").astype(np.float64))
        check(case.cut(cut))


@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 1), (1, 0), (1, 1)])
def test_transposed_operands(trans_a: int, trans_b: int) -> None:
    a = (640, 8) if trans_a else (8, 640)
    b = (64, 640) if trans_b else (640, 64)
    case = made(a, b, Format.FP16, transA=trans_a, transB=trans_b)
    check(case.cut(split_cuts(case)[0]))


@pytest.mark.parametrize("batches", [2, 3])
def test_batches_have_teams(batches: int) -> None:
    case = made((batches, 2, 600), (batches, 600, 64), Format.FP16)
    for cut in split_cuts(case)[:2]:
        assert cut.parts("batch") == batches
        check(case.cut(cut))


@pytest.mark.parametrize("seed", range(10))
def test_random_shapes(seed: int) -> None:
    draws = np.random.default_rng(seed)
    m, n = int(draws.choice([1, 2, 5, 12, 33])), int(draws.choice([1, 9, 33, 65, 130, 192]))
    terms, tiles = int(draws.integers(512, 1500)), int(draws.choice([3, 4, 7, 16]))
    fmt = (Format.FP16, Format.BF16, Format.FP32, Format.TF32)[seed % 4]
    case = made((m, terms), (terms, n), fmt, bool(seed % 3))
    found = split_cuts(case, tiles)
    check(case.cut(found[int(draws.integers(len(found)))]), tiles)


def test_steps_are_applied_by_the_owners() -> None:
    """A vector per column, a tensor of the result's shape, and an operator of one operand, in this order."""
    case = made((4, 800), (800, 192), Format.FP16)
    vector, other = integers((192,), 3), integers((4, 192), 4)
    v, w = DdrTensor("v", Format.FP16, (192,)), DdrTensor("w", Format.FP16, (4, 192))
    out = case.work.output
    steps = (step("Add", out, v), step("Sub", out, w), step("Relu", out))
    want = np.maximum(case.want + vector - other, 0)
    for cut in split_cuts(case)[:2]:
        work = replace(case.work, steps=steps, cut=cut)
        check(Case(work, {**case.inputs, "v": vector, "w": other}, want))


def compiled(made_graph: Graph, tiles: int = 16) -> tuple[compiler.Program, Cut]:
    """The program, and the cut of its last phase that has one."""
    program = compiler.compile(made_graph, "fp16", tiles)
    (chosen,) = [phase.cut for phase in program.report.phases if phase.cut is not None] or [None]
    return program, chosen


@pytest.mark.parametrize(
    ("shape", "columns", "wins"),
    [
        ((1, 16384), 10, True),
        ((1, 4096), 10, False),
        ((4, 25088), 64, True),
        ((512, 512), 512, False),
        ((1, 1024), 4096, False),
    ],
)
def test_the_search_takes_it_where_it_pays(shape: tuple[int, int], columns: int, wins: bool) -> None:
    """4096 terms are not divided, because the commands of the exchange would be the first of their kind."""
    made_graph = one("MatMul", [shape], {"w": draw(shape[1], columns, scale=0.02)})
    program, cut = compiled(made_graph)
    assert (cut is not None and dict(cut.choices).get("way") == "split") == wins
    if wins:
        outcome = run.check(program, run.random_inputs(made_graph, {}, 3))
        assert outcome.ok, outcome.verdicts


@pytest.mark.parametrize(
    ("m", "terms", "n", "tiles", "split"),
    [
        (1, 4096, 10, 16, True),
        (4, 3000, 64, 4, True),
        (3, 2048, 200, 16, True),
        (1, 1024, 10, 16, False),
        (4, 3000, 300, 16, False),
        (1, 4096, 10, 2, False),
    ],
)
def test_the_rule_deals_terms_where_most_tiles_would_be_idle(
    m: int, terms: int, n: int, tiles: int, split: bool
) -> None:
    case = made((m, terms), (terms, n), Format.FP16)
    assert any("inbox" in line for line in case.check(tiles)) == split
    if split:
        case.check(tiles, 0x10000)


def test_gemm_with_everything() -> None:
    """alpha, beta, an addend for each element, a transposed operand, and an epilogue."""
    node = ("Gemm", ["a", "b", "c"], ["t"], {"alpha": 0.5, "beta": 2.0, "transB": 1})
    made_graph = graph([node, ("Relu", ["t"], ["y"], {})], {"a": (4, 9000), "b": (64, 9000), "c": (4, 64)})
    program, cut = compiled(made_graph)
    assert cut is not None and dict(cut.choices)["way"] == "split"
    outcome = run.check(program, run.random_inputs(made_graph, {}, 3))
    assert outcome.ok, outcome.verdicts


def test_a_plan_keeps_it(tmp_path: Path) -> None:
    inputs = [{"name": n, "dtype": "float32", "shape": s} for n, s in (("x", [1, 9000]), ("w", [9000, 10]))]
    node = {"op": "MatMul", "name": "n", "inputs": ["x", "w"], "outputs": ["y"]}
    description = {"name": "g", "opset": 20, "inputs": inputs, "outputs": ["y"], "nodes": [node]}
    source, plan = tmp_path / "g.json", tmp_path / "plan.json"
    source.write_text(json.dumps(description))
    common = [str(source), "--dtype", "fp16", "-q", "--no-cache"]
    assert main([*common, "-o", str(tmp_path / "a"), "--save-plan", str(plan)]) == 0
    assert '"split"' in plan.read_text()
    assert main([*common, "-o", str(tmp_path / "b"), "--plan", str(plan)]) == 0
    assert (tmp_path / "a/prog.bin").read_bytes() == (tmp_path / "b/prog.bin").read_bytes()
    plan.write_text(plan.read_text().replace('"k": 16', '"k": 15'))
    assert main([*common, "-o", str(tmp_path / "c"), "--plan", str(plan)]) == 1


@pytest.mark.parametrize(("m", "n", "ways"), [(4, 64, {"ddr"}), (192, 192, {"ddr", "dte"})])
def test_much_is_exchanged_over_the_dte(m: int, n: int, ways: set[str]) -> None:
    """A phase may be the only user of the DTE, and the first copy of a program takes long."""
    proposed = made((m, 4096), (4096, n), Format.FP16).all_cuts()
    assert {cut.choice("exchange", "") for cut in proposed if is_split(cut)} == ways


REFUSED = [
    ((1, 1, 1, 16), 0, "ddr"),
    ((1, 1, 1, 16), 64, "mail"),
    ((1, 1, 1, 15), 64, "ddr"),
    ((1, 3, 1, 5), 64, "ddr"),
    ((1, 1, 3, 5), 64, "dte"),
    ((2, 1, 1, 8), 64, "dte"),
    ((1, 4, 2, 4), 64, "dte"),
]


@pytest.mark.parametrize(("grid", "size", "way"), REFUSED)
def test_cuts_that_divide_nothing_are_refused(grid: tuple[int, ...], size: int, way: str) -> None:
    tiles = tuple(zip(("batch", "m", "n", "k"), grid, strict=True))
    cut = Cut(tiles, (("k", size),), (("way", "split"), ("exchange", way)))
    case = made((4, 1024), (1024, 128), Format.FP16).cut(cut)
    with pytest.raises(ValueError, match="does not divide a product of 1 x 4 x 1024 x 128"):
        attempt("p0", case.work, Target(16, SPM, Format.FP16), SPM, False)


@pytest.mark.parametrize(
    ("a", "b"), [((4, 400), (400, 64)), ((512, 2048), (2048, 512)), ((17, 2, 1024), (17, 1024, 8))]
)
def test_products_without_a_split(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Few terms; a block for every tile; more batches than tiles."""
    assert not split_cuts(made(a, b, Format.FP16))


def test_one_tile_has_nobody_to_share_with() -> None:
    assert not split_cuts(made((1, 4096), (4096, 10), Format.FP16), 1)
