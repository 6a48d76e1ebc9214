"""Programs with one mistake each: an omitted instruction, an operand that is moved, exchanged or too small by
one, or a loop with one round less."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import asm
from asm.diagnostics import AsmError
from compiler.driver import Program
from compiler.graph import GraphError
from compiler.tools.verification.prove import twin_maker, twin_program

ENGINE = re.compile(r"^\s+(rdma|wdma|ct|ne|td|dte|ncc)\b\S*")
"""The lines with engine instructions."""
_ADDRESS = re.compile(r"\b(dst|src|src0|src1|a|b|w|out|psum)=([^,]+)")
_COUNT = re.compile(r"\b(n|iter0|iter1|src_iter0|m|k)=(\d+)\b")
Change = Callable[[str], str]
"""Makes another line of a line; the empty line removes it."""


@dataclass(frozen=True)
class Mutant:
    """A change of one line of a program's text."""

    kind: str
    line: int
    """From 1."""
    change: Change
    """Changes the line of the program, and that of its twin, which may have other numbers and names."""

    def of(self, program: Program) -> Program:
        """The program with the mistake, which its twin has too; GraphError when it does not assemble."""
        assert program.again is not None
        again = program.again
        return replace(self._alone(program), again=lambda **options: self._alone(again(**options)))

    def _alone(self, program: Program) -> Program:
        """A program with the mistake, but not its twin."""
        found = program.text.splitlines()
        found[self.line - 1] = self.change(found[self.line - 1])
        text = "".join(f"{line}\n" for line in found)
        try:
            image = asm.assemble(
                text, "prog.s", machine=program.machine, given={"prog.const": program.constants}
            )
        except AsmError as error:
            raise GraphError([str(error)]) from None
        return replace(program, text=text, image=image)


def left_out(line: str) -> str:
    """No line."""
    return ""


def with_kept_twin(program: Program) -> Program:
    """A program whose twin is compiled only once, however many of its mutants are proved."""
    twin = twin_program(program, twin_maker(program))
    return replace(program, again=lambda **_: twin)


def mutants(program: Program) -> Iterator[Mutant]:
    """All mistakes of single engine instructions, in the order of the lines, then those of loops."""
    for number, line in enumerate(program.text.splitlines(), 1):
        match = ENGINE.match(line)
        if match is None:
            continue
        yield Mutant(_kind_left_out(match[0].strip()), number, left_out)
        for at, _ in enumerate(_ADDRESS.finditer(line)):
            yield Mutant("address moved by a line", number, partial(_moved, at))
        for at, count in enumerate(_COUNT.finditer(line)):
            if int(count[2]) > 1:
                yield Mutant("count less one", number, partial(_with_number, _COUNT, at, lambda n: n - 1))
        if _exchanged(line) != line:
            yield Mutant("operands exchanged", number, _exchanged)
    yield from _rounds(program)


def _moved(at: int, line: str) -> str:
    """A line with one of its addresses a line of memory further."""
    end = list(_ADDRESS.finditer(line))[at].end()
    return f"{line[:end]}+256{line[end:]}"


def _with_number(pattern: re.Pattern[str], at: int, other: Callable[[int], int], line: str) -> str:
    """A line with another number: the second group of one of the matches of a pattern."""
    found = list(pattern.finditer(line))[at]
    return f"{line[: found.start(2)]}{other(int(found[2], 0))}{line[found.end(2) :]}"


_BUFFER = re.compile(r"^\s+\.equ (\S+), (0x[0-9a-f]+)  # \d+ bytes")
"""The place of a buffer in the scratchpad."""
_STORED = re.compile(r"^\s+(wdma\S*) .*\bn=(\d+)\b")


def out_of_order(program: Program) -> Iterator[Mutant]:
    """Mistakes that concern the order of accesses: waits and barriers left out, buffers moved by a line, and
    stores of twice as many elements."""
    for number, line in enumerate(program.text.splitlines(), 1):
        engine, buffer, stored = ENGINE.match(line), _BUFFER.match(line), _STORED.match(line)
        if engine is not None and engine[0].strip() in _WAITS:
            yield Mutant(_WAITS[engine[0].strip()], number, left_out)
        for step in (-256, 256) if buffer is not None and int(buffer[2], 0) >= 256 else ():
            further = partial(_with_number, _BUFFER, 0, step.__add__)
            yield Mutant("buffer moved by a line", number, further)
        if stored is not None:
            twice = partial(_with_number, _STORED, 0, lambda n: 2 * n)
            yield Mutant("twice as much stored", number, twice)


_WAITS = {"ncc.wait": "wait left out", "ncc.barrier": "barrier left out", "dte.wait": "wait left out"}
_LEFT_OUT = {"rdma": "load left out", "dte": "exchange left out"}


def _kind_left_out(mnemonic: str) -> str:
    """The kind of mistake that an omitted instruction is."""
    return _WAITS.get(mnemonic) or _LEFT_OUT.get(mnemonic.partition(".")[0], "command left out")


_NUMBER = re.compile(r"^\s+li\s+(\w+), (\d+)$")
_WRITTEN = re.compile(r"^\s+(?!b)\w+\s+(\w+),")
"""An instruction of the kernel core, but no branch, with the register that it writes."""
_BEGIN, _END = re.compile(r"^(\S*loop\d+):$"), re.compile(r"^\s+blt\s+\w+, (\w+), (\S*loop\d+)$")
"""The begin of a loop; its end, with the register of its bound."""


def _rounds(program: Program) -> Iterator[Mutant]:
    """Loops with one round less, where the bound is a number."""
    lines = program.text.splitlines()
    numbers, bounds = dict[str, int](), dict[str, dict[str, int]]()
    for at, line in enumerate(lines):
        if written := _NUMBER.match(line):
            numbers[written[1]] = at
        elif written := _WRITTEN.match(line):
            numbers.pop(written[1], None)
        elif begin := _BEGIN.match(line):
            bounds[begin[1]] = dict(numbers)
        elif (end := _END.match(line)) and (bound := bounds[end[2]].get(end[1])) is not None:
            fewer = partial(_with_number, _NUMBER, 0, lambda n: n - 1)
            yield Mutant("trip count less one", bound + 1, fewer)


def _exchanged(line: str) -> str:
    """A line with its two sources exchanged; unchanged without two addresses."""
    first, second = re.search(r"\bsrc0=([^,]+)", line), re.search(r"\bsrc1=(p[^,]+)", line)
    if first is None or second is None:
        return line
    swapped = line.replace(first[0], "\0").replace(second[0], f"src1={first[1]}")
    return swapped.replace("\0", f"src0={second[1]}")


def drawn(program: Program, count: int, seed: int) -> list[Mutant]:
    """Some mutants, as many of each kind as there are, drawn at random."""
    rng, kinds = random.Random(seed), dict[str, list[Mutant]]()
    for each in mutants(program):
        kinds.setdefault(each.kind, []).append(each)
    for own in kinds.values():
        rng.shuffle(own)
    found: list[Mutant] = []
    while len(found) < count and any(kinds.values()):
        found += [own.pop() for own in kinds.values() if own]
    return found[:count]
