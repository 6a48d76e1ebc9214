"""The list of changes: versions fall and have dates, and the newest one is what the tools print."""

from __future__ import annotations

import datetime
import json
import re
import tomllib
from itertools import pairwise

import pytest

from paths import ROOT
from tx8isa.tools.version import VERSION

KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
"""Headings of Keep a Changelog, in its order as far as they are used."""

RELEASE = re.compile(r"\[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d\d-\d\d)")


def releases(text: str) -> list[tuple[tuple[int, ...], datetime.date]]:
    """Version and date of each section but ``[Unreleased]``; ValueError for any other heading."""
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    found = []
    for heading in headings[1:] if headings[:1] == ["[Unreleased]"] else headings:
        match = RELEASE.fullmatch(heading)
        if match is None:
            raise ValueError(f"{heading}: not a version and a date, such as [0.1.0] - 2026-11-22")
        found.append((tuple(map(int, match.groups()[:3])), datetime.date.fromisoformat(match[4])))
    return found


def mistakes(text: str) -> list[str]:
    """Versions or dates that rise from one section to the next, and unknown or empty kinds of changes."""
    found = releases(text)
    wrong = [
        f"{newer} after {older}"
        for newer, older in pairwise(found)
        if newer[0] <= older[0] or newer[1] < older[1]
    ]
    kinds = re.findall(r"^### (.*)\n\n(.)", text, re.MULTILINE)
    return wrong + [kind for kind, first in kinds if kind not in KINDS or first != "-"]


def test_sections_are_releases_newest_first() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert mistakes(text) == []
    assert len(releases(text)) >= 8


def test_the_newest_release_is_the_version_of_everything() -> None:
    newest, _ = releases((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))[0]
    assert ".".join(map(str, newest)) == VERSION
    assert f"This is version {newest[0]}.{newest[1]}." in (ROOT / "README.md").read_text(encoding="utf-8")
    assert json.loads((ROOT / "editors/vscode/package.json").read_text())["version"] == VERSION
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert settings["dynamic"]["version"] == {"attr": "tx8isa.tools.version.VERSION"}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("## [0.2.0] - 2026-11-23\n\n### Added\n\n- x\n\n## [0.1.0] - 2026-11-22\n", 0),
        ("## [Unreleased]\n\n## [0.10.0] - 2026-11-23\n\n## [0.9.0] - 2026-11-23\n", 0),
        ("## [0.1.0] - 2026-11-22\n\n## [0.2.0] - 2026-11-21\n", 1),
        ("## [0.2.0] - 2026-11-21\n\n## [0.1.0] - 2026-11-22\n", 1),
        ("## [0.1.0] - 2026-11-22\n\n### New\n\n- x\n\n### Fixed\n\n### Added\n\n- y\n", 2),
    ],
)
def test_wrong_sections_are_seen(text: str, count: int) -> None:
    assert len(mistakes(text)) == count


@pytest.mark.parametrize("heading", ["0.1.0, not released yet", "[0.1] - 2026-11-22", "[0.1.0] - 2026-11-31"])
def test_a_section_that_is_not_a_release_is_refused(heading: str) -> None:
    with pytest.raises(ValueError, match=r"not a version|out of range"):
        releases(f"## {heading}\n")
