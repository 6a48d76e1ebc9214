"""Records the tests that execute each line, as a plugin of pytest, and reads the records.

    pytest -p line_tests -n 2
    LINES_OF=FILE pytest -p line_tests -n 2       of the files that FILE names alone, in half the time

Each process writes ``build/lines/PID.coverage``, whose contexts are the tests, and ``PID.json``, their
seconds. Recorded tests do not run again, so that a run can continue after an interrupt; remove the folder to
start anew. Compiled code is invisible: lines of makers of kernels are recorded, not lines of kernels. With
TX8_JIT=0 kernels are plain Python, and the records are in ``build/lines/plain``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import coverage
import pytest

from paths import ROOT

COMPILED, PLAIN = ROOT / "build" / "lines", ROOT / "build" / "lines" / "plain"
FOLDER = PLAIN if os.environ.get("TX8_JIT") == "0" else COMPILED


def _files() -> list[str]:
    """The files whose lines are watched."""
    if named := os.environ.get("LINES_OF"):
        return [str(ROOT / name) for name in Path(named).read_text(encoding="utf-8").split()]
    return [f"{ROOT}/{package}/*" for package in ("tx8isa", "asm", "emulator", "compiler")]


class _Watch:
    """The coverage of a process, and the seconds of its tests."""

    def __init__(self) -> None:
        self.name = FOLDER / str(os.getpid())
        self.coverage = coverage.Coverage(
            data_file=f"{self.name}.coverage", include=_files(), config_file=False
        )
        self.seconds: dict[str, float] = {}
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        begin = time.perf_counter()
        done = yield
        self.seconds[item.nodeid] = time.perf_counter() - begin
        self.coverage.switch_context("")
        return done

    def pytest_sessionfinish(self) -> None:
        """Also after an interrupt."""
        self.coverage.stop()
        self.coverage.save()
        self.name.with_suffix(".json").write_text(json.dumps(self.seconds), encoding="utf-8")


class _Unknown:
    """Omits the tests that are already recorded: the same ones in all processes, which begin at the same
    time."""

    def __init__(self) -> None:
        files = [json.loads(file.read_text(encoding="utf-8")) for file in FOLDER.glob("*.json")]
        self._known = {name for seconds in files for name in seconds}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid not in self._known]


def pytest_configure(config: pytest.Config) -> None:
    """Watch each process that runs tests: the workers of xdist, or the only one."""
    config.pluginmanager.register(_Unknown())
    if hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None):
        FOLDER.mkdir(parents=True, exist_ok=True)
        config.pluginmanager.register(_Watch())


@cache
def _measured(folder: Path) -> tuple[list[coverage.CoverageData], dict[str, float]]:
    data, seconds = [], dict[str, float]()
    for file in sorted(folder.glob("*.coverage")):
        data.append(coverage.CoverageData(str(file)))
        data[-1].read()
        seconds |= json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    return data, seconds


def tests_of(file: Path, line: int, folder: Path = COMPILED) -> dict[str, float]:
    """The tests that execute a line of a file, the shortest first, with their seconds."""
    found: dict[str, float] = {}
    data, seconds = _measured(folder)
    for each in data:
        for context in each.contexts_by_lineno(str(file)).get(line, []):
            if context:
                found[context] = seconds.get(context, 0.0)
    return dict(sorted(found.items(), key=lambda pair: pair[1]))
