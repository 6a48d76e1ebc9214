"""Python code run in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from paths import ROOT


def run_python(code: str, extra: dict[str, str], **options) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **extra}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, **options)
