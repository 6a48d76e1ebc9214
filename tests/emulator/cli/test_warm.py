"""tx8emu --warm: everything is compiled, and a failure is one line."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from emulator import native
from emulator.cli import main, warm
from emulator.native import store
from machine_code import needs_jit


@pytest.mark.long
@needs_jit
def test_jobs_fill_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TX8_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(native, "_loaded", {})
    jobs = warm.all_jobs()
    assert len(jobs) > 600
    monkeypatch.setattr(warm, "all_jobs", lambda: [*jobs[:2], *jobs[-2:]])
    with pytest.raises(SystemExit) as left:
        main(["--warm"])
    assert left.value.code == 0
    printed = capsys.readouterr()
    size = sum(path.stat().st_size for path in store.folder().glob("*.o"))
    assert printed.out.startswith(f"4 kernels, {size / (1 << 20):,.1f} MB, in {tmp_path / 'kernels-v2'}; ")
    assert printed.err == ""


@needs_jit
def test_progress_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TX8_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(warm, "all_jobs", lambda: [lambda: None] * 3)
    terminal = Terminal()
    assert warm.warm(terminal).startswith("0 kernels, 0.0 MB")
    assert "0/3" in terminal.getvalue()


def test_refused_where_nothing_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TX8_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(native, "jit_enabled", lambda: True)
    assert main(["--warm"]) == 1
    place = tmp_path / "file" / "kernels-v2"
    assert capsys.readouterr().err == (
        f"tx8emu: error: --warm: {place} cannot be written; name another with TX8_CACHE_DIR\n"
    )
    monkeypatch.setattr(native, "jit_enabled", lambda: False)
    assert main(["--warm"]) == 1
    assert capsys.readouterr().err == "tx8emu: error: --warm: nothing is compiled with TX8_JIT=0\n"
