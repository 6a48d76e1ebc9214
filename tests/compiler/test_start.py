"""The imports of tx8cc: passes and their libraries only when there is a graph to compile."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from paths import ROOT

GRAPH = {
    "name": "tiny",
    "opset": 20,
    "inputs": [{"name": "x", "dtype": "float32", "shape": [3, 5]}],
    "outputs": ["y"],
    "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["y"]}],
}


def loaded_by(*arguments: str) -> tuple[str, set[str]]:
    """Run tx8cc in a new process; return its output and the modules that it imports."""
    program = (
        "import sys\nfrom compiler.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "print('modules', *sys.modules)"
    )
    command = [sys.executable, "-c", program, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    text, _, modules = run.stdout.rpartition("modules ")
    return text + run.stderr, set(modules.split())


COMPILING = {"xdsl", "numba", "llvmlite", "compiler.lowering", "compiler.passes", "compiler.search"}


def test_a_program_from_the_cache_needs_no_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = tmp_path / "tiny.json"
    tiny.write_text(json.dumps(GRAPH))
    monkeypatch.setenv("TX8_CACHE_DIR", str(tmp_path / "cache"))
    first, loaded = loaded_by(str(tiny), "-v")
    assert "program cache: miss" in first and loaded >= {"xdsl", "compiler.lowering"}
    again, loaded = loaded_by(str(tiny), "-v")
    assert "program cache: hit" in again and loaded.isdisjoint(COMPILING)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], [], ["x.json", "--input", "x"], ["x.json", "--json"]]
)
def test_what_compiles_nothing_loads_nothing_heavy(arguments: list[str]) -> None:
    _, loaded = loaded_by(*arguments)
    assert "argparse" in loaded and loaded.isdisjoint({*COMPILING, "numpy", "onnx"})
