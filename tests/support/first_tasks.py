"""Times five tasks of a new user of tx8, each with the commands of one page of the documents.

    python tests/support/first_tasks.py            with the tools that are installed
    python tests/support/first_tasks.py --install  in a copy of the checkout, installed as the README says

A command runs as its page shows it, with the files that the page shows, and must print the shown output. So a
task that passes needs no second page.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from documents import INSTALLED, Command, blocks, commands, run_command
from paths import ROOT

BUILT = (".git", ".venv", "build", "dist", "*.egg-info", ".*_cache", ".hypothesis", "__pycache__")
"""Build outputs, which a fresh clone does not have."""


@dataclass(frozen=True)
class Task:
    """A goal of a user, the page that describes it, and lines with commands of that page."""

    name: str
    page: str
    text: str

    @property
    def commands(self) -> list[str]:
        return self.text.strip().splitlines()


INSTALL = ("python3 -m venv .venv && . .venv/bin/activate", "pip install -c constraints.txt .")
"""Lines of the README that install tx8."""
TASKS = (
    Task(
        "install, and a first network",
        "README.md",
        """
tx8cc examples/digits/digits.json --dtype fp16 --run --input x=examples/digits/test_images.npy -o out \
--output-dir out
python examples/digits/score.py out/probabilities.npy --dtype fp16 | grep chip
""",
    ),
    Task(
        "write a kernel from the manual",
        "docs/tour.md",
        """
tx8emu --instructions | grep 'above zero'
tx8emu --instructions ct.relu.v
cat relu.s
tx8as -q relu.s
python -c "import numpy; numpy.save('x.npy', numpy.random.randn(16, 1000).astype('f2'))"
tx8emu relu.bin --input x=x.npy --output-dir . --stats
python -c "import numpy; print((numpy.load('y.npy') == numpy.maximum(numpy.load('x.npy'), 0)).all())"
""",
    ),
    Task(
        "find a planted hazard",
        "docs/what_went_wrong.md",
        """
cat check.py
python -c "import numpy as np; np.save('x.npy', np.random.default_rng(1).random((128, 256), np.float32))"
tx8as -q examples/wrong/normalise.s -o normalise.bin
tx8emu normalise.bin --input x=x.npy --output-dir .
python check.py
tx8emu normalise.bin --input x=x.npy --strict
sed -n '34p;60p' examples/wrong/normalise.s
tx8as -q examples/wrong/normalise_ok.s -o mended.bin
tx8emu mended.bin --input x=x.npy --output-dir . --strict
""",
    ),
    Task(
        "read why a program is slow",
        "docs/why_is_it_slow.md",
        """
cat inputs.py
python inputs.py
tx8as -q examples/slow/step1.s -o step1.bin
tx8emu step1.bin --input A=a.npy --input B=b.npy --output-dir . --stats > step1.txt
cmp C.npy right.npy
sed '/^$/Q' step1.txt
tx8as -q examples/slow/step2.s -o step2.bin
tx8emu step2.bin --input A=a.npy --input B=b.npy --output-dir . --stats > step2.txt
sed '/^$/Q' step2.txt
""",
    ),
    Task(
        "quantise, and compare",
        "docs/quantisation.md",
        """
cat samples.py
python samples.py
tx8cc examples/digits/digits.json --dtype int8 --calibrate samples.npz -o out8 --run \
--input x=examples/digits/test_images.npy --output-dir out8
python examples/digits/score.py out8/probabilities.npy --dtype int8
""",
    ),
)


def page(task: Task) -> str:
    return (ROOT / task.page).read_text(encoding="utf-8")


def missing(task: Task) -> list[str]:
    """Commands of a task that its page does not show."""
    shown = {command.text for command in shown_by(page(task))}
    return [text for text in task.commands if text not in shown]


def shown_by(text: str) -> Iterator[Command]:
    """Return all commands of a page with their shown output."""
    for block in blocks(text):
        if block.language == "console":
            yield from commands(block.text)


def carry_out(task: Task, folder: Path, programs: Path = INSTALLED) -> None:
    """Run a task in a folder that has ``examples``; AssertionError when a command has another output."""
    told = shown_by(page(task))
    for text in task.commands:
        found = next((command for command in told if command.text == text), None)
        assert found, f"{task.page} does not show, in this order: {text}"
        run_command(found, folder, programs)


def install(folder: Path) -> Path:
    """Install a copy of the checkout in ``folder`` as the README says; the folder with its programs."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*BUILT))
    subprocess.run(["bash", "-c", "\n".join(("set -e", *INSTALL))], cwd=folder, check=True)
    return folder / ".venv/bin"


def seconds(since: float) -> str:
    return f"{time.monotonic() - since:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--install", action="store_true", help="install tx8 anew; pip fetches its libraries")
    programs = INSTALLED
    with tempfile.TemporaryDirectory() as name:
        if parser.parse_args().install:
            start = time.monotonic()
            programs = install(Path(name, "tx8"))
            print(f"{seconds(start):>6} s  install", flush=True)
        for number, task in enumerate(TASKS):
            folder = Path(name, str(number))
            folder.mkdir()
            (folder / "examples").symlink_to(ROOT / "examples")
            start = time.monotonic()
            carry_out(task, folder, programs)
            done = f"{task.name}: {len(task.commands)} commands of {task.page}"
            print(f"{seconds(start):>6} s  {done}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
