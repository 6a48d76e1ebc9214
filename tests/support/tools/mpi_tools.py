"""Running tx8emu under mpiexec, for the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

MPIEXEC = Path(sys.executable).with_name("mpiexec")
SECONDS = 120
"""Time limit in seconds, longer than any run of the tests takes on a busy machine."""


def needs_mpi(test: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: skip without mpi4py and mpiexec, but fail under CI."""
    missing = [name for name in ("mpi4py",) if find_spec(name) is None]
    missing += [] if MPIEXEC.exists() else ["mpiexec"]
    if os.environ.get("CI") == "true" or not missing:
        return test
    return pytest.mark.skip(reason=f"not installed: {' '.join(missing)}")(test)


def emulate(ranks: int, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run tx8emu with this many ranks, without mpiexec for one; return output and status."""
    command = [str(Path(sys.executable).with_name("tx8emu")), *arguments]
    if ranks > 1:
        command = [str(MPIEXEC), "-n", str(ranks), *command]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)


def rank_processes(mpiexec: int) -> list[int]:
    """The processes that an mpiexec, given by its process, has started; they are children of its proxies."""
    return [rank for proxy in _children(mpiexec) for rank in _children(proxy)]


def _children(process: int) -> list[int]:
    try:
        text = Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]
