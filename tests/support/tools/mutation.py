"""Changes one line of the code at a time and runs the tests that execute it. Undetected changes survive.

    pytest -p line_tests -n 2                                 once: which tests execute which lines
    python tests/support/tools/mutation.py 300               as many changes, drawn evenly over the areas
    python tests/support/tools/mutation.py 20 --area asm --seed 7
    python tests/support/tools/mutation.py --again FILE       the survivors of a report, after new tests

Works in its own checkout, and puts every line back. The report, ``build/mutation.jsonl``, has a line for each
change: file, line, both texts, the number of tests, the end. In these tests kernels are plain Python if
``TX8_JIT=0 pytest -p line_tests tests/emulator/kernels`` has recorded the line.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import IO

import lark  # noqa: F401  what tests load and no change touches: it is there when a process is forked
import llvmlite.binding  # noqa: F401
import ml_dtypes  # noqa: F401
import numpy as np  # noqa: F401
import onnx.reference  # noqa: F401
import pytest
import xdsl.dialects.builtin  # noqa: F401

from line_tests import PLAIN, tests_of
from paths import ROOT

AREAS = {
    "emulator": (
        *("emulator/kernels", "emulator/engines", "emulator/chip", "emulator/chips", "emulator/timing"),
        *("emulator/core", "emulator/memory", "tx8isa/insns", "tx8isa/cost"),
    ),
    "asm": ("asm",),
    "compiler": ("compiler/codegen", "compiler/lowering", "compiler/passes/ddr", "compiler/search/cost"),
}
"""The code that is changed, by area."""
_SECONDS, _BUSY = 300, 40
"""Seconds, and processor seconds, after which tests count as hanging, and so have detected a change."""
_TESTS, _LONGEST = 200, 20.0
"""The most tests of a line, and their seconds together."""
_COMPARED = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_COMPUTED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Mod: "//", ast.LShift: ">>"}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "ceil_div": "max", "minimum": "maximum"}


@dataclass(frozen=True)
class Change:
    """One changed line of a file."""

    file: str
    line: int
    before: str
    after: str


@dataclass(frozen=True)
class Outcome:
    """The result of the tests for a change: ``killed``, ``survived`` or ``late``."""

    change: Change
    tests: int
    end: str
    seen_by: str


def changes_of(path: Path) -> Iterator[Change]:
    """All changes of single lines of a file, inside of functions."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for statement in function.body:
            for node in ast.walk(statement):
                for start, end, new in _edits(node, lines):
                    number, line = node_line(node), lines[node_line(node) - 1]
                    after = line[:start] + new + line[end:]
                    if after != line and not line.lstrip().startswith(('"""', "@", "assert")):
                        yield Change(str(path.relative_to(ROOT)), number, line, after)


def node_line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def _edits(node: ast.AST, lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Yield parts of a node's line with their replacements."""
    if not hasattr(node, "lineno") or node.lineno != getattr(node, "end_lineno", 0):
        return
    line = lines[node.lineno - 1]
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
        yield node.left.end_col_offset, node.comparators[0].col_offset, f" {_COMPARED[type(node.ops[0])]} "
    elif isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED:
        if node.left.end_lineno == node.right.lineno:
            between = line[node.left.end_col_offset : node.right.col_offset]
            yield (
                node.left.end_col_offset,
                node.right.col_offset,
                re.sub(r"\S+", _COMPUTED[type(node.op)], between, count=1)
                if "(" not in between and ")" not in between
                else between,
            )
    elif isinstance(node, ast.Constant) and type(node.value) is int and node.end_col_offset is not None:
        yield node.col_offset, node.end_col_offset, str(node.value + 1)
    elif isinstance(node, ast.Constant) and type(node.value) is bool and node.end_col_offset is not None:
        yield node.col_offset, node.end_col_offset, str(not node.value)
    elif isinstance(node, ast.BoolOp):
        first, second = node.values[0], node.values[1]
        if first.end_lineno == second.lineno and first.end_col_offset is not None:
            word = "or" if isinstance(node.op, ast.And) else "and"
            between = line[first.end_col_offset : second.col_offset]
            yield first.end_col_offset, second.col_offset, re.sub(r"\band\b|\bor\b", word, between)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.col_offset, node.operand.col_offset, ""
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLED:
        yield node.func.col_offset, node.func.end_col_offset or 0, _CALLED[node.func.id]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield node.col_offset, len(line), "pass"


def drawn(count: int, areas: list[str], seed: int) -> list[Change]:
    """Draw changes, equally many of each area; a file's probability follows its number of possible
    changes."""
    rng = random.Random(seed)
    found: list[Change] = []
    for at, area in enumerate(areas):
        files = [file for folder in AREAS[area] for file in sorted((ROOT / folder).rglob("*.py"))]
        possible = [change for file in files for change in changes_of(file)]
        share = count // len(areas) + (at < count % len(areas))
        found += rng.sample(possible, min(share, len(possible)))
    rng.shuffle(found)  # so that a run that is stopped has tried all areas
    return found


def tests_for(change: Change) -> tuple[list[str], bool]:
    """Return the tests that execute a line, and True if they need kernels in plain Python.

    Return some of each function, the shortest first, tests of the module's own folder before others. If there
    are none, return the tests of its folder.
    """
    file, plain = ROOT / change.file, change.file.startswith("emulator/kernels/")
    found = tests_of(file, change.line, PLAIN) if plain else {}
    plain = bool(found)
    found = found or tests_of(file, change.line)
    by_function: dict[str, list[str]] = {}
    for name in found:
        by_function.setdefault(name.partition("[")[0], []).append(name)
    own = _mirrored(change.file)
    functions = sorted(by_function.values(), key=lambda each: (not each[0].startswith(own), found[each[0]]))
    chosen, seconds = list[str](), 0.0
    for name in filter(None, chain.from_iterable(zip_longest(*functions))):
        if not chosen or seconds + found[name] <= _LONGEST:
            seconds += found[name]
            chosen.append(name)
    return chosen[:_TESTS] or [own], plain


def _mirrored(file: str) -> str:
    """The tests of a module or of its folder, or of the next one above it that has some."""
    path = Path(file)
    alone = Path("tests") / path.parent / f"test_{path.name}"
    if (ROOT / alone).exists():
        return str(alone)
    folder = path.parent
    while not (ROOT / "tests" / folder).is_dir():
        folder = folder.parent
    return str(Path("tests") / folder)


def tried(change: Change) -> Outcome:
    """Change the line, run its tests until one fails, and put the line back."""
    path, (tests, plain) = ROOT / change.file, tests_for(change)
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    lines[change.line - 1] = lines[change.line - 1].replace(change.before, change.after)
    try:
        path.write_text("".join(lines), encoding="utf-8")
        end, failed = _first_failure(tests, plain)
    finally:
        path.write_text(text, encoding="utf-8")
    return Outcome(change, len(tests), end, failed)


def _first_failure(tests: list[str], plain: bool) -> tuple[str, str]:
    """Return the end of a run of tests, and the first test that fails."""
    with tempfile.TemporaryFile("w+") as said:
        process = os.fork()
        if not process:
            _become_pytest(tests, plain, said)
        status = _waited(process)
        said.seek(0)
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", said.read(), re.MULTILINE)
    if status is None:
        return "late", ""
    return ("killed" if status else "survived"), failed[0] if failed else ""


def _become_pytest(tests: list[str], plain: bool, said: IO[str]) -> None:
    """Run tests in this process, a copy of one that has loaded what never changes, and end it."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (_BUSY, _BUSY + 5))
    sys.dont_write_bytecode = True
    os.dup2(said.fileno(), 1)
    os.dup2(said.fileno(), 2)
    if plain:
        os.environ["TX8_JIT"] = "0"
    os.chdir(ROOT)
    status = 70
    try:
        status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))
    except BaseException:  # this process must not continue as its parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _waited(process: int) -> int | None:
    """The exit status of a process; None if it did not end in time and was killed, with what it started."""
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return None if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU else status
        time.sleep(0.05)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def main(arguments: list[str]) -> int:
    """Exit status 1 if a change survives."""
    parser = argparse.ArgumentParser("mutation.py", description="Change a line at a time; run its tests.")
    parser.add_argument("count", nargs="?", type=int, default=0, help="how many changes")
    parser.add_argument("--area", choices=AREAS, action="append", help="only this one")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--again", type=Path, help="a report, whose survivors are tried again")
    parser.add_argument("--report", type=Path, default=ROOT / "build" / "mutation.jsonl")
    parser.add_argument(
        "--files", action="store_true", help="print the files that would be changed, for LINES_OF"
    )
    options = parser.parse_args(arguments)
    if options.again is not None:
        rows = [json.loads(line) for line in options.again.read_text(encoding="utf-8").splitlines()]
        changes = [Change(**row["change"]) for row in rows if row["end"] == "survived"]
    else:
        changes = drawn(options.count, options.area or list(AREAS), options.seed)
    if options.files:
        print("\n".join(sorted({change.file for change in changes})))
        return 0
    options.report.parent.mkdir(parents=True, exist_ok=True)
    ends: Counter[str] = Counter()
    with options.report.open("a", encoding="utf-8") as report:
        for change in changes:
            outcome = tried(change)
            ends[outcome.end] += 1
            report.write(json.dumps(asdict(outcome)) + "\n")
            report.flush()
            if outcome.end == "survived":
                print(
                    f"{change.file}:{change.line}: {change.before.strip()}  ->  {change.after.strip()}",
                    flush=True,
                )
    print(", ".join(f"{count} {end}" for end, count in sorted(ends.items())))
    return int(ends["survived"] > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
