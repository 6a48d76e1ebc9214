"""Writes the inputs and constants of the two batch normalization cases.

    python examples/batchnorm/make_data.py [FOLDER]

FOLDER (default: the folder of this file) receives, for C = 30 and C = 129, bnC.npz (scale, shift, mean and
variance, float32 [C]) and bnC_x.npy (float16 [4, C, 112, 2]). Needs NumPy alone.

The values come from integer formulas and a seed, and each is exact in fp16. Every channel has its own mean
and variance, and its input is spread around that mean, so that a confusion of two channels shows.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHANNELS = (30, 129)
BATCH, HEIGHT, WIDTH = 4, 112, 2


Arrays = dict[str, Any]  # of NumPy arrays; savez takes no narrower type


def constants(channels: int) -> Arrays:
    """The four parameters per channel, multiples of 1/64."""
    c = np.arange(channels)
    sixty_fourths = {
        "scale": 64 + (c * 37) % 65 - 32,  # 0.5 .. 1.5
        "shift": (c * 53) % 129 - 64,  # -1 .. 1
        "mean": (c * 29) % 257 - 128,  # -2 .. 2
        "variance": 16 + (c * 71) % 241,  # 0.25 .. 4
    }
    return {name: (values / 64).astype(np.float32) for name, values in sixty_fourths.items()}


def activations(channels: int, parameters: Arrays) -> NDArray[np.float16]:
    """Input [4, C, 112, 2]: multiples of 1/64, normal around the channel's mean, at most 8 deviations off."""
    random = np.random.default_rng(channels)
    normal = random.standard_normal((BATCH, channels, HEIGHT, WIDTH)).clip(-8, 8)
    per_channel = (channels, 1, 1)
    deviation = np.sqrt(parameters["variance"]).reshape(per_channel)
    values = normal * deviation + parameters["mean"].reshape(per_channel)
    x: NDArray[np.float16] = (np.round(values * 64) / 64).astype(np.float16)
    return x


def main() -> None:
    """Writes the four files."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    for channels in CHANNELS:
        parameters = constants(channels)
        np.savez_compressed(folder / f"bn{channels}.npz", **parameters)
        np.save(folder / f"bn{channels}_x.npy", activations(channels, parameters))


if __name__ == "__main__":
    main()
