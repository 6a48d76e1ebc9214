"""Functions that all command lines share: arguments, output, interrupts."""

from __future__ import annotations

import os
import re
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn

from tx8isa.errors import Tx8Error

from .suggestions import hint

INPUT_AT_FAULT, INTERRUPTED = 1, 130
"""Exit statuses of all tools."""


def with_value(arguments: Sequence[str] | None, option: str, value: str) -> list[str]:
    """Give an ``option`` without a value its default, as ``option=value``; ``arguments`` None are those of
    the process.

    So the argument after an option whose value may be omitted is never taken for its value.
    """
    given = sys.argv[1:] if arguments is None else arguments
    return [f"{option}={value}" if argument == option else argument for argument in given]


def with_operand(arguments: Sequence[str], option: str) -> list[str]:
    """Join every ``option`` to the argument after it, which may then begin with a dash."""
    rest, joined = iter(arguments), []
    for argument in rest:
        following = next(rest, None) if argument == option else None
        joined.append(argument if following is None else f"{option}={following}")
    return joined


class ToolParser(ArgumentParser):
    """A parser of a tool's options. It prints the tool's examples, and reports a usage error in one line."""

    def __init__(self, prog: str, description: str, epilog: str) -> None:
        super().__init__(prog, None, description, epilog, formatter_class=RawDescriptionHelpFormatter)

    def error(self, message: str) -> NoReturn:
        self.exit(2, printable(f"{error_line(self.prog, message)}; see {self.prog} --help") + "\n")


def parsed(parser: ArgumentParser, arguments: Sequence[str] | None) -> Namespace:
    """Parse the arguments (None: of the process); exits with a usage error for wrong ones.

    An unknown option is named first; argparse itself would complain of a missing operand first.
    """
    given = sys.argv[1:] if arguments is None else arguments
    _check_known(parser, given)
    options = parser.parse_args(given)
    if getattr(options, "quiet", False) and getattr(options, "verbose", False):
        parser.error("-q and -v exclude each other")
    return options


def given_options(parser: ArgumentParser, options: Namespace) -> dict[str, str]:
    """Return the options whose values are not their defaults: names as on the command line, by attribute."""
    return {
        action.dest: action.option_strings[-1] if action.option_strings else action.dest
        for action in parser._actions
        if action.dest in options and getattr(options, action.dest) != action.default
    }


def given_besides(parser: ArgumentParser, options: Namespace, taken: Collection[str]) -> str:
    """Return the first given option that is not in ``taken``; empty without one."""
    return next((name for dest, name in given_options(parser, options).items() if dest not in taken), "")


def check_needs(parser: ArgumentParser, options: Namespace, needs: Mapping[str, Sequence[str]]) -> None:
    """Exit with a usage error for an option that is given without one of the options that it needs.

    ``needs``: by the option's attribute; each as on the command line, such as ``--run`` or ``--dtype auto``.
    """
    given = given_options(parser, options)
    names = {name: dest for dest, name in given.items()}
    for dest in [dest for dest in needs if dest in given]:
        pairs = [wanted.partition(" ")[::2] for wanted in needs[dest]]
        if not any(name in names and value in ("", getattr(options, names[name])) for name, value in pairs):
            *others, last = needs[dest]
            listed = f"{', '.join(others)} or {last}" if others else last
            parser.error(f"{given[dest]} needs {listed}")


def _check_known(parser: ArgumentParser, given: Sequence[str]) -> None:
    known = [option for action in parser._actions for option in action.option_strings]
    for word in given:
        name = word.partition("=")[0]
        if word == "--":
            return
        if word.startswith("--") and not any(option.startswith(name) for option in known):
            near = hint(name[2:], [option[2:] for option in known]).replace(" mean '", " mean '--")
            parser.error(f"unrecognized arguments: {word}{near}")


def named_file(text: str, names: Collection[str]) -> tuple[str, str] | None:
    """Split ``NAME=FILE``; None for a text without ``=``.

    Both may contain ``=``. The name is the longest of ``names`` that fits, else it ends at the first ``=``.
    """
    ends = [at for at, letter in enumerate(text) if letter == "=" and 0 < at < len(text) - 1]
    if not ends:
        return None
    end = next((at for at in reversed(ends) if text[:at] in names), ends[0])
    return text[:end], text[end + 1 :]


def one_line(text: str) -> str:
    """Make a single line for a terminal from a message, which may quote line ends and control characters."""
    words = " ".join(text.split())
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in words)


_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that move the cursor, change colours or turn the direction of text."""


def printable(text: str) -> str:
    """Escape control characters as in JSON, so that printed JSON stays valid."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def note(text: str) -> None:
    """Print one line to standard error; control characters in names are escaped."""
    print(printable(" ".join(text.splitlines())), file=sys.stderr, flush=True)


def print_out(text: str) -> None:
    """Print lines to standard output, as ``printable`` makes them; Tx8Error if that fails.

    If the reader has closed it, as ``head`` does, the tool continues without output.
    """
    try:
        print(printable(text.removesuffix("\n")), flush=True)
    except BrokenPipeError:
        drop_output()
    except OSError as error:
        raise Tx8Error(f"standard output: {error.strerror}") from None


def drop_output() -> None:
    """Discard standard output from now on, because its reader has closed it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, if there are any, as ``print_out`` does."""
    if text := "".join(f"{line}\n" for line in lines):
        print_out(text)


def tell(text: str, status: int) -> int:
    """Print lines about the error that stopped a tool; returns the exit status."""
    print(printable(text), file=sys.stderr)
    return status


def guarded(
    tool: str,
    action: Callable[[], int],
    report: Callable[[str, int], int] = tell,
    lines: Callable[[Tx8Error], Sequence[str]] | None = None,
) -> int:
    """Run a command; returns its exit status. An error is one line, never a traceback.

    ``lines`` formats an error of the input that may take several lines.
    """
    try:
        return action()
    except Tx8Error as error:
        texts = [error_line(tool, str(error))] if lines is None else lines(error)
        return report("\n".join(texts), INPUT_AT_FAULT)
    except BrokenPipeError:
        drop_output()
        return 0
    except OSError as error:
        text = ": ".join(str(part) for part in (error.filename, error.strerror or error) if part)
        return report(error_line(tool, text), INPUT_AT_FAULT)
    except MemoryError as error:
        text = f"this host has too little memory for it: {str(error) or 'nothing is left'}"
        return report(error_line(tool, text), INPUT_AT_FAULT)
    except KeyboardInterrupt:
        return report(f"{tool}: interrupted", INTERRUPTED)


def error_line(tool: str, text: str) -> str:
    """Format an error as one line, however many lines its text has."""
    return f"{tool}: error: {one_line(text)}"


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block, which must run in the main thread.

    Needed for imports of libraries in C, some of which turn an interrupt into an ImportError.
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
    """Return the form of a report from its file's name: ``html``, ``json``, or empty for other names."""
    suffix = path.rpartition(".")[2].lower() if "." in path.rpartition("/")[2] else ""
    return {"htm": "html", "html": "html", "json": "json"}.get(suffix, "")


def report_file(text: str) -> str:
    """Check the value of ``--report``, a file name that ends in .html or .json."""
    if not report_form(text):
        raise ArgumentTypeError(f"'{text}' ends neither in .html, for a page, nor in .json, for data")
    return text


def html_file(text: str) -> str:
    """Check the value of ``--html``."""
    if report_form(text) != "html":
        raise ArgumentTypeError(f"'{text}' does not end in .html: it is a page for a browser")
    return text


def port(text: str) -> int:
    """Parse the value of ``--gdb``."""
    if not text.isdecimal() or int(text) > 65535:
        raise ArgumentTypeError(f"'{text}' is not a port from 0 to 65535")
    return int(text)


def mesh(text: str) -> tuple[int, int]:
    """Reads a mesh of chips from an option: columns and rows."""
    x, times, y = text.partition("x")
    if not (times and x.isdecimal() and y.isdecimal() and min(int(x), int(y)) > 0):
        raise ArgumentTypeError(f"'{text}' is not columns x rows of chips, such as 2x2")
    return int(x), int(y)
