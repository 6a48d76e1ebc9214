"""Five tasks of a first-time user succeed with the commands of one page each."""

from __future__ import annotations

from pathlib import Path

import pytest

import first_tasks
from first_tasks import INSTALL, TASKS, Task, carry_out, missing
from paths import ROOT


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_commands_are_on_the_page(task: Task) -> None:
    assert missing(task) == []


def test_the_readme_says_how_to_install() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    start = lines.index(f"    {INSTALL[0]}")
    assert lines[start : start + len(INSTALL)] == [f"    {line}" for line in INSTALL]


def test_there_are_five_on_five_pages() -> None:
    assert len({task.page for task in TASKS}) == len({task.name for task in TASKS}) == len(TASKS) == 5


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_goes_through(task: Task, tmp_path: Path, programs: Path) -> None:
    """It runs in a folder with the examples and nothing else."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    carry_out(task, tmp_path, programs)


# --- the tests find what they forbid ------------------------------------------------------


def wrong_page(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(first_tasks, "page", lambda task: f"```console\n{text}\n```\n")


def test_a_command_that_the_page_lacks_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong_page(monkeypatch, "$ echo one\none")
    task = Task("try", "page.md", "echo one\necho two")
    assert missing(task) == ["echo two"]
    with pytest.raises(AssertionError, match=r"page\.md does not show, in this order: echo two"):
        carry_out(task, tmp_path)


def test_a_page_with_the_wrong_order_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong_page(monkeypatch, "$ echo two\ntwo\n$ echo one\none")
    with pytest.raises(AssertionError, match="in this order: echo two"):
        carry_out(Task("try", "page.md", "echo one\necho two"), tmp_path)


def test_output_unlike_the_page_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong_page(monkeypatch, "$ echo one\n1")
    with pytest.raises(AssertionError, match=r"\$ echo one"):
        carry_out(Task("try", "page.md", "echo one"), tmp_path)
