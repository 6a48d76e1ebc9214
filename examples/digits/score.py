"""Score the emulated chip's answers on the 360 test images.

    python examples/digits/score.py [PROBABILITIES.npy] [--dtype NAME]

Prints how many images the chip and the float32 reference got right and on how many they disagree.
Exits 1 when fewer than 97 % are right or more than two answers differ from the reference.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from network import Array, probabilities
from numpy.typing import NDArray
from safetensors.numpy import load_file

HERE = Path(__file__).parent
SHARE_RIGHT = 0.97
MOST_DIFFERENT = 2

Labels = NDArray[np.int64]


class ScoreError(Exception):
    """The chip's output cannot be scored; the text says why, in one line."""


def read_answers(path: Path, images: int) -> Labels:
    """The class of highest probability for each image, from a file of shape [images, 10]."""
    try:
        values = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ScoreError(f"{path} is not a readable .npy file ({error}); 'make demo' writes it") from None
    if values.shape != (images, 10):
        raise ScoreError(f"{path}: found shape {list(values.shape)}, expected [{images}, 10]")
    if values.dtype.kind != "f":
        raise ScoreError(f"{path}: found elements of type {values.dtype}, expected floating point")
    if not np.isfinite(values).all():
        raise ScoreError(f"{path}: found NaN or infinity, expected probabilities")
    return np.asarray(values.argmax(axis=1), np.int64)


def table(chip: Labels, reference: Labels, labels: Labels, dtype: str) -> str:
    """The three lines that compare the chip with the reference and both with the truth."""
    total = len(labels)
    rows = [
        (f"emulated chip, {dtype}", int((chip == labels).sum()), "right"),
        ("NumPy reference, fp32", int((reference == labels).sum()), "right"),
        ("answers that differ", int((chip != reference).sum()), ""),
    ]
    return "\n".join(
        f"{name:<24}{count:4} / {total}  {100 * count / total:6.2f} %  {word}".rstrip()
        for name, count, word in rows
    )


def shortcomings(chip: Labels, reference: Labels, labels: Labels) -> list[str]:
    """The missed thresholds, one sentence each; empty if all are met."""
    missed = []
    correct, different = int((chip == labels).sum()), int((chip != reference).sum())
    if correct < SHARE_RIGHT * len(labels):
        missed.append(f"{correct} of {len(labels)} right, at least {SHARE_RIGHT:.0%} expected")
    if different > MOST_DIFFERENT:
        missed.append(f"{different} answers differ from the reference, at most {MOST_DIFFERENT} allowed")
    return missed


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "answers",
        nargs="?",
        type=Path,
        default=Path("build/digits/probabilities.npy"),
        help="what tx8cc or tx8emu wrote (default: %(default)s)",
    )
    parser.add_argument(
        "--dtype", default="fp16", help="compute type named in the table (default: %(default)s)"
    )
    return parser.parse_args()


def main() -> int:
    """Prints the table; 0 when the thresholds are met, else 1."""
    arguments = parse_arguments()
    images: Array = np.load(HERE / "test_images.npy")
    labels: Labels = np.load(HERE / "test_labels.npy")
    try:
        chip = read_answers(arguments.answers, len(images))
    except ScoreError as error:
        print(f"score.py: error: {error}", file=sys.stderr)
        return 1
    reference = probabilities(images, load_file(HERE / "weights.safetensors")).argmax(axis=1)
    print(table(chip, reference, labels, arguments.dtype))
    missed = shortcomings(chip, reference, labels)
    for sentence in missed:
        print(f"score.py: error: {sentence}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
