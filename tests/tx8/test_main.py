"""``python -m tx8`` prints where the documents are."""

from __future__ import annotations

from pathlib import Path

import pytest

import tx8.__main__ as main_module
from paths import ROOT
from tx8isa.tools.version import VERSION


class Installed:
    """A file that an installed distribution lists."""

    def __init__(self, name: str, root: Path) -> None:
        self.name, self.root = name, root

    def as_posix(self) -> str:
        return self.name

    def locate(self) -> Path:
        return self.root / self.name


def elsewhere(monkeypatch: pytest.MonkeyPatch, folder: Path, *names: str) -> None:
    """As if tx8 were installed in ``folder`` with these files."""
    monkeypatch.setattr(main_module, "__file__", str(folder / "lib/tx8/__main__.py"))
    monkeypatch.setattr(main_module, "files", lambda _: [Installed(name, folder) for name in names])


def test_a_checkout_has_its_own_documents(capsys: pytest.CaptureFixture[str]) -> None:
    assert main_module.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"tx8 {VERSION}"
    assert [Path(line.split()[1]) for line in lines[1:]] == [
        ROOT / n for n in ("README.md", "docs", "examples")
    ]


def test_a_wheel_says_where_it_has_put_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    elsewhere(monkeypatch, tmp_path, "tx8/run.py", "share/doc/tx8/README.md")
    assert main_module.home() is None, "the file is listed and was deleted"
    (tmp_path / "share/doc/tx8").mkdir(parents=True)
    (tmp_path / "share/doc/tx8/README.md").touch()
    assert main_module.home() == tmp_path / "share/doc/tx8"


def test_documents_that_are_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere(monkeypatch, tmp_path, "tx8/run.py")
    assert main_module.main() == 1
    assert capsys.readouterr().err.startswith("tx8: the documents are not installed with this copy")
