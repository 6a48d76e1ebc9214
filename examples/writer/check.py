"""Compare the writer's answers with those of the float32 reference, and with the right ones.

    python examples/writer/check.py [--count 500] [--dtype fp16] [--threads 1]

It exits with 1 if fewer than 99 % of the answers are those of the reference.
"""

from __future__ import annotations

import argparse

import reference
from safetensors.numpy import load_file
from text import prompts
from writer import WEIGHTS, Writer, compiled

SHARE, SEED = 0.99, 11


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=500, metavar="N", help="prompts (500)")
    parser.add_argument("--dtype", default="fp16", help="format of floats (fp16)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of the host (1)")
    options = parser.parse_args()
    asked = prompts(options.count, SEED)
    weights = reference.as_floats(load_file(WEIGHTS))
    same = right = 0
    with Writer(compiled(options.dtype), options.threads) as writer:
        for prompt, wanted in asked:
            found, known = writer.answer(prompt), reference.answer(prompt, weights)
            same, right = same + (found == known), right + (found == wanted)
            if found != known:
                print(f"{prompt} {found}  (float32: {known})")
    print(f"{options.dtype}: {same} of {len(asked)} answers are those of float32, {right} are right")
    return 0 if same >= SHARE * len(asked) else 1


if __name__ == "__main__":
    raise SystemExit(main())
