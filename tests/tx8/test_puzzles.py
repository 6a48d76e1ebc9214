"""Puzzles: every solution passes, no template does, and the command shows, copies and judges."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from c_tools import needs_gcc
from tx8.judge.judge import judge
from tx8.puzzles import Puzzle, main, puzzles

ASSEMBLY = [puzzle for puzzle in puzzles() if puzzle.template.suffix == ".s"]
IN_C = [puzzle for puzzle in puzzles() if puzzle.template.suffix == ".c"]


def check(puzzle: Puzzle) -> None:
    """The solution passes near the goal, and the template is built and does not pass."""
    right = judge(puzzle.solution, puzzle.spec)
    assert right.passed, right.text
    assert right.goal is not None and right.cycles is not None and right.goal < 1.2 * right.cycles
    begun = judge(puzzle.template, puzzle.spec)
    assert not begun.passed and begun.refusal is None and begun.hint, begun.text


@pytest.mark.parametrize("puzzle", ASSEMBLY, ids=lambda puzzle: puzzle.folder.name)
def test_the_solution_passes_and_the_template_does_not(puzzle: Puzzle) -> None:
    check(puzzle)


@needs_gcc
@pytest.mark.parametrize("puzzle", IN_C, ids=lambda puzzle: puzzle.folder.name)
def test_the_solution_in_c_passes_and_the_template_does_not(puzzle: Puzzle) -> None:
    check(puzzle)


def test_there_are_twenty_and_five_in_c() -> None:
    found = puzzles()
    assert [puzzle.number for puzzle in found] == list(range(1, 21))
    assert (len(ASSEMBLY), len(IN_C)) == (15, 5)
    assert all(puzzle.text.startswith(f"# {puzzle.number}. {puzzle.title}\n") for puzzle in found)


def test_list_show_and_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([]) == 0 and capsys.readouterr().out.count("\n") == 20
    assert main(["2"]) == 0 and "Plus one" in capsys.readouterr().out
    mine = tmp_path / "puzzle_02.s"
    assert mine.read_bytes() == puzzles()[1].template.read_bytes()
    texts = [each.text for each in ElementTree.parse(mine.with_suffix(".svg")).iter() if each.text]
    assert texts == list(puzzles()[1].stages)
    assert main(["2", "puzzle_02.s"]) == 3 and "hint" in capsys.readouterr().out
    mine.write_bytes(puzzles()[1].solution.read_bytes())
    assert main(["2", "puzzle_02.s"]) == 0 and "solved" in capsys.readouterr().out
    assert main(["2"]) == 0 and mine.read_bytes() == puzzles()[1].solution.read_bytes()


@pytest.mark.parametrize("number", ["0", "21", "two", "-1", ""])
def test_a_number_that_no_puzzle_has(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([number]) == 1
    assert "expected a number from 1 to 20" in capsys.readouterr().err


def test_too_many_arguments_are_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["1", "a.s", "b.s"]) == 2 and "usage:" in capsys.readouterr().err
