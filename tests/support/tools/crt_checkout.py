"""Compiling a checkout of the public C runtime, which is never a part of this project."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import tx8
from c_tools import FLAGS, GCC
from crt_tools import INCLUDES
from tx8isa.errors import Tx8Error

VARIABLE = "TX8_CRT_CHECKOUT"
"""Names a folder with ``include`` and ``lib/Tx81``: third_party/tsingmicro/crt of a checkout of FlagTree."""
PREFIX = "riscv64-unknown-elf-"
SECOND = {"common": "main", "powf_test_1": "powf"}
"""Files that define a name that another file or the launcher defines, too."""


def checkout() -> Path | None:
    """The folder that the environment names; None without one."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def sources(folder: Path) -> list[Path]:
    """The C files of a checkout."""
    return sorted((folder / "lib" / "Tx81").rglob("*.c"))


def compiled_files(folder: Path, target: Path) -> tuple[list[Path], dict[str, str]]:
    """Return the object files of a checkout, and GCC's messages by refused file."""
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


def link_error(objects: list[Path], target: Path) -> str:
    """Links the archive of a checkout, as the vendor builds it, into a kernel; returns the linker's refusal.

    The kernel names every function of the archive, so that no member is left out, except for ``SECOND``.
    """
    archive, kernel = target / "libvr.a", target / "kernel.c"
    archive.unlink(missing_ok=True)
    subprocess.run([f"{PREFIX}ar", "rcs", str(archive), *map(str, objects)], check=True)
    named = [str(path) for path in objects if len(objects) == 1 or path.stem not in SECOND]
    listed = subprocess.run(
        [f"{PREFIX}nm", "--defined-only", "--extern-only", *named], capture_output=True, text=True, check=True
    )
    names = set(re.findall(r" T (\w+)$", listed.stdout, re.MULTILINE))
    declared = "".join(f"extern char {name}[];\n" for name in sorted(names))
    stored = "".join(f"    *(char *volatile *)buffer = {name};\n" for name in sorted(names))
    kernel.write_text(f"{declared}void all_of_it(void *buffer) {{\n{stored}}}\n")
    try:
        tx8.c_kernel([kernel, archive], "all_of_it", flags=["-fno-builtin", "-w"])
    except Tx8Error as error:
        return str(error)
    return ""
