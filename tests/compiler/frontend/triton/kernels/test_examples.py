"""The examples of kernels against NumPy: sizes that do not divide evenly, and nothing written outside of the
masks."""

from __future__ import annotations

import re

import numpy as np
import pytest

from compiler.frontend.triton.kernels.operations.handlers import HANDLERS
from paths import ROOT
from triton_launches import CASES, TEXTS, Case, case, compiled, poison, run, run_twice


@pytest.mark.parametrize(("name", "fmt"), CASES)
def test_an_example_gives_what_numpy_gives(name: str, fmt: str) -> None:
    """Results are compared where the kernel stores; elsewhere the arrays keep their NaN, as expected."""
    made = case(name, fmt)
    results = run_twice(made)
    for key, got in results.items():
        want = np.asarray(made.expected[key], np.float64)
        stays = np.isnan(want)
        assert np.array_equal(np.isnan(got), stays)
        results[key] = np.where(stays, 0, got)
    cleaned = {key: np.nan_to_num(np.asarray(want, np.float64)) for key, want in made.expected.items()}
    Case(made.text, made.grid, made.arguments, cleaned, made.allowed).check(results)


def test_every_text_has_a_case() -> None:
    assert {case(name, fmt).text for name, fmt in CASES} == {path.stem for path in TEXTS.glob("*.ttir")}


@pytest.mark.parametrize("name", ["softmax_block", "matmul", "attention_causal"])
def test_threads_and_tiles_change_no_bit(name: str) -> None:
    made = case(name, "fp16")
    program, single = made.program(), made.program(tiles=1)
    results = [run(made, program, threads=1), run(made, program, threads=2), run(made, single)]
    for other in results[1:]:
        for key, want in results[0].items():
            assert other[key].tobytes() == want.tobytes()


def test_the_table_of_the_document_has_every_operation() -> None:
    text = (ROOT / "docs/triton.md").read_text()
    rows = [line for line in text.partition("| what | operations |")[2].splitlines() if line.startswith("| ")]
    listed = re.findall(r"`([a-z]+\.[a-z_.0-9]+)`", " ".join(row.split("|")[2] for row in rows))
    assert sorted(listed) == sorted(HANDLERS)


def test_debuggers_find_the_lines_of_python() -> None:
    """Every line of the softmax that computes has code, the lines of the loop and of the function too."""
    source = (ROOT / "examples/triton/kernels.py").read_text().splitlines()
    lines = set(case("softmax", "fp16").program().image.lines.values())
    assert {file for file, _ in lines} == {"kernels.py", "prog.s"}
    code = " ".join(source[line - 1] for file, line in lines if file == "kernels.py")
    for part in ("def softmax(", "range(tl.program_id(0)", "tl.load(", "tl.exp(", "tl.sum(", "tl.store("):
        assert code.count(part) == 1


def test_without_python_the_lines_are_those_of_the_text() -> None:
    program = compiled(
        "    %c = arith.constant 1.5 : f32\n    tt.store %x, %c : !tt.ptr<f32>", ("x: !tt.ptr<f32>",),
        x=poison("fp32", 8),
    )  # fmt: skip
    lines = set(program.image.lines.values())
    assert ("kernel.ttir", 4) in lines and {file for file, _ in lines} == {"kernel.ttir", "prog.s"}
