"""``tx8emu judge``: one answer about a kernel."""

from __future__ import annotations

import argparse
import sys

from tx8isa.tools.command_line import ToolParser, guarded, parsed, print_out

_EPILOG = """examples:
  tx8emu judge relu.s --spec relu_spec.py
  tx8emu judge softmax.c --spec softmax_spec.py --json
  tx8emu judge add.ttir --spec add_spec.py --seed 7

The specification is a file of Python that is executed, and so is a kernel in Python: judge no files of
people whom you do not trust.

exit status: 0 the kernel passes; 1 the input was at fault, such as a kernel that cannot be assembled;
2 usage; 3 the kernel ran and does not pass.
documents: docs/judge.md."""


def make_parser() -> argparse.ArgumentParser:
    """Make the parser; its help text shows examples and exit statuses."""
    parser = ToolParser("tx8emu judge", "Run a kernel once, and say what is wrong and what to try.", _EPILOG)
    add = parser.add_argument
    add("kernel", help="assembly (.s), C (.c), TTIR (.ttir), a function of Triton (.py), or a program image")
    add("--spec", required=True, metavar="FILE.py", help="what the kernel must compute (docs/judge.md)")
    add("--seed", type=int, default=0, help="of random inputs; default 0")
    add("--max-instructions", type=int, metavar="N", help="of a tile; default 20 million")
    add("--json", action="store_true", help="print the answer as one JSON object")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the help text lists the exit statuses."""
    return guarded("tx8emu judge", lambda: _command(sys.argv[2:] if arguments is None else arguments))


def _command(arguments: list[str]) -> int:
    options = parsed(make_parser(), arguments)
    from .judge import MOST_INSTRUCTIONS, judge
    from .outcome import Outcome

    limit = options.max_instructions or MOST_INSTRUCTIONS
    answer = judge(options.kernel, options.spec, seed=options.seed, limit=limit)
    print_out(answer.json if options.json else answer.text)
    if answer.outcome is Outcome.REFUSED:
        return 1
    return 0 if answer.passed else 3
