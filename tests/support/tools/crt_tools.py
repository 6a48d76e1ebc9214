"""Building C programs against the tables of ``tx8isa/include/tsm``, and running them on the emulated chip."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from c_tools import FLAGS, GCC, HEADERS, make, run_with
from paths import ROOT

RUNTIME = ROOT / "tx8isa" / "c" / "runtime"
INCLUDES = [f"-I{HEADERS / 'tsm'}", f"-I{RUNTIME}"]
STRICT = ["-O1", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror"]
MEMBERS = ROOT / "tests" / "data" / "crt_members.txt"


def compiled(source: Path, target: Path, flags: Sequence[str] = STRICT) -> Path:
    """The object file of a C file; a warning or an error fails the test with GCC's message."""
    command = [GCC, *FLAGS, *INCLUDES, *flags, "-c", str(source), "-o", str(target)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return target


@cache
def library(part: str) -> tuple[Path, ...]:
    """The object files of the library; ``part``: ``program``, or ``kernel`` with the launcher's ``main``."""
    folder = Path(tempfile.mkdtemp(prefix="tsm"))
    atexit.register(shutil.rmtree, folder)
    sources = [
        path for path in sorted(RUNTIME.glob("tsm_*.c")) if part == "kernel" or "launch" not in path.name
    ]
    return tuple(compiled(path, folder / f"{path.stem}.o") for path in sources)


def built(source: str, folder: Path) -> Path:
    """The program of a C text that has a ``main`` and calls the tables."""
    path = folder / "program.c"
    path.write_text(source)
    objects = [compiled(path, folder / "program.o"), *library("program")]
    make(folder, "start.o", "runtime.o")
    target = folder / "program.elf"
    command = [GCC, "--specs=picolibc.specs", "-march=rv64ifd", "-mabi=lp64d", "-mcmodel=medany"]
    command += ["-nostartfiles", "-T", str(RUNTIME / "tx8.ld")]
    command += [str(o) for o in (*objects, folder / "start.o", folder / "runtime.o")]
    result = subprocess.run([*command, "-o", str(target)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return target


def ran(
    source: str, folder: Path, inputs: Mapping[str, bytes], outputs: Mapping[str, int]
) -> dict[str, bytes]:
    """Run a C text on ``inputs``; return its global variables ``outputs`` (name and bytes) afterwards."""
    found, _ = run_with(built(source, folder), inputs, outputs)
    return found


def published() -> dict[str, tuple[int, dict[str, tuple[str, ...]]]]:
    """Return, by table, the number of members, and the parameter types of each published one."""
    found: dict[str, tuple[int, dict[str, tuple[str, ...]]]] = {}
    for line in MEMBERS.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            table, count = line.split()
            found[table] = int(count), {}
            continue
        names, _, types = line.strip().partition(": ")
        found[table][1].update((name, tuple(types.split(", "))) for name in names.split())
    return found
