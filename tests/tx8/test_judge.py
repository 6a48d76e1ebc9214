"""The judge: wrong kernels get the right diagnosis, wrong specifications are refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from paths import ROOT
from tx8.judge.answer import Answer
from tx8.judge.command import main
from tx8.judge.judge import judge
from tx8.judge.outcome import Outcome
from tx8isa.errors import Tx8Error
from wrong_kernels import WRONG, WrongKernel

PUZZLES = ROOT / "examples/puzzles"
SPEC = "def expected(x):\n    return x + 1\n"


def judged(folder: Path, spec: str, kernel: Path = PUZZLES / "02_plus_one/solution.s") -> str:
    """The judge's text about a kernel, by a specification's text."""
    file = folder / "spec.py"
    file.write_text(spec, encoding="utf-8")
    return judge(kernel, file).text


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.mistake.replace(" ", "_"))
def test_a_wrong_kernel_gets_its_diagnosis(wrong: WrongKernel, tmp_path: Path) -> None:
    right = (PUZZLES / wrong.puzzle / "solution.s").read_text(encoding="utf-8")
    assert right.count(wrong.old) >= 1
    file = tmp_path / "kernel.s"
    file.write_text(right.replace(wrong.old, wrong.new, 1), encoding="utf-8")
    answer = judge(file, PUZZLES / wrong.puzzle / "spec.py", limit=3_000_000)
    text = " ".join(answer.text.split())
    for word in wrong.words:
        assert word in text
    if wrong.words[0] in list(Outcome):
        assert answer.outcome == wrong.words[0]


def test_a_right_kernel_passes_and_the_answer_has_every_fact(capsys: pytest.CaptureFixture[str]) -> None:
    folder = PUZZLES / "06_rows"
    assert main([str(folder / "solution.s"), "--spec", str(folder / "spec.py"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["passed"] and answer["outcome"] == "passed" and answer["hazards"] == []
    assert 15_000 < answer["cycles"] < answer["goal"] and answer["bound"]["resource"] == "DDR"
    assert answer["loss"]["fix"] and answer["outputs"][0]["shape"] == [16, 1000]


def test_the_first_wrong_element_is_exact(tmp_path: Path) -> None:
    spec = tmp_path / "spec.py"
    spec.write_text(
        "import numpy as np\ninputs = {'x': np.zeros(1000, 'float32')}\n"
        "def expected(x):\n    x[7] = 3\n    return x + 1\n"
    )
    output = judge(PUZZLES / "02_plus_one/solution.s", spec).outputs[0]
    assert output.first is not None
    assert (output.wrong, output.first.index, output.first.got, output.first.expected) == (1, (7,), 1, 4)
    assert output.largest_error == 3 and output.where == "a single one"


@pytest.mark.parametrize("arguments", [("--seed", "3"), ("--max-instructions", "100")])
def test_statuses(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    kernel, spec = (str(PUZZLES / "01_copy" / name) for name in ("solution.s", "spec.py"))
    status = main([kernel, "--spec", spec, *arguments])
    assert (status, capsys.readouterr().out.split()[1]) == (0, "passed:")
    assert main([kernel, "--spec", spec, "--max-instructions", "5"]) == 3
    assert "instruction-limit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "no function expected"),
        ("def expected(x:\n", "spec.py:1: SyntaxError"),
        ("import nowhere\n", "spec.py:1: ModuleNotFoundError"),
        (f"{SPEC}tolerence = 1\n", "did you mean 'tolerance'?"),
        (f"{SPEC}tolerance = 'small'\n", "expected a number"),
        (f"{SPEC}cycles = 1.5\n", "expected a number of cycles"),
        (f"{SPEC}hints = {{'wrnog': ''}}\n", "did you mean 'wrong'?"),
        (f"{SPEC}inputs = {{'z': 1}}\n", "no input 'z'; inputs: x"),
        (f"{SPEC}inputs = {{'x': ('float99', 4)}}\n", "a type of NumPy and extents"),
        (f"{SPEC}inputs = 3\n", "expected a dictionary"),
        ("def expected(w):\n    return w\n", "takes 'w', which is no input; inputs: x"),
        ("def expected(x):\n    return x + nothing\n", "spec.py:2: NameError"),
        ("def expected(x):\n    raise SystemExit\n", "spec.py:2: SystemExit"),
        ("def expected(x):\n    return {'z': x}\n", "'z', which is no output; outputs: y"),
        ("def expected(x):\n    return x, x\n", "returns 2 results for the outputs y"),
        ("def expected(x):\n    return {}\n", "returns no results"),
        ("def expected(x):\n    return x[:3]\n", "gives 3 for output 'y' of 1000"),
    ],
)
def test_a_wrong_specification_is_one_line(spec: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(Tx8Error) as error:
        judged(tmp_path, spec)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_kernels_that_are_not_there_or_need_triton(tmp_path: Path) -> None:
    assert "refused" in judged(tmp_path, SPEC, tmp_path / "missing.s")
    arguments = f"{SPEC}inputs = {{'x': ('float32', 4)}}\n"
    (tmp_path / "add.py").write_text("")
    text = " ".join(judged(tmp_path, arguments, tmp_path / "add.py").split())
    assert "not installed" in text or "no function 'add' of Triton" in text


def test_a_kernel_of_triton_is_judged_from_its_text(tmp_path: Path) -> None:
    spec = tmp_path / "spec.py"
    spec.write_text(
        "import numpy as np\ngrid = 4\nrng = np.random.default_rng(0)\n"
        "inputs = {n: rng.standard_normal(1000).astype('float16') for n in ('a', 'b')}\n"
        "inputs |= {'sum': np.zeros(1000, 'float16'), 'n': 1000}\n"
        "def expected(a, b):\n    return {'sum': a + b}\n"
    )
    answer = judge(ROOT / "examples/triton/ttir/add_fp16.ttir", spec)
    assert answer.passed, answer.text


def test_the_fixture_judges(tx8_judge: Callable[..., Answer]) -> None:
    folder = PUZZLES / "03_add"
    assert tx8_judge(folder / "solution.s", folder / "spec.py").passed
    assert not tx8_judge(folder / "template.s", folder / "spec.py").passed
