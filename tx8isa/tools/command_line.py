"""What the command lines have in common."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from tx8isa.errors import Tx8Error


def with_value(arguments: Sequence[str] | None, option: str, value: str) -> list[str]:
    """The arguments (None: those of the process) with ``option`` alone spelt ``option=value``.

    So what follows an option whose value may be left out is never taken for the value.
    """
    given = sys.argv[1:] if arguments is None else arguments
    return [f"{option}={value}" if argument == option else argument for argument in given]


def with_operand(arguments: Sequence[str], option: str) -> list[str]:
    """The arguments with every ``option`` and what follows it in one, so that this may begin with a dash."""
    rest, joined = iter(arguments), []
    for argument in rest:
        following = next(rest, None) if argument == option else None
        joined.append(argument if following is None else f"{option}={following}")
    return joined


def named_file(text: str, names: Collection[str]) -> tuple[str, str] | None:
    """Name and file of ``NAME=FILE``; None when the text is not that.

    Both may contain ``=``: the name is the longest of ``names`` that it can be, else ends at the first one.
    """
    ends = [at for at, letter in enumerate(text) if letter == "=" and 0 < at < len(text) - 1]
    if not ends:
        return None
    end = next((at for at in reversed(ends) if text[:at] in names), ends[0])
    return text[:end], text[end + 1 :]


def one_line(text: str) -> str:
    """A message for a terminal: names of models may hold line ends and control characters."""
    words = " ".join(text.split())
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in words)


def print_out(text: str) -> None:
    """Print to standard output; Tx8Error when that fails.

    When its reader has gone, as ``head`` does, the rest of the work is done all the same, in silence.
    """
    try:
        print(text.removesuffix("\n"), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise Tx8Error(f"standard output: {error.strerror}") from None


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C waits for the end of the block, which is in the main thread.

    For imports of libraries in C: some make an ImportError of it, and print the interrupt.
    """
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt
