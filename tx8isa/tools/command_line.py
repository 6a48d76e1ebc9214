"""Functions that all command lines share: arguments, output, interrupts."""

from __future__ import annotations

import os
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from tx8isa.errors import Tx8Error

from .suggestions import hint


def with_value(arguments: Sequence[str] | None, option: str, value: str) -> list[str]:
    """The arguments (None: those of the process) with ``option`` alone spelt ``option=value``.

    So an argument after an option whose value may be omitted is never taken for its value.
    """
    given = sys.argv[1:] if arguments is None else arguments
    return [f"{option}={value}" if argument == option else argument for argument in given]


def with_operand(arguments: Sequence[str], option: str) -> list[str]:
    """The arguments with every ``option`` joined to what follows it, which may then begin with a dash."""
    rest, joined = iter(arguments), []
    for argument in rest:
        following = next(rest, None) if argument == option else None
        joined.append(argument if following is None else f"{option}={following}")
    return joined


def parsed(parser: ArgumentParser, arguments: Sequence[str] | None) -> Namespace:
    """The options in the arguments (None: those of the process); leaves with a usage error for wrong ones.

    An option that the parser does not have is named; argparse itself complains of a missing operand first.
    """
    given = sys.argv[1:] if arguments is None else arguments
    _check_known(parser, given)
    return parser.parse_args(given)


def _check_known(parser: ArgumentParser, given: Sequence[str]) -> None:
    known = [option for action in parser._actions for option in action.option_strings]
    for word in given:
        name = word.partition("=")[0]
        if word == "--":
            return
        if word.startswith("--") and not any(option.startswith(name) for option in known):
            parser.error(f"unrecognized arguments: {word}{hint(name[2:], [option[2:] for option in known])}")


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

    When its reader has closed it, as ``head`` does, the rest of the work is done without output.
    """
    try:
        print(text.removesuffix("\n"), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise Tx8Error(f"standard output: {error.strerror}") from None


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, if there are any, as ``print_out`` does."""
    if text := "".join(f"{line}\n" for line in lines):
        print_out(text)


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


def report_form(path: str) -> str:
    """What a report's file is by its name: ``html``, a page; ``json``, data; empty for any other name."""
    suffix = path.rpartition(".")[2].lower() if "." in path.rpartition("/")[2] else ""
    return {"htm": "html", "html": "html", "json": "json"}.get(suffix, "")


def report_file(text: str) -> str:
    """The value of ``--report``: a file whose name says what it is."""
    if not report_form(text):
        raise ArgumentTypeError(f"'{text}' ends neither in .html, for a page, nor in .json, for data")
    return text


def html_file(text: str) -> str:
    """The value of ``--html``."""
    if report_form(text) != "html":
        raise ArgumentTypeError(f"'{text}' does not end in .html: it is a page for a browser")
    return text


def port(text: str) -> int:
    """The value of ``--gdb``."""
    if not text.isdecimal() or int(text) > 65535:
        raise ArgumentTypeError(f"'{text}' is not a port from 0 to 65535")
    return int(text)


def mesh(text: str) -> tuple[int, int]:
    """How many chips an option asks for, as columns and rows."""
    x, times, y = text.partition("x")
    if not (times and x.isdecimal() and y.isdecimal() and min(int(x), int(y)) > 0):
        raise ArgumentTypeError(f"'{text}' is not columns x rows of chips, such as 2x2")
    return int(x), int(y)
