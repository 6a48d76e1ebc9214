"""The cost of ranges of sizes: prints the tables of docs/dynamic_shapes.md.

    python tests/support/networks/range_costs.py [encoder | text_line]

For each size, the simulated cycles of the image for the range, relative to an image of that size with the
same options. Also the bytes of code, without constants, relative to an image of the usual sizes.
``PYTHONPATH`` has this folder.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto

import tx8
from range_models import encoder, text_line

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A model, its range, the inputs of a batch and a size, and the sizes of its table, usual ones first."""

    model: ModelProto
    dims: dict[str, Sequence[int]]
    inputs: Callable[[int, int], Inputs]
    sizes: Sequence[tuple[int, int]]


def texts(batch: int, seq: int) -> Inputs:
    """Texts of a length, each with a mask."""
    rng = np.random.default_rng(seq)
    seen = rng.integers(1, seq + 1, (batch, 1))
    return {"ids": rng.integers(0, 50, (batch, seq)), "mask": (np.arange(seq) < seen).astype(np.int64)}


def lines(batch: int, width: int) -> Inputs:
    """Images of lines of text."""
    return {"x": np.random.default_rng(width).standard_normal((batch, 1, 32, width)).astype(np.float32)}


CASES: dict[str, Callable[[], Case]] = {
    "encoder": lambda: Case(
        encoder(128, 4, 512),
        {"seq": (1, 128, 512), "batch": (1, 1, 4)},
        texts,
        [(1, 128), (1, 1), (3, 2), (2, 37), (1, 200), (4, 512)],
    ),
    "text_line": lambda: Case(
        text_line(64, 96),
        {"width": (16, 160, 640), "batch": (1, 1, 4)},
        lines,
        [(1, 160), (1, 16), (3, 40), (2, 101), (1, 320), (4, 640)],
    ),
}


def code_bytes(program: tx8.Program) -> int:
    """Bytes of the code of a program and of the tables by which it chooses versions."""
    sections = ".text", ".rodata"
    return sum(len(segment.data) for segment in program.image.segments if segment.section in sections)


def costs(case: Case, residency: str) -> list[float]:
    """The cycles at each size, then the code, each in relation to an image of one size."""
    ranged = tx8.compile(case.model, dtype="fp16", dims=case.dims, residency=residency)
    found, code = [], 0
    for size in case.sizes:
        inputs = case.inputs(*size)
        shapes = {name: value.shape for name, value in inputs.items()}
        alone = tx8.compile(case.model, dtype="fp16", shapes=shapes, residency=residency)
        found.append(ranged.run(inputs).cycles / alone.run(inputs).cycles)
        code = code or code_bytes(alone)
    return [*found, code_bytes(ranged) / code]


def main() -> None:
    """Print a table for each model."""
    for name in sys.argv[1:] or CASES:
        case = CASES[name]()
        heads = [f"{batch}x{size}" for batch, size in case.sizes]
        print(f"| {name} | {' | '.join(heads)} | code |")
        for option, residency in (("`--residency off`", "off"), ("default", "on")):
            found = [f"{each:.2f}" for each in costs(case, residency)]
            print(f"| {option} | {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main()
