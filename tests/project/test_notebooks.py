"""The notebooks in examples/notebooks run from the first cell to the last, and are stored without outputs."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from paths import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert not [output for output in printed if output.get("name") == "stderr"]
    pictures = [output for output in printed if "image/svg+xml" in output.get("data", {})]
    assert len(pictures) == {"first_network": 2, "kernel_by_hand": 1}.get(path.stem, 0)
    assert any("text/html" in output.get("data", {}) for output in printed) or path.stem == "finding_a_race"


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["finding_a_race", "first_network", "kernel_by_hand"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
