"""Measure how long kernels take on the emulated chip, and compare that with the limits of its DDR and
engines.

python cycles.py [NAME ...]
"""

import sys
from pathlib import Path

import numpy as np

import tx8

LARGE = Path(__file__).parent / "large"
HALF = np.float16


def launches():
    """By the name of a text: a description, the grid and the arguments."""
    rows, vector, square = np.zeros((4096, 1024), HALF), np.zeros(1 << 22, HALF), np.zeros((2048, 2048), HALF)
    heads = np.zeros((16, 2048, 64), HALF)
    ids = np.random.default_rng(0).integers(0, 4096, 4096)
    gated = np.zeros((256, 2, 16384), HALF)
    new = np.zeros_like
    return {
        "add": ("2^22 elements", (64,), (vector, vector, new(vector), vector.size)),
        "gelu": ("2^22 elements", (128,), (vector, new(vector), vector.size)),
        "softmax": ("4096 x 1024", (256,), (rows, new(rows), 4096, 1024)),
        "rms_norm": ("1024 x 4096", (1024,), (rows, np.zeros(4096, HALF), new(rows), 4096, 1e-5)),
        "silu_and_mul": ("256 x 16384", (256, 1), (gated, np.zeros((256, 16384), HALF), 16384)),
        "embedding": ("4096 of 4096 x 1024", (128, 1), (ids, rows, new(rows), 4096, 1024)),
        "product": ("2048 x 2048 x 2048", (16,), (square, square, new(square), 2048, 2048, 2048)),
        "attention": ("16 heads of 2048 x 64", (8, 16), (heads, heads, heads, new(heads), 2048, 0.18)),
        "flash": ("16 heads of 2048 x 64", (4, 16), (heads, heads, heads, new(heads), 2048, 0.18)),
    }


def main(names):
    """Print a line for each kernel."""
    print(f"{'kernel':<14}{'size':<24}{'cycles':>10}  {'bound':<6}{'reached':>7}")
    for name, (size, grid, arguments) in launches().items():
        if not names or name in names:
            run = tx8.triton_kernel(LARGE / f"{name}.ttir").launch(grid, *arguments)
            report = run.stats.report
            print(f"{name:<14}{size:<24}{run.cycles:>10,.0f}  {report.bound:<6}{report.reached:>7.0%}")


if __name__ == "__main__":
    main(sys.argv[1:])
