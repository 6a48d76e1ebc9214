"""Gather the pages of the documentation site: ``python docs/site/gather.py FOLDER``.

The pages keep their places in the repository, so that their links hold: every Markdown file, and every file
that one of them links to. Notebooks are run and become pages. Sphinx (``conf.py``) makes the site of them and
fails on a link that leads nowhere.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLACES = (".", "docs", "examples")
"""The folders of pages; of the root only pages directly in it."""
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
NOTEBOOKS = Path("examples/notebooks")


def pages() -> Iterator[Path]:
    """Every page, relative to the root."""
    for place in PLACES:
        found = ROOT.glob("*.md") if place == "." else (ROOT / place).rglob("*.md")
        yield from (path.relative_to(ROOT) for path in sorted(found) if path.parent != HERE)


def linked(page: Path) -> Iterator[Path]:
    """The files that a page links to, relative to the root; a folder stands for its README."""
    for target in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        path = (ROOT / page.parent / target).resolve()
        if "://" not in target and path.is_file() and path.is_relative_to(ROOT):
            yield path.relative_to(ROOT)


def gather(folder: Path) -> None:
    """Copy pages and the files that they link to. Earlier contents of the folder are removed."""
    shutil.rmtree(folder, ignore_errors=True)
    files = set(pages())
    files |= {file for page in files.copy() for file in linked(page)}
    for file in files:
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            target.write_text(links_to_pages((ROOT / file).read_text(encoding="utf-8")), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / file, target)
    for name in ("conf.py", "index.md"):
        shutil.copyfile(HERE / name, folder / name)


def links_to_pages(text: str) -> str:
    """A page whose links to notebooks lead to the pages that are made of them."""
    return re.sub(rf"\]\(((?:\.\./)*{NOTEBOOKS}/\w+)\.ipynb\)", r"](\1.md)", text)


def run_notebooks(folder: Path) -> None:
    """Write a page with all outputs for each notebook; this compiles and runs their programs."""
    from notebooks import write_page

    (folder / NOTEBOOKS).mkdir(parents=True, exist_ok=True)
    for path in sorted((ROOT / NOTEBOOKS).glob("*.ipynb")):
        write_page(path, folder / NOTEBOOKS / f"{path.stem}.md")


if __name__ == "__main__":
    gather(Path(sys.argv[1]))
    run_notebooks(Path(sys.argv[1]))
