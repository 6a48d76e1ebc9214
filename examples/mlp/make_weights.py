"""Writes the seeded weights and the input of the MLP example.

    python examples/mlp/make_weights.py [FOLDER]

FOLDER (default: the folder of this file) receives weights.npz and x.npy. Needs NumPy alone.
Values are multiples of 1/512, so that fp16 and tf32 hold every one of them exactly.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BATCH = 19
WIDTHS = (77, 130, 67, 10)
STEP = 1 / 512
SEED = 77


def grid(random: np.random.Generator, shape: tuple[int, ...], spread: float) -> NDArray[np.float32]:
    """Normally distributed values of standard deviation ``spread``, rounded to multiples of STEP."""
    return (np.round(random.standard_normal(shape) * spread / STEP) * STEP).astype(np.float32)


def main() -> None:
    """Writes both files."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    random = np.random.default_rng(SEED)
    arrays: dict[str, Any] = {}
    for layer, (inputs, outputs) in enumerate(pairwise(WIDTHS), start=1):
        arrays[f"fc{layer}.weight"] = grid(random, (outputs, inputs), (2 / inputs) ** 0.5)
        arrays[f"fc{layer}.bias"] = grid(random, (outputs,), 0.1)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / "weights.npz", **arrays)
    np.save(folder / "x.npy", grid(random, (BATCH, WIDTHS[0]), 1.0))


if __name__ == "__main__":
    main()
