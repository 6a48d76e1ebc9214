"""The documentation site: every page is on it, and every link leads somewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from paths import ROOT

GATHER = ROOT / "docs" / "site" / "gather.py"


def build(pages: Path, site: Path) -> str:
    """What Sphinx says of the pages; nothing when all is well."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", str(pages), str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def gather(folder: Path) -> None:
    subprocess.run([sys.executable, str(GATHER), str(folder)], check=True)


def test_every_page_is_in_the_contents() -> None:
    listed = set((ROOT / "docs" / "site" / "index.md").read_text().split())
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*/README.md")]
    names = [str(page.relative_to(ROOT).with_suffix("")) for page in pages]
    assert len(names) > 40
    assert [name for name in sorted(names) if name not in listed] == []


@pytest.mark.long
def test_the_site_builds_without_a_broken_link(tmp_path: Path) -> None:
    pages, site = tmp_path / "pages", tmp_path / "site"
    gather(pages)
    assert build(pages, site) == ""
    written = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").glob("*.md")}
    assert len(written) > 25
    assert [str(path) for path in sorted(written) if not (site / "docs" / path).exists()] == []
    assert (site / "searchindex.js").stat().st_size > 100_000


@pytest.mark.long
def test_a_broken_link_fails(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    gather(pages)
    for path in pages.rglob("*"):
        if path.is_file() and path.name not in ("conf.py", "README.md", "index.md"):
            path.unlink()
    (pages / "index.md").write_text("# Start\n\n[one](nowhere.md) [two](README.md#no-such-heading)\n")
    (pages / "README.md").write_text("# Readme\n\n```{toctree}\nindex\n```\n")
    said = build(pages, tmp_path / "site")
    assert "nowhere.md" in said
    assert "no-such-heading" in said
