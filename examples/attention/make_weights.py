"""Writes the seeded weights and the input of the attention example.

    python examples/attention/make_weights.py [FOLDER]

FOLDER (default: the folder of this file) receives weights.safetensors and x.npy. Needs NumPy and safetensors.
Weights have the variance 1 / inputs, so that activations keep the size of the input and fp16 can represent
them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

BATCH, POSITIONS, HEADS, HEAD_WIDTH = 2, 19, 3, 16
WIDTH = HEADS * HEAD_WIDTH
HIDDEN = 4 * WIDTH
SEED = 19

Array = NDArray[np.float32]


def normal(random: np.random.Generator, shape: tuple[int, ...], spread: float, center: float = 0.0) -> Array:
    """Normally distributed float32 values."""
    return (random.standard_normal(shape) * spread + center).astype(np.float32)


def weights(random: np.random.Generator) -> dict[str, Array]:
    """Every constant of attention.json whose value is not in that file."""
    constants: dict[str, Array] = {}
    for norm in ("norm1", "norm2"):
        constants[f"{norm}.scale"] = normal(random, (WIDTH,), 0.1, 1.0)
        constants[f"{norm}.bias"] = normal(random, (WIDTH,), 0.1)
    layers = dict.fromkeys(("query", "key", "value", "projection"), (WIDTH, WIDTH))
    layers |= {"expand": (WIDTH, HIDDEN), "contract": (HIDDEN, WIDTH)}
    for name, (inputs, outputs) in layers.items():
        constants[f"{name}.weight"] = normal(random, (inputs, outputs), inputs**-0.5)
        constants[f"{name}.bias"] = normal(random, (outputs,), 0.1)
    return constants


def main() -> None:
    """Writes both files."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    random = np.random.default_rng(SEED)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights(random), folder / "weights.safetensors")
    np.save(folder / "x.npy", normal(random, (BATCH, POSITIONS, WIDTH), 1.0))


if __name__ == "__main__":
    main()
