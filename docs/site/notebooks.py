"""Runs notebooks and writes them as Markdown pages with their outputs, for the documentation site.

The repository keeps notebooks without outputs. A page has the text, the code and the outputs of the cells:
printed lines, tables as HTML, pictures as SVG files next to the page.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 600
"""A cell that takes longer hangs."""


def executed(path: Path) -> Any:
    """Run all cells of a notebook in a folder of its own; CellExecutionError when one fails."""
    notebook = nbformat.read(path, as_version=4)
    os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=SECONDS, resources=resources).execute()
    return notebook


def fenced(language: str, text: str) -> str:
    """A code block; the fence is longer than any in the text."""
    fence = "`" * max(3, 1 + max((len(run) for run in text.split("\n") if set(run) == {"`"}), default=0))
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def merged(outputs: list[Any]) -> Iterator[Any]:
    """Outputs of a cell, consecutive printed ones as one."""
    for printed, group in groupby(outputs, lambda output: output["output_type"] == "stream"):
        if printed:
            yield {"output_type": "stream", "text": "".join(output["text"] for output in group)}
        else:
            yield from group


def shown(output: Any, picture: Path) -> str:
    """One output as Markdown; an SVG goes into the file ``picture``."""
    if output["output_type"] == "stream":
        return fenced("text", output["text"])
    data = output["data"]
    if "image/svg+xml" in data:
        picture.write_text(data["image/svg+xml"], encoding="utf-8")
        return f"![Output of the cell above]({picture.name})\n"
    if "text/html" in data:
        return fenced("{raw} html", f'<div style="overflow-x: auto">{data["text/html"]}</div>')
    return fenced("text", data["text/plain"])


def parts(notebook: Any, page: Path) -> Iterator[str]:
    """The cells of an executed notebook, each with its outputs, as Markdown."""
    pictures = (page.with_name(f"{page.stem}-{number}.svg") for number in range(1, 1000))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            yield f"{cell['source']}\n"
        else:
            yield fenced("python", cell["source"])
            yield from (shown(output, next(pictures)) for output in merged(cell["outputs"]))


def write_page(path: Path, page: Path) -> None:
    """Run the notebook ``path`` and write ``page``, with its pictures next to it."""
    page.write_text("\n".join(parts(executed(path), page)), encoding="utf-8")
