"""The table of operators in docs/triton_speed.md is complete, and its figures are up to date."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from paths import ROOT

FOLDER = ROOT / "examples/triton"
_NO_OPERATORS = {
    *("branches", "collatz", "early", "fibonacci", "generator", "integers", "messages", "reduce_axes"),
    *("ahead", "product_list"),
    *("rounded", "running", "softmax_block", "unsigned", "windows", "atomics", "count", "random_integers"),
}
"""Texts that show the language, not an operator."""


def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("triton_table", FOLDER / "table.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _rows() -> list[str]:
    """The rows of the document."""
    text = (ROOT / "docs/triton_speed.md").read_text().partition("| operator | formats |")[2]
    return [line for line in text.partition("\n\n")[0].splitlines() if line.startswith("| `")]


def _name(stem: str) -> str:
    """The operator of a text, without format and variant."""
    for fmt in ("fp16", "bf16", "fp32", "i8", "i16", "i32", "i64"):
        stem = stem.partition(f"_{fmt}")[0]
    return stem


def test_every_operator_has_a_row() -> None:
    listed = [row.split("`")[1] for row in _rows()]
    table = _module()
    assert listed == [name for name, *_ in table.launches()]
    texts = {
        _name(path.stem)
        for folder in ("ttir", "operators", "functions")
        for path in (FOLDER / folder).glob("*.ttir")
    }
    assert texts - set(listed) == _NO_OPERATORS
    assert len(listed) > 60


@pytest.mark.long
def test_the_figures_are_those_of_today(capsys: pytest.CaptureFixture[str]) -> None:
    _module().main([])
    assert capsys.readouterr().out.splitlines()[2:] == _rows()
    assert "triton_table" not in sys.modules
