"""Prompts the writer, and prints its answers while they are written.

    python examples/writer/write.py [PROMPT ...] [--dtype NAME] [--threads N] [--temperature T] [--seed N]
                                    [--chips XxY] [--parallel DEGREES]

Without a prompt it takes ten of its own and judges their answers; it exits with 1 if one is wrong. The last
lines say how fast the text was written: by the emulator, in processor time, and by the chip, in simulated
time.
"""

from __future__ import annotations

import argparse
import sys

from text import BEGIN, encode, piece, prompts
from writer import Choice, Writer, compiled, greedy, sampled

from tx8isa.tools.command_line import mesh

TEN, SEED = 10, 7


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("prompts", nargs="*", metavar="PROMPT", help='such as "twelve plus seven is" or "count from 3 to 9:"')
    add("--dtype", default="fp16", choices=("fp32", "tf32", "fp16", "bf16"), help="format of floats (fp16)")
    add("--threads", type=int, default=1, metavar="N", help="threads of the host (1)")
    add("--temperature", type=float, metavar="T", help="draw the tokens; 1 as probable as they are")
    add("--seed", type=int, default=1, metavar="N", help="which tokens are drawn (1)")
    add("--chips", type=mesh, metavar="XxY", help="on so many linked chips, such as 2x1")
    add(
        "--parallel",
        metavar="DEGREES",
        help="how they share the work, such as pp=2 (default: heads and columns)",
    )
    found = parser.parse_args()
    if found.parallel is not None and found.chips is None:
        parser.error("argument --parallel: give --chips, too")
    if found.temperature is not None and not found.temperature > 0:
        parser.error(f"argument --temperature: {found.temperature} is not above 0")
    for prompt in found.prompts:
        try:
            encode(prompt)
        except ValueError as error:
            parser.error(str(error))
    return found


def streamed(writer: Writer, prompt: str, choose: Choice) -> str:
    """Print a prompt, and the answer as it is written; returns the answer."""
    print(prompt, end="", flush=True)
    before, written = BEGIN, ""
    for token in writer.tokens(prompt, choose):
        text = piece(token, before) if written else f" {piece(token, BEGIN).strip()}"
        print(text, end="", flush=True)
        before, written = token, written + text
    print()
    return written.strip()


def main() -> int:
    """The exit status."""
    options = arguments()
    greedily = options.temperature is None
    choose = greedy if greedily else sampled(options.temperature, options.seed)
    program = compiled(options.dtype, None, options.chips, options.parallel)
    known = {} if options.prompts else dict(prompts(TEN, SEED))
    with Writer(program, options.threads) as writer:
        wrong = [
            prompt
            for prompt in options.prompts or known
            if streamed(writer, prompt, choose) != known.get(prompt) and known
        ]
        print(f"emulated: {writer.steps / max(writer.seconds, 1e-9):,.0f} tokens a second of processor time")
    with Writer(program, timed=True) as timed:
        timed.answer((options.prompts or [*known])[0])
        per_second = {n: program.machine.engines.clock.value / c for n, c in timed.cycles.items() if c}
    parts = [
        f"{rate:,.0f} {'blocks read' if n == 'read' else 'tokens written'}" for n, rate in per_second.items()
    ]
    print(f"on the chip: {' or '.join(parts)} a second of simulated time")
    for prompt in wrong:
        print(f"wrong: {prompt} {known[prompt]}", file=sys.stderr)
    return 1 if wrong and greedily else 0


if __name__ == "__main__":
    raise SystemExit(main())
