"""Compiling a checkout of the public C runtime, which is never a part of this project."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from c_tools import FLAGS, GCC
from crt_tools import INCLUDES, library

VARIABLE = "TX8_CRT_CHECKOUT"
"""Names a folder with ``include`` and ``lib/Tx81``: third_party/tsingmicro/crt of a checkout of FlagTree."""
APPLICATION = {"common.c"}
"""Files with a ``main`` and what else belongs to an application of the vendor's, not to its library."""


def checkout() -> Path | None:
    """The folder that the environment names; None without one."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def sources(folder: Path) -> list[Path]:
    """The C files of a checkout."""
    return sorted((folder / "lib" / "Tx81").rglob("*.c"))


def compiled_files(folder: Path, target: Path) -> tuple[list[Path], dict[str, str]]:
    """The object files of a checkout, and by file what GCC said of those that it refused."""
    include = [f"-I{path}" for path in (folder / "include", *(folder / "include").glob("*/"))]
    objects, refused = [], {}
    for source in sources(folder):
        path = target / f"{source.stem}.o"
        # Without -std=c11: these files are written for GNU C.
        flags = [flag for flag in FLAGS if not flag.startswith("-std")]
        command = [GCC, *flags, *INCLUDES, *include, "-O2", "-w", "-c", str(source), "-o", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            refused[source.name] = done.stderr
        else:
            objects.append(path)
    return objects, refused


def undefined(objects: list[Path], target: Path) -> set[str]:
    """What the library of a checkout needs and neither it, ours nor the C library defines."""
    parts = [path for path in objects if path.with_suffix(".c").name not in APPLICATION]
    command = [
        GCC,
        "--specs=picolibc.specs",
        "-march=rv64ifd",
        "-mabi=lp64d",
        "-mcmodel=medany",
        "-nostartfiles",
    ]
    command += [
        "-Wl,--no-gc-sections",
        "-Wl,--warn-unresolved-symbols",
        "-Wl,-e,0",
        *(str(p) for p in (*parts, *library("program"))),
    ]
    done = subprocess.run(
        [*command, "-lm", "-o", str(target / "all.elf")], capture_output=True, text=True, check=False
    )
    names = set(re.findall(r"undefined reference to `(\w+)'", done.stderr))
    return names - {"stdout", "stderr", "_exit"}
