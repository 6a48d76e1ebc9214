"""Operators from files outside of the source tree, and messages about other files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import compiler.lowering
import compiler.operators
from compiler.cli import main
from compiler.tools.extensions import OperatorFileError, load_operators
from compiler.tools.opt import main as opt_main

DOUBLE = """
from compiler.operators.expansion.composite import composite
from compiler.operators.record import Input, Output
from compiler.operators.types import FLOAT


def double(build, call):
    return (build("Add", call.name(0), call.name(0)),)


composite(
    name="Double",
    since=1,
    summary="x + x",
    inputs=(Input("x", FLOAT),),
    outputs=(Output("y", FLOAT),),
    expansion=double,
)
"""
GRAPH = """{"name": "g", "opset": 20, "inputs": [{"name": "x", "dtype": "float32", "shape": [16]}],
 "outputs": ["y"], "nodes": [{"op": "Double", "name": "d", "inputs": ["x"], "outputs": ["y"]}]}"""


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """Remove the registrations of a test afterwards."""
    kept = [(table, dict(table)) for table in (compiler.operators.OPERATORS, compiler.lowering.LOWERINGS)]
    modules = set(sys.modules)
    yield
    for table, content in kept:
        table.clear()
        table.update(content)
    for name in set(sys.modules) - modules:
        if name.startswith("tx8_operators_"):
            del sys.modules[name]


def written(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def refused(path: Path) -> str:
    with pytest.raises(OperatorFileError) as caught:
        load_operators(path)
    return str(caught.value)


def test_a_file_adds_its_operators(tmp_path: Path) -> None:
    assert compiler.operators.added() == []
    assert load_operators(written(tmp_path, DOUBLE)) == ["Double"]
    assert compiler.operators.added() == ["Double"]
    assert compiler.lowering.added() == []


def test_a_lowering_alone_is_something(tmp_path: Path) -> None:
    text = "from compiler.lowering.record import alias\n\nalias('OnlyAnotherName')\n"
    assert load_operators(written(tmp_path, text)) == ["OnlyAnotherName"]
    assert compiler.lowering.added() == ["OnlyAnotherName"]


def test_a_program_with_such_an_operator_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    operators, graph = written(tmp_path, DOUBLE), written(tmp_path, GRAPH, "g.json")
    options = [str(graph), "--run", "-o", str(tmp_path / "out")]
    assert main(options) == 1
    assert "unsupported operator Double" in capsys.readouterr().err
    assert main([*options, "--operators", str(operators)]) == 0
    assert "pass" in capsys.readouterr().out


def test_passes_run_on_such_an_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """tx8opt knows the option as well, and reads the text that it has written."""
    operators, graph = written(tmp_path, DOUBLE), written(tmp_path, GRAPH, "g.json")
    text = tmp_path / "a.mlir"
    assert opt_main([str(graph), "-o", str(text)]) == 1
    assert "unsupported operator Double" in capsys.readouterr().err
    assert opt_main([str(graph), "--operators", str(operators), "-o", str(text)]) == 0
    assert '"tx8be.double"' in text.read_text()
    assert opt_main([str(text), "--until", "cast"]) == 0
    assert opt_main([str(graph), "--operators", str(tmp_path / "absent.py")]) == 1
    assert "absent.py: cannot be read: No such file or directory" in capsys.readouterr().err


def test_the_cache_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program may be out of date when the file, or one of its imports, has changed."""
    monkeypatch.setenv("TX8_CACHE_DIR", str(tmp_path / "cache"))
    operators, graph = written(tmp_path, DOUBLE), written(tmp_path, GRAPH, "g.json")
    assert main([str(graph), "--operators", str(operators), "-v", "-o", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr()
    assert "program cache: not used with operators from outside: Double" in shown.out + shown.err
    assert list(tmp_path.glob("cache/programs*/*.program")) == []


def test_a_message_names_the_file_before_any_graph_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    operators, graph = written(tmp_path, "1 / 0\n"), written(tmp_path, "not a graph", "g.json")
    assert main([str(graph), "--operators", str(operators), "-o", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == f"tx8cc: error: {operators}:1: ZeroDivisionError: division by zero\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("there", ["expansion", "shapes"])
def test_a_file_that_fails_when_it_is_used_is_one_line(
    there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """So is a relative path; nothing is written."""
    monkeypatch.chdir(tmp_path)
    text = DOUBLE.replace("call.name(0), call.name(0)", "call.name(0), 1 / 0")
    if there == "shapes":
        text = DOUBLE.replace("expansion=double", "expansion=double, result=lambda call: 1 / 0")
    written(tmp_path, text), written(tmp_path, GRAPH, "g.json")
    assert main(["g.json", "--operators", "mine.py", "-o", "out"]) == 1
    error = capsys.readouterr().err
    line = text[: text.index("1 / 0")].count("\n") + 1
    assert error == f"tx8cc: error: mine.py:{line}: ZeroDivisionError: division by zero\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "{}: registers no operator and no lowering"),
        ("def broken(:\n", "{}:1:12: invalid syntax"),
        ("\nimport no_such_module\n", "{}:2: ModuleNotFoundError: No module named 'no_such_module'"),
        (
            "\n\nopen('/no/such/file')\n",
            "{}:3: FileNotFoundError: [Errno 2] No such file or directory: '/no/such/file'",
        ),
        (DOUBLE.replace("Double", "Add"), "{}:11: ValueError: operator Add is registered twice"),
        (
            "from compiler.lowering.record import alias\nalias('Reshape')\n",
            "{}:2: ValueError: operator Reshape has two lowerings",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(text: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    assert refused(path) == said.format(path)


def test_a_file_is_loaded_once(tmp_path: Path) -> None:
    path = written(tmp_path, DOUBLE)
    load_operators(path)
    assert refused(path) == f"{path}:11: ValueError: operator Double is registered twice"


def test_only_python_files_are_read(tmp_path: Path) -> None:
    path = written(tmp_path, DOUBLE, "mine.txt")
    assert refused(path) == f"{path}: operators are read from Python files, whose names end in .py"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "absent.py"
    assert refused(path) == f"{path}: cannot be read: No such file or directory"
