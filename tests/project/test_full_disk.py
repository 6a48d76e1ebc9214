"""Every file that a tool writes, on a full disk: one line names it, and nothing is left behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from paths import ROOT

BIN = Path(sys.executable).parent
DISK_BYTES = 1 << 16
SHELL = """
mount -t tmpfs -o size={size} none full || exit 77
head -c {size} /dev/zero > full/filler
{command}
status=$?
find full -mindepth 1 ! -name filler >&2
exit $status
"""
"""Mounts a separate disk for a command, in a namespace that ends with it; prints the files left there."""

PROGRAM = """
        .input  x, fp16, 4x8
        .output y, fp16, 4x{columns}
_start: li      a7, 93
        ecall
        .data
        .fill   5000, 4, 7
"""


def on_a_full_disk(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder with a full disk ``full``."""
    script = SHELL.format(size=DISK_BYTES, command=command)
    path = os.pathsep.join((str(BIN), os.environ.get("PATH", "")))
    words = ["unshare", "--map-root-user", "--mount", "bash", "-c", script]
    environment = {**os.environ, "PATH": path}
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Programs, a network and its input; skips where no disk can be mounted."""
    path = tmp_path_factory.mktemp("disk")
    (path / "full").mkdir()
    if shutil.which("unshare") is None or on_a_full_disk("true", path).returncode == 77:
        pytest.skip("this system lets no user mount a disk in a namespace of its own (unshare --mount)")
    for name, columns in (("small", 4), ("large", 100_000)):
        (path / f"{name}.s").write_text(PROGRAM.format(columns=columns))
        subprocess.run([BIN / "tx8as", "-q", f"{name}.s"], cwd=path, check=True)
    np.save(path / "x.npy", np.zeros((4, 8), np.float16))
    shutil.copytree(ROOT / "examples" / "mlp", path / "mlp")
    subprocess.run([BIN / "tx8cc", "-q", "mlp/mlp.json", "-o", "out"], cwd=path, check=True)
    yield path


NETWORK = "tx8cc -q mlp/mlp.json --search off -o out"
CASES = [
    ("tx8as -q small.s -o full/p.bin", "full/p.bin"),
    ("tx8as -q small.s -o p.bin -l full/p.lst", "full/p.lst"),
    ("tx8cc -q mlp/mlp.json -o full/new", "full/new/prog.const"),
    (f"{NETWORK} --save-plan full/p.json", "full/p.json"),
    (f"{NETWORK} --report full/r.json", "full/r.json"),
    (f"{NETWORK} --run --output-dir full/new", "full/new/probabilities.npy"),
    (f"{NETWORK} --run --save-inputs full/new", "full/new/x.npy"),
    (f"{NETWORK} --run --html full/r.html", "full/r.html"),
    (f"{NETWORK} --run --trace full/t.json", "full/t.json"),
    ("tx8opt mlp/mlp.json --until import -o full/a.mlir", "full/a.npz"),
    ("tx8emu -q small.bin --random 0 --output-dir full/new", "full/new/y.npy"),
    ("tx8emu -q large.bin --random 0 --output-dir full/new/deep", "full/new/deep/y.npy"),
    ("tx8emu -q small.bin --random 0 --dump-spm=full/spm", "full/spm"),
    ("tx8emu -q small.bin --random 0 --dump-tensor 0:0:fp16:4x4=full/t.npy", "full/t.npy"),
    ("tx8emu -q small.bin --random 0 --dump-tensor y=full/t.npy", "full/t.npy"),
    ("tx8emu -q small.bin --random 0 --save-state full/s --at 1", "full/s"),
    ("tx8emu -q small.bin --random 0 --trace full/t.json.gz", "full/t.json.gz"),
    ("tx8emu -q small.bin --random 0 --report full/r.html", "full/r.html"),
]


@pytest.mark.parametrize(("command", "file"), CASES)
def test_the_message_names_the_file(command: str, file: str, folder: Path) -> None:
    done = on_a_full_disk(command, folder)
    tool = command.split()[0]
    assert done.returncode == 1
    assert done.stderr.startswith(f"{tool}: error: {file}: ")
    assert done.stderr.endswith(": No space left on device\n")
    assert done.stderr.count("\n") == 1, "a second line, or something left on the disk"


def test_what_was_there_stays(folder: Path) -> None:
    """A file that cannot be replaced has its old content."""
    command = (
        "head -c 60000 /dev/zero > full/filler; echo old > full/p.bin; head -c 9999 /dev/zero >> full/filler"
    )
    done = on_a_full_disk(f"{command} 2> more; tx8as -q small.s -o full/p.bin; cat full/p.bin >&2", folder)
    assert done.stderr.splitlines() == [
        "tx8as: error: full/p.bin: cannot be written: No space left on device",
        "old",
        "full/p.bin",
    ]


def test_the_cache_on_a_full_disk_is_done_without(folder: Path) -> None:
    done = on_a_full_disk(f"TX8_CACHE_DIR=full/cache {NETWORK}", folder)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
