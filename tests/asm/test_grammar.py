"""The stored tables of the grammar's parser."""

from __future__ import annotations

import json
from pathlib import Path

import lark
import pytest
from packaging.version import Version

from asm.syntax import tables

TEXTS = (
    "",
    "a0, 1 + 2 * 3",
    "dst=4 << (1 | x), n=%hi(y)(a0)",
    '[1, -2, ~3], "text", 4(a0)',
    "a && !b || c != d",
)


STORED = json.loads(tables.TABLES.read_text(encoding="utf-8"))["made of"][0].removeprefix("lark ")
of_this_lark = pytest.mark.skipif(
    Version(lark.__version__) < Version(STORED),
    reason=f"the stored tables are those of Lark {STORED}; an older one computes its own",
)


def refused() -> lark.Lark:
    raise AssertionError("the tables were computed")


@of_this_lark
def test_the_tables_are_what_lark_computes(capsys: pytest.CaptureFixture[str]) -> None:
    assert tables.main(["--check"]) == 0, capsys.readouterr().err


@of_this_lark
@pytest.mark.parametrize("text", TEXTS)
def test_stored_tables_give_the_trees_of_computed_ones(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = tables.computed_parser().parse(text)
    monkeypatch.setattr(tables, "computed_parser", refused)
    assert tables.parser().parse(text) == expected


def test_with_another_lark_the_tables_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lark, "__version__", "0.0.1")
    computed = tables.computed_parser()
    monkeypatch.setattr(tables, "computed_parser", lambda: computed)
    assert tables.parser() is computed


def test_after_an_edit_of_the_grammar_the_tables_are_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    grammar = tmp_path / "grammar.lark"
    text = tables.TABLES.with_name("grammar.lark").read_text()
    grammar.write_text(text.replace('SCALE.1: "*"', 'SCALE.1: "*" | "@"'))
    monkeypatch.setattr(tables, "_GRAMMAR", grammar)
    assert tables.parser().parse("1 @ 2").children[0].data == "binary"
    assert tables.main(["--check"]) == 1
    assert "run python -m asm.syntax.tables" in capsys.readouterr().err


@of_this_lark
def test_the_command_writes_the_tables_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = tmp_path / "grammar.json"
    text = tables.TABLES.read_text()
    monkeypatch.setattr(tables, "TABLES", written)
    assert tables.main([]) == 0
    assert written.read_text() == text
    assert json.loads(text)["made of"][0] == f"lark {lark.__version__}"


def test_an_unknown_argument_is_a_mistake_of_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert tables.main(["--force"]) == 2
    assert capsys.readouterr().err == "usage: python -m asm.syntax.tables [--check]\n"
