"""Compare the emulated chip's answer for an image with the reference run of the same network.

    python examples/networks/compare.py MODEL.onnx IMAGE.npy ANSWER.npy [--dtype NAME]

Print the probabilities of the five classes that are the most probable in the reference, whether both choose
the same class, and the cosine of all probabilities. The reference is ONNX's specification computed in
binary64 (compiler/evaluation/reference.py). Exits 1 when the cosine or the choice says that the answer is
wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from compiler.evaluation.reference import run_reference
from compiler.frontend import load
from tx8isa.errors import Tx8Error

Array = np.ndarray[Any, Any]

LEAST_COSINE = {"fp32": 0.9999, "tf32": 0.999, "fp16": 0.999, "bf16": 0.995}
SHOWN = 5


class CompareError(Exception):
    """The answer cannot be compared; the text says why, in one line."""


def read_array(path: Path) -> Array:
    """The array of a .npy file."""
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise CompareError(f"{path} is not a readable .npy file ({error}); 'make demo' writes it") from None


def expected(model: Path, image: Array) -> Array:
    """The network's only output for the image."""
    graph = load(model)
    if len(graph.inputs) != 1 or len(graph.outputs) != 1:
        raise CompareError(
            f"{model}: found {len(graph.inputs)} inputs and {len(graph.outputs)} outputs, expected one each"
        )
    (answer,) = run_reference(graph, {graph.inputs[0].name: image}).values()
    return answer


def answer_of(path: Path, shape: tuple[int, ...]) -> Array:
    """The output of the chip: finite numbers of the reference's shape."""
    answer = read_array(path)
    if answer.shape != shape:
        raise CompareError(f"{path}: found shape {list(answer.shape)}, expected {list(shape)}")
    if answer.dtype.kind != "f" or not np.isfinite(answer).all():
        raise CompareError(f"{path}: expected finite floating point numbers")
    return answer


def cosine(one: Array, other: Array) -> float:
    """Cosine of the angle between two vectors; 0 if one of them is zero."""
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / lengths if lengths else 0.0


def table(chip: Array, reference: Array, dtype: str) -> str:
    """The most probable classes of the reference, one line each, then the comparison of both."""
    likeliest = np.argsort(reference, kind="stable")[::-1][:SHOWN]
    lines = [f"{'':12}{f'emulated chip, {dtype}':>24}{'reference':>16}"]
    lines += [f"class {n:<6}{100 * chip[n]:>22.3f} %{100 * reference[n]:>14.3f} %" for n in likeliest]
    lines += [f"{'chosen':12}{chip.argmax():>24}{reference.argmax():>16}"]
    return "\n".join([*lines, f"cosine of all {reference.size} probabilities: {cosine(chip, reference):.6f}"])


def shortcomings(chip: Array, reference: Array, dtype: str) -> list[str]:
    """The mistakes of the answer, one sentence each; empty if there are none."""
    wrong = []
    if chip.argmax() != reference.argmax():
        wrong.append(f"the chip chooses class {chip.argmax()}, the reference {reference.argmax()}")
    if (found := cosine(chip, reference)) < LEAST_COSINE[dtype]:
        wrong.append(f"cosine {found:.6f}, at least {LEAST_COSINE[dtype]} expected in {dtype}")
    return wrong


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path, help="the network")
    parser.add_argument("image", type=Path, help="its input")
    parser.add_argument("answer", type=Path, help="what tx8cc or tx8emu wrote")
    parser.add_argument(
        "--dtype",
        default="fp16",
        choices=tuple(LEAST_COSINE),
        help="compute type of the program (default: %(default)s)",
    )
    return parser.parse_args()


def main() -> int:
    """Prints the table; 0 when the answer is right, else 1."""
    arguments = parse_arguments()
    try:
        reference = expected(arguments.model, read_array(arguments.image))
        chip = answer_of(arguments.answer, reference.shape)
    except (CompareError, Tx8Error, OSError) as error:
        print(f"compare.py: error: {error}", file=sys.stderr)
        return 1
    chip, reference = chip.ravel().astype(np.float64), reference.ravel()
    print(table(chip, reference, arguments.dtype))
    wrong = shortcomings(chip, reference, arguments.dtype)
    for sentence in wrong:
        print(f"compare.py: error: {sentence}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
