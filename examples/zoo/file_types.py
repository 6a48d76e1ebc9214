"""Magika tells the type of a file from the bytes at its ends; tf2onnx exported it, for JAX."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from generated_files import generated
from task import Array, Inputs, Outputs, Task, package_file, share_right

ROOT = Path(__file__).resolve().parents[2]

PACKAGE = "magika==1.0.3"
_FOLDER = "models/standard_v3_3"

_OWN = (
    ("README.md", "markdown"),
    ("docs/isa.md", "markdown"),
    ("docs/glossary.md", "markdown"),
    ("docs/compiler.md", "markdown"),
    ("asm/assembler.py", "python"),
    ("compiler/cli.py", "python"),
    ("tx8/program.py", "python"),
    ("tx8isa/insns/ct/arith.py", "python"),
    ("examples/c/gemm.c", "c"),
    ("examples/c/ring.c", "c"),
    ("examples/crt/softmax.c", "c"),
    ("Makefile", "makefile"),
    ("examples/c/Makefile", "makefile"),
    ("Dockerfile", "dockerfile"),
    ("pyproject.toml", "toml"),
    ("tx8isa/machine/machines/tx81.toml", "toml"),
    ("examples/mlp/mlp.json", "json"),
    ("examples/digits/digits.json", "json"),
    ("examples/attention/attention.json", "json"),
    ("examples/digits/test_images.npy", "npy"),
    ("examples/mlp/weights.npz", "npz"),
    ("examples/notebooks/first_network.ipynb", "ipynb"),
    ("docs/pictures/chip.svg", "svg"),
    ("docs/pictures/stages.svg", "svg"),
)
"""Files of the repository and their types by Magika's names."""


def files() -> Iterator[tuple[str, bytes, str]]:
    """Name, content and type of every file."""
    for path, kind in _OWN:
        yield path, (ROOT / path).read_bytes(), kind
    yield from generated()


def features(content: bytes, config: dict[str, Any]) -> Array:
    """The bytes at both ends of a file, without surrounding white space, padded with ``padding_token``.

    int32 [1, beg_size + end_size].
    """
    block, begin, end = config["block_size"], config["beg_size"], config["end_size"]
    first = content[:block].lstrip()[:begin]
    last = content[-block:].rstrip()[-end:] if content else b""
    numbers = np.full(begin + end, config["padding_token"], np.int32)
    numbers[: len(first)] = np.frombuffer(first, np.uint8)
    numbers[len(numbers) - len(last) :] = np.frombuffer(last, np.uint8)
    return numbers[None]


def task() -> Task:
    """At least sixty files; the metric is the share of right types."""
    folder = package_file(PACKAGE, "magika", _FOLDER)
    config = json.loads((folder / "config.min.json").read_text())
    labels = config["target_labels_space"]
    named = list(files())
    truth = np.array([labels.index(kind) for _, _, kind in named])
    runs: list[Inputs] = [{"bytes": features(content, config)} for _, content, _ in named]

    def answers(outputs: Sequence[Outputs]) -> Array:
        return np.array([int(np.argmax(found["target_label"])) for found in outputs])

    return Task(
        name="Magika",
        model=folder / "model.onnx",
        runs=runs,
        answers=answers,
        scores={"top-1": lambda found, _: share_right(found, truth)},
        shapes={"bytes": (1, len(runs[0]["bytes"][0]))},
        about=f"the type of one of {len(runs)} files",
    )
