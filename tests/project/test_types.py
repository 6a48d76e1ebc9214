"""The types are right: mypy runs in parallel with the other tests, because it uses only one processor
core."""

from __future__ import annotations

import subprocess
import sys

from paths import ROOT


def test_mypy_finds_nothing() -> None:
    run = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
