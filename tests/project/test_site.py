"""The documentation site: all pages are on it, links lead somewhere, the search finds, nothing is cut off."""

from __future__ import annotations

import functools
import http.server
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from browsers import needs_browser, start
from paths import ROOT
from scripts import site_script

FOLDER = ROOT / "docs" / "site"
NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))


def build(pages: Path, site: Path) -> str:
    """Build the pages and return Sphinx's messages, empty if all is well."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", str(pages), str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


@pytest.fixture
def notebooks() -> Any:
    return site_script("notebooks")


def gathered(folder: Path) -> None:
    """All pages; those of notebooks have no outputs, because running them takes long."""
    site_script("gather").gather(folder)
    for path in NOTEBOOKS:
        page = folder / "examples/notebooks" / f"{path.stem}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"# {path.stem}\n")


def test_every_page_is_in_the_contents() -> None:
    listed = set((FOLDER / "index.md").read_text().split())
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*/README.md"), *NOTEBOOKS]
    names = [str(page.relative_to(ROOT).with_suffix("")) for page in pages]
    assert len(names) > 40
    assert [name for name in sorted(names) if name not in listed] == []


# --- notebooks ----------------------------------------------------------------------------


def test_links_to_notebooks_lead_to_pages() -> None:
    gather = site_script("gather")
    text = "[a](../examples/notebooks/one.ipynb) [b](examples/notebooks/two.ipynb) [c](other.ipynb)"
    assert gather.links_to_pages(text) == (
        "[a](../examples/notebooks/one.md) [b](examples/notebooks/two.md) [c](other.ipynb)"
    )


def test_a_page_has_what_cells_gave(notebooks: Any, tmp_path: Path) -> None:
    outputs = [
        {"output_type": "stream", "text": "printed\n"},
        {"output_type": "stream", "text": "```\n"},
        {"output_type": "display_data", "data": {"image/svg+xml": "<svg/>", "text/plain": "x"}},
        {"output_type": "execute_result", "data": {"text/html": "<b>1</b>", "text/plain": "x"}},
        {"output_type": "execute_result", "data": {"text/plain": "7"}},
    ]
    cells = [
        {"cell_type": "markdown", "source": "# Title"},
        {"cell_type": "code", "source": "f()", "outputs": outputs},
    ]
    page = "\n".join(notebooks.parts({"cells": cells}, tmp_path / "one.md"))
    assert page == (
        "# Title\n\n```python\nf()\n```\n\n````text\nprinted\n```\n````\n\n"
        "![Output of the cell above](one-2.svg)\n\n"
        '```{raw} html\n<div style="overflow-x: auto"><b>1</b></div>\n```\n\n```text\n7\n```\n'
    )
    assert (tmp_path / "one-2.svg").read_text() == "<svg/>"


@pytest.mark.long
def test_a_cell_that_fails_stops_the_site(notebooks: Any, tmp_path: Path) -> None:
    import nbformat
    from nbclient.exceptions import CellExecutionError

    cells = [nbformat.v4.new_code_cell("1 / 0")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "wrong.ipynb")
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        notebooks.write_page(tmp_path / "wrong.ipynb", tmp_path / "wrong.md")


# --- the site -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """The built site, and Sphinx's messages."""
    folder = tmp_path_factory.mktemp("site")
    gathered(folder / "pages")
    return SimpleNamespace(said=build(folder / "pages", folder / "site"), folder=folder / "site")


@pytest.fixture(scope="module")
def browser(site: SimpleNamespace) -> Iterator[SimpleNamespace]:
    """A browser, and the address at which the site is served."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=site.folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    driver = start()
    try:
        yield SimpleNamespace(driver=driver, address=f"http://127.0.0.1:{server.server_port}")
    finally:
        driver.quit()
        server.shutdown()
        server.server_close()


@pytest.mark.long
def test_the_site_builds_without_a_broken_link(site: SimpleNamespace) -> None:
    assert site.said == ""
    written = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").glob("*.md")}
    assert len(written) > 25
    assert [str(path) for path in sorted(written) if not (site.folder / "docs" / path).exists()] == []
    assert (site.folder / "searchindex.js").stat().st_size > 100_000


@pytest.mark.long
def test_a_broken_link_fails(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    gathered(pages)
    for path in pages.rglob("*"):
        if path.is_file() and path.name not in ("conf.py", "README.md", "index.md"):
            path.unlink()
    (pages / "index.md").write_text("# Start\n\n[one](nowhere.md) [two](README.md#no-such-heading)\n")
    (pages / "README.md").write_text("# Readme\n\n```{toctree}\nindex\n```\n")
    said = build(pages, tmp_path / "site")
    assert "nowhere.md" in said
    assert "no-such-heading" in said


@needs_browser
@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("hazard", "docs/strict.html"),
        ("race", "docs/strict.html"),
        ("quantise", "docs/quantisation.html"),
        ("LLM", "examples/writer/README.html"),
    ],
)
def test_the_search_finds_the_page_among_the_first_three(
    browser: SimpleNamespace, words: str, page: str
) -> None:
    browser.driver.get(f"{browser.address}/search.html?q={words}")
    summary = browser.driver.find_element("css selector", ".search-summary")
    end = time.monotonic() + 60
    while not summary.text.startswith("Search finished"):
        assert time.monotonic() < end, summary.text
        time.sleep(0.1)
    found = browser.driver.find_elements("css selector", "ul.search li > a")
    targets = [re.sub(r"[?#].*", "", link.get_attribute("href")) for link in found[:3]]
    assert f"{browser.address}/{page}" in targets, targets


@needs_browser
@pytest.mark.long
@pytest.mark.parametrize("width", [400, 1280])
def test_no_page_is_wider_than_the_window(
    site: SimpleNamespace, browser: SimpleNamespace, width: int
) -> None:
    """Neither a page nor a picture in it exceeds the width of a telephone and of a small screen."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    pages = sorted(path.relative_to(site.folder).as_posix() for path in site.folder.rglob("*.html"))
    assert len(pages) > 100
    found = {}
    for page in pages:
        browser.driver.get(f"{browser.address}/{page}")
        assert browser.driver.execute_script("return window.innerWidth") == width
        found[page] = browser.driver.execute_script(_WIDEST)
    assert {page: widest for page, widest in found.items() if widest > width} == {}


_WIDEST = """
const ends = [...document.querySelectorAll("article img")].map((each) => each.getBoundingClientRect().right);
return Math.max(document.documentElement.scrollWidth, ...ends);
"""
"""The right end of a page or of its pictures, in pixels."""
